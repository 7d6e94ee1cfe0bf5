"""Which of several changes that pass is taken, and when that choice is too weak to be made without a model."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from autopatch.chassis.telemetry import annotate, span
from autopatch.contract.code import Place
from autopatch.contract.errors import Unavailable
from autopatch.repair.ranking import Survivor, change_size, lifts_constants, probe_inputs, rank
from services.planner.adapters.gate.candidate import Tried, key_of
from services.planner.adapters.gate.case import Case, first_change
from services.planner.adapters.gate.tally import Tally
from services.planner.adapters.gate.trials import Gate

DISAGREE = "changes that pass the tests disagree on generated inputs"
LIFTED = "it holds constants that only the tests hold"
PROBED = 8  # changes that are told apart by generated inputs at most; more are not looked at


@dataclass(frozen=True)
class Ranked:
    """Best first. `weak` says why the first is not to be trusted alone; '' when it is. `backed`: a model says the same."""

    order: tuple[Tried, ...] = ()
    weak: str = ""
    backed: bool = False

    @property
    def doubtful(self) -> bool:
        """Something speaks against it, and no model for it; that nothing speaks for one of several is not that."""
        return self.weak in (DISAGREE, LIFTED) and not self.backed


async def ranked(case: Case, gate: Gate, passed: Sequence[Tried]) -> Ranked:
    """Equal changes count once, and of very many a model's and the earliest. Raises nothing of its own: inputs that cannot be
    generated tell nothing apart."""
    unique = list({key_of(one.candidate.changes): one for one in reversed(passed)}.values())[::-1]
    spoken = {key_of(one.candidate.changes) for one in passed if one.candidate.origin == "model"}
    looked_at = sorted(unique, key=lambda one: key_of(one.candidate.changes) not in spoken)[:PROBED]
    unique = [one for one in unique if one in looked_at]
    if not unique:
        return Ranked()
    with span("rank candidates", candidates=len(unique)) as current:
        prints = await _fingerprints(case, gate, unique) if len(unique) > 1 else {}
        described = await asyncio.to_thread(lambda: [_survivor(case, one, prints) for one in unique])
        order = rank(described)
        by_id = {one.candidate.id: one for one in unique}
        weak, first = weakness(order), order[0]
        alike = [one for one in order if one is first or (one.fingerprint and one.fingerprint == first.fingerprint)]
        backed = any(key_of(by_id[one.id].candidate.changes) in spoken for one in alike)
        told = [f"{one.id} {one.description[:120]}" for one in order]
        annotate(current, order=told, fingerprints=len(set(prints.values())), weak=weak)
    return Ranked(tuple(by_id[one.id] for one in order), weak, backed)


def left_to_a_person(found: Ranked, tally: Tally) -> Ranked:
    """Doubtful edits are wrong too often to be taken unasked; they are told. What is left is empty, and says why."""
    told = "; ".join(one.candidate.description[:200] for one in found.order[:5])
    tally.notes.append(f"{found.weak}, so a person must choose: {told}")
    return Ranked(weak=found.weak)


def weakness(order: Sequence[Survivor]) -> str:
    """Why the first of them may well be one that only fits the visible tests; '' when nothing says so."""
    if order[0].lifted:
        return LIFTED
    prints = {one.fingerprint for one in order}
    if len(prints) > 1:
        return DISAGREE
    untold = len(order) > 1 and prints == {()}
    return "several different changes pass the tests, and nothing tells them apart" if untold else ""


def _survivor(case: Case, one: Tried, prints: Mapping[str, tuple[str, ...]]) -> Survivor:
    candidate = one.candidate
    return Survivor(
        id=candidate.id, changes=candidate.files, description=candidate.description, origin=candidate.origin,
        prior=candidate.prior, lifted=lifts_constants(case.tree, candidate.files, case.tests),
        fingerprint=prints.get(candidate.id, ()), size=change_size(case.tree, candidate.files), whole=one.whole,
    )


async def _fingerprints(case: Case, gate: Gate, passed: Sequence[Tried]) -> dict[str, tuple[str, ...]]:
    """What the function that most of them change returns for generated inputs."""
    place = _changed(case, passed)
    script = probe_inputs(case.tree, place, case.tests) if place else ""
    if not script:
        return {}
    try:
        printed = await gate.outputs([one.candidate for one in passed], script)
    except Unavailable:
        return {}
    return {name: answers for name, text in printed.items() if (answers := _answers(text))}


def _changed(case: Case, passed: Sequence[Tried]) -> Place | None:
    """The function in which most of them begin; of several the most suspicious."""
    changed = [item for one in passed for item in one.candidate.changes.items()]
    starts = [(path, first_change(case.tree.get(path, b""), data or b"")) for path, data in changed]
    functions = [place for place in case.places if place.name]
    hit = [sum(place.path == path and place.start <= line <= place.end for path, line in starts) for place in functions]
    most = max(hit, default=0)
    return functions[hit.index(most)] if most else None


def _answers(text: str) -> tuple[str, ...]:
    """The list on the last line that holds one."""
    for line in reversed(text.strip().splitlines()):
        with suppress(ValueError):
            if isinstance(found := json.loads(line), list):
                return tuple(str(item) for item in found)
    return ()

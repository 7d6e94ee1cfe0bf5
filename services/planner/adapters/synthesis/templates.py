"""Single edits at the suspicious places, most likely first, in batches, until some pass or the time is over."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from autopatch.chassis.clock import Clock
from autopatch.chassis.telemetry import span
from autopatch.contract.errors import Unavailable
from autopatch.repair.templates import Mutant, search_order
from services.planner.adapters.gate.candidate import Candidate, Tried, key_of
from services.planner.adapters.gate.case import Case, Ground
from services.planner.adapters.gate.trials import Gate
from services.planner.adapters.gate.tally import Tally, lines

MOST = 600
BATCH = 16
BATCH_BYTES = 4_000_000
ENOUGH = 5
"""Edits that pass: more are not looked for. The right one is among the first five far more often than it is the first."""
ENOUGH_S = 4.0
"""After so many seconds one that passes is enough."""
LEAST_S = 2.0
DEADLY = 3
LANES = 2
"""Sandboxes that a batch is shared out to. The executor gives each a core, and lets as many wait as it has no room for."""
WORTH_S = 8.0
"""Seconds that a batch must take for that: another sandbox takes one to two to begin, and slows the first one meanwhile."""


async def search(
    case: Case, ground: Ground, gate: Gate, tally: Tally, clock: Clock, budget_s: float, reached: set[str]
) -> list[Tried]:
    """What passed the whole suite. `reached`: ids of edits of this ground that need no try; those tried are added. Raises
    Unavailable."""
    began, before, rejected = clock.now(), len(reached), len(tally.rejected)
    survivors: list[Tried] = []

    def left() -> float:
        return (min(budget_s, ENOUGH_S) if survivors else budget_s) - (clock.now() - began).total_seconds()

    with span("search templates", budget_s=budget_s, places=len(ground.places)) as current:
        found = await asyncio.to_thread(search_order, ground.tree, ground.places, MOST)
        for batch in _batches(c for c in _candidates(case, ground, found) if c.id not in reached):
            lanes = LANES if len(batch) * case.red.seconds > WORTH_S else 1
            shares = (_screened(gate, tally, batch[lane::lanes], left, reached) for lane in range(lanes))
            survivors += await _confirmed(gate, tally, [one for passed in await asyncio.gather(*shares) for one in passed])
            if len(survivors) >= ENOUGH or left() < LEAST_S:
                break
        tally.seconds += (seconds := (clock.now() - began).total_seconds())
        current.set_attribute("templates.known", len(found))
        current.set_attribute("templates.tried", len(reached) - before)
        current.set_attribute("templates.survivors", [one.candidate.description[:200] for one in survivors])
        current.set_attribute("templates.seconds", round(seconds, 3))
        current.set_attribute("alternatives.rejected", lines(tally.rejected[rejected:]))
    return survivors


async def _screened(
    gate: Gate, tally: Tally, batch: Sequence[Candidate], left: Callable[[], float], reached: set[str]
) -> list[Tried]:
    """What passes the failing tests. A candidate that kills the sandbox is passed over, but only so many in a row."""
    passed: list[Tried] = []
    deadly = 0
    while batch:
        tried = await gate.screen(batch, limit_s=max(LEAST_S, left()), enough=ENOUGH)
        tally.templates += len(tried)
        cut = bool(tried) and tried[-1].report.ended == "timed_out" and left() < LEAST_S  # by our own limit: it is tried later
        reached.update(one.candidate.id for one in tried[:len(tried) - cut])
        tally.saw(tried)
        passed += tally.sift(tried)
        batch = batch[len(tried):]
        deadly = 0 if len(tried) > 1 else deadly + 1
        if passed or left() < LEAST_S or not (tried and tried[-1].report.ended == "lost"):
            break
        if deadly >= DEADLY:
            raise Unavailable("docker", f"the sandbox was lost {deadly} times in a row: {tried[-1].why}")
    return passed


async def _confirmed(gate: Gate, tally: Tally, passed: Sequence[Tried]) -> list[Tried]:
    """Those that may be proposed and that the whole suite confirms."""
    allowed = []
    for one in passed:
        refused = gate.refused(one.candidate)
        if refused:
            tally.reject(one.candidate, refused)
        else:
            allowed.append(one)
    return tally.sift(await gate.confirm(allowed))


def _candidates(case: Case, ground: Ground, found: Sequence[Mutant]) -> Iterator[Candidate]:
    """Without what failed before in this incident. Ids are the same each time that this ground is searched."""
    for number, mutant in enumerate(found):
        changes = {**ground.changes, mutant.path: mutant.applied(ground.tree[mutant.path])}
        if case.failed and key_of(changes) in case.failed:
            continue
        told = f"{ground.description}; {mutant.description} ({mutant.path}:{mutant.line})".removeprefix("; ")
        yield Candidate(f"t{number}", changes, "template", mutant.template, told, mutant.prior)


def _batches(candidates: Iterator[Candidate]) -> Iterator[list[Candidate]]:
    """Small ones first: most faults that an edit heals are healed by an early one."""
    size, then, batch, held = BATCH, BATCH, list[Candidate](), 0
    for candidate in candidates:
        batch.append(candidate)
        held += sum(len(data or b"") for data in candidate.changes.values())
        if len(batch) >= size or held >= BATCH_BYTES:
            yield batch
            size, then, batch, held = then, 2 * then, [], 0
    if batch:
        yield batch

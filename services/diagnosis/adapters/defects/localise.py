"""Localises a job's fault: has its tests run with coverage, asks knowledge for code that is alike, and ranks places."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.jobs import job_of, red_of, tree_of
from autopatch.chassis.llm.settings import Mode
from autopatch.chassis.outline import known
from autopatch.chassis.outlines import outlines
from autopatch.chassis.redaction import redact
from autopatch.chassis.room import Heard
from autopatch.chassis.telemetry import span
from autopatch.contract import events as ev
from autopatch.contract.code import Covered, Place, Places, Report, Reports
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import ModelUse, Similar, TargetState
from autopatch.contract.requests import Found, IndexCode, Indexed, RanTests, RunTests, Search
from autopatch.repair.judging import Baseline
from autopatch.repair.localise import places
from autopatch.repair.tree import Tree
from services.diagnosis.adapters.defects import telling
from services.diagnosis.adapters.defects.telling import Seen

PASSING = 100
"""Passing tests that are run for their coverage at most."""
ASKED_BYTES = 24_000
"""Of test ids in one request."""
LONGEST_S = 840.0
START_S = 60.0
SLOWER = 4
"""Coverage makes tests about so many times slower."""
PATIENCE_S = 5.0
"""Seconds that knowledge is waited for after coverage is there; localising works without it."""
KEPT = 50
OUTLINED = 200


class Localiser:
    """What the diagnosis does with incidents that are jobs."""

    def __init__(self, chassis: Chassis, mode: Callable[[], Mode], patience_s: float = PATIENCE_S) -> None:
        self._chassis = chassis
        self._mode = mode
        self._patience_s = patience_s

    async def diagnose(self, heard: Heard) -> Sequence[ev.Event]:
        """Raises Unavailable when the sandbox is away; missing knowledge or coverage is only noted."""
        incident, job = heard.incident, job_of(heard.incident)
        baseline, report = await red_of(self._chassis.blobs, incident)
        tree = await tree_of(self._chassis.blobs, job)
        seen = await self._gathered(incident.id, Seen(job, report, baseline.failing), baseline)
        with span("localise") as current:
            found = (await asyncio.to_thread(
                lambda: places(tree, report, seen.covered, baseline, outline=foreign(tree, seen), issue=job.issue)
            ))[:KEPT]
            current.set_attribute("places", [_line(place) for place in found[: telling.SHOWN]])
            current.set_attribute("places.rejected", [_line(place) for place in found[telling.SHOWN : 25]])
            current.set_attribute("missing", list(seen.missing))
        use = ModelUse(mode=self._mode(), note="places are computed from runs of tests; no model was asked")
        if not found:
            return (telling.undiagnosed(seen, use, redact),)
        ref = await self._chassis.blobs.put(Places(places=found).model_dump_json().encode())
        source = telling.normalised(found[0].path, text_of(tree, found[0]))
        state = TargetState(target=incident.target, at=self._chassis.clock.now(), running=False, release=job.tree)
        return (telling.diagnosed(seen, found, ref, source, state, use, redact),)

    async def _gathered(self, incident_id: str, seen: Seen, baseline: Baseline) -> Seen:
        """Coverage, and beside it what knowledge holds, which is given up soon after coverage is there."""
        asked = asyncio.create_task(self._similar(seen))
        try:
            covered, lacking = await self._covered(incident_id, seen, baseline)
            await asyncio.wait({asked}, timeout=self._patience_s)
            late = f"code: not read within {self._patience_s:g} s of the tests"
            similar, without = asked.result() if asked.done() else ((), late)
        finally:
            asked.cancel()
            await asyncio.wait({asked})
        missing = tuple(redact(note)[:300] for note in (lacking, without) if note)
        return replace(seen, covered=covered, similar=similar, missing=missing)

    async def _covered(self, incident_id: str, seen: Seen, baseline: Baseline) -> tuple[tuple[Covered, ...], str]:
        """What the failing and some passing tests execute, and why there is nothing when there is nothing."""
        only = chosen(seen.report, baseline)
        with span("collect coverage", tests=len(only), tests_failing=len(baseline.failing)) as current:
            ran = await self._chassis.asker.ask(RunTests(
                incident_id=incident_id, job=seen.job, unchanged=1, only=only, coverage=True,
                limit_s=min(LONGEST_S, START_S + SLOWER * seen.job.suite_s),
            ), RanTests)
            reports = Reports.model_validate_json(await self._chassis.blobs.get(ran.reports)).reports
            report = next((r for r in reports if not r.trial), None)
            covered = report.covered if report else ()
            current.set_attribute("tests.runtime", ran.runtime)
            current.set_attribute("tests.covered", len(covered))
            current.set_attribute("lines.covered", sum(len(lines) for one in covered for lines in one.lines.values()))
            if any(one.lines for one in covered):
                return covered, ""
            why = (report.problem or f"no lines, the run ended: {report.ended}") if report else "the run did not end in time"
            current.set_attribute("missing", redact(why)[:300])
            return covered, f"coverage: {why}"

    async def _similar(self, seen: Seen) -> tuple[tuple[Similar, ...], str]:
        """Code that is alike the failing tests' words, and why there is none when knowledge cannot say."""
        with span("retrieval code", gen_ai_operation_name="retrieval") as current:
            try:
                indexed = await self._chassis.asker.ask(IndexCode(job=seen.job), Indexed)
                text = redact(telling.words(seen))[:4000]
                found = await self._chassis.asker.ask(
                    Search(text=text, target=seen.job.repository, kinds=("code",), limit=telling.SHOWN), Found
                )
            except Unavailable as error:
                current.set_attribute("missing", error.reason[:300])
                return (), f"code: {error.service}: {error.reason}"
            current.set_attribute("index.chunks", indexed.chunks)
            current.set_attribute("index.changed", indexed.changed)
            current.set_attribute("retrieval.found", [redact(item.id)[:200] for item in found.items])
            return found.items, ""


def chosen(report: Report, baseline: Baseline) -> tuple[str, ...]:
    """All failing tests and so many passing ones as fit, those of the same files first, in the order in which they ran."""
    failing, passing = set(baseline.failing), set(baseline.passing)
    files = {test.partition("::")[0] for test in failing}
    order = [case.id for case in report.cases]
    near = sorted((test for test in order if test in passing), key=lambda test: test.partition("::")[0] not in files)
    taken, size = set[str](), 0
    for test in [*(t for t in order if t in failing), *near[:PASSING]]:
        size += len(test.encode()) + 4
        if size > ASKED_BYTES and taken:
            break
        taken.add(test)
    return tuple(test for test in order if test in taken)


def text_of(tree: Tree, place: Place) -> str:
    """The lines of a place."""
    lines = tree[place.path].decode(errors="replace").splitlines() if place.path in tree else []
    return "\n".join(lines[place.start - 1 : place.end])


def foreign(tree: Tree, seen: Seen) -> dict[str, list[tuple[str, int, int]]]:
    """Functions in languages other than Python, which localising reads by itself: of the files that tests are seen to touch."""
    touched = {path for one in seen.covered for path in one.lines}
    touched |= {frame.path for case in seen.report.cases for frame in case.frames}
    others = [path for path in sorted(tree) if not path.endswith(".py") and known(path)]
    read = [path for path in others if path in touched] or others[:OUTLINED]
    found = outlines([(path, tree[path]) for path in read])
    return {path: [(d.name, d.start, d.end) for d in of] for path, of in zip(read, found, strict=True)}


def _line(place: Place) -> str:
    return redact(f"{place.path}:{place.start}-{place.end} {place.name} {place.score:.3f} {place.why}")[:300]

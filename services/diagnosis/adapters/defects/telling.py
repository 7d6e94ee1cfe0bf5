"""From places to causes with evidence, and the signature by which the same fault is known again. Pure."""

import ast
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autopatch.contract import events as ev
from autopatch.contract.code import CodeJob, Covered, Place, Report, TestCase
from autopatch.contract.evidence import BlobRef, Cause, Evidence, ModelUse, Similar, TargetState
from autopatch.contract.model import canonical, digest
from services.diagnosis.agent import fitted

SHOWN = 5
"""Causes, failing cases and recalled chunks on a diagnosis at most."""
UNREAD = "a fault kept every test from being read"
Redact = Callable[[str], str]


@dataclass(frozen=True)
class Seen:
    """What localising stands on. `failing` are the tests that failed in every run, `covered` what tests executed."""

    job: CodeJob
    report: Report
    failing: tuple[str, ...]
    covered: tuple[Covered, ...] = ()
    similar: tuple[Similar, ...] = ()
    missing: tuple[str, ...] = ()


def suspicion(scores: Sequence[float]) -> list[float]:
    """How likely each place is, from 0 to 1: its own score, times its share of all squared scores.

    So one place that only failing tests execute reaches 1.0, five that are executed alike 0.2 each.
    """
    squares = sum(score * score for score in scores)
    return [round(score * score * score / squares, 4) if squares else 0.0 for score in scores]


def signature(job: CodeJob, failing: Sequence[str], source: str) -> str:
    """The same repository, the same failing tests and the same faulty text make the same fault."""
    return f"code:{digest(canonical([job.repository, sorted(failing), source]))[:32]}"


def normalised(path: str, text: str) -> str:
    """Python without comments and layout; what does not parse, and other languages, without layout."""
    if path.endswith(".py"):
        try:
            return ast.unparse(ast.parse(textwrap.dedent(text)))
        except (SyntaxError, ValueError, RecursionError):
            pass
    return " ".join(text.split())


def diagnosed(
    seen: Seen, found: Sequence[Place], ref: BlobRef, source: str, state: TargetState, use: ModelUse, redact: Redact
) -> ev.Diagnosed:
    """The first places as causes, each with what speaks for it."""
    evidence = {**_of_tests(seen, redact), **_of_places(found[:SHOWN], redact), **_of_knowledge(seen, redact)}
    sure = suspicion([place.score for place in found])
    causes = tuple(
        Cause(id=redact(_id(place, found))[:200], summary=redact(_summary(place))[:300], confidence=sure[n],
              cites=_cites(n, place, seen))
        for n, place in enumerate(found[:SHOWN])
    )
    tests = f"{len(seen.failing)} test{'s' if len(seen.failing) > 1 else ''} failed in every run" if seen.failing else UNREAD
    event = ev.Diagnosed(
        causes=causes, evidence=tuple(evidence.values()), missing=seen.missing, state=state, model=use, places=ref,
        explanation=f"{tests}; most suspicious is {causes[0].summary}"[:600],
        signature=signature(seen.job, seen.failing, source),
    )
    return fitted(event, {id_ for cause in causes for id_ in cause.cites})


def undiagnosed(seen: Seen, use: ModelUse, redact: Redact) -> ev.Undiagnosed:
    """Nothing in the code can be pointed at; a person gets what was seen."""
    evidence = {**_of_tests(seen, redact), **_of_knowledge(seen, redact)}
    reason = "no place in the repository's code stands out: neither coverage nor a traceback leads outside of its tests"
    return fitted(ev.Undiagnosed(reason=reason, evidence=tuple(evidence.values()), missing=seen.missing, model=use), set())


def cases(seen: Seen) -> list[TestCase]:
    """The cases that failed in every run, as they come."""
    return [case for case in seen.report.cases if case.id in set(seen.failing)]


def words(seen: Seen) -> str:
    """What to look for in the code: the issue, then the failing tests and what they say. At most 4,000 characters."""
    told = [(case.id, case.message[:400], *(frame.function for frame in case.frames)) for case in cases(seen)[:SHOWN]]
    return "\n".join(part for part in (seen.job.issue[:2000], *map(" ".join, told)) if part.strip())


def _of_tests(seen: Seen, redact: Redact) -> dict[str, Evidence]:
    found: dict[str, Evidence] = {}
    for n, case in enumerate(cases(seen)[:SHOWN], 1):
        said = " ".join(case.message.split())[:160]
        sample = f"expected {case.expected[:120]}, got {case.actual[:120]}" if case.expected or case.actual else said
        frame = case.frames[-1] if case.frames else None
        where = f"{frame.path}:{frame.line} {frame.function}".rstrip() if frame else ""
        found[f"t{n}"] = Evidence(
            id=f"t{n}", source="test", summary=redact(f"{case.id} {case.outcome}: {said}")[:300], sample=redact(sample)[:300],
        )
        if where:
            found[f"f{n}"] = Evidence(id=f"f{n}", source="test", summary=redact(f"the traceback of t{n} ends in {where}")[:300])
    if seen.report.problem:
        found["r1"] = Evidence(id="r1", source="test", summary=redact(f"the run said: {seen.report.problem}")[:400])
    if seen.job.issue:
        text = " ".join(seen.job.issue.split())
        found["i1"] = Evidence(id="i1", source="test", summary="what a person reports", sample=redact(text[:600])[:300])
    return found


def _of_places(found: Sequence[Place], redact: Redact) -> dict[str, Evidence]:
    made: dict[str, Evidence] = {}
    for n, place in enumerate(found, 1):
        worst = sorted(place.lines.items(), key=lambda item: (-item[1], item[0]))[:6]
        lines = ", ".join(f"{line} ({score:.2f})" for line, score in worst)
        text = f"{_where(place)} scores {place.score:.2f}: {place.why}" + (f"; suspicious lines {lines}" if lines else "")
        made[f"p{n}"] = Evidence(id=f"p{n}", source="test", summary=redact(text)[:400])
    return made


def _of_knowledge(seen: Seen, redact: Redact) -> dict[str, Evidence]:
    return {
        f"k{n}": Evidence(
            id=f"k{n}", source="test", query=redact(item.source)[:200], summary=redact(f"code that is alike: {item.title}")[:200]
        )
        for n, item in enumerate(seen.similar[:SHOWN], 1)
    }


def _cites(n: int, place: Place, seen: Seen) -> tuple[str, ...]:
    """Its scores, every failing case, the frames inside of it, and what knowledge found in its file."""
    cited = [f"p{n + 1}"]
    for number, case in enumerate(cases(seen)[:SHOWN], 1):
        cited.append(f"t{number}")
        frame = case.frames[-1] if case.frames else None
        if frame and frame.path == place.path and place.start <= frame.line <= place.end:
            cited.append(f"f{number}")
    cited += ["r1"] if seen.report.problem else []
    cited += [f"k{n}" for n, item in enumerate(seen.similar[:SHOWN], 1) if place.path in (item.source, item.id, item.title)]
    return tuple(cited)


def _id(place: Place, found: Sequence[Place]) -> str:
    """Named without lines, so that it stays the same when lines above it change; with them where names are not enough."""
    name = f"{place.path}:{place.name or 'module'}"
    same = [other for other in found if (other.path, other.name) == (place.path, place.name)]
    return name if len(same) == 1 else f"{name}:{place.start}"


def _summary(place: Place) -> str:
    return f"{_where(place)}: {place.why}" if place.why else _where(place)


def _where(place: Place) -> str:
    return f"{place.name + ' in ' if place.name else ''}{place.path}:{place.start}-{place.end}"

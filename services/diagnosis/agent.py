"""Turns facts into evidence with ids, and ranked causes into a diagnosis or an abstention. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from autopatch.contract import events as ev
from autopatch.contract.evidence import Cause, Evidence, ModelUse
from autopatch.contract.requests import Lesson
from services.diagnosis.causes import Ranked
from services.diagnosis.facts import Change, ChangeKind, Facts, Pattern, Raised, Saturation, Shift

LARGEST = 44_000
"""Bytes of an event as JSON; the log takes 64 KiB with headers and envelope."""
_SOURCES: dict[ChangeKind, Literal["release", "config", "change"]] = {
    "release": "release", "config": "config", "code": "change",
}


E = TypeVar("E", ev.Diagnosed, ev.Undiagnosed)


@dataclass(frozen=True)
class Draft:
    """A diagnosis before a model saw it. `head` causes are so near to each other that their order is open."""

    facts: Facts
    causes: tuple[Cause, ...]
    evidence: tuple[Evidence, ...]
    missing: tuple[str, ...]
    head: int

    @property
    def undecided(self) -> tuple[str, ...]:
        """Ids of the causes whose order is open."""
        return tuple(c.id for c in self.causes[: self.head])


def signature_of(target: str, check: str, cause: str) -> str:
    """What lessons are recalled by."""
    return f"{target}:{check}:{cause}"


def evidence_of(facts: Facts) -> dict[str, Evidence]:
    """Every fact under the key by which causes cite it. Ids are stable for the same facts."""
    check_first = sorted(facts.shifts, key=lambda s: (s.name != facts.check, -s.strength, -s.tie, s.name))
    found = {f"metric:{s.name}": _of_shift(f"m{i}", s) for i, s in enumerate(check_first, 1)}
    found |= {f"saturation:{s.name}": _of_saturation(f"s{i}", s) for i, s in enumerate(facts.saturations, 1)}
    found |= {f"log:{p.template}": _of_pattern(f"l{i}", p) for i, p in enumerate(facts.patterns, 1)}
    found |= {r.key: _of_raised(f"x{i}", r) for i, r in enumerate(facts.raised, 1)}
    found |= {f"change:{c.kind}:{c.what}": _of_change(f"c{i}", c) for i, c in enumerate(facts.changes, 1)}
    found |= _recalled(facts)
    if facts.health:
        how = "well" if facts.health.well else "not well"
        said = f"the health endpoint is {how}: {facts.health.said}"
        found["health"] = Evidence(id="h1", source="health", summary=said, query=facts.health.url)
    for i, (name, why) in enumerate(sorted(facts.silent.items()), 1):
        found[f"silent:{name}"] = Evidence(
            id=f"n{i}", source="log" if name == "logs" else "metric", status="nothing", summary=_short(f"{name}: {why}", 200)
        )
    return found


def _recalled(facts: Facts) -> dict[str, Evidence]:
    """What knowledge holds: runbooks for the alert, trusted lessons, and what is merely alike."""
    found: dict[str, Evidence] = {}
    for i, (cause, book) in enumerate(sorted(facts.runbooks.items()), 1):
        text = f"runbook {book.name!r} for this alert names {cause}"
        found[f"runbook:{book.name}"] = Evidence(id=f"r{i}", source="runbook", summary=_short(text, 200), query=book.source[:200])
    for i, lesson in enumerate((facts.lessons[c] for c in sorted(facts.lessons)), 1):
        text = f"a fix for {lesson.cause} recovered this check {lesson.recovered} times and failed {lesson.failed}"
        found[f"lesson:{lesson.id}"] = Evidence(id=f"e{i}", source="incident", summary=text, query=lesson.id)
    for i, one in enumerate(facts.similar, 1):
        found[f"similar:{one.id}"] = Evidence(
            id=f"k{i}", source="runbook" if one.kind == "runbook" else "incident",
            summary=_short(f"{one.kind}: {one.title}", 200), query=one.id[:200], sample=_short(one.text, 200),
        )
    return found


def _of_shift(id_: str, shift: Shift) -> Evidence:
    change = f"{shift.before:.4g} -> {shift.after:.4g} {shift.unit}".rstrip()
    how = {"up": "rose", "down": "fell", "flat": "did not move"}[shift.direction]
    together = f", moving with the check ({shift.tie:.0%})" if shift.tie >= 0.5 and shift.strength else ""
    return Evidence(
        id=id_, source="metric", summary=f"{shift.name} {how}: {change}{together}", query=shift.query[:500], before=shift.before,
        after=shift.after, onset=shift.onset,
    )


def _of_saturation(id_: str, used: Saturation) -> Evidence:
    before = f", before {used.before:.0%}" if used.before is not None else ""
    return Evidence(
        id=id_, source="metric", summary=f"{used.name}: {used.share:.0%} in use{before}", query=used.query[:500],
        before=used.before, after=used.share,
    )


def _of_pattern(id_: str, pattern: Pattern) -> Evidence:
    often = f"{pattern.count} times, {pattern.before} before"
    level = "error " if pattern.severe else ""
    return Evidence(
        id=id_, source="log", summary=_short(f"{pattern.novelty} {level}line ({often}): {pattern.template}", 300),
        before=pattern.before, after=pattern.count, sample=_short(pattern.sample, 300),
    )


def _of_raised(id_: str, raised: Raised) -> Evidence:
    at, before = f"{raised.path}:{raised.line}", "unknown" if raised.before is None else raised.before
    how = "its own code calls what raises" if raised.foreign else "its own code raises"
    return Evidence(
        id=id_, source="log", before=raised.before, after=raised.count, sample=_short(raised.error, 300), query=at[:500],
        summary=_short(f"{how}, {at} in {raised.function} ({raised.count} times, before: {before}): {raised.error}", 300),
    )


def _of_change(id_: str, change: Change) -> Evidence:
    when = f"{change.ago_s:.0f} s before it began" if change.ago_s >= 0 else f"{-change.ago_s:.0f} s after it began"
    blame = "" if change.strength else ", so it is not the cause"
    return Evidence(id=id_, source=_SOURCES[change.kind], summary=_short(f"{change.what}, {when}{blame}", 300), onset=change.at)


def draft(facts: Facts, ranked: Sequence[Ranked], *, min_shown: float, shown: int, margin: float) -> Draft:
    """The causes worth showing, each with the evidence that speaks for it."""
    evidence = evidence_of(facts)
    causes = [
        Cause(
            id=r.rule.id, summary=r.rule.summary, confidence=r.confidence,
            cites=tuple(dict.fromkeys(evidence[f].id for f in r.facts if f in evidence)),
            runbook=facts.runbooks[r.rule.id].name if r.rule.id in facts.runbooks else "",
        )
        for r in ranked if r.confidence >= min_shown
    ][:shown]
    head = sum(c.confidence >= causes[0].confidence - margin for c in causes) if causes else 0
    missing = tuple(_short(f"{name}: {why}", 300) for name, why in sorted(facts.failed.items()))
    return Draft(facts, tuple(causes), tuple(evidence.values()), missing, head)


def reordered(found: Draft, order: Sequence[str]) -> Draft:
    """The causes whose order is open in that order; what `order` leaves out follows as it was, and unknown names are ignored."""
    head = {c.id: c for c in found.causes[: found.head]}
    wanted = dict.fromkeys(name for name in (*order, *head) if name in head)
    return replace(found, causes=(*(head[name] for name in wanted), *found.causes[found.head:]))


def known(found: Draft) -> Lesson | None:
    """The most trusted lesson for one of the causes whose order is open: a fault that was healed before."""
    lessons = [found.facts.lessons[c] for c in found.undecided if c in found.facts.lessons]
    return max(lessons, key=lambda lesson: lesson.trust, default=None)


def explained(found: Draft) -> str:
    """The first cause in plain words, from its own evidence."""
    first, texts = found.causes[0], {e.id: e.summary for e in found.evidence}
    return _short(f"{first.summary} ({first.confidence:.0%}). {'; '.join(texts[c] for c in first.cites[:4])}", 600)


def concluded(found: Draft, explanation: str, use: ModelUse) -> ev.Diagnosed:
    """The event, cut to what the log takes."""
    known_as = signature_of(found.facts.target, found.facts.check, found.causes[0].id)
    return fitted(ev.Diagnosed(
        causes=found.causes, evidence=found.evidence, missing=found.missing, state=found.facts.state,
        explanation=_short(explanation, 600), signature=known_as, model=use,
    ), {id_ for cause in found.causes for id_ in cause.cites})


def abstained(found: Draft, min_confidence: float, use: ModelUse) -> ev.Undiagnosed:
    """No cause is likely enough: a person gets the evidence."""
    best = found.causes[0] if found.causes else None
    nearest = f"the nearest, {best.id}, reaches {best.confidence:.0%} of {min_confidence:.0%}" if best else "no known cause fits"
    event = ev.Undiagnosed(reason=f"no cause stands out: {nearest}", evidence=found.evidence, missing=found.missing, model=use)
    return fitted(event, set(best.cites) if best else set())


def fitted(event: E, cited: set[str]) -> E:
    """Without as much evidence as the log does not take: what nothing cites goes first, from the end."""
    while len(event.model_dump_json().encode()) > LARGEST and event.evidence:
        spare = next((e for e in reversed(event.evidence) if e.id not in cited), event.evidence[-1])
        event = event.model_copy(update={"evidence": tuple(e for e in event.evidence if e is not spare)})
    return event


def alert_text(opened: ev.Opened) -> str:
    """What knowledge is searched with."""
    notes = (opened.alert.alertname, *opened.alert.annotations.values()) if opened.alert else ()
    return _short("\n".join((opened.title, *notes)), 2000).strip() or opened.target


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"

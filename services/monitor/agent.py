"""Decides what an alert does to the incidents of its target: open one, tell one, or nothing. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from autopatch.chassis.chassis import Episode, TargetRecord
from autopatch.contract import events as ev
from autopatch.contract.lifecycle import OPEN_STATES, TABLE, Incident, State
from autopatch.contract.model import canonical, digest

DAY = timedelta(days=1)
MOST_EPISODES = 200
"""Alert identities that a target's record remembers."""
PERSONS = (State.ESCALATED, State.CANCELLED)
"""After these only a person reopens."""


@dataclass(frozen=True)
class Told:
    """An alert as its sender told it. `labels` are the original ones; `fault` says why it can belong to no target."""

    alert: ev.Alert
    labels: dict[str, str]
    ended: datetime | None = None
    fault: str = ""


@dataclass(frozen=True)
class Rules:
    """How soon and how often one alert may open another incident."""

    cool_down: timedelta
    max_a_day: int


@dataclass(frozen=True)
class Seen:
    """What is known: the target's record, the alert's own newest incident, and the target's open one."""

    target: str
    record: TargetRecord
    mine: Incident | None = None
    current: Incident | None = None


@dataclass(frozen=True)
class Open:
    """Write the record, then append the event to a new incident."""

    record: TargetRecord
    incident_id: str
    event: ev.Opened


@dataclass(frozen=True)
class Tell:
    """Append the event to an incident, after writing the record where there is one to write."""

    incident: Incident
    event: ev.AlertUpdated | ev.Cleared
    record: TargetRecord | None = None


@dataclass(frozen=True)
class Nothing:
    """No event."""

    why: str


Decision = Open | Tell | Nothing
Event = ev.Opened | ev.AlertUpdated | ev.Cleared


@dataclass(frozen=True)
class _Word:
    """One mention of an alert on an incident's log; `index` is its place there. A `cleared` has no alert."""

    index: int
    alert: ev.Alert | None

    @property
    def firing(self) -> bool:
        return self.alert is not None and self.alert.status == "firing"


def identity(labels: dict[str, str]) -> str:
    """16 hex digits of the SHA-256 of the labels; an empty label is an absent one."""
    return digest(canonical({k: v for k, v in labels.items() if v}))[:16]


def incident_id(target: str, identity: str, starts_at: datetime, generation: int) -> str:
    """The same for every sender, retry and repeat."""
    start = starts_at.astimezone(UTC).isoformat(timespec="milliseconds")
    return f"{target}-{digest(f'{target}/{identity}/{start}/{generation}'.encode())[:12]}"


def first_id(target: str, alert: ev.Alert) -> str:
    """The incident that this alert opens when nothing is remembered of it."""
    return incident_id(target, alert.identity, alert.starts_at, 0)


def newest_id(record: TargetRecord, current: Incident | None, target: str, alert: ev.Alert) -> str:
    """Where an alert was last told of; when the record has forgotten it, the incident that it names may hold it still."""
    if episode := record.episodes.get(alert.identity):
        return episode.incident_id
    return current.id if current and _last(current, alert.identity) else first_id(target, alert)


def may_be_of(target: str, incident_id: str) -> bool:
    """By its id; see `incident_id`."""
    return incident_id.rpartition("-")[0] == target


def joinable(incident: Incident) -> bool:
    """Is it open, and about an alert rather than a defect job?"""
    return incident.state in OPEN_STATES and incident.opened.alert is not None


def decide(seen: Seen, told: Told, now: datetime, rules: Rules) -> Decision:
    """What this word about an alert does."""
    alert, mine = told.alert, seen.mine
    if alert.status == "resolved":
        return _resolved(mine, told, now)
    if mine and mine.state in OPEN_STATES:
        return _update(mine, alert, "")
    closed = _stays_closed(seen.record.episodes.get(alert.identity), mine, alert, now, rules) if mine and mine.terminal else ""
    if mine and closed:
        return _update(mine, alert, closed)
    if alert.silenced:
        return Nothing("silenced: nothing opens")
    if seen.current and joinable(seen.current):
        known = seen.record.episodes.get(alert.identity)
        joined = _remember(
            seen.record, alert, seen.current.id, known.generation if known else 0, _lately(known.opened_at, now) if known else ()
        )
        joined = joined.model_copy(update={"open_incident": seen.current.id})
        return Tell(seen.current, ev.AlertUpdated(alert=alert, why="another alert of the target"), joined)
    return _open(seen, alert, now)


def gone(incident: Incident, identity: str, now: datetime, youngest: timedelta) -> bool:
    """Is an alert that Alertmanager no longer holds to be cleared: is it firing by the last word, and is that word old enough?"""
    word = _last(incident, identity)
    if word is None or word.alert is None or not word.firing or word.alert.source not in ("alertmanager", "reconciliation"):
        return False
    return now - incident.log[word.index].envelope.at >= youngest


def missing(incident: Incident, identity: str, now: datetime) -> Told:
    """The alert of `gone`, as if its sender had said that it ended now."""
    word = _last(incident, identity)
    assert word and word.alert
    alert = word.alert.model_copy(update={"status": "resolved", "source": "reconciliation"})
    return Told(alert, alert.labels, now)


def finished(incident: Incident, identity: str) -> bool:
    """Is the last word on this alert that it ended?"""
    word = _last(incident, identity)
    return word is not None and not word.firing


def over(incident: Incident) -> bool:
    """Has it ended so that nobody can reopen it?"""
    return incident.terminal and (incident.state, ev.Reopened) not in TABLE


def told_of(incident: Incident) -> set[str]:
    """Identities of all alerts on its log."""
    alerts = (getattr(stored.envelope.data, "alert", None) for stored in incident.log)
    return {alert.identity for alert in alerts if isinstance(alert, ev.Alert)}


def _resolved(mine: Incident | None, told: Told, now: datetime) -> Decision:
    alert = told.alert
    word = _last(mine, alert.identity) if mine else None
    if mine is None or word is None:
        return Nothing("resolved, and never seen firing")
    if word.alert is None or not word.firing:
        return Nothing("resolved already")
    if told.ended and told.ended <= word.alert.starts_at:
        return Nothing("an earlier firing was resolved")
    primary = mine.opened.alert
    if mine.terminal or (primary and primary.identity == alert.identity):
        return Tell(mine, ev.Cleared(identity=alert.identity, at=told.ended or now))
    return Tell(mine, ev.AlertUpdated(alert=alert, why="no longer firing"))


def _update(incident: Incident, alert: ev.Alert, why: str) -> Decision:
    """A note when something changed. Polled sources tell of silences and firing only: annotations hold changing values."""
    word = _last(incident, alert.identity)
    known = word.alert if word else None
    polled = alert.source in ("reconciliation", "watch")
    if known is None or known.status != alert.status or known.silenced != alert.silenced:
        return Tell(incident, ev.AlertUpdated(alert=alert, why=why))
    if not polled and (known.annotations != alert.annotations or alert.starts_at > known.starts_at):
        return Tell(incident, ev.AlertUpdated(alert=alert, why=why))
    return Nothing(why or "a repeat")


def _stays_closed(episode: Episode | None, mine: Incident, alert: ev.Alert, now: datetime, rules: Rules) -> str:
    """Why an ended incident's alert opens no other one; '' when it does."""
    end = next(i for i, s in enumerate(mine.log) if s.envelope.event_id == mine.moved_by)
    if mine.state in PERSONS and not _fires_anew(mine, alert, end):
        return f"{mine.state}: only a person reopens it"
    if now - mine.log[end].envelope.at < rules.cool_down:
        return "cooling down"
    if episode and len(_lately(episode.opened_at, now)) >= rules.max_a_day:
        return f"opened {rules.max_a_day} times within a day"
    return ""


def _fires_anew(mine: Incident, alert: ev.Alert, end: int) -> bool:
    """Did it end after the last firing before the incident's end, and start again after that?"""
    words = list(_words(mine, alert.identity))
    before = [w for w in words if w.firing and w.index <= end]
    if not before:
        return False
    ended = any(not w.firing and w.index > before[-1].index for w in words)
    return ended and alert.starts_at > max(w.alert.starts_at for w in before if w.alert)


def _open(seen: Seen, alert: ev.Alert, now: datetime) -> Open:
    episode, mine = seen.record.episodes.get(alert.identity), seen.mine
    if episode and mine and mine.state is State.NONE:
        alert = alert.model_copy(update={"starts_at": episode.starts_at})
        return _opening(seen.target, seen.record, alert, episode.generation, episode.opened_at or (now,))
    generation = episode.generation + 1 if episode and episode.starts_at == alert.starts_at else 0
    opened_at = (*(_lately(episode.opened_at, now) if episode else ()), now)
    return _opening(seen.target, seen.record, alert, generation, opened_at)


def next_generation(taken: Open) -> Open:
    """The same under the next id: the log holds an incident of this one, which the record had forgotten."""
    alert = taken.event.alert
    assert alert
    opened_at = taken.record.episodes[alert.identity].opened_at
    return _opening(taken.event.target, taken.record, alert, taken.event.generation + 1, opened_at)


def _opening(target: str, record: TargetRecord, alert: ev.Alert, generation: int, opened_at: tuple[datetime, ...]) -> Open:
    new = incident_id(target, alert.identity, alert.starts_at, generation)
    title = (alert.annotations.get("summary") or alert.alertname)[:200]
    record = _remember(record, alert, new, generation, opened_at).model_copy(update={"open_incident": new})
    return Open(record, new, ev.Opened(target=target, title=title, alert=alert, generation=generation))


def _remember(
    record: TargetRecord, alert: ev.Alert, incident: str, generation: int, opened_at: tuple[datetime, ...]
) -> TargetRecord:
    """The record with this episode; the oldest are forgotten, and found again by `newest_id`."""
    episode = Episode(incident_id=incident, generation=generation, starts_at=alert.starts_at, opened_at=opened_at)
    others = {k: v for k, v in record.episodes.items() if k != alert.identity}
    newest = sorted(others.items(), key=lambda item: max((item[1].starts_at, *item[1].opened_at)))[1 - MOST_EPISODES :]
    return record.model_copy(update={"episodes": {**dict(newest), alert.identity: episode}})


def _lately(opened_at: tuple[datetime, ...], now: datetime) -> tuple[datetime, ...]:
    return tuple(at for at in opened_at if now - at < DAY)


def _words(incident: Incident, identity: str) -> Iterator[_Word]:
    for index, stored in enumerate(incident.log):
        match stored.envelope.data:
            case ev.Opened(alert=ev.Alert() as alert) | ev.AlertUpdated(alert=alert) if alert.identity == identity:
                yield _Word(index, alert)
            case ev.Cleared(identity=cleared) if cleared == identity:
                yield _Word(index, None)


def _last(incident: Incident, identity: str) -> _Word | None:
    words = list(_words(incident, identity))
    return words[-1] if words else None

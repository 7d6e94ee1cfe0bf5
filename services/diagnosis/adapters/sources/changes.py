"""What was changed shortly before the incident began: release, configuration, code. Pure.

The newest change is not to blame because it is new: one after the onset cannot be the cause, and one long before it was harmless
for all that time.
"""

import math
from collections.abc import Sequence
from datetime import datetime

from autopatch.contract.evidence import TargetState
from services.diagnosis.facts import Change, ChangeKind

HALF_LIFE_S = 300.0
"""A change this long before the onset counts half."""
LONGEST_S = 6 * 3600.0
SLACK_S = 15.0
"""An onset that is estimated this much too early does not clear a change."""


def changes_of(state: TargetState, commits: Sequence[tuple[datetime, str]], onset: datetime) -> tuple[Change, ...]:
    """All known changes, the newest first. A first release has replaced nothing, so it is no change."""
    found = [_change("config", f"{c.file} was written", c.modified, onset) for c in state.configs if c.modified]
    if state.released_at and _replaced(state):
        found.append(_change("release", f"release {state.release} was started", state.released_at, onset))
    found += [_change("code", subject, at, onset) for at, subject in commits]
    return tuple(sorted(found, key=lambda c: c.at, reverse=True))


def _replaced(state: TargetState) -> bool:
    """Is there an older release that this one came after?"""
    return state.release in state.releases and state.releases.index(state.release) > 0


def _change(kind: ChangeKind, what: str, at: datetime, onset: datetime) -> Change:
    ago = (onset - at).total_seconds()
    return Change(kind, what, at, ago, strength(ago))


def strength(ago_s: float) -> float:
    """1 right before the onset, half five minutes before it, 0 after it or more than six hours before it."""
    if ago_s < -SLACK_S or ago_s > LONGEST_S:
        return 0.0
    return math.exp(-math.log(2) * max(0.0, ago_s) / HALF_LIFE_S)

"""Which numbers moved when the incident began, how far, and together with what. Pure.

Medians before and after survive an onset that is estimated a little early or late, which means and deviations do not.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from services.diagnosis.facts import Direction, Shift, Track

LEAST_SAMPLES = 4
"""Before; after it a young alert has hardly more than LEAST_SINCE."""
LEAST_SINCE = 3
LEAST_EFFECT = 0.2
LEAST_Z = 5.0
FULL_EFFECT = 0.5

Numbers = NDArray[np.float64]


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(float(at), UTC)


@dataclass(frozen=True)
class Onset:
    """When it began, and since when it had been calm before that: what is earlier belongs to an earlier incident."""

    at: datetime
    calm_from: datetime


def onset_of(check: Track, bad: Literal["above", "below"], fired_at: datetime, start: datetime) -> Onset:
    """The last large step of the check to its bad side, not later than the alert; where there is none, the alert's own start."""
    values, times = np.asarray(check.values), np.asarray(check.times)
    if len(values) < 2 * LEAST_SAMPLES:
        return Onset(fired_at, start)
    scaled = (values - np.median(values)) / _ripple(values) * (1 if bad == "above" else -1)
    clipped = np.clip(scaled, -20, 20)
    import ruptures  # like scipy a second to load that a job, which has no signals, does without

    found = ruptures.KernelCPD(kernel="linear", min_size=3).fit(clipped).predict(pen=3 * np.log(len(values)))
    edges = [0, *found]
    steps = {
        here: float(np.median(clipped[here:after]) - np.median(clipped[before:here]))
        for before, here, after in zip(edges, edges[1:], edges[2:], strict=False)
        if times[here] <= fired_at.timestamp() + 1
    }
    large = [i for i, step in steps.items() if step > 0.5 * max(steps.values())]
    if not large:
        return Onset(fired_at, start)
    began = large[-1]
    calm = max((i for i, step in steps.items() if i <= began - 2 * LEAST_SAMPLES and step < -0.5 * steps[began]), default=0)
    return Onset(_moment(times[began]), max(start, _moment(times[calm])))


def shift_of(track: Track, onset: Onset, check: Track) -> Shift | None:
    """How a track moved at the onset; None without enough samples on both sides of it."""
    values, times = np.asarray(track.values), np.asarray(track.times)
    calm = (times >= onset.calm_from.timestamp()) & (times < onset.at.timestamp())
    before, after = values[calm], values[times >= onset.at.timestamp()]
    if len(before) < LEAST_SAMPLES or len(after) < LEAST_SINCE:
        return None
    was, is_now = float(np.median(before)), float(np.median(_worst_half(after, float(np.median(before)))))
    strength = _strength(before, was, is_now)
    direction: Direction = "flat" if strength == 0 else "up" if is_now > was else "down"
    began = _began(times, values, was, is_now, onset.at) if strength else None
    tie = _tie(track, check, onset.at)
    return Shift(track.name, track.query, track.unit, track.role, was, is_now, began, direction, strength, tie)


def _worst_half(after: Numbers, was: float) -> Numbers:
    """The half that is farthest from what was: a queue that is still filling up is not averaged away."""
    order = np.argsort(np.abs(after - was))
    return np.asarray(after[order[len(after) // 2:]])


def _strength(before: Numbers, was: float, is_now: float) -> float:
    """0 unless the move is large against both the level and the noise before; 1 from a change by half on."""
    distance = abs(is_now - was)
    scale = abs(was) or abs(is_now)
    if not scale or distance / scale < LEAST_EFFECT or distance / _spread(before) < LEAST_Z:
        return 0.0
    return float(min(1.0, distance / scale / FULL_EFFECT))


def _ripple(values: Numbers) -> float:
    """The noise from one sample to the next, which steps of the level do not widen."""
    steps = float(np.median(np.abs(np.diff(values)))) / 0.6745 / np.sqrt(2)
    return float(max(steps, 0.02 * abs(float(np.median(values))), 1e-3 * float(np.max(np.abs(values))), 1e-9))


def _spread(values: Numbers) -> float:
    """A robust standard deviation that is never zero."""
    high, low = np.percentile(values, [75, 25])
    level = float(np.max(np.abs(values)))
    return float(max((high - low) / 1.349, 0.01 * abs(float(np.median(values))), 1e-3 * level, 1e-9))


def _began(times: Numbers, values: Numbers, was: float, is_now: float, onset: datetime) -> datetime:
    """The first sample, from a little before the onset on, that is more than half way to where it went."""
    early = onset.timestamp() - 0.25 * (times[-1] - onset.timestamp())
    beyond = (times >= early) & ((values - was) / (is_now - was) > 0.5)
    return _moment(times[int(np.argmax(beyond))]) if beyond.any() else onset


def _tie(track: Track, check: Track, onset: datetime) -> float:
    """Absolute correlation of ranks with the check around the incident; 0 where one of them stands still."""
    span = check.times[-1] - onset.timestamp() if check.times else 0.0
    start = onset.timestamp() - max(span, 30.0)
    ours = {t: v for t, v in zip(track.times, track.values, strict=True) if t >= start}
    pairs = [(ours[t], v) for t, v in zip(check.times, check.values, strict=True) if t in ours]
    if len(pairs) < 2 * LEAST_SAMPLES:
        return 0.0
    left, right = zip(*pairs, strict=True)
    if len(set(left)) < 2 or len(set(right)) < 2:
        return 0.0
    from scipy.stats import spearmanr

    return float(min(1.0, abs(spearmanr(left, right).statistic)))

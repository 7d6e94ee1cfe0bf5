"""Two windows of one signal, compared by a rank test on block means. Pure.

Samples of one metric resemble their neighbours, so a rank test on raw samples finds differences that are not there. Averaging a
window into a few equal parts first makes them nearly independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import comb
from statistics import fmean, median

from autopatch.chassis.prometheus import Failed, Nothing, Result, Series, Value
from autopatch.contract.evidence import Comparison, Measurement, Verdict
from autopatch.contract.target import Signal


@dataclass(frozen=True)
class Window:
    """A stretch of time and the distance of its samples in seconds."""

    start: datetime
    end: datetime
    step_s: float

    @property
    def length_s(self) -> float:
        """Seconds."""
        return (self.end - self.start).total_seconds()

    @property
    def times(self) -> int:
        """How many points a range query has."""
        return int(self.length_s / self.step_s + 1e-6) + 1

    def part(self, at: float, parts: int) -> int:
        """Which of `parts` equal parts a unix time lies in."""
        share = (at - self.start.timestamp()) / max(self.length_s, 1e-9)
        return min(parts - 1, max(0, int(share * parts)))


@dataclass(frozen=True)
class Rule:
    """When two windows differ: p-value below `alpha` (one-sided) and a median that moved by `min_effect` of what it was."""

    blocks: int = 6
    alpha: float = 0.01
    min_effect: float = 0.2
    min_traffic: float = 0.7


def is_red(signal: Signal, value: float) -> bool:
    """Is the value on the bad side of the signal's threshold? Without a threshold nothing is."""
    if signal.threshold is None:
        return False
    return value > signal.threshold if signal.bad == "above" else value < signal.threshold


def run_of(red: bool, signal: Signal, result: Result, end: datetime) -> datetime:
    """When the samples began that last until `end` and are all red, or none of them; `end` when there are none."""
    began = end.timestamp()
    if isinstance(result, Value) and len(result.series) == 1:
        series = result.series[0]
        for at, value in zip(reversed(series.times), reversed(series.values), strict=True):
            if is_red(signal, value) is not red:
                break
            began = at
    return datetime.fromtimestamp(min(began, end.timestamp()), end.tzinfo)


def measured(name: str, signal: Signal, result: Result, window: Window, parts: int) -> Measurement:
    """What a range query found. `blocks` stay empty, and `reason` says why, when a part of the window holds no sample."""
    blank = Measurement(
        signal=name, query=signal.query, unit=signal.unit, start=window.start, end=window.end, status="nothing"
    )
    match result:
        case Failed(reason=reason):
            return blank.model_copy(update={"status": "failed", "reason": reason})
        case Nothing(reason=reason):
            return blank.model_copy(update={"reason": reason})
        case Value(series=(series,)):
            return _of_series(blank, signal, series, window, parts)
        case Value(series=many):
            reason = f"the query gives {len(many)} series where one number is needed; aggregate it, as with sum() or max()"
            return blank.model_copy(update={"status": "failed", "reason": reason})


def _of_series(blank: Measurement, signal: Signal, series: Series, window: Window, parts: int) -> Measurement:
    blocks = _blocks(series.times, series.values, window, parts)
    lacking = "" if blocks else f"{len(series.values)} samples do not cover all {parts} parts of the window"
    red = [is_red(signal, value) for value in series.values]
    return blank.model_copy(update={
        "status": "value", "reason": lacking, "mean": fmean(series.values), "last": series.last, "blocks": blocks,
        "red_share": sum(red) / len(red) if signal.threshold is not None else None,
    })


def _blocks(times: Sequence[float], values: Sequence[float], window: Window, parts: int) -> tuple[float, ...]:
    held: list[list[float]] = [[] for _ in range(parts)]
    for at, value in zip(times, values, strict=True):
        held[window.part(at, parts)].append(value)
    return tuple(fmean(part) for part in held) if all(held) else ()


def p_lower(before: Sequence[float], after: Sequence[float]) -> float:
    """Exact one-sided p-value that `after` lies below `before`, ties included (all splits of the pooled values)."""
    from scipy.stats import PermutationMethod, mannwhitneyu  # a second to load that a job, which has no signals, does without

    everything = PermutationMethod(n_resamples=comb(len(before) + len(after), len(after)))
    return float(mannwhitneyu(before, after, alternative="greater", method=everything).pvalue)


def effect(before: float, after: float, threshold: float | None) -> float:
    """(after - before) / |before|; where `before` is 0 the threshold, else `after`, stands in for it."""
    scale = abs(before) or abs(threshold or 0.0) or abs(after)
    return (after - before) / scale if scale else 0.0


def compare(
    name: str, signal: Signal, before: Measurement, after: Measurement, rule: Rule, *, alpha: float | None = None
) -> Comparison:
    """Better, worse, the same, or unknown where a side does not cover its window. Traffic is only asked to be there.

    A change below `min_effect` is the same whatever its p-value, so that is not computed.
    """
    blank = Comparison(signal=name, role=signal.role, before=before, after=after, verdict="unknown", why=_lacking(before, after))
    if not before.blocks or not after.blocks:
        return blank
    was, is_now = median(before.blocks), median(after.blocks)
    moved = effect(was, is_now, signal.threshold)
    if signal.role == "traffic":
        enough = is_now >= rule.min_traffic * was and is_now > 0
        why = f"{is_now:.4g} against {was:.4g} while red"
        return blank.model_copy(update={"effect": moved, "verdict": "same" if enough else "worse", "why": why})
    gain = -moved if signal.bad == "above" else moved
    p_value = None
    if abs(gain) >= rule.min_effect:
        p_value = p_lower(before.blocks, after.blocks) if moved < 0 else p_lower(after.blocks, before.blocks)
    verdict = _verdict(gain, p_value, rule.alpha if alpha is None else alpha)
    if verdict == "same" and is_red(signal, is_now) and not is_red(signal, was):
        verdict = "worse"
    elif verdict == "worse" and after.red_share == 0:
        verdict = "same"  # what fails at once is fast: a number on the good side of its threshold is good
    tested = "too little to test" if p_value is None else f"p={p_value:.4f}"
    why = f"median {was:.4g} -> {is_now:.4g}{signal.unit and ' '}{signal.unit} ({moved:+.0%}), {tested}"
    return blank.model_copy(update={"p_value": p_value, "effect": moved, "verdict": verdict, "why": why})


def _verdict(gain: float, p_value: float | None, alpha: float) -> Verdict:
    if p_value is None or p_value >= alpha:
        return "same"
    return "better" if gain > 0 else "worse"


def _lacking(before: Measurement, after: Measurement) -> str:
    parts = [(side, m) for side, m in (("before", before), ("after", after)) if not m.blocks]
    return "; ".join(f"{side}: {m.reason or m.status}" for side, m in parts)

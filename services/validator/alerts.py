"""The alert rule's own expression as a second witness beside the target's threshold. Pure."""

import math
from collections.abc import Mapping, Sequence

from autopatch.chassis.prometheus import AlertRule, Failed, Nothing, Result, Series, Value
from autopatch.contract.events import Alert
from autopatch.contract.evidence import Comparison, Measurement
from services.validator.ranks import Window


def rules_of(alert: Alert, rules: Sequence[AlertRule]) -> tuple[AlertRule, ...]:
    """The rules that this alert can come from: of its name, and with no label of their own that contradicts it."""
    return tuple(r for r in rules if r.name == alert.alertname and _agree(_fixed(r), alert.labels))


def is_ours(series: Series, rule: AlertRule, alert: Alert) -> bool:
    """Would this series of the rule's expression raise this alert? Labels that one side lacks do not speak against it."""
    own = {k: v for k, v in series.labels.items() if k != "__name__" and k not in rule.labels}
    return _agree(own, alert.labels)


def fired(rule: AlertRule, alert: Alert, result: Result, window: Window, parts: int) -> Measurement:
    """How much of the window the rule's expression was true for this alert; `blocks` are shares of each part.

    A value that is no number still makes an alert fire in Prometheus, so such samples count as firing.
    """
    blank = Measurement(
        signal=f"alert:{rule.name}", query=rule.query, start=window.start, end=window.end, status="value", mean=0.0, last=0.0,
        red_share=0.0, blocks=(0.0,) * parts,
    )
    match result:
        case Failed(reason=reason):
            return blank.model_copy(update={
                "status": "failed", "reason": reason, "mean": None, "last": None, "red_share": None, "blocks": (),
            })
        case Nothing(dropped=0):
            return blank
        case Nothing(dropped=dropped):
            return _share(blank, [1.0] * parts, min(1.0, dropped / window.times), 1.0)
        case Value(series=series, dropped=dropped):
            times = {t for s in series if is_ours(s, rule, alert) for t in s.times}
            return _of_times(blank, times, dropped, window, parts)


def _of_times(blank: Measurement, times: set[float], dropped: int, window: Window, parts: int) -> Measurement:
    expected, seen = [0] * parts, [0] * parts
    start = window.start.timestamp()
    for index in range(window.times):
        expected[window.part(start + index * window.step_s, parts)] += 1
    for at in times:
        seen[window.part(at, parts)] += 1
    blocks = [min(1.0, s / max(1, e)) for s, e in zip(seen, expected, strict=True)]
    share = min(1.0, (len(times) + dropped) / window.times)
    newest = start + (window.times - 1) * window.step_s
    return _share(blank, blocks, share, float(any(math.isclose(t, newest, abs_tol=window.step_s / 2) for t in times)))


def _share(blank: Measurement, blocks: Sequence[float], share: float, last: float) -> Measurement:
    return blank.model_copy(update={"blocks": tuple(blocks), "mean": share, "red_share": share, "last": last})


def silence(before: Measurement, after: Measurement) -> Comparison:
    """Better when the rule was false for the whole of the later window."""
    blank = Comparison(signal=after.signal, role="check", before=before, after=after, verdict="unknown", why=after.reason)
    if after.red_share is None:
        return blank
    if after.red_share == 0:
        return blank.model_copy(update={"verdict": "better", "why": "the alert's expression was false throughout"})
    why = f"the alert's expression was true for {after.red_share:.0%} of the window"
    return blank.model_copy(update={"verdict": "same", "why": why})


def _fixed(rule: AlertRule) -> dict[str, str]:
    """Labels that the rule sets by itself, without templates."""
    return {k: v for k, v in rule.labels.items() if "{{" not in v}


def _agree(labels: Mapping[str, str], alert: Mapping[str, str]) -> bool:
    return all(alert.get(k, v) == v for k, v in labels.items())

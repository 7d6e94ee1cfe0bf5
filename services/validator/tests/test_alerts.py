"""The alert rule's own expression as a second witness."""

from autopatch.chassis.prometheus import AlertRule, Failed, Nothing, Series, Value
from services.validator.alerts import fired, rules_of, silence
from services.validator.ranks import Window
from services.validator.tests.given import ALERT, RULE, T0, after

WINDOW = Window(T0, after(60), 5)
START = T0.timestamp()


def series(times: list[float], **labels: str) -> Series:
    return Series(labels=labels, times=tuple(START + t for t in times), values=(1.0,) * len(times))


def test_a_rule_of_the_same_name_with_another_severity_is_not_ours() -> None:
    other = AlertRule(name="SlowAnswers", query="x", labels={"severity": "info"})
    templated = AlertRule(name="SlowAnswers", query="y", labels={"severity": "{{ $value }}"})
    assert rules_of(ALERT, [RULE, other, templated, AlertRule(name="Other", query="z")]) == (RULE, templated)


def test_another_instance_that_fires_does_not_make_ours_red() -> None:
    found = fired(RULE, ALERT, Value(series=(series([0, 5, 10], service="bakery"),)), WINDOW, 6)
    assert found.red_share == 0


def test_the_share_of_time_that_our_series_fired_is_measured() -> None:
    both = series([0, 5, 10], service="shop"), series([10, 15], service="shop", pod="b")
    found = fired(RULE, ALERT, Value(series=both), WINDOW, 6)
    assert (found.red_share, found.last, found.blocks[0]) == (4 / 13, 0.0, 1.0)


def test_a_rule_that_fires_at_the_newest_moment_is_red_now() -> None:
    assert fired(RULE, ALERT, Value(series=(series([60], service="shop"),)), WINDOW, 6).last == 1.0


def test_a_value_that_is_no_number_still_fires() -> None:
    assert fired(RULE, ALERT, Nothing(dropped=13), WINDOW, 6).red_share == 1.0
    assert fired(RULE, ALERT, Nothing(), WINDOW, 6).red_share == 0.0


def test_an_expression_that_is_refused_is_never_green() -> None:
    found = fired(RULE, ALERT, Failed(reason="parse error"), WINDOW, 6)
    assert (found.status, found.red_share) == ("failed", None)
    assert silence(found, found).verdict == "unknown"


def test_silence_for_the_whole_window_is_better_and_anything_else_is_not() -> None:
    quiet = fired(RULE, ALERT, Nothing(), WINDOW, 6)
    loud = fired(RULE, ALERT, Value(series=(series([30], service="shop"),)), WINDOW, 6)
    assert silence(loud, quiet).verdict == "better"
    assert silence(loud, loud).verdict == "same"

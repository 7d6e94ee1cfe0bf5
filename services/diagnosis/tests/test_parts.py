"""The pure parts: what moved, which lines are new, what was changed, what the queries share."""

import json
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopatch.contract.evidence import ConfigState, TargetState
from services.diagnosis.adapters.sources.changes import changes_of, strength
from services.diagnosis.adapters.sources.saturation import saturations
from services.diagnosis.adapters.sources.selectors import names_query, query_for, rate_window_s, shared_labels
from services.diagnosis.adapters.logs.templates import patterns, told
from services.diagnosis.facts import Track
from services.diagnosis.adapters.sources.shifts import Onset, onset_of, shift_of
from services.diagnosis.tests.given import QUERIES, T0, after


def track(values: list[float], name: str = "latency", step: float = 10, role: str = "guard") -> Track:
    return Track(name, "q", "s", role, tuple(T0.timestamp() + i * step for i in range(len(values))), tuple(values))


def noisy(level: float, count: int, seed: int = 1) -> list[float]:
    return [float(v) for v in level * np.random.default_rng(seed).normal(1, 0.05, count)]


STEP_UP = track([*noisy(0.1, 60), *noisy(2.0, 12, 2)])


def test_the_onset_is_the_step_and_not_the_alert() -> None:
    found = onset_of(STEP_UP, "above", after(690), T0)
    assert abs((found.at - after(600)).total_seconds()) <= 10


def test_a_step_to_the_good_side_is_no_onset() -> None:
    assert onset_of(STEP_UP, "below", after(690), T0).at == after(690)


def test_a_track_that_does_not_move_gives_the_start_of_the_alert() -> None:
    assert onset_of(track(noisy(0.1, 72)), "above", after(690), T0).at == after(690)
    assert onset_of(track([1.0, 2.0]), "above", after(690), T0) == Onset(after(690), T0)


def test_an_earlier_incident_is_not_taken_for_the_calm_before() -> None:
    values = [*noisy(0.1, 10), *noisy(2, 20, 2), *noisy(0.1, 30, 3), *noisy(2, 12, 4)]
    found = onset_of(track(values), "above", after(690), T0)
    assert abs((found.at - after(600)).total_seconds()) <= 10
    assert abs((found.calm_from - after(300)).total_seconds()) <= 20


@pytest.mark.parametrize("late", [-60, 0, 60])
def test_a_wrong_onset_by_a_minute_finds_the_same_shift(late: float) -> None:
    found = shift_of(STEP_UP, Onset(after(600 + late), T0), STEP_UP)
    assert found is not None
    assert found.direction == "up"
    assert found.before == pytest.approx(0.1, rel=0.1)


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_noise_alone_is_no_shift(seed: int) -> None:
    still = track(noisy(5.0, 72, seed))
    found = shift_of(still, Onset(after(600), T0), still)
    assert found is not None and (found.direction, found.strength) == ("flat", 0.0)


def test_from_zero_to_something_is_a_full_shift_and_constants_are_none() -> None:
    found = shift_of(track([0.0] * 60 + [4.0] * 12), Onset(after(600), T0), STEP_UP)
    assert found is not None and (found.direction, found.strength) == ("up", 1.0)
    still = shift_of(track([10.0] * 72), Onset(after(600), T0), STEP_UP)
    assert still is not None and (still.direction, still.tie) == ("flat", 0.0)


def test_too_few_samples_on_a_side_are_no_shift() -> None:
    assert shift_of(STEP_UP, Onset(after(700), T0), STEP_UP) is None


def test_a_full_pool_is_found_by_the_names_of_its_gauges() -> None:
    used, size = track([5.0] * 60 + [10.0] * 12, "db_pool_in_use"), track([10.0] * 72, "db_pool_size")
    (found,) = saturations([used, size, STEP_UP], Onset(after(600), T0))
    assert (found.name, found.share, found.before) == ("db_pool_in_use of db_pool_size", 1.0, 0.5)
    assert saturations([track([5.0] * 72, "db_pool_in_use"), size], Onset(after(600), T0)) == ()


def line(message: str, level: str = "info", **more: str) -> str:
    return json.dumps({"time": "2026-03-01T12:00:00Z", "level": level, "message": message, **more})


def test_new_grown_and_vanished_lines_are_told_apart_and_steady_ones_left_out() -> None:
    calm = [line(f"served {i} in {i}ms") for i in range(30)] + [line("cache hit")] * 6 + [line("retry of order 7")] * 2
    red = [line(f"served {i} in {i}ms") for i in range(30)] + [line("boom", "error")] * 3 + [line("retry of order 8")] * 20
    found = {p.template: p for p in patterns(red, calm, 60, 60)}
    assert {t: p.novelty for t, p in found.items()} == {
        "boom": "new", "retry of order <number>": "grown", "cache hit": "vanished",
    }
    assert found["boom"].severe and found["boom"].count == 3
    assert next(iter(found)) == "boom"


def test_a_line_in_json_is_read_by_its_message_and_its_error() -> None:
    assert told(line("cannot book", "error", error="KeyError: 'CHF'")) == ("cannot book KeyError: 'CHF'", True)
    assert told('app | {"msg": "hello", "severity": "INFO"}') == ("hello", False)
    assert told("2026-03-01 ERROR disk: no space left") == ("2026-03-01 ERROR disk: no space left", True)
    assert told('{"broken json')[0] == '{"broken json'


@given(st.lists(st.text(max_size=200), max_size=20), st.lists(st.text(max_size=200), max_size=20))
@settings(max_examples=40, deadline=None)
def test_any_text_can_be_a_log(red: list[str], calm: list[str]) -> None:
    assert len(patterns(red, calm, 60, 600)) <= 12


def state(release: str, released_s: float, written_s: float) -> TargetState:
    return TargetState(
        target="app", at=after(700), running=True, release=release, releases=("1", "2"), released_at=after(released_s),
        configs=(ConfigState(file="main", digest="d", values={}, modified=after(written_s)),),
    )


def test_a_change_after_the_onset_or_long_before_it_is_not_the_cause() -> None:
    found = changes_of(state("2", 660, -30_000), [(after(590), "commit abc: tidy")], after(600))
    assert {c.kind: c.strength for c in found} == {"release": 0.0, "config": 0.0, "code": pytest.approx(0.977, abs=0.01)}


def test_the_first_release_is_no_change() -> None:
    assert [c.kind for c in changes_of(state("1", 590, 0), [], after(600))] == ["config"]


def test_a_change_counts_less_the_longer_before_the_onset_it_was() -> None:
    seen = [strength(s) for s in (0, 60, 300, 3600, 21_000, 30_000)]
    assert seen == sorted(seen, reverse=True)
    assert (seen[0], seen[2], seen[-1]) == (1.0, 0.5, 0.0)
    assert strength(-timedelta(minutes=1).total_seconds()) == 0.0


def test_only_labels_that_all_queries_share_are_used_for_discovery() -> None:
    assert shared_labels(list(QUERIES.values())) == {"job": "app"}
    assert shared_labels(['up{job="a"}', 'up{job="b"}']) == {}
    assert shared_labels(["up"]) == {}
    assert shared_labels(["sum((", 'up{job="a"}']) == {"job": "a"}
    assert names_query({"job": 'a"b'}) == 'count by (__name__) ({job="a\\"b"})'


def test_counters_are_looked_at_as_rates_and_parts_of_histograms_not_at_all() -> None:
    assert query_for("app_errors_total", {"job": "app"}, 30) == 'sum(rate(app_errors_total{job="app"}[30s]))'
    assert query_for("app_pool_size", {"job": "app"}, 30) == 'sum(app_pool_size{job="app"})'
    assert [query_for(n, {}, 30) for n in ("x_bucket", "go_threads", "bad-name", "scrape_samples_scraped")] == [None] * 4
    assert rate_window_s(list(QUERIES.values())) == 60

from datetime import timedelta

import pytest

from shifts import hours, overtime, parse, worked


@pytest.mark.parametrize(("span", "told"), [
    (timedelta(days=1), 24.0), (timedelta(days=2, hours=3, minutes=15), 51.25), (timedelta(minutes=10), 0.17), (timedelta(), 0.0),
])
def test_any_span_is_told_in_hours(span, told):
    assert hours(span) == told


def test_seven_nights_add_up():
    nights = [parse(f"2024-06-{day:02} 21:00 to 2024-06-{day + 1:02} 05:30") for day in range(3, 10)]
    assert worked(nights) == 56.0
    assert overtime(nights) == 17.5

import pytest

from shifts import by_day, overtime, parse, worked

EARLY = "2024-05-{:02} 06:00 to 2024-05-{:02} 14:30"


def week(days):
    return [parse(EARLY.format(day, day)) for day in range(1, days + 1)]


def test_a_short_shift_has_no_break():
    assert worked([parse("2024-05-01 08:00 to 2024-05-01 13:30")]) == 5.5


def test_a_long_shift_has_a_break():
    assert worked(week(1)) == 8.0


def test_a_shift_may_go_past_midnight():
    assert worked([parse("2024-05-01 22:00 to 2024-05-02 04:00")]) == 6.0


def test_a_week_adds_up():
    assert worked(week(5)) == 40.0


def test_what_is_beyond_the_week_is_overtime():
    assert overtime(week(5)) == 1.5


def test_half_a_week_has_no_overtime():
    assert overtime(week(2)) == 0.0


def test_hours_are_told_by_day():
    shifts = [*week(1), parse("2024-05-01 18:00 to 2024-05-01 20:00")]
    assert by_day(shifts) == {"2024-05-01": 10.0}


def test_a_shift_ends_after_it_began():
    with pytest.raises(ValueError):
        parse("2024-05-01 08:00 to 2024-05-01 08:00")

import pytest

from ranges import contains, merge, parse, size, write


def test_ranges_are_read():
    assert parse("1-3, 7,9-12") == [(1, 3), (7, 7), (9, 12)]


def test_a_range_does_not_end_before_it_begins():
    with pytest.raises(ValueError):
        parse("5-2")


def test_ranges_that_touch_are_one():
    assert merge([(4, 6), (1, 3)]) == [(1, 6)]


def test_ranges_that_overlap_are_one():
    assert merge([(1, 5), (3, 9)]) == [(1, 9)]


def test_a_range_inside_another_changes_nothing():
    assert merge([(1, 10), (2, 4)]) == [(1, 10)]


def test_ranges_apart_stay_apart():
    assert write([(9, 9), (1, 3), (5, 6)]) == "1-3,5-6,9"


def test_numbers_are_counted_once():
    assert size(parse("1-20,3-5,4")) == 20


def test_a_number_is_found():
    assert contains(parse("1-3,7"), 7)
    assert not contains(parse("1-3,7"), 5)

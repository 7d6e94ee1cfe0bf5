import itertools

from ranges import contains, merge, parse, size, write

SOME = [(1, 4), (2, 3), (6, 6), (5, 9), (12, 20), (13, 14)]


def test_merging_keeps_exactly_the_same_numbers():
    for pairs in itertools.permutations(SOME, 4):
        numbers = {n for first, last in pairs for n in range(first, last + 1)}
        merged = merge(pairs)
        assert {n for n in range(0, 25) if contains(merged, n)} == numbers
        assert size(pairs) == len(numbers)


def test_one_range_holds_many_small_ones():
    assert write(parse("1-100,3,5-9,98,100")) == "1-100"


def test_the_same_range_twice_is_one():
    assert merge([(3, 8), (3, 8)]) == [(3, 8)]
    assert merge([(3, 8), (3, 4)]) == [(3, 8)]


def test_nothing_is_nothing():
    assert (merge([]), write([]), size([])) == ([], "", 0)

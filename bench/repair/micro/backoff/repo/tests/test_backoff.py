import pytest

from backoff import Backoff, worst


def test_each_try_stands_for_twice_as_long():
    assert [Backoff().middle(n) for n in range(4)] == [0.5, 1.0, 2.0, 4.0]


def test_no_try_stands_for_more_than_the_longest():
    assert Backoff(longest=3).middle(9) == 3


@pytest.mark.parametrize("attempt", range(8))
def test_a_delay_is_not_longer_than_its_try_stands_for(attempt):
    backoff = Backoff()
    assert backoff.delay(attempt) <= backoff.middle(attempt)


def test_there_are_as_many_delays_as_tries():
    assert len(list(Backoff(tries=5).delays())) == 5


def test_the_worst_case_is_known():
    assert worst(Backoff(first=1, longest=2, tries=3)) == 7.5

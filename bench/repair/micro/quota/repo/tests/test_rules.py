import pytest

from quota import Account, allowed, room_left


def test_a_small_file_is_allowed():
    assert allowed(Account("ann", limit=100, used=40), 10)


def test_a_file_that_is_too_large_is_not():
    assert not allowed(Account("ann", limit=100, used=40), 61)


def test_a_limit_may_be_used_to_the_last_byte():
    assert allowed(Account("ann", limit=100, used=40), 60)


def test_the_last_file_is_allowed_and_no_further_one():
    assert allowed(Account("ann", limit=100, files_limit=3, files=2), 1)
    assert not allowed(Account("ann", limit=100, files_limit=3, files=3), 1)


def test_room_is_never_negative():
    assert room_left(Account("ann", limit=10, used=15)) == 0


def test_sizes_are_not_negative():
    with pytest.raises(ValueError):
        allowed(Account("ann", limit=1), -1)

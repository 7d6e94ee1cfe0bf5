import pytest

from quota import Account, allowed, findings, room_left
from quota.rules import add


@pytest.mark.parametrize("limit", [0, 1, 5, 64])
def test_what_is_allowed_is_in_order_afterwards(limit):
    account = Account("ann", limit=limit)
    while add(account, 1):
        assert findings([account]) == []
    assert account.used == limit
    assert room_left(account) == 0


def test_an_empty_file_fits_a_full_account():
    assert allowed(Account("ann", limit=7, used=7), 0)


def test_one_byte_more_is_over():
    assert [f.bytes_over for f in findings([Account("ann", limit=7, used=8)])] == [1]


def test_files_at_their_limit_are_in_order():
    assert findings([Account("ann", limit=7, files_limit=2, files=2)]) == []

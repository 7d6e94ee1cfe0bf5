import pytest

from journal import Book, Rejected, read


@pytest.fixture
def book():
    return Book({"cash": 1000, "bank": 500, "rent": 0})


def test_money_moves(book):
    book.move("cash", "bank", 300)
    assert book.balances == {"cash": 700, "bank": 800, "rent": 0}


def test_nobody_spends_what_is_not_there(book):
    with pytest.raises(Rejected):
        book.move("rent", "cash", 1)


def test_a_batch_is_booked_whole(book):
    assert book.batch([("cash", "bank", 100), ("bank", "rent", 600)]) == 2
    assert book.balances == {"cash": 900, "bank": 0, "rent": 600}


def test_a_batch_with_a_rejected_entry_changes_nothing(book):
    with pytest.raises(Rejected):
        book.batch([("cash", "bank", 100), ("rent", "bank", 5)])
    assert book.balances == {"cash": 1000, "bank": 500, "rent": 0}


def test_a_rejected_batch_is_not_counted(book):
    with pytest.raises(Rejected):
        book.batch([("cash", "rent", 10), ("cash", "nowhere", 10)])
    assert book.booked == 0


def test_entries_are_read(book):
    assert read("# May\ncash -> rent: 7.25\n\n") == [("cash", "rent", 725)]


def test_a_line_that_is_no_entry_is_named():
    with pytest.raises(Rejected, match="line 2"):
        read("cash -> rent: 1\ncash rent 1")

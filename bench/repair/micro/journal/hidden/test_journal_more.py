import pytest

from journal import Book, Rejected


def test_a_book_can_be_used_after_a_rejected_batch():
    book = Book({"a": 10, "b": 0})
    with pytest.raises(Rejected):
        book.batch([("a", "b", 10), ("a", "b", 1)])
    assert book.batch([("a", "b", 4)]) == 1
    assert book.balances == {"a": 6, "b": 4}
    assert book.booked == 1


@pytest.mark.parametrize("bad", [("a", "b", 0), ("a", "x", 1), ("x", "b", 1), ("b", "a", 99)])
def test_every_reason_to_reject_takes_the_batch_back(bad):
    book = Book({"a": 10, "b": 0})
    with pytest.raises(Rejected):
        book.batch([("a", "b", 3), bad])
    assert (book.balances, book.booked) == ({"a": 10, "b": 0}, 0)


def test_money_is_never_made():
    book = Book({"a": 10, "b": 5})
    with pytest.raises(Rejected):
        book.batch([("a", "b", 7), ("b", "a", 100)])
    assert book.total() == 15

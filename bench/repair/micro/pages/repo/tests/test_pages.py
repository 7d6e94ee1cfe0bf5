import pytest

from pages import GAP, cut, links, page_count

LETTERS = list("abcdefghijklmnopqrstuvwxyz")


def test_a_page_in_the_middle_is_full():
    page = cut(LETTERS, 2, 10)
    assert page.items == list("klmnopqrst")
    assert (page.first, page.last) == (11, 20)


def test_the_last_page_holds_what_is_left():
    page = cut(LETTERS, 3, 10)
    assert page.items == list("uvwxyz")
    assert not page.has_next


def test_the_last_page_may_be_full():
    assert cut(LETTERS[:20], 2, 10).items == list("klmnopqrst")


def test_a_page_may_hold_everything():
    assert cut(["only"], 1).items == ["only"]


def test_numbers_beyond_the_ends_are_moved_inside():
    assert cut(LETTERS, 0, 5).number == 1
    assert cut(LETTERS, 99, 5).number == 6


def test_an_empty_list_has_one_empty_page():
    page = cut([], 1)
    assert (page.items, page.first, page.last, page.has_next) == ([], 0, 0, False)


def test_pages_are_counted():
    assert [page_count(n, 10) for n in (0, 1, 10, 11)] == [1, 1, 1, 2]
    with pytest.raises(ValueError):
        page_count(3, 0)


def test_links_leave_out_what_is_far_away():
    assert links(5, 9) == [1, GAP, 4, 5, 6, GAP, 9]
    assert links(1, 3) == [1, 2, 3]

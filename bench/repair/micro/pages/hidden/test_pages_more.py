import pytest

from pages import cut, page_count


@pytest.mark.parametrize("total", range(0, 23))
@pytest.mark.parametrize("size", [1, 3, 7])
def test_all_pages_together_are_the_list(total, size):
    items = list(range(total))
    pages = [cut(items, number, size) for number in range(1, page_count(total, size) + 1)]
    assert [item for page in pages for item in page.items] == items


def test_positions_and_items_agree():
    items = list(range(1, 18))
    for number in (1, 2, 3, 4):
        page = cut(items, number, 5)
        assert list(page.items) == list(range(page.first, page.last + 1))


def test_a_string_can_be_cut_too():
    assert cut("abcde", 2, 3).items == "de"

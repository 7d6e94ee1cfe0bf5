import pytest

from slugs import slug, unique


def test_words_are_joined():
    assert slug("Hello, World!") == "hello-world"


def test_umlauts_are_spelt_out():
    assert slug("Über uns & mehr") == "ueber-uns-mehr"


def test_accents_are_dropped():
    assert slug("Crème brûlée") == "creme-brulee"


def test_a_long_text_is_cut_between_words():
    assert slug("one two three", longest=9) == "one-two"


def test_nothing_is_no_slug():
    with pytest.raises(ValueError):
        slug("!!!")


def test_a_taken_slug_gets_a_number():
    assert unique("News", {"news", "news-2"}) == "news-3"

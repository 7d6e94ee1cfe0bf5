from slugs import slug, unique


def test_a_long_word_is_cut_inside():
    assert slug("a" * 80) == "a" * 60


def test_a_free_slug_stays_as_it_is():
    assert unique("News", set()) == "news"

import pytest

from tally import Counter, count


def test_the_most_votes_win():
    result = count(Counter(), ["ada", "bob"], ["ada", "bob", "ada"])
    assert result.winner == "ada"
    assert result.counts == {"ada": 2, "bob": 1}


def test_a_tie_has_no_winner():
    assert count(Counter(), ["ada", "bob"], ["ada", "bob"]).winner is None


def test_unknown_names_are_invalid():
    result = count(Counter(), ["ada"], ["ada", "eve", ""])
    assert (result.invalid, result.turnout) == (2, 3)


def test_each_ballot_counts_its_own_invalid_votes():
    counter = Counter()
    count(counter, ["ada"], ["eve", "eve"])
    second = count(counter, ["bob"], ["bob", "eve"])
    assert second.invalid == 1


def test_each_ballot_has_its_own_turnout():
    counter = Counter()
    assert count(counter, ["ada"], ["x"]).turnout == 1
    assert count(counter, ["ada"], ["ada"]).turnout == 1


def test_a_ballot_is_closed_before_the_next_begins():
    counter = Counter()
    counter.begin(["ada"])
    with pytest.raises(RuntimeError):
        counter.begin(["bob"])


def test_nobody_votes_without_a_ballot():
    with pytest.raises(RuntimeError):
        Counter().vote("ada")

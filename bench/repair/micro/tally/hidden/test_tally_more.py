from tally import Counter, count


def test_ten_ballots_in_a_row_do_not_know_each_other():
    counter = Counter()
    results = [count(counter, ["ada", "bob"], ["ada", "who", *["bob"] * n]) for n in range(10)]
    assert [r.invalid for r in results] == [1] * 10
    assert [r.turnout for r in results] == [n + 2 for n in range(10)]


def test_a_result_keeps_its_figures_when_the_counter_goes_on():
    counter = Counter()
    first = count(counter, ["ada"], ["x", "ada"])
    count(counter, ["ada"], ["y", "z"])
    assert (first.counts, first.invalid) == ({"ada": 1}, 1)


def test_invalid_votes_of_one_ballot_add_up():
    counter = Counter()
    counter.begin(["ada"])
    assert [counter.vote(name) for name in ("x", " ada ", "y")] == [False, True, False]
    assert counter.close().invalid == 2

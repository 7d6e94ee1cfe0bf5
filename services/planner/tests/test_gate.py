"""The pure parts of code repair: what counts as the same change, how places move, what is told, which choice is weak."""

import pytest

from autopatch.contract.code import Place, Report
from autopatch.repair.ranking import Survivor
from services.planner.adapters.gate.candidate import Candidate, Changes, Tried, key_of
from services.planner.adapters.gate.case import first_change, moved
from services.planner.adapters.gate.choosing import weakness
from services.planner.adapters.gate.tally import KEPT, Tally, lines
from services.planner.adapters.synthesis.prompting import Size
from services.planner.adapters.synthesis.templates import BATCH, _batches
from services.planner.settings import Settings

PLACE = Place(path="a.py", name="f", start=10, end=20, score=0.5, lines={12: 0.5, 18: 0.25})


def candidate(number: int = 0, **changes: bytes) -> Candidate:
    return Candidate(f"t{number}", changes or {"a.py": b"x = 1\n"}, "template", "swap", "one edit")


def tried(failing: set[str], number: int = 0, why: str = "it failed") -> Tried:
    return Tried(candidate(number), Report(ended="finished"), frozenset(failing), why)


@pytest.mark.parametrize(("one", "other", "same"), [
    ({"a.py": b"x = 1\n"}, {"a.py": b"x  =  1  # one\n\n"}, True),
    ({"a.py": b"x = 1\n"}, {"a.py": b"x = 2\n"}, False),
    ({"a.py": b"x = 1\n"}, {"b.py": b"x = 1\n"}, False),
    ({"a.js": b"x = 1\n"}, {"a.js": b"x  = 1\n"}, False),
    ({"a.py": b"def"}, {"a.py": b"def"}, True),
    ({"a.py": b"def"}, {"a.py": b"def "}, False),
    ({"a.py": None}, {"a.py": b""}, False),
    ({"a.py": b"\0"}, {"a.py": b"\0"}, True),
])
def test_changes_are_the_same_when_their_python_means_the_same(one: Changes, other: Changes, same: bool) -> None:
    assert (key_of(one) == key_of(other)) is same


@pytest.mark.parametrize(("before", "after", "start", "end", "on"), [
    (30, b"", 10, 20, {12, 18}),
    (5, b"new\n", 11, 21, {13, 19}),
    (15, b"new\n", 10, 21, {12, 19}),
    (25, b"new\n", 10, 20, {12, 18}),
])
def test_a_place_moves_with_lines_that_are_added_before_it_and_grows_with_those_inside(
    before: int, after: bytes, start: int, end: int, on: set[int]
) -> None:
    old = [b"line %d\n" % n for n in range(1, 31)]
    new = b"".join(old[:before]) + after + b"".join(old[before:])
    found = moved(PLACE, b"".join(old), new)
    assert (found.start, found.end, set(found.lines)) == (start, end, on)


def test_a_place_in_a_file_that_was_emptied_stays_a_place() -> None:
    assert moved(PLACE, b"x\n" * 30, b"").start >= 1
    assert first_change(b"a\nb\n", b"a\nc\n") == 2 and first_change(b"a\n", b"a\nb\n") == 2 and first_change(b"", b"") == 1


def survivor(name: str, prints: tuple[str, ...] = (), lifted: bool = False) -> Survivor:
    return Survivor(id=name, changes=(), description=name, origin="template", prior=0.5, fingerprint=prints, lifted=lifted)


@pytest.mark.parametrize(("order", "weak"), [
    ((survivor("a"),), ""),
    ((survivor("a", lifted=True),), "constants"),
    ((survivor("a", ("1", "2")), survivor("b", ("1", "2"))), ""),
    ((survivor("a", ("1", "2")), survivor("b", ("1", "3"))), "disagree"),
    ((survivor("a", ("1",)), survivor("b")), "disagree"),
    ((survivor("a"), survivor("b")), "nothing tells them apart"),
    ((survivor("a", ("1",)), survivor("b", ("1",), lifted=True)), ""),
])
def test_a_choice_is_weak_when_nothing_but_the_visible_tests_speaks_for_it(order: tuple[Survivor, ...], weak: str) -> None:
    assert weak in weakness(order) and bool(weakness(order)) is bool(weak)


def test_batches_grow_and_are_cut_where_files_are_large() -> None:
    sizes = [len(batch) for batch in _batches(iter([candidate(n) for n in range(BATCH * 9)]))]
    assert sizes == [BATCH, BATCH, BATCH * 2, BATCH * 4, BATCH]
    large = [Candidate(f"t{n}", {"a.py": b"x" * 3_000_000}, "template", "swap", "d") for n in range(5)]
    assert [len(batch) for batch in _batches(iter(large))] == [2, 2, 1]


def test_what_came_nearest_is_told_with_counts() -> None:
    tally = Tally(3, lessons=1, templates=214, seconds=7.9, answers=4, unreadable=1, repeats=2)
    assert tally.sift([tried(set())]) == [] and tally.broke == 1
    tally.saw([tried({"t::a", "t::b"}), tried({"t::a"}, 1), tried({"t::b"}, 2)])
    tally.notes += ["the budget is spent"] * 2
    assert tally.told("qwen") == (
        "1 proven lesson, 214 single edits in 8 s, 4 answers of qwen (1 could not be applied, 2 repeated what was tried); "
        "1 healed the failing tests and broke others; the best left 1 (t::a) of 3 failing. the budget is spent"
    )
    assert tally.best and tally.best.candidate.id == "t1"
    assert Tally(1).told("m") == "nothing could be tried"


def test_a_candidate_that_heals_nothing_is_no_ground_to_go_on_from() -> None:
    tally = Tally(1)
    tally.saw([tried({"t::a"}), tried(set())])
    assert tally.best is None


def test_a_span_tells_so_many_alternatives_and_how_many_more_there_were() -> None:
    tally = Tally(1)
    for number in range(KEPT + 7):
        tally.reject(candidate(number), "it failed")
    told = lines(tally.rejected)
    assert len(told) == KEPT + 1 and told[-1] == "and 7 more" and told[0] == "template swap: one edit: it failed"


def test_a_local_model_has_short_prompts_and_answers_and_a_remote_one_lines() -> None:
    local = Settings.model_validate({"llm": {"mode": "local"}})
    assert Size.of(local) == Size(1500, 300, None)
    remote = Settings.model_validate({"llm": {"mode": "remote", "base_url": "http://x/v1", "model": "m"}})
    assert Size.of(remote).lines == 400 and Size.of(remote).prompt_tokens > 1500

"""Causes as data, and the confidence that is computed from them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.contract.errors import OperatorError
from autopatch.contract.evidence import Similar, TargetState
from autopatch.contract.requests import RunbookPlan
from services.diagnosis.causes import CAP, load, rank
from services.diagnosis.facts import Change, Facts, Health, Pattern, Raised, Saturation, Shift
from services.diagnosis.service import CAUSES
from services.diagnosis.tests.given import T0

RULES = load(CAUSES)
NOTHING = Facts("app", "latency", T0, TargetState(target="app", at=T0, running=True))
FULL = Saturation("app_pool_in_use of app_pool_size", "q", 1.0, 0.5)
SAID = Pattern("could not acquire a connection from the pool within <amount>", 40, 0, "new", True, "x")
WAITS = Shift("app_pool_waiting", "q", "", "", 0, 9, T0, "up", 1.0, 1.0)
RELEASED = Change("release", "release 2 was started", T0, 20, 0.95)
ERRORS = Shift("errors", "q", "", "guard", 0, 0.4, T0, "up", 1.0, 1.0)
SLOWER = Shift("latency", "q", "s", "check", 0.1, 2, T0, "up", 1.0, 1.0)
RAISED = Raised("IndexError: list index out of range", "shop/totals.py", 17, "last_of", False, 40, 0, "new")
Piece = dict[str, Any]
PIECES: list[Piece] = [
    {"saturations": (FULL,)}, {"patterns": (SAID,)}, {"shifts": (WAITS,)}, {"changes": (RELEASED,)}, {"shifts": (ERRORS, SLOWER)},
    {"health": Health("u", False, "HTTP 503")}, {"raised": (RAISED,)},
]


def confidence(facts: Facts, cause: str) -> float:
    return next((r.confidence for r in rank(facts, RULES) if r.rule.id == cause), 0.0)


def with_pieces(*pieces: Piece) -> Facts:
    facts = NOTHING
    for piece in pieces:
        for name, value in piece.items():
            more: dict[str, Any] = {name: (*getattr(facts, name), *value) if isinstance(value, tuple) else value}
            facts = replace(facts, **more)
    return facts


def test_the_known_causes_are_there() -> None:
    assert {r.id for r in RULES} >= {
        "pool_exhausted", "bad_release", "config_change", "dependency_down", "overload", "memory", "disk_full",
        "certificate_expired",
    }


def test_nothing_seen_is_no_cause() -> None:
    assert rank(NOTHING, RULES) == ()


@given(st.lists(st.sampled_from(PIECES), unique_by=id))
def test_confidence_stays_between_zero_and_the_cap(pieces: list[Piece]) -> None:
    assert all(0 <= r.confidence <= CAP for r in rank(with_pieces(*pieces), RULES))


@given(st.permutations(PIECES))
def test_the_order_in_which_facts_come_does_not_matter(pieces: list[Piece]) -> None:
    one, other = rank(with_pieces(*pieces), RULES), rank(with_pieces(*PIECES), RULES)
    assert [(r.rule.id, r.confidence) for r in one] == [(r.rule.id, r.confidence) for r in other]


def test_each_sign_of_a_full_pool_makes_it_surer() -> None:
    seen = [confidence(with_pieces(*PIECES[:n]), "pool_exhausted") for n in (1, 2, 3)]
    assert seen[0] == 0.6 and seen[0] < seen[1] < seen[2] + 1e-9


def test_a_release_alone_is_not_to_blame() -> None:
    assert confidence(with_pieces({"changes": (RELEASED,)}), "bad_release") == 0.0


def test_a_full_pool_clears_the_release() -> None:
    guilty = with_pieces({"changes": (RELEASED,)}, {"shifts": (ERRORS,)})
    assert confidence(guilty, "bad_release") > 0.7
    assert confidence(replace(guilty, saturations=(FULL,), patterns=(SAID,)), "bad_release") < 0.2


def test_a_runbook_for_the_alert_is_shared_among_the_causes_that_it_names() -> None:
    def book(cause: str) -> RunbookPlan:
        return RunbookPlan(name=cause, title=cause, causes=(cause,), alerts=("Broken",), actions=())

    assert confidence(replace(NOTHING, runbooks={"memory": book("memory")}), "memory") == 0.5
    two = replace(NOTHING, runbooks={"memory": book("memory"), "overload": book("overload")})
    assert confidence(two, "memory") == 0.25


def test_a_similar_incident_speaks_for_its_cause_only_where_something_else_does() -> None:
    past = Similar(id="i9", kind="incident", title="t", text="Cause pool_exhausted (0.90): too small", score=1)
    assert rank(replace(NOTHING, similar=(past,)), RULES) == ()
    assert confidence(replace(NOTHING, similar=(past,), saturations=(FULL,)), "pool_exhausted") > 0.6


@pytest.mark.parametrize(("text", "said"), [
    ("id: x\nsummary: s\nsigns: {a: {weight: 2, change: [code]}}\nneeds: [[a]]", "signs.a.weight"),
    ("id: x\nsummary: s\nsigns: {a: {weight: 0.5}}\nneeds: [[a]]", "exactly one of"),
    ("id: x\nsummary: s\nsigns: {a: {weight: 0.5, change: [code]}}\nneeds: [[b]]", "'b'"),
    ("id: x\nsummary: s\nsigns: {a: {weight: 0.5, log: {any: ['(']}}}\nneeds: [[a]]", "x.yaml"),
    ("id: [", "x.yaml"),
    ("id: x\nsummary: s\nsurprise: 1\nsigns: {a: {weight: 0.5, change: [code]}}\nneeds: [[a]]", "surprise"),
])
def test_a_mistake_in_a_cause_names_file_and_field(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(OperatorError) as caught:
        load(tmp_path)
    assert said in str(caught.value) and "x.yaml" in str(caught.value)


@pytest.mark.parametrize(("besides", "first"), [
    ({}, "code_fault"), ({"changes": (RELEASED,)}, "bad_release"),
    ({"saturations": (FULL,), "patterns": (SAID,)}, "pool_exhausted"),
])
def test_an_exception_of_its_own_code_is_the_cause_unless_something_else_explains_it(besides: Piece, first: str) -> None:
    facts = with_pieces({"raised": (RAISED,), "shifts": (ERRORS,)}, besides)
    ranked = rank(facts, RULES)
    assert ranked[0].rule.id == first and "code_fault" in [r.rule.id for r in ranked]
    assert len(ranked) == 1 or ranked[0].confidence > ranked[1].confidence + 0.15, "a model would be asked which"
    assert "raised:shop/totals.py:17" in next(r.facts for r in ranked if r.rule.id == "code_fault")


@pytest.mark.parametrize("changed", [
    {"error": "psycopg.OperationalError: connection failed"}, {"error": "socket.gaierror: Name or service not known"},
    {"error": "MemoryError"}, {"error": "ConnectionResetError: [Errno 104]"}, {"error": "OSError: [Errno 28] No space left"},
    {"error": "Error: connect ECONNREFUSED 10.0.0.1:5432"},
])
def test_what_the_world_around_it_raises_is_no_fault_of_the_code(changed: Piece) -> None:
    assert confidence(with_pieces({"raised": (replace(RAISED, **changed),), "shifts": (ERRORS,)}), "code_fault") == 0.0


@pytest.mark.parametrize("changed", [{"count": 1}, {"before": None}, {"before": 9, "novelty": "grown"}, {"foreign": True}])
def test_a_single_one_one_of_foreign_code_and_one_with_an_unknown_past_say_less(changed: Piece) -> None:
    less, full = with_pieces({"raised": (replace(RAISED, **changed),)}), with_pieces({"raised": (RAISED,)})
    assert 0 < confidence(less, "code_fault") < confidence(full, "code_fault")
    assert confidence(with_pieces({"raised": (replace(RAISED, count=1),)}), "code_fault") < 0.5

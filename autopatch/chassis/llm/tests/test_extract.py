import json
import time
from contextlib import suppress
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from autopatch.chassis.llm.errors import Unreadable
from autopatch.chassis.llm.extract import extract


class Step(BaseModel):
    id: Literal["a", "b"]
    why: str
    score: int = Field(default=0, ge=0, le=100)


class Answer(BaseModel):
    steps: list[Step] = Field(min_length=1)
    summary: str
    limit: float | None = None


class Lenient(BaseModel):
    note: str = ""
    size: int = 0


steps = st.builds(Step, id=st.sampled_from(["a", "b"]), why=st.text(max_size=30), score=st.integers(0, 100))
answers = st.builds(
    Answer,
    steps=st.lists(steps, min_size=1, max_size=4),
    summary=st.text(max_size=60),
    limit=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
chatter = st.text(alphabet=st.characters(exclude_characters='{}<>"', exclude_categories=["Cs"]), max_size=40)
wraps = st.sampled_from(
    [
        "{}",
        "```json\n{}\n```",
        "```\n{}\n```",
        "{}\n\n\n\n",
        '<think>maybe {{"steps": 1}} no</think>{}',
        "the set {{a, b}} gives {}",
    ]
)


@given(answers, wraps, chatter, chatter)
def test_an_answer_is_read_however_it_is_wrapped(answer: Answer, wrap: str, before: str, after: str) -> None:
    said = before + wrap.format(answer.model_dump_json()) + after
    assert extract(said, Answer) == answer


@given(answers, st.data())
def test_a_reply_cut_off_anywhere_yields_only_what_was_said_whole(answer: Answer, data: st.DataObject) -> None:
    whole = answer.model_dump_json(indent=data.draw(st.sampled_from([None, 2])))
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        read = extract(cut, Answer)
    except Unreadable:
        return
    assert {"steps", "summary"} <= read.model_fields_set
    assert read.summary == answer.summary
    assert read.steps == answer.steps[: len(read.steps)]
    if "limit" in read.model_fields_set:
        assert read.limit == answer.limit


@given(answers, st.sampled_from(["steps", "summary"]))
def test_a_required_field_is_never_made_up(answer: Answer, missing: str) -> None:
    said = answer.model_dump(mode="json", exclude={missing})
    with pytest.raises(Unreadable, match=missing):
        extract(json.dumps(said), Answer)


@given(st.text(max_size=200))
def test_any_text_is_an_answer_or_unreadable_and_nothing_else(text: str) -> None:
    with suppress(Unreadable):
        assert isinstance(extract(text, Answer), Answer)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_json_is_an_answer_or_unreadable_and_nothing_else(value: Any) -> None:
    with suppress(Unreadable):
        assert isinstance(extract(json.dumps({"steps": value, "summary": value}), Answer), Answer)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "no JSON object"),
        ("I cannot help with that.", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('{"note": "a"} or rather {"note": "b"}', "several different"),
        ('{"note": "a", "note": "b"}', "twice"),
        ('{"size": NaN}', "not JSON"),
        ('{"other": 1}', "none of the wanted fields"),
        ("{}", "none of the wanted fields"),
        ('{"note": "half of a sen', "no JSON object"),
        ('{"size": 12', "no JSON object"),
        ('{"x": {"note": "inner"},,}', "not JSON"),
        ('{"note": ]}', "not JSON"),
        ('{"note":' + '{"a":' * 10_000, "no JSON object"),
        ('{"note":' + "[" * 30_000 + "]" * 30_000 + "}", "nested too deeply"),
        ('{"note": "' + "x" * 70_000 + '"}', "longer than"),
    ],
)
def test_what_is_not_one_answer_is_refused(said: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        extract(said, Lenient)


def test_the_same_answer_twice_is_one_answer() -> None:
    assert extract('{"note": "a"} so: {"note": "a", "size": 0}', Lenient).note == "a"


def test_a_number_that_may_have_been_cut_is_dropped() -> None:
    assert extract('{"note": "a", "size": 12', Lenient) == Lenient(note="a")


def test_a_line_break_inside_a_string_is_forgiven() -> None:
    assert extract('{"note": "two\nlines"}', Lenient).note == "two\nlines"


def test_the_fault_names_the_field_and_not_the_value() -> None:
    with pytest.raises(Unreadable) as caught:
        extract('{"steps": [{"id": "hunter2", "why": "x"}], "summary": "s"}', Answer)
    assert "steps.0.id" in str(caught.value) and "hunter2" not in str(caught.value)


@pytest.mark.parametrize("filler", ["1,", "[", "[1,", '{"a":', '"', '\\"', "{", "}", '{"a":1}', "```"])
def test_no_reply_takes_long_to_refuse(filler: str) -> None:
    began = time.process_time()
    with pytest.raises(Unreadable):
        extract(('{"x":[' + filler * 60_000)[:65_000], Answer)
    assert time.process_time() - began < 2

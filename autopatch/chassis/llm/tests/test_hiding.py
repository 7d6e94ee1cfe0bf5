"""Secrets in code that a model is shown, and markers that it copies."""

from autopatch.chassis.llm.fence import fenced, unmarked
from autopatch.chassis.llm.hiding import Hidden, left_over

SECRET = "AKIA" + "IOSFODNN7EXAMPLX"


def test_a_secret_in_code_is_hidden_and_can_be_put_back() -> None:
    code = f'def login():\n    return connect("{SECRET}", retries=0) or connect("{SECRET}")\n'
    hidden = Hidden.of(code)
    assert SECRET not in hidden.text and [secret for _, secret in hidden.secrets] == [SECRET]
    assert hidden.restored(hidden.text) == code
    assert Hidden.of("x = 1\n") == Hidden("x = 1\n")


def test_a_placeholder_that_was_not_there_before_is_noticed() -> None:
    shown = Hidden.of(f'key = "{SECRET}"').text
    assert left_over(f'key = "{SECRET}"', shown) and not left_over(shown, shown) and not left_over("a", "b")


def test_markers_that_were_copied_go_and_stand_for_a_code_block_where_there_is_none() -> None:
    assert unmarked(fenced("code", "x = 1")) == "```\nx = 1\n```"
    assert unmarked(fenced("code", "```python\nx = 1\n```")) == "\n```python\nx = 1\n```\n"
    assert unmarked("a[[0]] = 1\nsee [[untrusted x]] here") == "a[[0]] = 1\nsee [[untrusted x]] here"

"""YAML of an operator: whatever is written, it is values or one clear error."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.chassis.yaml_text import parsed
from autopatch.contract.errors import OperatorError


def test_values_are_plain_and_with_lines_on_request() -> None:
    assert parsed("a: [1, x]\n", "f.yaml") == {"a": [1, "x"]}
    assert parsed("a: 1\nb: 2\n", "f.yaml", kind="rt").lc.key("b")[0] == 1


@pytest.mark.parametrize(("text", "told"), [
    ("a: 1\nb: [", "f.yaml:2: not YAML"), ("a: b: c", "f.yaml:1: not YAML"), ("a: 2026-02-30", "f.yaml: not YAML"),
    ("a: " + "9" * 5000, "f.yaml: not YAML"), ("[" * 1000, "f.yaml: not YAML"), ("a: !!int ''", "f.yaml: not YAML"),
    ("!!bool x", "f.yaml: not YAML"), ("a: \0", "f.yaml: not YAML"), ("x: !!omap\n  - {a: 1}\n  - {a: 1}", "f.yaml: not YAML"),
    ("a: !!timestamp |\n  1\n  2\n", "f.yaml:1: not YAML"),
])
@pytest.mark.parametrize("kind", ["safe", "rt"])
def test_what_is_none_is_told_with_file_and_line(kind: str, text: str, told: str) -> None:
    if (kind, text) == ("rt", "!!bool x"):
        return  # with line numbers a scalar of an unfitting type is kept as it is
    with pytest.raises(OperatorError) as raised:
        parsed(text, "f.yaml", kind=kind)  # type: ignore[arg-type]
    assert str(raised.value).startswith(told) and "\n" not in str(raised.value)


def test_of_a_name_that_is_there_twice_neither_value_is_told() -> None:
    with pytest.raises(OperatorError) as raised:
        parsed("a: hunter2\na: swordfish\n", "f.yaml")
    assert "hunter2" not in str(raised.value) and "swordfish" not in str(raised.value)


@given(st.text(alphabet="!<>?:-[]{}&*#|,'\" \nab01.x_%@tinfloatbools", max_size=40))
def test_no_text_ends_in_another_error(text: str) -> None:
    for kind in ("safe", "rt"):
        with suppress(OperatorError):
            parsed(text, "f.yaml", kind=kind)

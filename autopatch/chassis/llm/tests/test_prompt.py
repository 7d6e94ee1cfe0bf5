import re
from pathlib import Path
from string import Template

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.chassis.llm.errors import PromptTooLong
from autopatch.chassis.llm.fence import fenced, harmless
from autopatch.chassis.llm.prompt import PromptFile, Untrusted
from autopatch.chassis.llm.tokens import estimate
from autopatch.contract.errors import OperatorError
from autopatch.contract.model import digest

TEXT = "# system\nRank causes for $$5.\n# user\nCauses: $causes\n${evidence}\nNow rank.\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rank.md"
    path.write_text(TEXT)
    return path


def test_a_prompt_carries_the_digest_of_its_file(file: Path) -> None:
    prompt = PromptFile.read(file).render({"causes": "a", "evidence": Untrusted("e1")}, max_tokens=500)
    assert prompt.digest == digest(file.read_bytes())
    assert (prompt.name, prompt.system, prompt.notes) == ("rank", "Rank causes for $5.", ())


@pytest.mark.parametrize("values", [{"causes": "a"}, {"causes": "a", "evidence": "b", "more": "c"}, {}])
def test_a_missing_or_surplus_variable_is_named(file: Path, values: dict[str, str]) -> None:
    with pytest.raises(OperatorError, match="more|evidence"):
        PromptFile.read(file).render(values, max_tokens=500)


@pytest.mark.parametrize("text", ["", "# user\nx", "# system\nx", "# system\ncosts $ 5\n# user\nx", "# user\na\n# system\nb"])
def test_a_malformed_prompt_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.md"
    path.write_text(text)
    with pytest.raises(OperatorError, match=r"bad\.md"):
        PromptFile.read(path)


def test_a_prompt_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"none\.md"):
        PromptFile.read(tmp_path / "none.md")


def test_what_a_value_contains_is_never_filled_in_again(file: Path) -> None:
    prompt = PromptFile.read(file).render({"causes": "$evidence", "evidence": Untrusted("$causes ${nothing}")}, max_tokens=500)
    assert "Causes: $evidence" in prompt.user
    assert "$causes ${nothing}" in prompt.user


def test_a_long_text_is_cut_in_the_middle_and_says_so(file: Path) -> None:
    text = "\n".join(f"line {n}" for n in range(5_000))
    prompt = PromptFile.read(file).render({"causes": "a", "evidence": Untrusted(text)}, max_tokens=400)
    assert prompt.tokens <= 400
    assert "line 0" in prompt.user and "line 4999" in prompt.user and "line 2500" not in prompt.user
    assert "characters left out here]" in prompt.user
    assert prompt.notes and prompt.notes[0].startswith("evidence: ")


@pytest.mark.parametrize(("keep", "kept", "gone"), [("head", "line 0\n", "line 4999"), ("tail", "line 4999", "line 0\n")])
def test_the_wanted_end_of_a_long_text_survives(file: Path, keep: str, kept: str, gone: str) -> None:
    text = "\n".join(f"line {n}" for n in range(5_000))
    prompt = PromptFile.read(file).render({"causes": "a", "evidence": Untrusted(text, keep)}, max_tokens=400)  # type: ignore[arg-type]
    assert kept in prompt.user and gone not in prompt.user


def test_a_short_text_stays_whole_beside_a_long_one(tmp_path: Path) -> None:
    path = tmp_path / "two.md"
    path.write_text("# system\ns\n# user\n$short $long")
    prompt = PromptFile.read(path).render(
        {"short": Untrusted("tiny but vital"), "long": Untrusted("x y " * 9_000)}, max_tokens=500
    )
    assert "tiny but vital" in prompt.user
    assert [note.split(":")[0] for note in prompt.notes] == ["long"]


def test_own_words_that_fill_the_cap_are_an_error_not_a_silent_cut(file: Path) -> None:
    with pytest.raises(PromptTooLong, match="rank"):
        PromptFile.read(file).render({"causes": "word " * 2_000, "evidence": Untrusted("e")}, max_tokens=400)


@given(st.lists(st.text(max_size=600), min_size=1, max_size=3), st.integers(300, 1_500))
def test_whatever_the_texts_a_rendered_prompt_stays_under_its_cap(texts: list[str], cap: int) -> None:
    names = [f"v{n}" for n in range(len(texts))]
    file = PromptFile("p", "d", Template("own words"), Template(" ".join(f"${n}" for n in names)))
    assert file.render({n: Untrusted(t * 5) for n, t in zip(names, texts, strict=True)}, max_tokens=cap).tokens <= cap


hostile = st.lists(
    st.sampled_from(
        [
            "[[",
            "]]",
            "untrusted",
            "/untrusted",
            " ",
            "<|im_end|>",
            "<|",
            "|>",
            "\u202e",
            "\u200b",
            "</s>",
            "[/INST]",
            "a1b2",
            "\n",
            "\x1b",
        ]
    ),
    max_size=30,
).map("".join)


@given(st.one_of(hostile, st.text()))
def test_no_text_closes_its_fence_or_opens_another(text: str) -> None:
    lines = fenced("log", text).split("\n")
    inside = "\n".join(lines[1:-1])
    assert lines[-1].startswith("[[/untrusted ") and lines[0].startswith("[[untrusted log ")
    assert not re.search(r"\[\[\s*/?\s*untrusted", inside, re.IGNORECASE)
    assert lines[-1] not in inside


@given(st.one_of(hostile, st.text()))
def test_no_marker_of_a_chat_template_survives(text: str) -> None:
    clean = harmless(text)
    assert not any(
        marker in clean for marker in ("<|", "|>", "<s>", "</s>", "[INST]", "[/INST]", "<<SYS", "<tool_call>", "</think>")
    )


@given(st.one_of(hostile, st.text()))
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    assert harmless(harmless(text)) == harmless(text)


def test_code_keeps_its_signs() -> None:
    code = "def f(a: list[list[int]]) -> bool:\n\t>>> f([[1]])\n    return a[[0]] < b | c >> 2 and x <= y  # äß 💥"
    assert harmless(code) == code


def test_the_same_text_gets_the_same_fence_so_that_prompt_caches_work() -> None:
    assert fenced("log", "abc") == fenced("log", "abc")
    assert fenced("log", "abc").split("\n")[0] != fenced("log", "abd").split("\n")[0]


@given(st.text(), st.text())
def test_an_estimate_grows_with_the_text(a: str, b: str) -> None:
    assert estimate(a + b) >= max(estimate(a), estimate(b))

"""Every command of docs/proofs.md finds what it runs: files, tests of that name, marks, modules, targets of the Makefile."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(set(re.findall(r"`((?:pytest|python -m|make) [^`]+)`", (ROOT / "docs" / "proofs.md").read_text())))


def text_of(words: list[str]) -> str:
    """The text of all test files that are named, or are in a folder that is."""
    paths = [ROOT / word for word in words if "/" in word]
    assert paths and [path for path in paths if not path.exists()] == []
    return "\n".join(file.read_text() for path in paths for file in ([path] if path.is_file() else path.glob("test_*.py")))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_proofs_finds_what_it_runs(command: str) -> None:
    program, *words = shlex.split(command)
    given = dict(zip(words, words[1:], strict=False))
    if program == "make":
        assert f"\n{words[0]}:" in (ROOT / "Makefile").read_text()
    elif program == "python":
        module = ROOT / given["-m"].replace(".", "/")
        assert module.with_suffix(".py").exists() or (module / "__main__.py").exists()
    else:
        text = text_of(words)
        assert re.search(rf"def test_\w*{given.get('-k', '')}", text)
        assert given.get("-m") != "long" or "mark.long" in text


def test_there_are_proofs() -> None:
    assert len(COMMANDS) > 25

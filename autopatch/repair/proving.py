"""Files that prove something without a test's name: the test command names them, or the settings of its runner do."""

import configparser
import json
import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

from autopatch.repair.tree import PROVES, Files, Tree

_INI = ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg")
_TOML = ("pytest.toml", ".pytest.toml", "pyproject.toml")
_ROOTS = ("", "src/", "lib/", "test/", "tests/")
_PLUGINS = re.compile(r"^pytest_plugins\b[^=\n]*=\s*(\[[^\]]*\]|\([^)]*\)|[^\n]*)", re.M)
_QUOTED = re.compile(r"[\"']([\w.]+)[\"']")
_TEST = re.compile(r"^\s*(?:async\s+def|def|class)\s+test", re.M | re.I)


def for_repair(tree: Files, command: Sequence[str]) -> Files:
    """The snapshot, in which no repair changes what proves something when this command is run."""
    words = _words(tree, command)
    words += tuple(_settings(tree, "addopts"))
    proving = {*_named(tree, words), *_modules(tree, words), *_by_pattern(tree, words)}
    return Files(tree, tree.executable, {**tree.fixed, **dict.fromkeys(proving, PROVES)})


def _words(tree: Tree, command: Sequence[str]) -> tuple[str, ...]:
    """Of the command, of what a shell is given in it, and of the package's scripts that it runs."""
    words = tuple(part for word in command for part in _split(word))
    if not {"npm", "yarn", "pnpm"} & set(words):
        return words
    try:
        scripts = json.loads(tree["package.json"])["scripts"]
        return (*words, *(part for word in words for part in _split(str(scripts.get(word, "")))))
    except (ValueError, KeyError, TypeError, AttributeError):
        return words


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _settings(tree: Tree, name: str) -> Iterator[str]:
    """Words of a setting of pytest's, of all files that it might be in; of one that cannot be read every word counts."""
    for file in (*_INI, *_TOML):
        text = tree.get(file, b"").decode(errors="replace")
        try:
            yield from _values(tomllib.loads(text), name) if file in _TOML else _options(text, name)
        except (configparser.Error, tomllib.TOMLDecodeError):
            yield from _split(text)


def _options(text: str, name: str) -> Iterator[str]:
    reader = configparser.ConfigParser(interpolation=None, strict=False)
    reader.read_string(text)
    yield from (word for at, section in reader.items() if "pytest" in at for word in _split(section.get(name, "")))


def _values(table: dict[str, Any], name: str) -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict) and key in ("tool", "pytest", "ini_options"):
            yield from _values(value, name)
        elif key == name:
            yield from (word for text in (value if isinstance(value, list) else [value]) for word in _split(str(text)))


def _named(tree: Tree, words: Sequence[str]) -> Iterator[str]:
    """Scripts and test files, but not sources whose documentation holds the tests."""
    if not any("doctest" in word for word in words):
        yield from (path for word in words if (path := posixpath.normpath(word.partition("::")[0])) in tree)


def _modules(tree: Tree, words: Sequence[str]) -> Iterator[str]:
    """Modules that are run (-m), plug-ins (-p), what unittest is told, and plug-ins that test files name."""
    names = {after for word, after in pairwise(words) if word in ("-m", "-p")} | {word[2:] for word in words if word[:2] == "-p"}
    if "unittest" in words:
        names |= set(words[words.index("unittest") + 1:])
    for path, data in tree.items():
        if path.endswith(".py") and b"pytest_plugins" in data:
            for found in _PLUGINS.findall(data.decode(errors="replace")):
                names |= set(_QUOTED.findall(found))
    for name in names:
        parts = name.split(".")
        ways = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
        files = (f"{root}{way}{end}" for way in ways for root in _ROOTS for end in (".py", "/__main__.py", "/__init__.py"))
        yield from [file for file in files if file in tree][:1]


def _by_pattern(tree: Tree, words: Sequence[str]) -> Iterator[str]:
    """Files with tests whose names pytest's `python_files` or unittest's `-p` describe."""
    patterns = [*_settings(tree, "python_files"), *_given(words, "python_files")]
    if "unittest" in words:
        patterns += [*_given(words, "-p"), *_given(words, "--pattern")]
    for path, data in tree.items():
        known = path.endswith(".py") and any(fnmatchcase(posixpath.basename(path), pattern) for pattern in patterns)
        if known and _TEST.search(data.decode(errors="replace")):
            yield path


def _given(words: Iterable[str], name: str) -> Iterator[str]:
    """`name X` and `name=X`."""
    words = tuple(words)
    yield from (after for word, after in pairwise(words) if word == name)
    yield from (word.partition("=")[2] for word in words if word.startswith(f"{name}="))

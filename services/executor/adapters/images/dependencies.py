"""What a repository needs installed, by the files that say so, and whether an image has it. No input or output.

pip takes ready-made packages only from an index: what a URL or a path names it would build, by code of its own. So nothing but
names and versions is ever handed on to it.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeVar

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from autopatch.repair.tree import Tree

T = TypeVar("T")
GROUPS = ("test", "tests", "testing", "dev")
"""Extras and dependency groups that tests may need."""
_OTHER_PURPOSES = ("doc", "lint", "release", "bench", "deploy")
LIST = "import importlib.metadata as m, json; print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
"""A Python program that prints what is installed."""
_CONTINUED = re.compile(r"^(?:.*\\\n)+.*", re.M)
_FROM_ELSEWHERE = re.compile(r"^(?:-e ?|--editable[ =])(?=\S*:)")


@dataclass(frozen=True)
class Needs:
    """`files` go to where the installer runs; `lines` are requirements, or "npm"."""

    files: Mapping[str, bytes]
    lines: tuple[str, ...]


def python_needs(tree: Tree) -> Needs:
    """Of requirements files and pyproject.toml, what is for machines of this kind.

    Raises ValueError with the file's name for one that cannot be read, and with the line for what is no name with versions.
    """
    files = {path: data for path, data in tree.items() if _is_requirements(path)}
    lines = [line for path, data in sorted(files.items()) for line in _lines(path, data)]
    if "pyproject.toml" in tree:
        lines += [("pyproject.toml", line) for line in _of_project(tree["pyproject.toml"])]
    return only([needed for where, line in lines if (needed := _needed(where, line))])


def only(lines: Sequence[str]) -> Needs:
    """These requirements."""
    return Needs({"requirements.txt": "\n".join(lines).encode()}, tuple(dict.fromkeys(lines)))


def node_needs(tree: Tree) -> Needs:
    """Of package.json and its lock. Raises ValueError with the file's name for one that cannot be read."""
    files = {name: tree[name] for name in ("package.json", "package-lock.json", "npm-shrinkwrap.json") if name in tree}
    if "package.json" not in files:
        return Needs({}, ())
    try:
        package = json.loads(files["package.json"])
    except ValueError as error:
        raise ValueError(f"package.json: {error}") from error
    wanted = any(package.get(kind) for kind in ("dependencies", "devDependencies")) if isinstance(package, dict) else False
    return Needs(files, ("npm",) if wanted else ())


def lacking(needs: Needs, installed: Mapping[str, str]) -> list[str]:
    """Requirements that an image with these distributions does not meet."""
    known: dict[str, str] = {canonicalize_name(name): version for name, version in installed.items()}
    return [line for line in needs.lines if not _met(Requirement(line), known)]


def _met(requirement: Requirement, known: Mapping[str, str]) -> bool:
    version = known.get(canonicalize_name(requirement.name))
    return version is not None and not requirement.extras and requirement.specifier.contains(version, True)


def _needed(where: str, line: str) -> str:
    """The requirement as it was understood; '' for one that is for other machines."""
    try:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            return ""
        if requirement.url or "/" in str(requirement.specifier):
            raise InvalidRequirement(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{where}: {line[:200]!r} is no package's name with versions, and nothing else is installed") from None
    return str(requirement)


def _is_requirements(path: str) -> bool:
    name, folder = PurePosixPath(path).name.lower(), PurePosixPath(path).parent.as_posix()
    if not name.endswith(".txt") or any(purpose in name for purpose in _OTHER_PURPOSES):
        return False
    return (folder == "." and "requirements" in name) or folder == "requirements"


def _lines(path: str, data: bytes) -> Iterator[tuple[str, str]]:
    """Where each requirement stands, and itself.

    Without comments, hashes, options of the installer, files that are read anyway, and folders of the repository itself.
    """
    text = "\n".join(data.decode("utf-8-sig", "replace").splitlines())
    joined = _CONTINUED.sub(lambda lines: lines[0].replace("\\\n", " ") + "\n" * lines[0].count("\\\n"), text)
    for number, line in enumerate(joined.split("\n"), 1):
        line = _FROM_ELSEWHERE.sub("", " ".join(line.split())).split(" #")[0].split(" --")[0]
        if line and not line.startswith(("#", "-", ".")):
            yield f"{path}, line {number}", line


def _of_project(data: bytes) -> list[str]:
    try:
        said = tomllib.loads(data.decode())
    except ValueError as error:
        raise ValueError(f"pyproject.toml: {error}") from error
    except RecursionError:
        raise ValueError("pyproject.toml: nested too deeply") from None
    project = _at(said, "project", dict)
    extras, groups = _at(project, "project.optional-dependencies", dict), _at(said, "dependency-groups", dict)
    found = [*_at(project, "project.dependencies", list)]
    for group in GROUPS:
        found += _at(extras, f"project.optional-dependencies.{group}", list) + _at(groups, f"dependency-groups.{group}", list)
    return [line for line in found if isinstance(line, str) and not line.startswith(f"{project.get('name', '')}[")]


def _at(table: Mapping[str, Any], where: str, kind: type[T]) -> T:
    """What a table has under the last name of `where`; empty where nothing is."""
    value = table.get(where.rpartition(".")[2], kind())
    if not isinstance(value, kind):
        raise ValueError(f"pyproject.toml: {where} is no {'table' if kind is dict else 'list'}")
    return value

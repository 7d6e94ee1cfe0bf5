"""Target files: read, checked, and every mistake told with file, line, field and remedy."""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from autopatch.chassis.target_checks import Fault, Location, faults_of
from autopatch.chassis.yaml_text import parsed
from autopatch.contract.errors import OperatorError
from autopatch.contract.target import Target

_PATHS: tuple[Location, ...] = (
    ("prometheus", "bearer_token_file"), ("runtime", "pidfile"), ("runtime", "workdir"), ("runtime", "log"), ("repository",),
)
_SHOWN = 8


class FileTargets:
    """All targets of a folder, in the order of their names."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._targets = {target.name: target for target in sorted(targets, key=lambda t: t.name)}

    def get(self, name: str) -> Target | None:
        """The target of that name."""
        return self._targets.get(name)

    def all(self) -> Sequence[Target]:
        """In the order of their names."""
        return tuple(self._targets.values())

    def claimed_by(self, labels: dict[str, str]) -> Sequence[Target]:
        """Targets whose `match` labels all are on the alert."""
        return [target for target in self._targets.values() if target.claims(labels)]


def load_targets(folder: Path) -> FileTargets:
    """Every *.yaml and *.yml of a folder. Raises OperatorError; paths in the result are absolute."""
    tip = "set AUTOPATCH_TARGETS to the folder that holds one YAML file per target"
    try:
        files = sorted(f for f in folder.iterdir() if f.suffix in (".yaml", ".yml") and not f.name.startswith("."))
    except OSError as error:
        raise OperatorError(f"target folder {folder}: {error.strerror}", tip=tip) from error
    if not files:
        raise OperatorError(f"target folder {folder} holds no *.yaml file", tip=tip)
    loaded, faults = list[tuple[Path, Target]](), list[OperatorError]()
    for file in files:
        try:
            loaded.append((file, load_target(file)))
        except OperatorError as error:
            faults.append(error)
    if len(faults) > 1:
        raise OperatorError("\n".join(str(fault.args[0]) for fault in faults), tip=faults[0].tip)
    if faults:
        raise faults[0]
    for index, (file, target) in enumerate(loaded):
        for earlier, other in loaded[:index]:
            if target.name == other.name:
                raise OperatorError(
                    f"{file}: name: {target.name!r} is the name of {earlier} too", tip="give each target a name of its own"
                )
            if target.match == other.match:
                raise OperatorError(
                    f"{file}: match: the same labels as in {earlier}, so that no alert would belong to one target",
                    tip="add a label that tells the two apart",
                )
    return FileTargets(target for _, target in loaded)


def load_target(file: Path) -> Target:
    """One target file. Raises OperatorError with every mistake found, one a line."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"{file}: cannot be read: {error}") from error
    return _understood(file, file.absolute().parent, text)


@lru_cache(maxsize=64)
def _understood(file: Path, folder: Path, text: str) -> Target:
    """The same text is parsed once, however many rooms of this process read it."""
    marked, plain = _parse(file, text)
    try:
        target = Target.model_validate(plain)
    except ValidationError as error:
        found = [_explain(fault, plain) for fault in error.errors(include_url=False, include_input=False)]
    else:
        found = list(faults_of(target))
        if not found:
            return Target.model_validate(_absolute(plain, folder))
    lines = [f"{file}:{_line(marked, f.where)}: {_dotted(f.where)}: {f.what} ({f.remedy})" for f in found[:_SHOWN]]
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    raise OperatorError("\n".join(lines + more))


def _parse(file: Path, text: str) -> tuple[Any, dict[str, Any]]:
    """The document with line numbers, and the same as plain values."""
    marked, plain = parsed(text, str(file), kind="rt"), parsed(text, str(file))
    if not isinstance(plain, dict):
        raise OperatorError(
            f"{file}:1: a target file holds fields such as name, match and runtime", tip="docs/operating.md has an example"
        )
    return marked, plain


def _explain(error: Mapping[str, Any], plain: dict[str, Any]) -> Fault:
    """A validation error in words, with what to do about it."""
    where, what = tuple(error["loc"]), str(error["msg"]).removeprefix("Value error, ")
    match error["type"]:
        case "missing":
            return Fault(where, "is missing", f"add {where[-1]}")
        case "extra_forbidden":
            known = sorted({name for model in _models_at(where[:-1]) for name in model.model_fields})
            near = difflib.get_close_matches(str(where[-1]), known, n=1)
            return Fault(where, "unknown field", f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}")
        case "string_type":
            return Fault(where, "must be text", "put it in quotes")
        case "string_pattern_mismatch":
            return Fault(where, what, "small letters, digits and hyphens, at most 63")
        case "union_tag_not_found":
            return Fault((*where, "kind"), "is missing", "add kind: docker or kind: process")
        case _:
            return Fault(where, what[:1].lower() + what[1:], "correct this value")


def _models_at(where: Location) -> list[type[BaseModel]]:
    """The models whose fields may stand at a place; parts that are no field are indexes, keys, or the kind of a union."""
    models: list[type[BaseModel]] = [Target]
    for part in where:
        inner = [m.model_fields[str(part)].annotation for m in models if part in m.model_fields]
        if inner:
            models = [model for annotation in inner for model in _models_in(annotation)]
        else:
            models = [
                m for m in models if "kind" in m.model_fields and part in get_args(m.model_fields["kind"].annotation)
            ] or models
    return models


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _line(marked: Any, where: Location) -> int:
    """The line of the deepest part of `where` that the file holds; parts that it does not hold (a union's kind) are skipped."""
    line, node = 1, marked
    for part in where:
        if isinstance(node, CommentedMap) and part in node:
            line = node.lc.key(part)[0] + 1
        elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
            line = node.lc.item(part)[0] + 1
        else:
            continue
        node = node[part]
    return int(line)


def _dotted(where: Location) -> str:
    return ".".join(str(part) for part in where) or "target"


def _absolute(plain: dict[str, Any], base: Path) -> dict[str, Any]:
    """The same with paths that no longer depend on where anybody stands."""
    for *parents, field in [*_PATHS, *(("configs", i, "path") for i in range(len(plain.get("configs") or ())))]:
        node: Any = plain
        for part in parents:
            node = node.get(part, {}) if isinstance(node, dict) else node[part]
        if node.get(field) and "://" not in node[field]:
            node[field] = os.path.normpath(base / node[field])
    if plain["runtime"]["kind"] == "process":
        plain["runtime"].setdefault("workdir", str(base))
    return plain

"""Markdown with front matter, as people write it: checked. Files are read by `read_folder` only."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from autopatch.chassis.yaml_text import FAULTS, brief
from autopatch.contract.actions import Action, Scalar
from autopatch.contract.errors import OperatorError
from autopatch.contract.model import digest
from autopatch.contract.requests import RunbookPlan
from autopatch.contract.target import Strict
from services.knowledge.adapters.sources.attachments import Attach, Patching, attached, beside, sent
from services.knowledge.adapters.sources.sections import chunks, first_heading

SUFFIXES = (".md", ".markdown", ".txt", ".rst")
LARGEST = 1_000_000
LARGEST_FRONT = 20_000
_FRONT = re.compile(r"\A---[ \t]*\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_ACTION: TypeAdapter[Any] = TypeAdapter(Action)
PATCH_CODE = "patch_code"
_KINDS = {kind.model_fields["kind"].default: kind for kind in get_args(get_args(Action)[0])}
_ALONE = "{}: line {}: {}: code is patched alone, without other actions"
_OTHERS = "give the other actions a runbook of their own; the planner has both then"


class FrontMatter(Strict):
    """What a runbook says about itself. `service`: a target's name, or the value of a label by which it claims alerts; `any`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    title: str = ""
    alert: tuple[str, ...] = ()
    service: str = ""
    target: str = Field(default="", description="only this target's searches find it")
    severity: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    actions: tuple[dict[str, Scalar], ...] = ()
    patch_code: Patching | None = Field(default=None, description="the action patch_code, with tests that show the fault")

    @field_validator("alert", "causes", "tags", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


@dataclass(frozen=True)
class Document:
    """A file read. `runbook` is None for a text without front matter."""

    source: str
    title: str
    digest: str
    target: str
    chunks: tuple[str, ...]
    runbook: RunbookPlan | None

    @property
    def kind(self) -> str:
        """runbook or document."""
        return "runbook" if self.runbook else "document"


def read(source: str, text: str, attach: Attach | None = None) -> Document:
    """`attach` gives the texts of attached tests; without it there are none. Raises OperatorError: file, line and field."""
    if len(text) > LARGEST:
        raise OperatorError(f"{source}: {len(text):,} characters, more than {LARGEST:,}", tip="cut it into several files")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    front = _FRONT.match(text)
    if front is None and re.match(r"---[ \t]*\n", text):
        raise OperatorError(f"{source}: line 1: the front matter does not end", tip="close it with a line ---")
    head, tests = _front_matter(source, front["yaml"], attach or sent({})) if front else (None, {})
    body = text[front.end() :] if front else text
    title = (head.title if head else "") or first_heading(body) or source.rsplit("/", 1)[-1]
    return Document(
        source=source, title=title, digest=digest("".join([text, *sum(tests.items(), ())]).encode()),
        target=head.target if head else "", chunks=tuple(chunks(title, body)),
        runbook=_runbook(source, title, head, tests) if head else None,
    )


def read_folder(folder: Path) -> list[Document]:
    """Its Markdown and text files, those of its folders too. Raises OperatorError for the first mistake."""
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    return [read(str(path), _text(path), beside(path, folder)) for path in files]


def _runbook(source: str, title: str, head: FrontMatter, tests: dict[str, str]) -> RunbookPlan:
    name = source.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return RunbookPlan(
        name=name, title=title, causes=head.causes, alerts=head.alert, service="" if head.service == "any" else head.service,
        actions=head.actions or (({"kind": PATCH_CODE},) if head.patch_code else ()), source=source, attached=tests,
    )


def _front_matter(source: str, text: str, attach: Attach) -> tuple[FrontMatter, dict[str, str]]:
    if len(text) > LARGEST_FRONT:
        raise OperatorError(f"{source}: line 1: front matter of {len(text):,} characters, more than {LARGEST_FRONT:,}")
    try:
        values = YAML(typ="safe", pure=True).load(text)
        tree = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise OperatorError(f"{source}: line {line}: not YAML: {error.problem or error.context}") from error
    except FAULTS as error:
        raise OperatorError(f"{source}: line 1: not YAML: {brief(error)}") from error
    if not isinstance(values, Mapping):
        raise OperatorError(f"{source}: line 2: front matter is lines of `field: value`")
    try:
        head = FrontMatter.model_validate(dict(values))
    except ValidationError as error:
        raise _mistake(source, tree, error, (), tuple(FrontMatter.model_fields)) from error
    for index, action in enumerate(head.actions):
        _check_action(source, tree, index, action)
    if any(action.get("kind") == PATCH_CODE for action in head.actions) and (len(head.actions) > 1 or head.patch_code):
        raise OperatorError(_ALONE.format(source, _line(tree, ("actions",)), "actions"), tip=_OTHERS)
    if head.patch_code and head.actions:
        raise OperatorError(_ALONE.format(source, _line(tree, (PATCH_CODE,)), PATCH_CODE), tip=_OTHERS)
    tests = head.patch_code.tests if head.patch_code else {}
    at = (PATCH_CODE, "tests")
    return head, attached(tests, attach, lambda path: f"{source}: line {_line(tree, (*at, path))}: {'.'.join(at)}")


def _check_action(source: str, tree: Node, index: int, action: Mapping[str, Any]) -> None:
    """Every field that an action has, and no other; `release: previous` is the planner's to resolve."""
    at: tuple[str | int, ...] = ("actions", index)
    kind = _KINDS.get(str(action.get("kind")))
    if kind is None:
        where = f"{source}: line {_line(tree, (*at, 'kind'))}: actions.{index}.kind"
        raise OperatorError(f"{where}: {action.get('kind')!r} is no kind of action", tip=f"one of {', '.join(sorted(_KINDS))}")
    if action["kind"] == PATCH_CODE:
        for name in action.keys() - {"kind"}:
            where = f"{source}: line {_line(tree, (*at, name))}: actions.{index}.{name}"
            raise OperatorError(f"{where}: the change is found, not written down", tip="attach tests by patch_code: {tests: ...}")
        return
    for name in action.keys() - kind.model_fields.keys():
        where = f"{source}: line {_line(tree, (*at, name))}: actions.{index}.{name}"
        raise OperatorError(f"{where}: {action['kind']} has no such field", tip=_near(name, tuple(kind.model_fields)))
    try:
        _ACTION.validate_python(dict(action))
    except ValidationError as error:
        raise _mistake(source, tree, error, at, ()) from error


def _mistake(source: str, tree: Node, error: ValidationError, at: tuple[str | int, ...], known: tuple[str, ...]) -> OperatorError:
    fault = error.errors(include_url=False, include_input=False)[0]
    path = (*at, *(part for part in fault["loc"] if not at or part not in _KINDS))
    field = ".".join(str(part) for part in path)
    known = tuple(Patching.model_fields) if path[0] == PATCH_CODE else known
    tip = _near(str(path[-1]), known) if fault["type"] == "extra_forbidden" else ""
    return OperatorError(f"{source}: line {_line(tree, path)}: {field}: {fault['msg']}", tip=tip)


def _near(name: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {found[0]}?" if found else f"known are {', '.join(known)}"


def _line(node: Node, path: Sequence[str | int]) -> int:
    """Line in the file of the deepest part of the path that is there. The YAML begins on line 2."""
    line = int(node.start_mark.line)
    for part in path:
        if isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = int(node.start_mark.line)
        elif isinstance(node, MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == str(part)), None)
            if pair is None:
                break
            line, node = int(pair[0].start_mark.line), pair[1]
    return line + 2


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OperatorError(f"{path}: not UTF-8 text, at byte {error.start}") from error
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from error

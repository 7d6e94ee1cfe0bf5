"""A target's configuration files before and after a plan, in memory: real ones to act by, and ones without secrets to show."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autopatch.chassis import redaction
from autopatch.contract.actions import PatchCode, RollbackRelease, SetConfig
from autopatch.contract.errors import OperatorError
from autopatch.contract.model import digest
from autopatch.contract.plan import Plan, Step, UndoRecord
from autopatch.contract.target import ConfigFile, Target
from services.executor.adapters.delivery.files import read, resolve
from services.executor.adapters.editors import edit, format_of, masked


@dataclass(frozen=True)
class Content:
    """One file: where it is, its bytes, and the same without secrets. The secrets are known to redaction from here on."""

    config: ConfigFile
    real: Path
    data: bytes
    clean: bytes


def contents(target: Target) -> dict[str, Content]:
    """All configuration files by name. Raises OperatorError."""
    found = {}
    for config in target.configs:
        real = resolve(config.path)
        data = read(real)
        clean, secrets = masked(data, format_of(config.format), config.path)
        redaction.know(secrets)
        found[config.name] = Content(config, real, data, clean)
    return found


def undo_records(plan: Plan, files: dict[str, Content], release: str) -> tuple[UndoRecord, ...]:
    """One per step, each made after the steps before it. Raises OperatorError, Refused."""
    data = {name: content.data for name, content in files.items()}
    records = []
    for index, step in enumerate(plan.steps):
        match step.action:
            case SetConfig(file=file, key=key, value=value):
                made = edit(data[file], format_of(files[file].config.format), key, value, files[file].config.path)
                data[file] = made.after
                records.append(UndoRecord(
                    step=index, kind="splice", file=file, offset=made.offset, old=made.old.decode(), new=made.new.decode(),
                    digest_before=digest(made.before), digest_after=digest(made.after),
                ))
            case RollbackRelease() | PatchCode():
                records.append(UndoRecord(step=index, kind="release", release=release))
            case _:
                records.append(UndoRecord(step=index, kind="none"))
    return tuple(records)


def changed(plan: Plan, files: dict[str, Content]) -> dict[str, bytes]:
    """The files without secrets as the plan would leave them."""
    data = {name: content.clean for name, content in files.items()}
    for step in plan.steps:
        if isinstance(step.action, SetConfig):
            name, form = step.action.file, format_of(files[step.action.file].config.format)
            data[name] = edit(data[name], form, step.action.key, step.action.value, name).after
    return data


def diff(plan: Plan, files: dict[str, Content], release: str) -> str:
    """What the plan changes, as people read it: unified diffs without secrets, and the release."""
    after = changed(plan, files)
    lines: list[str] = []
    for name, content in files.items():
        if after[name] != content.clean:
            lines += _unified(content.clean, after[name], content.real.name)
    lines += [f"release {release} -> {made}" for step in plan.steps if (made := release_after(step))]
    return redaction.redact("\n".join(lines))[:8000]


def release_after(step: Step) -> str:
    """The release that a step makes run; '' for a step that leaves the release alone."""
    match step.action:
        case RollbackRelease(release=release):
            return release
        case PatchCode(diff=patch):
            return f"{step.precondition.release}-{patch[:12]}"
        case _:
            return ""


def with_patched(known: tuple[str, ...], running: str) -> tuple[str, ...]:
    """Known releases, oldest first, and the running one where it is a patch of a known one: behind that."""
    bases = [release for release in known if running.startswith(f"{release}-")]
    if running in known or not bases:
        return known
    at = known.index(max(bases, key=len)) + 1
    return (*known[:at], running, *known[at:])


def _unified(before: bytes, after: bytes, name: str) -> Iterable[str]:
    old, new = (data.decode().splitlines() for data in (before, after))
    return difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="")


def restored(data: bytes, record: UndoRecord) -> bytes:
    """The file with the old value put back. Raises OperatorError when the new one is not where it was put."""
    old, new = record.old.encode(), record.new.encode()
    if data[record.offset : record.offset + len(new)] != new:
        raise OperatorError(f"{record.file}: the changed value is no longer at byte {record.offset}")
    return data[: record.offset] + old + data[record.offset + len(new) :]


def spliced(data: bytes, record: UndoRecord) -> bytes:
    """The file with the new value put in."""
    return data[: record.offset] + record.new.encode() + data[record.offset + len(record.old.encode()) :]

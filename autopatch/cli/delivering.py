"""What becomes of a verified diff, where that was asked for: a file, the working tree, a branch, a pull or merge request."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autopatch.chassis.settings import load
from autopatch.cli.asking import Result
from autopatch.cli.repair import AUTO
from autopatch.cli.snapshot import Snapshot, digest_now
from autopatch.contract.errors import OperatorError, Refused, StaleTarget
from autopatch.repair.diffs import apply_diff
from services.executor.adapters.branches.commits import commit_on_branch, free, message_of
from services.executor.adapters.branches.forges import Offer, offer
from services.executor.adapters.branches.git import Git, GitFailed
from services.executor.adapters.branches.remotes import SETTING, push, remote_of
from services.executor.adapters.branches.settings import ForgeSettings


@dataclass(frozen=True)
class Wishes:
    """What was asked for. `branch`: a name, AUTO, or '' for none."""

    output: Path | None = None
    apply: bool = False
    branch: str = ""
    request: bool = False
    remote: str = "origin"

    @property
    def any(self) -> bool:
        """Was anything asked for beside the verdict?"""
        return bool(self.output or self.apply or self.branch or self.request)

    def named(self, incident: str) -> str:
        """The branch's name."""
        return self.branch if self.branch not in ("", AUTO) else f"{AUTO}{incident}"

    def check(self, taken: Snapshot, environment: Mapping[str, str]) -> None:
        """Raises OperatorError for what could not be done in the end, before anybody waits for it."""
        if self.output and not os.path.isdir(self.output.parent):
            raise OperatorError(f"--output: {self.output.parent} is not a folder", tip="make it first")
        if self.output and os.path.isdir(self.output):
            raise OperatorError(f"--output: {self.output} is a folder", tip="name a file in it")
        if (self.branch or self.request) and not taken.commit:
            what = f"{taken.folder} has no commit that a branch could begin from"
            raise OperatorError(what, tip="git init, git add, git commit")
        if self.branch or self.request:
            free(taken.folder, self.named("new"), environment)
        if self.request:
            found = remote_of(taken.folder, self.remote, load(ForgeSettings), environment)
            if not found.token.get_secret_value():
                raise OperatorError(f"--pr: no token for {found.host}", tip=f"set {SETTING[found.kind]}")


@dataclass
class Delivered:
    """Where it is so far."""

    output: str = ""
    applied: bool = False
    branch: str = ""
    commit: str = ""
    request: str = ""

    def lines(self) -> list[str]:
        """For people."""
        told = [f"diff written to {self.output}"] if self.output else []
        told += ["applied to the working tree"] if self.applied else []
        told += [f"branch {self.branch} at {self.commit[:12]}"] if self.branch else []
        return [*told, *([self.request] if self.request else [])]


def deliver(wishes: Wishes, result: Result, taken: Snapshot, environment: Mapping[str, str], done: Delivered) -> None:
    """In the order branch, request, working tree; the file last, since it may lie in that tree, and whatever failed before.

    Raises what the parts raise; what was done before stays done, and `done` says it.
    """
    try:
        if wishes.branch or wishes.request:
            done.branch, done.commit = _branch(wishes, result, taken, environment)
        if wishes.request:
            done.request = _request(wishes, result, taken, done.branch, done.commit, environment)
        if wishes.apply:
            apply(result.diff, taken, environment)
            done.applied = True
    finally:
        if wishes.output:
            _write(wishes.output, result.diff)
            done.output = str(wishes.output)


def apply(diff: bytes, taken: Snapshot, environment: Mapping[str, str]) -> None:
    """To the working tree, all of it or nothing, byte by byte as it was proven.

    Raises StaleTarget when the tree is not what was snapshotted any more, OperatorError when git left another content.
    """
    if digest_now(taken.folder, environment) != taken.tree:
        raise StaleTarget(
            f"{taken.folder} has changed since the repair began: nothing was applied",
            tip="take the diff with --output and look, or repair again",
        )
    wanted = apply_diff(diff, taken.files)
    alone = {"GIT_DIR": os.devnull}  # paths are the folder's own, and nothing is converted, whatever repository it lies in
    try:
        Git(taken.folder, environment=environment).run("apply", "--whitespace=nowarn", "-", stdin=diff, extra=alone)
    except GitFailed as error:
        raise Refused(f"git apply: {error.said}", tip="take the diff with --output and look") from None
    if other := [path for path, content in wanted.items() if _now(taken.folder / path) != content]:
        raise OperatorError(
            f"{taken.folder}: git apply ended well, but {', '.join(other)} is not what the fix makes of it",
            tip="look with git diff, and apply what --output writes",
        )


def _now(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _write(output: Path, diff: bytes) -> None:
    try:
        output.write_bytes(diff)
    except OSError as error:
        raise OperatorError(f"--output: {output}: {error.strerror}", tip="name a file that can be written") from None


def _branch(wishes: Wishes, result: Result, taken: Snapshot, environment: Mapping[str, str]) -> tuple[str, str]:
    found = result.verdict
    name = wishes.named(found.incident)
    message = message_of(_subject(result), _body(result), incident=found.incident, trace=found.trace)
    commit = commit_on_branch(
        taken.folder, result.diff, taken.commit, name, message, at=datetime.now(UTC), environment=environment
    )
    return name, commit


def _request(
    wishes: Wishes, result: Result, taken: Snapshot, branch: str, commit: str, environment: Mapping[str, str]
) -> str:
    settings = load(ForgeSettings)
    remote = remote_of(taken.folder, wishes.remote, settings, environment)
    push(taken.folder, remote, commit, branch, environment)
    wanted = Offer(head=branch, title=_subject(result), body=_body(result))
    return offer(remote, wanted, timeout_s=settings.timeout_s).url


def _subject(result: Result) -> str:
    before = result.verdict.before
    failing = [case.id for case in before.failing] if before else []
    return f"Make {failing[0]} pass" + (f" and {len(failing) - 1} more" if len(failing) > 1 else "") if failing else "Repair"


def _body(result: Result) -> str:
    found = result.verdict
    lines = [found.reason[:1].upper() + found.reason[1:] + "."]
    if found.before and found.after:
        lines.append(f"Tests before: {_numbers(found.before.passed, found.before.failed)}; after: "
                     f"{_numbers(found.after.passed, found.after.failed)}.")
    if found.basis:
        lines.append(f"From {found.basis}.")
    return "\n".join(lines)


def _numbers(passed: int, failed: int) -> str:
    return f"{passed} passed, {failed} failed"

"""A fix as a commit on a branch of its own, by plumbing and an index of its own: checkout, index and hooks stay untouched."""

import os
import re
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from autopatch.contract.errors import OperatorError, Refused
from services.executor.adapters.branches.git import Git, GitFailed, names

NAME, MAIL = "AutoPatch", "autopatch@localhost"
_PLAIN = {b"100644", b"100755"}


def message_of(subject: str, body: str, *, incident: str, trace: str) -> str:
    """A commit message with its trailers. Text that could pass for a trailer or a comment stays text."""
    title = " ".join(subject.split())[:100] or "Repair"
    paragraphs = [title, *([body.strip()] if body.strip() else [])]
    trailers = [f"{key}: {value}" for key, value in (("Incident", incident), ("Trace", trace)) if value]
    return "\n\n".join([*paragraphs, "\n".join(trailers)]) + "\n"


def commit_on_branch(
    folder: Path, diff: bytes, base: str, branch: str, message: str, *, at: datetime, environment: Mapping[str, str]
) -> str:
    """The id of the commit that `branch` is at: `base` with `diff`, whose paths are relative to `folder`, and nothing else.

    The same call gives the same commit again; `at` is its date. What the person has not committed is not in it.
    Raises OperatorError without a commit to begin from, Refused when the branch is something else already, when the diff builds
    on what is not committed or what git converts, or when it makes anything but regular files.
    """
    git = Git(folder, environment=environment)
    _checked(git, base, branch)
    with tempfile.TemporaryDirectory(prefix="autopatch-index-") as scratch:
        own = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        git.run("read-tree", base, extra=own)
        _apply(git, diff, own)
        tree = git.text("write-tree", extra=own)
    _only_files(git, base, tree)
    commit = git.text("commit-tree", tree, "-p", base, stdin=message.encode(), extra=_people(folder, environment, at))
    _point(git, branch, commit)
    return commit


def _checked(git: Git, base: str, branch: str) -> None:
    tip = "commit what there is (git add, git commit), then repair again, or take the diff with --output"
    if not base:
        raise OperatorError(f"{git.folder} has no commit that a branch could begin from", tip=tip)
    known = re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", base) and git.ask("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    if not known:
        raise OperatorError(f"{base[:12]} is no commit of {git.folder}", tip="is it the same repository?")
    _nameable(git, branch)


def free(folder: Path, branch: str, environment: Mapping[str, str]) -> None:
    """Raises OperatorError for what cannot be the name of a new branch, Unavailable without git."""
    git = Git(folder, environment=environment)
    _nameable(git, branch)
    parts = branch.split("/")
    for taken in ("/".join(parts[:end]) for end in range(1, len(parts) + 1)):
        if at := git.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{taken}"):
            why = f"branch {taken} is at {at[:12]} already"
            raise OperatorError(why if taken == branch else f"{branch}: {why}", tip="name another one with --branch NAME")


def _nameable(git: Git, branch: str) -> None:
    try:
        git.run("check-ref-format", f"refs/heads/{branch}")
    except GitFailed:
        raise OperatorError(f"{branch!r} cannot be the name of a branch", tip="letters, digits, - and /") from None
    if branch.startswith("-"):
        raise OperatorError(f"{branch!r} cannot be the name of a branch", tip="begin it with a letter")


def _apply(git: Git, diff: bytes, own: Mapping[str, str]) -> None:
    """As it is, else with plain ends of lines: where git converts them, the working tree has others than the commit."""
    prefix, said = git.text("rev-parse", "--show-prefix").rstrip("/"), list[str]()
    options = ("--cached", "--whitespace=nowarn", "--no-ignore-whitespace", *((f"--directory={prefix}",) if prefix else ()))
    for tried in dict.fromkeys((diff, diff.replace(b"\r\n", b"\n"))):
        try:
            if tried is diff or _converts(git, diff, own):
                git.run("apply", *options, "-", stdin=tried, extra=own)
                return
        except GitFailed as error:
            said.append(error.said)
    raise Refused(
        f"the fix builds on changes that are not committed, or git converts its files (.gitattributes, core.autocrlf): {said[0]}",
        tip="take the diff with --output, or commit them (git commit), then repair again",
    )


def _converts(git: Git, diff: bytes, own: Mapping[str, str]) -> bool:
    """Does git put carriage returns at the ends of lines of all of the diff's files when it checks them out?"""
    paths = [os.fsdecode(part.split(b"\t")[2]) for part in names(git.run("apply", "--numstat", "-z", "-", stdin=diff, extra=own))]
    automatic = git.ask("config", "--type=bool", "core.autocrlf") == "true"
    told = [git.text("ls-files", "--eol", "--", path, extra=own) for path in paths]
    return all("eol=crlf" in line or (automatic and "attr/-text" not in line) for line in told)


def _only_files(git: Git, base: str, tree: str) -> None:
    """Raises Refused for links, submodules, and a diff without effect."""
    parts = names(git.run("diff-tree", "-r", "-z", "--no-renames", base, tree))
    if not parts:
        raise Refused("the diff changes nothing in the commit", tip="is the fix committed already?")
    for row in parts[::2]:
        before, after = row.lstrip(b":").split(b" ")[:2]
        if {before, after} - _PLAIN - {b"000000"}:
            raise Refused("the diff makes something else than regular files", tip="look at it with --output")


def _people(folder: Path, environment: Mapping[str, str], at: datetime) -> dict[str, str]:
    """Whoever git knows, else AutoPatch."""
    known = Git(folder, environment=environment, neutral=False)
    name, mail = known.ask("config", "user.name"), known.ask("config", "user.email")
    if not name or not mail:
        name, mail = NAME, MAIL
    stamp = f"{int(at.timestamp())} +0000"
    return {
        f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", name), ("EMAIL", mail), ("DATE", stamp))
    }


def _point(git: Git, branch: str, commit: str) -> None:
    """Makes the branch; where it is there already it must be at this commit."""
    reference = f"refs/heads/{branch}"
    try:
        git.run("update-ref", "--create-reflog", "-m", "autopatch repair", reference, commit, "0" * len(commit))
    except GitFailed as error:
        there = git.ask("rev-parse", "--verify", "--quiet", reference)
        if there == commit:
            return
        why = f"is at {there[:12]} already" if there else f"cannot be made: {error.said}"
        raise Refused(f"branch {branch} {why}", tip="name another one with --branch NAME") from None

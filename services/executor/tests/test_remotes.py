"""Addresses of remotes, and pushes to a real one."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from autopatch.contract.errors import OperatorError, Refused
from services.executor.adapters.branches.remotes import Remote, parse, push, remote_of, _told
from services.executor.adapters.branches.settings import ForgeSettings
from services.executor.tests.test_commits import ENVIRONMENT, commit, git
from services.executor.tests.test_commits import repository as repository

SETTINGS = ForgeSettings(github_hosts=("github.com", "code.example.org"), gitlab_hosts=("gitlab.com", "gl.example.org"))


@pytest.mark.parametrize(("url", "kind", "path", "api"), [
    ("https://github.com/ann/calc.git", "github", "ann/calc", "https://api.github.com"),
    ("https://github.com/ann/calc", "github", "ann/calc", "https://api.github.com"),
    ("https://ann:secret@github.com/ann/calc.git/", "github", "ann/calc", "https://api.github.com"),
    ("git@github.com:ann/calc.git", "github", "ann/calc", "https://api.github.com"),
    ("ssh://git@github.com:22/ann/calc.git", "github", "ann/calc", "https://api.github.com"),
    ("git@code.example.org:ann/calc.git", "github", "ann/calc", "https://code.example.org/api/v3"),
    ("git@gitlab.com:group/sub/calc.git", "gitlab", "group/sub/calc", "https://gitlab.com/api/v4"),
    ("ssh://git@gl.example.org:2222/group/calc.git", "gitlab", "group/calc", "https://gl.example.org/api/v4"),
    ("https://GITHUB.com/Ann/Calc.git", "github", "Ann/Calc", "https://api.github.com"),
])
def test_addresses_are_taken_apart(url: str, kind: str, path: str, api: str) -> None:
    found = parse(url, SETTINGS)
    assert (found.kind, found.path, found.api) == (kind, path, api)


@pytest.mark.parametrize("url", [
    "", "/srv/git/calc.git", "../calc", "file:///srv/calc.git", "https://elsewhere.example.org/ann/calc.git", "https://github.com/",
    "https://github.com/ann", "ext::sh -c evil/x", "https://github.com/ann/../calc", "git@github.com.evil.org:ann/calc.git",
])
def test_what_is_neither_is_refused(url: str) -> None:
    with pytest.raises(OperatorError):
        parse(url, SETTINGS)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(OperatorError) as refused:
        parse("https://ann:hunter2@elsewhere.example.org/ann/calc.git", SETTINGS)
    assert "hunter2" not in str(refused.value)


def test_a_repository_without_the_remote_says_so(repository: Path) -> None:
    with pytest.raises(OperatorError, match="no remote origin"):
        remote_of(repository, "origin", SETTINGS, ENVIRONMENT)
    git(repository, "remote", "add", "origin", "git@github.com:ann/calc.git")
    assert remote_of(repository, "origin", SETTINGS, ENVIRONMENT).owner == "ann"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "bare.git")], check=True)
    return tmp_path / "bare.git"


def there(bare: Path) -> Remote:
    return Remote("github", "github.com", "ann/calc", "", SecretStr(""), str(bare))


def test_the_commit_arrives_as_the_branch_without_hooks_and_twice_is_fine(repository: Path, bare: Path, tmp_path: Path) -> None:
    hook = repository / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    made = commit(repository)
    for _ in range(2):
        push(repository, there(bare), made, "autopatch/calc-1", ENVIRONMENT)
    assert git(bare, "rev-parse", "autopatch/calc-1") == made and not (tmp_path / "ran").exists()


def test_another_branch_of_that_name_is_never_pushed_over(repository: Path, bare: Path) -> None:
    made, head = commit(repository), git(repository, "rev-parse", "main")
    git(repository, "push", "-q", str(bare), "main:other")
    git(repository, "commit", "-q", "--allow-empty", "-m", "later")
    git(repository, "push", "-q", str(bare), "main:other")
    with pytest.raises(Refused, match="another branch other"):
        push(repository, there(bare), made, "other", ENVIRONMENT)
    assert git(bare, "rev-parse", "other") != head


def test_a_commits_name_that_holds_403_is_no_refusal_of_a_token(bare: Path) -> None:
    said = "! [rejected] 5e836382b2e05c0bb08eb2d403176597b13b28b0 -> other (non-fast-forward)"
    assert isinstance(_told(there(bare), "other", said), Refused)
    denied = _told(there(bare), "other", "The requested URL returned error: 403")
    assert isinstance(denied, OperatorError) and "does not let us push" in str(denied)


def test_a_token_is_sent_to_its_host_and_is_in_no_command_line(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, seen = commit(repository), dict[str, Any]()
    real = subprocess.run

    def run(command: list[str], **given: Any) -> Any:
        if "push" in command:
            seen.update(command=command, env=given["env"])
            return subprocess.CompletedProcess(command, 128, b"", b"fatal: Authentication failed for 'https://github.com/ann/calc.git/'")
        return real(command, **given)

    monkeypatch.setattr(subprocess, "run", run)
    remote = Remote("github", "github.com", "ann/calc", "", SecretStr("ghp_secret"), "https://github.com/ann/calc.git")
    with pytest.raises(OperatorError, match="does not let us push.*Authentication failed") as refused:
        push(repository, remote, made, "autopatch/calc-1", ENVIRONMENT)
    assert "AUTOPATCH_FORGE_GITHUB_TOKEN" in refused.value.tip and "ghp_secret" not in str(refused.value)
    assert "ghp_secret" not in " ".join(seen["command"]) and seen["env"]["GIT_CONFIG_KEY_0"] == "http.https://github.com/.extraHeader"

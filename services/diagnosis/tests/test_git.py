"""The history of a real repository, also of one that tries to run something."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from autopatch.contract.errors import Unavailable
from services.diagnosis.adapters.sources.git import GitHistory

NOW = datetime.now(UTC)


def git(folder: Path, *arguments: str, at: datetime = NOW) -> None:
    stamp = at.isoformat()
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True, capture_output=True,
        env={"PATH": "/usr/bin:/bin", "GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp, "HOME": str(folder)},
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for hours, subject in ((30, "old"), (2, "smaller pool"), (1, "tab\tin the subject")):
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", subject, at=NOW - timedelta(hours=hours))
    return tmp_path


async def test_commits_since_a_time_are_told_the_newest_first(repository: Path) -> None:
    found = await GitHistory(5).commits(str(repository), NOW - timedelta(hours=6), 20)
    assert [subject.split(": ", 1)[1] for _, subject in found] == ["tab\tin the subject", "smaller pool"]
    assert abs((found[1][0] - (NOW - timedelta(hours=2))).total_seconds()) < 2


async def test_at_most_so_many_are_told(repository: Path) -> None:
    assert len(await GitHistory(5).commits(str(repository), NOW - timedelta(days=9), 1)) == 1


async def test_nothing_that_the_repository_configures_is_run(repository: Path) -> None:
    trap = repository / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {repository}/sprung\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand", "diff.external", "core.editor"):
        git(repository, "config", key, str(trap))
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "alias.log", f"!{trap}")
    assert len(await GitHistory(5).commits(str(repository), NOW - timedelta(hours=6), 20)) == 2
    assert not (repository / "sprung").exists()


async def test_a_folder_without_a_repository_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        await GitHistory(5).commits(str(tmp_path), NOW, 5)
    assert caught.value.service == "git"


async def test_an_option_for_a_folder_is_not_obeyed(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        await GitHistory(5).commits("--help", NOW, 5)

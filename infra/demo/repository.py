"""The demo service's source as a repository of its own: what its image is built from, and its tests.

`python repository.py FOLDER` lays it out into a new folder and commits it: release 1 first, then release 3 as a change of it.
Prints the last commit. Needs git.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ATTACHED = HERE / "runbooks" / "refunds_fail" / "test_late_refunds.py"
"""The test that the runbook of release 3's fault brings; it is not part of the repository."""
HISTORY = (("1", "One rate for every currency"), ("3", "Refunds give part of the fee back, and are spread over instalments"))
WHEN = "2026-01-05T09:00:00+00:00"
IDENTITY = {
    "GIT_AUTHOR_NAME": "payments-team", "GIT_AUTHOR_EMAIL": "payments@example.org", "GIT_AUTHOR_DATE": WHEN,
    "GIT_COMMITTER_NAME": "payments-team", "GIT_COMMITTER_EMAIL": "payments@example.org", "GIT_COMMITTER_DATE": WHEN,
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": "/usr/local/bin:/usr/bin:/bin",
}


def lay_out(folder: Path, release: str = "3") -> None:
    """The working tree of that release, beside what else is in the folder. Its root is what the image has in /app."""
    for name in ("load.py", "rehearse.py", "config.json"):
        _copy(HERE / name, folder / name)
    for path in sorted((HERE / "repository").glob("*")):
        if path.is_file():
            _copy(path, folder / path.name)
    for path in sorted((HERE / "repository" / "tests").glob("*.py")):
        if release == "3" or path.name == "test_configuration.py":
            _copy(path, folder / "tests" / path.name)
    for path in sorted((HERE / "payments").rglob("*.py")):
        inside = path.relative_to(HERE)
        if inside.parts[1] != "releases" or inside.name == "__init__.py" and len(inside.parts) == 3 or _of(release, inside):
            _copy(path, folder / inside)
    (folder / "payments" / "RELEASE").write_text(f"{release}\n")
    (folder / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")


def commit(folder: Path) -> str:
    """The whole history, into a folder that is not there yet; equal sources give equal commits. Returns the last one's id.

    Raises FileExistsError, and CalledProcessError when git fails.
    """
    folder.mkdir(parents=True)
    _git(folder, "init", "--quiet", "--initial-branch", "main")
    for release, message in HISTORY:
        shutil.rmtree(folder / "payments", ignore_errors=True)
        lay_out(folder, release)
        _git(folder, "add", "--all")
        _git(folder, "commit", "--quiet", "--message", message)
    return _git(folder, "rev-parse", "HEAD")


def _of(release: str, inside: Path) -> bool:
    return inside.parts[2] in (f"r{release}", f"r{release}.py")


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=IDENTITY).stdout.strip()


def main() -> int:
    """The command line. Exit codes: 0 done, 1 the folder is there or git failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="made; must not be there")
    folder = parser.parse_args().folder
    try:
        print(commit(folder))
    except FileExistsError:
        print(f"{folder} is there already: name another folder, or remove it", file=sys.stderr)
        return 1
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"repository: {getattr(error, 'stderr', '') or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

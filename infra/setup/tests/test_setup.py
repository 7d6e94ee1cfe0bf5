"""The set-up's own parts; the whole of it is proven on a fresh machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.setup import packages, python, steps
from infra.setup.steps import ROOT, Failed, Report, Stamp, run, together

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "CACHE", tmp_path)
    monkeypatch.setattr(steps, "LOGS", tmp_path / "setup")


def test_a_stamp_is_fresh_until_one_of_its_inputs_changes(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("a")
    assert not Stamp("s", file, "x").fresh
    Stamp("s", file, "x").set()
    assert Stamp("s", file, "x").fresh and not Stamp("s", file, "y").fresh
    file.write_text("b")
    assert not Stamp("s", file, "x").fresh


def test_a_failed_command_is_told_with_the_end_of_its_log() -> None:
    with pytest.raises(Failed, match=r"(?s)step: `sh -c .*` failed with exit code 4; the end of .*step\.log:.*the reason"):
        run("step", ["sh", "-c", "echo the reason >&2; exit 4"])


def test_a_missing_command_is_told() -> None:
    with pytest.raises(Failed, match="step: cannot run no-such-command: No such file"):
        run("step", ["no-such-command"])


def test_jobs_run_together_and_the_first_failure_is_raised_when_all_have_ended() -> None:
    done: list[int] = []

    def fail(text: str) -> None:
        raise Failed(text)

    with pytest.raises(Failed, match="first"):
        together(lambda: fail("first"), lambda: done.append(1), lambda: fail("second"))
    assert done == [1]


def test_nothing_is_installed_when_nothing_is_missing() -> None:
    packages.install(Report(), {"no-such-package": lambda: True})


@needs_root
def test_who_is_not_root_is_told_what_to_install() -> None:
    code = (
        "import os; from infra.setup import packages, steps; os.seteuid(65534)\n"
        "try: packages.install(steps.Report(), {'docker.io': lambda: False, 'prometheus': lambda: False})\n"
        "except steps.Failed as failure: print(failure); raise SystemExit(failure.exit_code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "On Debian: sudo apt-get install docker.io prometheus" in done.stdout


def test_what_pip_is_configured_with_is_said_to_uv_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nindex-url = https://example.org/simple\nfind-links = {wheels} /no/such/folder\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setattr(python, "PYTHON", Path(sys.executable))
    options = python._pip_settings()
    pairs = list(zip(options[::2], options[1::2], strict=True))
    assert ("--default-index", "https://example.org/simple") in pairs and ("--find-links", str(wheels)) in pairs
    assert "/no/such/folder" not in options

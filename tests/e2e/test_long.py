"""Loops that give figures: each fault again and again, every time in a new lab, so that no lesson helps."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autopatch.cli.watching import Episode
from autopatch.contract.lifecycle import State
from tests.e2e.lab import lab, model_is_there

pytestmark = [pytest.mark.long, pytest.mark.docker, pytest.mark.timeout(7200)]

Record = Callable[[str, int, str, str], None]


def repeated(folder: Path, fault: str, times: int, model: str) -> list[Episode]:
    """So many first occurrences of a fault."""
    seen: list[Episode] = []
    for number in range(times):
        with lab(folder / str(number), model=model) as it:
            it.watcher.wait_healthy()
            seen.append(it.watcher.episode(fault, lambda hosted=it.hosted: hosted.tell(f"fault {fault}")))  # type: ignore[misc]
    return seen


def report(record: Record, fault: str, model: str, seen: list[Episode]) -> None:
    """One row; fails when one of them was not healed."""
    healed = sum(e.view.state is State.RESOLVED for e in seen)
    calls, slowest = sum(e.model_calls for e in seen), max(e.seconds for e in seen)
    figure = f"{healed} healed, slowest {slowest:.0f} s, {calls} model calls"
    record(f"fault {fault}, model {model}", len(seen), figure, f"{len(seen)} healed")
    assert healed == len(seen), [e.view.headline for e in seen if e.view.state is not State.RESOLVED]


@pytest.mark.parametrize("fault", ["pool", "release"])
def test_long_ten_times_out_of_ten_without_a_model(tmp_path: Path, fault: str, record_figure: Record) -> None:
    report(record_figure, fault, "off", repeated(tmp_path, fault, 10, "off"))


@pytest.mark.parametrize("fault", ["pool", "release"])
def test_long_three_times_out_of_three_with_a_local_model(tmp_path: Path, fault: str, record_figure: Record) -> None:
    """Not marked `model`, which would skip it: a figure that is missing is a line of the table and a failure."""
    if not model_is_there():
        record_figure(f"fault {fault}, model local", 0, "not run: the local model is not there", "3 healed")
        pytest.fail("the local model is not there: run `autopatch model pull`, or `make test-long MODEL=local`")
    seen = repeated(tmp_path, fault, 3, "local")
    report(record_figure, fault, "local", seen)
    assert all(e.model_calls for e in seen)

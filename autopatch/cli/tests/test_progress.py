"""What is seen while a repair runs."""

import time

import pytest

from autopatch.cli import progress
from autopatch.cli.output import Output
from autopatch.cli.progress import Progress


@pytest.mark.parametrize(("as_json", "lines"), [(False, True), (True, False)])
def test_where_no_spinner_turns_a_line_now_and_then_says_what_is_under_way(
    as_json: bool, lines: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "BEAT_S", 0.05)
    with Progress(Output(as_json), time.monotonic()).shown():
        time.sleep(0.3)
    said = capsys.readouterr().err
    assert ("starting …" in said) is lines
    time.sleep(0.2)
    assert capsys.readouterr().err == ""

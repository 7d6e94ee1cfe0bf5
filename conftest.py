"""Tests of every folder: those that ask the real local model are skipped where it was not pulled."""

import pytest

from autopatch.chassis.llm.pull import QWEN
from autopatch.chassis.llm.settings import LlmSettings


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`autopatch model pull` gets it; no test downloads a gigabyte."""
    if item.get_closest_marker("model") and not (LlmSettings().model_dir / QWEN.file).is_file():
        pytest.skip("the local model is not there: run `autopatch model pull`")

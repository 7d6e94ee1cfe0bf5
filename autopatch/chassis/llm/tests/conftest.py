"""What the tests of the model layer share."""

from pathlib import Path

import pytest

from autopatch.chassis.llm.pull import QWEN
from autopatch.chassis.llm.settings import LlmSettings


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "model: needs the pulled local model; skipped without it")


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The real model, which tests never download."""
    path = LlmSettings().model_dir / QWEN.file
    if not path.is_file() or path.stat().st_size != QWEN.size:
        pytest.skip(f"{path} is missing: run `autopatch model pull`")
    return path

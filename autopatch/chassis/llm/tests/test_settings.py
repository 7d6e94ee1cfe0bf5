from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import load
from autopatch.contract.errors import OperatorError


def test_without_any_setting_no_model_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOPATCH_LLM_MODE", raising=False)
    assert LlmSettings().mode == "off"


def test_models_are_kept_in_the_cache_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOPATCH_LLM_MODEL_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert LlmSettings().model_dir == Path("/somewhere/autopatch/models")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert LlmSettings().model_dir == Path.home() / ".cache/autopatch/models"


def test_the_environment_sets_nested_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPATCH_LLM_LIMITS__CALLS", "3")
    assert LlmSettings().limits.calls == 3


@pytest.mark.parametrize(
    ("given", "named"),
    [({}, "AUTOPATCH_LLM_BASE_URL and AUTOPATCH_LLM_MODEL"), ({"base_url": "http://x/v1"}, "AUTOPATCH_LLM_MODEL")],
)
def test_a_remote_model_without_address_or_name_is_told_at_start(given: dict[str, str], named: str) -> None:
    with pytest.raises(OperatorError, match=named):
        load(LlmSettings, mode="remote", **given)


def test_a_money_limit_without_prices_is_refused_because_it_could_not_stop_anything() -> None:
    remote = {"mode": "remote", "base_url": "http://x/v1", "model": "m", "limits": {"cost_usd": 1}}
    with pytest.raises(ValidationError, match="prices"):
        LlmSettings.model_validate(remote)
    LlmSettings.model_validate({**remote, "prices": {"input": 1, "output": 2}})


def test_the_key_is_masked_wherever_settings_are_printed() -> None:
    settings = LlmSettings(api_key=SecretStr("k-123"))
    assert "k-123" not in f"{settings} {settings!r} {settings.model_dump_json()}"

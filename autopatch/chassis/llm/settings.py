"""What an operator can set about models: AUTOPATCH_LLM_MODE=local …, or the section `llm` of the settings file."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from autopatch.chassis.settings import _Base
from autopatch.contract.target import DAY_S

Mode = Literal["off", "local", "remote"]


class _Xdg(BaseSettings):
    model_config = SettingsConfigDict(env_ignore_empty=True)

    cache: Path = Field(default_factory=lambda: Path.home() / ".cache", validation_alias="XDG_CACHE_HOME")


def cache_home() -> Path:
    """$XDG_CACHE_HOME, else ~/.cache."""
    return _Xdg().cache


class Frozen(BaseModel):
    """Settings load once and do not change; an unknown name is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Limits(Frozen):
    """What one incident may spend on models, over all rooms. The call that could exceed a limit is not made."""

    calls: int = Field(default=12, ge=0)
    tokens: int = Field(default=40_000, ge=0, description="input and output tokens together")
    seconds: float = Field(default=600, ge=0, description="time spent waiting for answers")
    cost_usd: float | None = Field(default=None, ge=0, description="needs `prices` in mode remote")


class Prices(Frozen):
    """What a remote endpoint charges, in USD per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class LlmSettings(_Base):
    """Which model is asked, and how hard. `off` asks none; `local` serves the pulled model on loopback.

    A room that holds it as a field shares these variables with every other room, and can override them under its own prefix.
    """

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_LLM_")

    mode: Mode = "off"
    base_url: str = Field(default="", description="of an OpenAI-compatible endpoint, up to and including /v1; mode remote")
    api_key: SecretStr = SecretStr("")
    model: str = Field(default="", description="the id that the endpoint's /models names; mode remote")
    prices: Prices | None = None
    limits: Limits = Limits()
    timeout_s: float = Field(default=120, gt=0, le=DAY_S, description="for one answer")
    max_output_tokens: int = Field(default=400, ge=16)
    temperature: float = Field(default=0.0, ge=0, le=2)
    seed: int = 7
    json_schema: bool = Field(
        default=True, description="ask for schema-constrained answers; false for endpoints that refuse that"
    )
    capture_content: bool = Field(default=False, description="write prompts and answers into traces")
    model_dir: Path = Field(default_factory=lambda: cache_home() / "autopatch" / "models")
    run_dir: Path = Field(default_factory=lambda: cache_home() / "autopatch" / "run")
    threads: int = Field(default=2, ge=1, description="of the local model")
    context_tokens: int = Field(default=8_192, ge=1_024, description="of the local model")
    cores_wait_s: float = Field(default=60, gt=0, le=DAY_S, description="a local model waits so long for soaks in silence")
    start_timeout_s: float = Field(default=60, gt=0, le=DAY_S, description="for the local model to load")

    @model_validator(mode="after")
    def _remote_is_complete(self) -> "LlmSettings":
        if self.mode != "remote":
            return self
        missing = [f"AUTOPATCH_LLM_{name.upper()}" for name in ("base_url", "model") if not getattr(self, name)]
        if missing:
            raise ValueError(f"mode remote needs {' and '.join(missing)}")
        if self.limits.cost_usd is not None and self.prices is None:
            raise ValueError("limits.cost_usd needs prices.input and prices.output (USD per million tokens)")
        return self

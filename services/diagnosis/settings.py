"""What an operator can set about diagnosing; the thresholds of the ranking live here and in `causes/`."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import RoomSettings


class Settings(RoomSettings):
    """AUTOPATCH_DIAGNOSIS_*; the model's are AUTOPATCH_LLM_*."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_DIAGNOSIS_")

    llm: LlmSettings = Field(default_factory=LlmSettings, description="which model re-ranks and explains, if any")
    lookback_s: float = Field(default=600, ge=60, le=86_400, description="seconds before the alert that count as before")
    points: int = Field(default=240, ge=60, le=2000, description="samples per series, more for a young alert")
    queries: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="further PromQL per target, {target: {name: query}}, looked at for diagnosis only"
    )
    discover: bool = Field(default=True, description="also look at series that share the labels of all the target's signals")
    discover_limit: int = Field(default=40, ge=0, le=200, description="series that are looked at so")
    log_lines: int = Field(default=2000, ge=10, le=5000, description="lines per window")
    min_confidence: float = Field(default=0.5, gt=0, le=1, description="below this nothing stands out, and a person is asked")
    margin: float = Field(default=0.15, ge=0, le=1, description="a model may put causes this near to the first in another order")
    shown: int = Field(default=5, ge=1, le=20, description="causes on a diagnosis at most")
    min_shown: float = Field(default=0.2, ge=0, le=1, description="causes below this are left out")
    health_timeout_s: float = Field(default=3, gt=0, le=86_400, description="seconds that a health endpoint may take")
    git_timeout_s: float = Field(default=5, gt=0, le=86_400, description="seconds that reading a repository's history may take")
    prompt_tokens: int = Field(default=1200, ge=600, description="longest prompt; a local model reads 87 tokens a second")

"""What the operator may set for the planner."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import RoomSettings


class Settings(RoomSettings):
    """AUTOPATCH_PLANNER_*; the model's are AUTOPATCH_LLM_*."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_PLANNER_")

    llm: LlmSettings = Field(default_factory=LlmSettings, description="which model is asked when no lesson and no runbook fits")
    max_attempts: int = Field(default=3, ge=1, description="plans that may fail before a person is asked")
    max_stale: int = Field(default=5, ge=1, description="plans in a row that may be overtaken by changes of the target")
    prompt_tokens: int = Field(default=1500, ge=600, description="longest prompt; a local model reads 87 tokens a second")
    answer_tokens: int = Field(default=300, ge=50, description="longest code a local model writes at once, at 28 tokens a second")
    context_lines: int = Field(default=400, ge=50, description="most code that a remote model is shown")
    templates_s: float = Field(
        default=25, gt=0, le=86_400, description="seconds for single edits before a model is asked; a local one takes as long"
    )
    templates_alone_s: float = Field(
        default=45, gt=0, le=86_400, description="the same where there is no model, and in all where it healed nothing"
    )

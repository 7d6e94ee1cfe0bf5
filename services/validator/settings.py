"""What an operator can set about measuring; the thresholds of the verdict live here and nowhere else."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from autopatch.chassis.settings import RoomSettings


class Settings(RoomSettings):
    """AUTOPATCH_VALIDATOR_*."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_VALIDATOR_")

    blocks: int = Field(default=6, ge=6, le=8, description="parts that a window is averaged into before the rank test")
    alpha: float = Field(default=0.01, gt=0, le=0.05, description="one-sided p-value that counts; guards share it")
    min_effect: float = Field(default=0.2, ge=0, description="least change of the median that counts, as a share of what it was")
    min_traffic: float = Field(default=0.7, ge=0, le=1, description="share of the traffic while red that is needed to judge by")
    extensions: int = Field(default=2, ge=0, le=10, description="how often an inconclusive soak is extended by its own length")
    retry_s: float = Field(default=5, gt=0, le=86_400, description="seconds until a check without data is measured again")
    health_timeout_s: float = Field(default=3, gt=0, le=86_400, description="seconds that a health endpoint may take")
    share_cores: bool = Field(
        default=True, description="keep a local model quiet during a soak; turn it off only where no room uses a local model"
    )

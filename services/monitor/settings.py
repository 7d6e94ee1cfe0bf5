"""What an operator can set about receiving alerts."""

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import SettingsConfigDict

from autopatch.chassis.settings import RoomSettings
from autopatch.contract.target import DAY_S


class Watch(BaseModel):
    """A PromQL expression that stands for an alert while it gives any series, on the Prometheus of the labels' target."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, description="becomes the label alertname")
    expr: str = Field(min_length=1)
    labels: dict[str, str] = Field(min_length=1, description="must belong to exactly one target")
    for_s: float = Field(default=0, ge=0, le=DAY_S, description="seconds that it must hold")


class Settings(RoomSettings):
    """AUTOPATCH_MONITOR_*."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_MONITOR_")

    alertmanager_token: SecretStr = Field(default=SecretStr(""), description="bearer token of Alertmanager; empty: refused")
    grafana_token: SecretStr = Field(default=SecretStr(""), description="bearer token of Grafana; empty: refused")
    max_body_bytes: int = Field(default=4 * 1024**2, gt=0, description="bytes of a webhook; larger ones get 413")
    body_timeout_s: float = Field(default=10, gt=0, le=86_400, description="seconds in which a body must have arrived")
    ack_timeout_s: float = Field(default=1.5, gt=0, le=86_400, description="seconds for NATS per alert, then 503")
    alertmanager_url: str = Field(default="", description="asked for lost alerts and silences; empty: neither is known")
    alertmanager_api_token: SecretStr = Field(default=SecretStr(""), description="bearer token that Alertmanager's API wants")
    reconcile_s: float = Field(default=60, gt=0, le=86_400, description="seconds between two comparisons with Alertmanager")
    alertmanager_grace_s: float = Field(
        default=300, ge=0, le=86_400, description="seconds after Alertmanager's start in which a missing alert proves nothing"
    )
    cool_down_s: float = Field(default=300, ge=0, le=86_400, description="seconds until an alert may open the next incident")
    max_a_day: int = Field(default=3, ge=1, description="incidents that one alert may open in 24 hours")
    watches: tuple[Watch, ...] = Field(default=(), description="own PromQL watches, as JSON")
    watch_s: float = Field(default=15, gt=0, le=86_400, description="seconds between two looks at the watches")

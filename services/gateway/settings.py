"""What the operator may set for the gateway."""

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from autopatch.chassis.settings import RoomSettings


class Settings(RoomSettings):
    """Who may enter, and how much at once."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_GATEWAY_")

    tokens_file: str = Field(
        default=".autopatch/tokens.yaml",
        description="YAML list of {name, role, sha256, person}; read again when it changes; without it nobody gets in",
    )
    max_body_bytes: int = Field(default=65536, gt=0)
    max_archive_bytes: int = Field(default=32 * 1024**2, gt=0, description="of a repository that is to be repaired, packed")
    max_streams: int = Field(default=32, ge=1, description="live streams at once; more are told to come back")
    heartbeat_s: float = Field(default=15, gt=0, le=86_400, description="how often a live stream shows that it lives")
    send_timeout_s: float = Field(default=10, gt=0, le=86_400, description="a reader that takes longer for one event is dropped")
    knowledge_url: str = Field(default="", description="the knowledge room's HTTP address, where documents are forwarded to")
    knowledge_token: SecretStr = Field(default=SecretStr(""), description="the same as its AUTOPATCH_KNOWLEDGE_TOKEN")

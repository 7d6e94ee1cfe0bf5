"""Where branches are offered, and with which tokens."""

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from autopatch.chassis.settings import _Base


class ForgeSettings(_Base):
    """AUTOPATCH_FORGE_*: GitHub, GitLab, and hosts of one's own that run them."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_FORGE_")

    github_token: SecretStr = Field(default=SecretStr(""), description="may push and open pull requests")
    gitlab_token: SecretStr = Field(default=SecretStr(""), description="may push and open merge requests (scope api)")
    github_hosts: tuple[str, ...] = Field(default=("github.com",), description="hosts that run GitHub")
    gitlab_hosts: tuple[str, ...] = Field(default=("gitlab.com",), description="hosts that run GitLab")
    github_api: str = Field(
        default="", description="its API; empty: https://api.github.com, on a host of one's own https://<host>/api/v3"
    )
    gitlab_api: str = Field(default="", description="its API; empty: https://<host>/api/v4")
    timeout_s: float = Field(default=20, gt=0, description="seconds that one answer may take")

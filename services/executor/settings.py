"""Settings of the executor."""

from pathlib import Path

from pydantic import AliasChoices, Field
from pydantic_settings import SettingsConfigDict

from autopatch.chassis.settings import RoomSettings


class Settings(RoomSettings):
    """Where engine and policy are, and how patient the executor is with targets."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_EXECUTOR_", populate_by_name=True)

    docker_host: str = Field(
        default="", validation_alias=AliasChoices("AUTOPATCH_EXECUTOR_DOCKER_HOST", "DOCKER_HOST"),
        description="address of the Docker engine, also by DOCKER_HOST; empty: unix:///var/run/docker.sock",
    )
    policy: str = Field(default=str(Path(__file__).parent / "policies" / "policy.yaml"), description="the policy file")
    locks: str = Field(default="/run/lock/autopatch", description="folder of the fences that all executors of this machine share")
    sandbox_slots: int = Field(default=2, ge=1, le=16, description="sandbox runs at a time, each with the cores of its own")
    sandbox_cpus: float = Field(default=1, gt=0, description="processor cores that one sandbox run may use")
    sandbox_spares: int = Field(default=1, ge=0, le=8, description="containers that wait, already warm, for more runs of tests")
    sandbox_runtime: str = Field(default="", description="its container runtime; empty: runsc where the engine has it, else runc")
    python_image: str = Field(default="autopatch-sandbox:latest", description="image in which Python repositories are tested")
    node_image: str = Field(default="autopatch-sandbox-node:latest", description="image in which Node repositories are tested")
    process_path: str = Field(default="/usr/local/bin:/usr/bin:/bin", description="PATH of local processes that are targets")
    stop_grace_s: float = Field(default=10, ge=0, le=86_400, description="seconds that a target has to end by itself")
    well_s: float = Field(default=60, gt=0, le=86_400, description="seconds that a target has to be well after a start")

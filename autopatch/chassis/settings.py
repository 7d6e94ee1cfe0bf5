"""Settings: environment over file over defaults, frozen, loaded once. The only place that reads the environment."""

import os
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from autopatch.contract.errors import OperatorError


class _Base(BaseSettings):
    """AUTOPATCH_CONFIG names a YAML file: common settings at its top, a room's under the room's name."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_nested_delimiter="__")

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource, dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Init over environment over file."""
        path = os.environ.get("AUTOPATCH_CONFIG", "")
        return (init_settings, env_settings, *((_Section(settings_cls, Path(path)),) if path else ()))


class _Section(YamlConfigSettingsSource):
    """The part of the file that belongs to this class: everything but the rooms' sections for the common ones."""

    def __init__(self, settings_cls: type[BaseSettings], path: Path) -> None:
        if not path.is_file():
            raise OperatorError(f"AUTOPATCH_CONFIG: {path} is not a file", tip="name an existing YAML file or unset it")
        self._section = str(settings_cls.model_config.get("env_prefix", "")).removeprefix("AUTOPATCH_").rstrip("_").lower()
        super().__init__(settings_cls, path)

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        data: dict[str, Any] = super()._read_file(file_path) or {}
        if self._section:
            return data.get(self._section) or {}
        return {key: value for key, value in data.items() if value is not None and not isinstance(value, dict)}


class Common(_Base):
    """What every room needs."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_")

    nats_url: str = Field(default="nats://127.0.0.1:4222", description="NATS server, version 2.12 or newer")
    nkey_folder: str = Field(default="", description="folder with <room>/seed.nk; empty: no authentication")
    targets: str = Field(default="targets", description="folder of target files")
    state: str = Field(default=".autopatch", description="folder for what is kept on this machine")
    otlp_endpoint: str = Field(default="", description="OTLP over HTTP, such as http://127.0.0.1:4318; empty: no traces leave")
    trace_url: str = Field(default="", description="link to a trace, {trace_id} is replaced")
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR")
    ack_wait_s: float = Field(default=30, gt=0, description="seconds until an unacknowledged event is delivered again")
    publish_budget_s: float = Field(default=20, gt=0, description="seconds that a publish is tried before NATS counts as missing")
    waiting_limit_s: float = Field(default=1800, gt=0, description="seconds that an incident waits for something missing")
    retry_s: float = Field(default=3, gt=0, description="seconds between two tries while waiting")
    stream_bytes: int = Field(default=2 * 1024**3, gt=0, description="bytes that the incidents' log may take")
    stream_age_s: float = Field(default=90 * 86400, gt=0, description="seconds after which events leave the log")


class RoomSettings(_Base):
    """Base of every room's settings; subclasses set env_prefix AUTOPATCH_<ROOM>_."""

    host: str = Field(default="127.0.0.1", description="address of /metrics, /healthz, /readyz and the room's routes")
    port: int = Field(default=0, ge=0, le=65535, description="0: any free one, logged at start")


def load(cls: type[_Base], **given: Any) -> Any:
    """Raises OperatorError naming the field, where it came from and what it may be."""
    try:
        return cls(**given)
    except ValidationError as error:
        prefix = str(cls.model_config.get("env_prefix", ""))
        faults = "; ".join(_fault(prefix, f["loc"], f["msg"]) for f in error.errors(include_url=False, include_input=False))
        raise OperatorError(f"settings: {faults}", tip="`autopatch settings` prints every setting with its meaning") from None


def _fault(prefix: str, place: tuple[int | str, ...], message: str) -> str:
    """A fault of several fields together has no place, and names them itself."""
    message = message.removeprefix("Value error, ")
    return f"{'.'.join(map(str, place))} ({prefix}{'__'.join(map(str, place)).upper()}): {message}" if place else message


def template(*classes: type[_Base]) -> str:
    """Every setting as YAML with its default, description and environment variable."""
    lines: list[str] = []
    for cls in classes:
        prefix = str(cls.model_config.get("env_prefix", ""))
        section = prefix.removeprefix("AUTOPATCH_").rstrip("_").lower()
        lines += [f"{section}:"] if section else []
        for name, field in cls.model_fields.items():
            default = field.get_default(call_default_factory=True)
            shown = default.get_secret_value() if isinstance(default, SecretStr) else default
            lines.append(f"{'  ' if section else ''}# {name}: {shown!r}  # {field.description or ''} [{prefix}{name.upper()}]")
    return "\n".join(lines) + "\n"

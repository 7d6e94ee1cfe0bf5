"""Settings: environment over file over defaults, frozen, loaded once. The only place that reads the environment."""

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from autopatch.chassis.settings_sources import HELP, Environment, Section, section
from autopatch.contract.errors import OperatorError
from autopatch.contract.target import DAY_S

HOUR_S = 3600
Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda level: str(level).upper())]


class _Base(BaseSettings):
    """AUTOPATCH_CONFIG names a YAML file: common settings at its top, a room's under the room's name."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_nested_delimiter="__", allow_inf_nan=False)

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource, dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Init over environment over file."""
        path = os.environ.get("AUTOPATCH_CONFIG", "")
        return (init_settings, Environment(settings_cls), *((Section(settings_cls, Path(path)),) if path else ()))


class Common(_Base):
    """What every room needs."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_")

    nats_url: str = Field(default="nats://127.0.0.1:4222", description="NATS server, version 2.12 or newer")
    nkey_folder: str = Field(default="", description="folder with <room>/seed.nk; empty: no authentication")
    targets: str = Field(default="targets", description="folder of target files")
    state: str = Field(default=".autopatch", description="folder for what is kept on this machine")
    otlp_endpoint: str = Field(default="", description="OTLP over HTTP, such as http://127.0.0.1:4318; empty: no traces leave")
    trace_url: str = Field(default="", description="link to a trace, {trace_id} is replaced")
    log_level: Level = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR, in any case")
    ack_wait_s: float = Field(default=30, gt=0, le=HOUR_S, description="seconds until an unacknowledged event is delivered again")
    publish_budget_s: float = Field(default=20, gt=0, le=HOUR_S, description="seconds until NATS counts as missing for a publish")
    waiting_limit_s: float = Field(default=1800, gt=0, le=30 * DAY_S, description="seconds to wait for something missing")
    retry_s: float = Field(default=3, gt=0, le=HOUR_S, description="seconds between two tries while waiting")
    stream_bytes: int = Field(default=2 * 1024**3, gt=0, le=2**50, description="bytes that the incidents' log may take")
    stream_age_s: float = Field(default=90 * DAY_S, ge=120, le=3650 * DAY_S, description="seconds until events leave the log")


class RoomSettings(_Base):
    """Base of every room's settings; subclasses set env_prefix AUTOPATCH_<ROOM>_."""

    host: str = Field(default="127.0.0.1", description="address of /metrics, /healthz, /readyz and the room's routes")
    port: int = Field(default=0, ge=0, le=65535, description="0: any free one, logged at start")


def load(cls: type[_Base], **given: Any) -> Any:
    """Raises OperatorError naming the field, where it came from and what it may be."""
    try:
        return cls(**given)
    except ValidationError as error:
        blamed = next((each for each in _family(cls) if each.__name__ == error.title), cls)
        faults = "; ".join(_fault(blamed, f["loc"], f["msg"]) for f in error.errors(include_url=False, include_input=False))
        raise OperatorError(f"settings: {faults}", tip=HELP) from None
    except SettingsError as error:
        raise OperatorError(f"settings: {error}: {error.__cause__}", tip=HELP) from None


def strangers(classes: Iterable[type[_Base]]) -> dict[str, str]:
    """Variables with the prefix of one of these classes that none of its settings reads, each with the nearest one or ''."""
    found: dict[str, str] = {}
    for cls in {member: None for each in classes for member in _family(each) if section(member)}:
        known = [_prefix(cls) + name.upper() for name in cls.model_fields]
        for name in sorted(os.environ):
            if name.upper().startswith(_prefix(cls)) and not any(f"{name.upper()}__".startswith(f"{k}__") for k in known):
                found[name] = next(iter(difflib.get_close_matches(name.upper(), known, 1)), "")
    return found


def _prefix(cls: type[_Base]) -> str:
    return str(cls.model_config.get("env_prefix", ""))


def _inner(field: FieldInfo | None) -> type[_Base] | None:
    """The class of settings that a field holds, if it holds any."""
    kind = field.annotation if field else None
    return kind if isinstance(kind, type) and issubclass(kind, _Base) else None


def _family(cls: type[_Base]) -> list[type[_Base]]:
    """A class and those that its fields hold, which read variables of their own."""
    return [cls, *(each for kind in map(_inner, cls.model_fields.values()) if kind for each in _family(kind))]


def _fault(cls: type[_Base], place: tuple[int | str, ...], message: str) -> str:
    """A fault of several fields together has no place, and names them itself."""
    message = message.removeprefix("Value error, ")
    return f"{'.'.join(map(str, place))} ({_source(cls, place)}): {message}" if place else message


def _source(cls: type[_Base], place: tuple[int | str, ...]) -> str:
    """The variable that is set; else the one that could be, with the file where there is one."""
    names = _variables(cls, place)
    there = {name.upper() for name in os.environ}
    path = os.environ.get("AUTOPATCH_CONFIG", "")
    return next((name for name in names if name in there), names[0] + (f" or {path}" if path else ""))


def _variables(cls: type[_Base], place: tuple[int | str, ...]) -> list[str]:
    """Those that could have set what is at this place, the nearest first: itself or, as JSON, what it is a part of."""
    parts = [str(part).upper() for part in place]
    inner = _inner(cls.model_fields.get(str(place[0])))
    return [
        *(_prefix(cls) + "__".join(parts[:count]) for count in range(len(parts), 0, -1)),
        *(_variables(inner, place[1:]) if inner and place[1:] else ()), parts[0],
    ]


def default(field: FieldInfo) -> Any:
    """What is used where nothing is set. Settings in settings are shown without what is set now, which may be wrong."""
    kind = _inner(field)
    value = kind.model_construct() if kind else field.get_default(call_default_factory=True)
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def template(*classes: type[_Base]) -> str:
    """Every setting as YAML with its default, description and environment variable."""
    lines: list[str] = []
    for cls in classes:
        name_of = section(cls)
        lines += [f"{name_of}:"] if name_of else []
        for name, field in cls.model_fields.items():
            told = f"{default(field)!r}  # {field.description or ''} [{_prefix(cls)}{name.upper()}]"
            lines.append(f"{'  ' if name_of else ''}# {name}: {told}")
    return "\n".join(lines) + "\n"

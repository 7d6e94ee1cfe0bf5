"""Where settings come from besides defaults: the environment and the file, each of whose mistakes names its place."""

from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource

from autopatch.chassis.yaml_text import parsed
from autopatch.contract.errors import OperatorError

HELP = "`autopatch settings` prints every setting with its meaning"


def section(settings_cls: type[BaseSettings]) -> str:
    """The part of the file that belongs to this class; empty for the common settings at its top."""
    return str(settings_cls.model_config.get("env_prefix", "")).removeprefix("AUTOPATCH_").rstrip("_").lower()


class Environment(EnvSettingsSource):
    """Variables; one that has to be JSON and is not raises OperatorError with its name and without its value."""

    _decoding: Any = None

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Remembers what is being decoded, so that it can be named."""
        self._decoding = value
        return super().decode_complex_value(field_name, field, value)

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:
        """The library would name the field, but neither the variable nor what is wrong with it."""
        try:
            return super().prepare_field_value(field_name, field, value, value_is_complex)
        except (ValueError, RecursionError) as error:
            start = f"{self.env_prefix}{field_name}".lower()
            named = (name for name, text in self.env_vars.items() if name.startswith(start) and text == self._decoding)
            reason = "is empty" if self._decoding == "" else f"is not JSON: {error}"
            raise OperatorError(
                f"settings: {next(named, start).upper()} {reason}", tip=f"give it JSON, or unset it; {HELP}"
            ) from None


class Section(InitSettingsSource):
    """The part of the file that belongs to this class: everything but the rooms' sections for the common ones."""

    def __init__(self, settings_cls: type[BaseSettings], path: Path) -> None:
        name, data = section(settings_cls), _named(path, "", _parsed(path))
        if name:
            data = _named(path, f"{name}: ", data.get(name))
        else:
            data = {key: value for key, value in data.items() if value is not None and not isinstance(value, dict)}
        super().__init__(settings_cls, data)


def _parsed(path: Path) -> Any:
    if not path.is_file():
        raise OperatorError(f"AUTOPATCH_CONFIG: {path} is not a file", tip="name an existing YAML file or unset it")
    try:
        return parsed(path.read_text(encoding="utf-8"), f"AUTOPATCH_CONFIG: {path}")
    except OSError as error:
        raise OperatorError(f"AUTOPATCH_CONFIG: {path}: {error.strerror}", tip="let this user read it, or unset it") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise OperatorError(f"AUTOPATCH_CONFIG: {path}:{line}: not UTF-8", tip="save the file as UTF-8") from None


def _named(path: Path, where: str, data: Any) -> dict[str, Any]:
    """Settings by their names; none where nothing is written."""
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for part in _parts(data) for key in part):
        raise OperatorError(f"AUTOPATCH_CONFIG: {path}: {where}not settings by their names, such as `port: 8421`", tip=HELP)
    return data


def _parts(data: dict[Any, Any]) -> list[dict[Any, Any]]:
    """The settings and those in them, whose names the library hands on as keywords."""
    return [data, *(value for value in data.values() if isinstance(value, dict))]

"""The gateway as the command line sees it: where it is, which token to send, and its answers or errors."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import httpx2
import typer
from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from ruamel.yaml import YAML

from autopatch.chassis.yaml_text import FAULTS
from autopatch.cli.errors import GatewayRefused, Usage
from autopatch.cli.output import plain
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.envelope import decode
from autopatch.contract.lifecycle import Stored
from autopatch.contract.model import Word

DEFAULT_URL = "http://127.0.0.1:8420"
SILENT_S = 45.0
"""A live stream that shows nothing for so long, not even a heartbeat, is dead."""
SHOWN = 100
"""Characters of a wrong address that are shown."""
W = TypeVar("W", bound=Word)


class Connection(BaseSettings):
    """AUTOPATCH_URL, AUTOPATCH_TOKEN and the state folder."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_", frozen=True, extra="ignore")

    url: str = ""
    token: SecretStr = SecretStr("")
    state: str = ".autopatch"


def _address(url: str) -> str:
    """The same. Raises ValueError when no gateway can be there."""
    reason = ""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, UnicodeError) as error:
        reason = str(error)
    else:
        if parsed.scheme not in ("http", "https"):
            reason = "it does not begin with http:// or https://"
        elif not parsed.host:
            reason = "it names no host"
        elif (parsed.port or 0) > 65535:
            reason = "a port is at most 65535"
    if reason:
        raise ValueError(f"{url[:SHOWN]!r} is not an address: {reason}")
    return url


def _sendable(token: str) -> str:
    """The same. Raises ValueError, without the token, when it does not fit into a header."""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError("a token has only printable ASCII characters, and no space")
    return token


class Kept(BaseModel):
    """What `autopatch up` leaves for later commands."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    url: Annotated[str, AfterValidator(_address)]
    token: Annotated[SecretStr, AfterValidator(lambda token: SecretStr(_sendable(token.get_secret_value())))] = SecretStr("")


@dataclass
class Session:
    """What the root options said; it travels as the context's object."""

    url: str = ""
    token: str = ""

    def connection(self) -> tuple[str, str]:
        """URL and token: options over environment over <state>/cli.json over ~/.config/autopatch/cli.yaml.

        A kept token is sent only to the URL that it was kept for. Raises OperatorError.
        """
        env = _environment()
        kept = _kept(env)
        url, token = self.url or env.url, self.token or env.token.get_secret_value()
        url = (url or (kept.url if kept else "") or DEFAULT_URL).rstrip("/")
        self._check("url", lambda: _address(url), "give the gateway's address, such as http://127.0.0.1:8420")
        if not token and kept and kept.url.rstrip("/") == url:
            token = kept.token.get_secret_value()
        self._check("token", lambda: _sendable(token), "give the token as it was made, without anything around it")
        return url, token

    def _check(self, name: str, call: Callable[[], object], tip: str) -> None:
        """A fault is named by where it came from; what was said on the command line is wrong usage."""
        try:
            call()
        except ValueError as error:
            if getattr(self, name):
                raise Usage(f"--{name}: {error}", tip=tip) from None
            raise OperatorError(f"AUTOPATCH_{name.upper()}: {error}", tip=tip) from None

    def configured(self) -> str:
        """'said' by an option or the environment, 'kept' by an earlier `autopatch up`, or '' for none. Raises OperatorError."""
        env = _environment()
        if self.url or env.url:
            return "said"
        return "kept" if _kept(env) else ""


def _environment() -> Connection:
    try:
        return Connection()
    except ValidationError as error:
        names = ", ".join(f"AUTOPATCH_{fault['loc'][0]}".upper() for fault in error.errors(include_input=False))
        raise OperatorError(f"{names}: not text", tip="set it to text in UTF-8, or unset it") from None


def _kept(env: Connection) -> Kept | None:
    return read_kept(Path(env.state) / "cli.json") or read_kept(Path.home() / ".config" / "autopatch" / "cli.yaml")


def read_kept(path: Path) -> Kept | None:
    """None when there is none. Raises OperatorError when others can read or could have written it."""
    try:
        found = path.stat()
        if found.st_uid not in (os.getuid(), 0) or found.st_mode & 0o077:
            raise OperatorError(f"{path} holds a token and is not for its owner only", tip=f"chmod 600 {path}")
        return Kept.model_validate(YAML(typ="safe", pure=True).load(path.read_text()))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from None
    except FAULTS:  # a ValueError is not UTF-8, or has other fields
        tip = "remove it, and set AUTOPATCH_TOKEN if the gateway wants one"
        raise OperatorError(f"{path} holds no url and token that can be used", tip=tip) from None


def keep(path: Path, url: str, token: str) -> None:
    """Write what later commands need, for the owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"url": url, "token": token}, file)
    draft.replace(path)


def gateway(ctx: typer.Context) -> "Gateway":
    """The one that the root options, the environment or the kept file name. Raises OperatorError."""
    made = Gateway(*Session(**(ctx.obj or {})).connection())
    ctx.call_on_close(made.close)
    return made


class Gateway:
    """Requests to the gateway. Every method raises GatewayRefused or Unavailable."""

    def __init__(self, url: str, token: str, *, timeout_s: float = 30) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        local = url.startswith(("http://127.", "http://localhost", "http://[::1]"))
        self._client = httpx2.Client(base_url=url, headers=headers, timeout=timeout_s, trust_env=not local)

    def ask(self, method: str, path: str, *, params: dict[str, Any] | None = None, body: Any = None) -> Any:
        """The answer's JSON, harmless to print."""
        given = {key: value for key, value in (params or {}).items() if value not in (None, "", [])}
        try:
            answer = self._client.request(method, f"/v1{path}", params=given, json=body)
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        _check(answer)
        return _json(answer)

    def data(self, path: str) -> bytes:
        """The answer's bytes."""
        try:
            answer = self._client.get(f"/v1{path}")
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        _check(answer)
        return answer.content

    def alive(self) -> bool:
        """Does it answer?"""
        try:
            return self._client.get("/healthz", timeout=2).is_success
        except httpx2.HTTPError:
            return False

    def get(self, path: str, kind: type[W], params: dict[str, Any] | None = None) -> W:
        """The answer as one of the gateway's views."""
        return _read(kind, self.ask("GET", path, params=params))

    def follow(self, after: int, incident_id: str = "") -> Iterator[tuple[Stored, str]]:
        """Events with their line for people, until the connection ends. Raises Unavailable when it cannot be made."""
        headers, params = {"Last-Event-ID": str(after)}, {"incident": incident_id} if incident_id else {}
        try:
            patience = httpx2.Timeout(10, read=SILENT_S)
            with self._client.stream("GET", "/v1/events", params=params, headers=headers, timeout=patience) as got:
                if not got.is_success:
                    got.read()
                _check(got)
                for event in httpx2.EventSource(got):
                    if event.event == "error":
                        return
                    if event.id:
                        yield _event(event.data)
        except (httpx2.ReadTimeout, httpx2.RemoteProtocolError, httpx2.ReadError):
            return
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error

    def follow_on(
        self, after: int, incident_id: str, lost: Callable[[str], None], patience_s: float = 120
    ) -> Iterator[tuple[Stored, str]]:
        """The same over broken connections; `lost(reason)` is told. Gives up after `patience_s` without one that works.

        Raises at once when the first connection cannot be made.
        """
        alive, told = -patience_s, ""
        while True:
            try:
                for stored, text in self.follow(after, incident_id):
                    after, alive = stored.sequence, time.monotonic()
                    yield stored, text
                alive, reason = time.monotonic(), "the connection ended"
            except Unavailable as error:
                if time.monotonic() - alive > patience_s:
                    raise
                reason = str(error.args[0])
            if reason != told:
                lost(reason)
            told = reason
            time.sleep(1)

    def close(self) -> None:
        """Its connections."""
        self._client.close()

    def _unreachable(self, error: httpx2.HTTPError) -> Unavailable:
        reason = f"no answer at {self.url} ({type(error).__name__})"
        return Unavailable("gateway", reason, tip="start it with `autopatch up`, or set AUTOPATCH_URL")


def _check(answer: httpx2.Response) -> None:
    if answer.is_success:
        return
    told = _json(answer, strict=False)
    message, tip = str(told.get("error", f"HTTP status {answer.status_code}")), str(told.get("tip", ""))
    if answer.status_code == 401:
        tip = "set AUTOPATCH_TOKEN; `autopatch doctor` checks the tokens"
    if answer.status_code in (502, 503, 504):
        service, _, reason = message.partition(": ")
        raise Unavailable(service, reason or "is not available", tip=tip or "`autopatch doctor` says what is missing")
    raise GatewayRefused(message, tip=tip, status=answer.status_code)


def _json(answer: httpx2.Response, *, strict: bool = True) -> Any:
    try:
        return plain(answer.json())
    except ValueError:
        if not strict:
            return {}
        raise Unavailable("gateway", "the answer is not JSON", tip="is AUTOPATCH_URL really the gateway's address?") from None


def _read(kind: type[W], value: Any) -> W:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        reason = f"an answer that this version cannot read: {error.error_count()} faults"
        raise Unavailable("gateway", reason, tip="use the same version as the server") from None


def _event(data: str) -> tuple[Stored, str]:
    told = json.loads(data)
    return Stored(told["sequence"], decode(json.dumps(told["envelope"]).encode())), str(plain(told["text"]))

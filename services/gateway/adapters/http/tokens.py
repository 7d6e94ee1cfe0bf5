"""The tokens file: who may enter. Only digests of tokens are in it. Whatever is wrong with it, nobody gets in."""

import hashlib
import hmac
import secrets
from io import StringIO
from pathlib import Path
from typing import Annotated

import structlog
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from ruamel.yaml import YAML

from autopatch.chassis.yaml_text import parsed
from autopatch.contract.catalogue import ROOMS
from autopatch.contract.errors import OperatorError
from services.gateway.agent import Caller, Role
from services.gateway.ports import Unauthenticated

log = structlog.get_logger("tokens")
TIP = (
    "a YAML list of {name, role, sha256, person}, not writable by everybody: sha256 is what `printf %s TOKEN | sha256sum` "
    "prints; where there is no such file the first `autopatch up` makes one"
)


class Entry(BaseModel):
    """One token. `sha256` is of the token's text; `person: true` when one human being holds it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._@-]{0,62}$")
    role: Role
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    person: bool = False


_ENTRIES = TypeAdapter(Annotated[list[Entry], Field(min_length=1)])


def mint(name: str, role: Role, *, person: bool) -> tuple[str, Entry]:
    """A new token, and what belongs into the file for it. The token itself is kept nowhere."""
    token = secrets.token_urlsafe(32)
    return token, Entry(name=name, role=role, sha256=hashlib.sha256(token.encode()).hexdigest(), person=person)


def write(path: Path, entries: list[Entry]) -> None:
    """The whole file anew, for its owner only; it is never half written."""
    text = StringIO()
    YAML(typ="safe").dump([entry.model_dump() for entry in entries], text)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    draft.touch(mode=0o600)
    draft.write_text(text.getvalue())
    draft.replace(path)


def read(path: Path) -> list[Entry]:
    """Raises OperatorError naming the file and the entry."""
    try:
        if path.stat().st_mode & 0o002:
            raise OperatorError(f"{path} is writable by everybody", tip=f"chmod o-w {path}")
        entries = _ENTRIES.validate_python(parsed(path.read_text("utf-8"), str(path), tip=TIP))
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"{path}: {getattr(error, 'strerror', '') or 'cannot be read as text'}", tip=TIP) from None
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the file"
        raise OperatorError(f"{path}: {where}: {fault['msg']}", tip=TIP) from None
    for what, found in (("name", [e.name for e in entries]), ("sha256", [e.sha256 for e in entries])):
        if len(set(found)) < len(found):
            raise OperatorError(f"{path}: two entries have the same {what}", tip="one token per entry, one entry per name")
    if rooms := [e.name for e in entries if e.name in ROOMS]:
        raise OperatorError(f"{path}: {rooms[0]} is the name of a room", tip="a token is named after who holds it")
    return entries


class TokenFile:
    """Read again whenever it changes, so that taking an entry out shuts its holder out at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._entries: list[Entry] = []

    def caller(self, authorization: str) -> Caller:
        """Whose bearer token this is. Every entry is compared, in constant time. Raises Unauthenticated."""
        self.refresh()
        scheme, _, token = authorization.partition(" ")
        presented = hashlib.sha256(token.strip().encode()).hexdigest() if scheme.lower() == "bearer" else ""
        known = [entry for entry in self._entries if hmac.compare_digest(entry.sha256, presented)]
        if not known:
            raise Unauthenticated("no valid token", tip="send `Authorization: Bearer <token>`; an admin gives you one")
        return Caller(known[0].name, known[0].role, known[0].person)

    def refresh(self) -> None:
        """Called at start too, so that a missing file is logged before the first person is refused."""
        now = self._stamp()
        if now == self._seen:
            return
        self._entries = []  # whatever happens now, those that were let in before are not
        try:
            self._entries = read(self._path)
            log.info("tokens read", file=str(self._path), entries=len(self._entries))
        except OperatorError as error:
            log.error("nobody can enter", reason=str(error))
        self._seen = now

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)

"""Where a private AutoPatch lives: a folder that no other job uses meanwhile, a log, and a nats-server of its own."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from autopatch.chassis import logs, permissions
from autopatch.chassis.llm.settings import cache_home
from autopatch.chassis.settings import Common, load
from autopatch.cli import locks
from autopatch.cli.lab import nats
from autopatch.contract.errors import OperatorError

KEPT_BYTES = 1024**3
"""A log and object store of earlier jobs that have grown larger begin anew; lessons are kept elsewhere."""
LOG = "repair.log"
WAIT_S = 10.0
"""For an engine or a model that is missing: nobody is there who would bring it."""


@contextmanager
def folder(note: Callable[[str], None]) -> Iterator[Path]:
    """Ours alone: the one that lessons are kept in, or one for this job when another job is in there."""
    kept = cache_home() / "autopatch" / "repair"
    try:
        kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OperatorError(f"{kept}: {error.strerror}", tip="set XDG_CACHE_HOME to a folder that can be written to") from None
    with locks.held(kept / "lock") as ours:
        if not ours:
            note("another repair is under way: this one neither uses its lessons nor adds to them")
            with tempfile.TemporaryDirectory(prefix="autopatch-repair-") as own:
                yield Path(own)
            return
        if _size(kept / "nats") > KEPT_BYTES:
            shutil.rmtree(kept / "nats")
        yield kept


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def logged(at: Path) -> Iterator[None]:
    """The rooms' log goes to a file, which begins anew with each job."""
    with (at / LOG).open("w", buffering=1) as file:
        with redirect_stderr(file):
            logs.set_up("INFO")
        yield


@contextmanager
def server(at: Path) -> Iterator[Common]:
    """The settings with a server of this job's own in them."""
    keys = at / "keys"
    users = permissions.server_config(permissions.make_keys(keys))
    common: Common = load(Common)
    patience = {} if "waiting_limit_s" in common.model_fields_set else {"waiting_limit_s": WAIT_S}
    started = nats.start(at / "nats", authorization=users)
    own = {"nats_url": started.url, "nkey_folder": str(keys), "state": str(at), "retry_s": 1.0}
    try:
        yield common.model_copy(update=own | patience)
    finally:
        started.kill()  # every write was synced before it was acknowledged: there is nothing to wait for

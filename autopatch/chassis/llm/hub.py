"""The Hugging Face hub as a source of the model; a hub that does not answer within seconds is passed over."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autopatch.contract.errors import Unavailable

PROBE_S = 3.0

Progress = Callable[[int, int, str], None]
"""Bytes so far, bytes in all, and what is going on."""


def from_hub(
    repo: str, file: str, size: int, sha256: str, folder: Path, progress: Progress, *, endpoint: str | None = None
) -> Path:
    """Download `file` of `repo` into `folder`. The caller verifies the digest. Raises Unavailable("model hub")."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise Unavailable(
            "model hub", "the package huggingface_hub is not installed", tip="pip install 'autopatch[local-model]'"
        ) from error
    progress(0, size, "asking the model hub")
    _probe(repo, file, size, sha256, endpoint)
    try:
        path = huggingface_hub.hf_hub_download(
            repo, file, local_dir=folder, etag_timeout=PROBE_S, endpoint=endpoint, tqdm_class=_reporting(progress, size)
        )
    except _network_errors() as error:
        raise Unavailable("model hub", f"the download failed: {_line(error)}") from error
    return Path(path)


def _probe(repo: str, file: str, size: int, sha256: str, endpoint: str | None) -> None:
    """Ask for size and digest, in a thread: a resolver that hangs obeys no HTTP timeout."""
    outcome: list[str] = []

    def ask() -> None:
        import huggingface_hub

        url = huggingface_hub.hf_hub_url(repo, file, endpoint=endpoint)
        try:
            meta = huggingface_hub.get_hf_file_metadata(url, timeout=PROBE_S, endpoint=endpoint)
        except _network_errors() as error:
            outcome.append(f"no answer: {_line(error)}")
            return
        same = meta.size == size and (meta.etag or "") in (sha256, "")
        outcome.append("" if same else "it holds another file under this name")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PROBE_S)
    reason = outcome[0] if outcome else f"no answer within {PROBE_S:.0f} s"
    if reason:
        raise Unavailable("model hub", reason)


def _network_errors() -> tuple[type[Exception], ...]:
    import httpx2
    from huggingface_hub.errors import EntryNotFoundError, FileMetadataError, HfHubHTTPError, OfflineModeIsEnabled

    return (OSError, ValueError, httpx2.HTTPError, HfHubHTTPError, OfflineModeIsEnabled, EntryNotFoundError, FileMetadataError)


def _line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def _reporting(progress: Progress, size: int) -> type[Any]:
    """The library reports through a tqdm class; this one hands the byte count on and prints nothing."""
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    class Reporting(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("name", None)
            super().__init__(*args, **{**kwargs, "disable": True})
            self.got = int(kwargs.get("initial") or 0)

        def update(self, n: float | None = 1) -> None:
            self.got += int(n or 0)
            progress(self.got, size, "from the model hub")

    return Reporting

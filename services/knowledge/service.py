"""Composition root of the knowledge room."""

from pathlib import Path

import structlog

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.redaction import redact
from autopatch.chassis.room import Room
from autopatch.contract.catalogue import ENDINGS
from autopatch.contract.errors import OperatorError
from autopatch.contract.requests import Found, IndexCode, Indexed, Recall, Recalled, Search
from services.knowledge.adapters.code.index import CodeIndex
from services.knowledge.adapters.embedder import embedder
from services.knowledge.adapters.http.routes import router
from services.knowledge.adapters.sources.documents import read_folder
from services.knowledge.adapters.stores.edge import EdgeStore
from services.knowledge.corpus import Corpus
from services.knowledge.memory import Memory
from services.knowledge.opening import Opening
from services.knowledge.ports import Embedder, Store
from services.knowledge.settings import Settings

log = structlog.get_logger("knowledge")
SIZE = 384


def build(settings: Settings, chassis: Chassis, *, store: Store | None = None, embeds: Embedder | None = None) -> Room:
    """The room. Tests pass a `store`, or an embedder of their own. Raises OperatorError."""
    embeds = embeds or embedder(settings.embedder, settings.threads)
    corpus = Corpus(store or _store(settings, embeds.size if embeds else SIZE), embeds, redact)
    memory = Memory(
        corpus, chassis.clock, redact, lambda target: _names(chassis, target),
        half_life_days=settings.half_life_days, trust_bar=settings.trust_bar,
    )
    folder = _runbooks(settings)
    opening = Opening(corpus, read_folder(folder) if folder else (), f"folder:{folder.resolve()}" if folder else "")

    async def search(question: Search) -> Found:
        await opening.ensure()
        return await corpus.search(question)

    async def recall(question: Recall) -> Recalled:
        await opening.ensure()
        return await memory.recall(question)

    code = CodeIndex(corpus, chassis.blobs, redact)

    async def index(question: IndexCode) -> Indexed:
        await opening.ensure()
        return await code.index(question.job)

    routes = router(opening, corpus, memory, code, settings.token.get_secret_value())

    async def fill() -> None:
        await corpus.keep_filled(chassis.clock.sleep)

    return Room(
        name="knowledge", handlers=dict.fromkeys(ENDINGS, memory.learn),
        responders={Search: search, Recall: recall, IndexCode: index}, background=(fill,),
        routers=(routes,), on_start=(opening.at_start,), on_stop=(corpus.close,), historian=True,
    )


def _store(settings: Settings, size: int) -> Store:
    if settings.url:
        from services.knowledge.adapters.stores.server import ServerStore, by_url  # 50 MB that the embedded engine does without

        connect = by_url(settings.url, settings.api_key.get_secret_value(), settings.server_timeout_s)
        return ServerStore(connect, size)
    return EdgeStore(Path(settings.folder), size)


def _runbooks(settings: Settings) -> Path | None:
    """The default folder may be absent; one that the operator named may not."""
    folder = Path(settings.runbooks)
    if settings.runbooks and folder.is_dir():
        return folder
    if settings.runbooks and "runbooks" in settings.model_fields_set:
        message = f"AUTOPATCH_KNOWLEDGE_RUNBOOKS: {folder} is not a folder"
        raise OperatorError(message, tip="name a folder of Markdown files, or set it empty")
    log.warning("no runbooks", folder=settings.runbooks)
    return None


def _names(chassis: Chassis, target: str) -> set[str]:
    """What a runbook may call the target."""
    known = chassis.targets.get(target)
    return {target, *(known.match.values() if known else ())}

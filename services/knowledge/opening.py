"""Nothing is answered before the store is open and the runbooks are in it: a missing runbook must not look like none."""

import asyncio
from collections.abc import Sequence

import structlog

from autopatch.contract.errors import Unavailable
from services.knowledge.adapters.sources.documents import Document
from services.knowledge.corpus import Corpus

log = structlog.get_logger("knowledge")


class Opening:
    """`origin` names the folder that the runbooks were read from; '' when there is none."""

    def __init__(self, corpus: Corpus, runbooks: Sequence[Document], origin: str) -> None:
        self._corpus = corpus
        self._runbooks = runbooks
        self._origin = origin
        self._done = False
        self._turn = asyncio.Lock()

    async def ensure(self) -> None:
        """Open and ingest, once. Raises Unavailable; whoever asks next tries again."""
        async with self._turn:
            if not self._done:
                await self._open()

    async def at_start(self) -> None:
        """Raises OperatorError for what a person must mend. A store that is away is waited for."""
        async with self._turn:
            try:
                await self._open()
            except Unavailable as error:
                log.warning("starting without qdrant; every question waits for it", error=str(error))

    async def _open(self) -> None:
        await self._corpus.store.open()
        if self._origin:
            done = await self._corpus.ingest(self._runbooks, self._origin, complete=True)
            log.info("runbooks read", origin=self._origin, **vars(done))
        self._done = True

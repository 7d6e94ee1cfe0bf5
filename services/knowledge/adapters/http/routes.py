"""HTTP for people's tools on this machine; from elsewhere people ask the gateway."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from autopatch.contract.requests import Found, Lesson, Recall, Recalled, Search
from autopatch.contract.target import Strict
from services.knowledge.adapters.code.index import CodeIndex
from services.knowledge.adapters.http.door import door
from services.knowledge.adapters.sources.attachments import sent
from services.knowledge.adapters.sources.documents import LARGEST, read
from services.knowledge.corpus import Corpus
from services.knowledge.memory import Memory
from services.knowledge.opening import Opening

Kind = Literal["lesson", "incident", "runbook", "document", "code"]


class Text(Strict):
    """One document; Markdown, with front matter when it is a runbook."""

    source: str = Field(min_length=1, max_length=500, description="where it is from, such as the path of a file")
    text: str = Field(max_length=LARGEST)
    attached: dict[str, str] = Field(default_factory=dict, description="texts of files beside it, by their path from it")


class Ingest(Strict):
    """Documents to keep. With `complete` they are all there are of `origin`: what else was ingested of it is removed."""

    documents: tuple[Text, ...] = Field(max_length=500)
    origin: str = Field(default="api", min_length=1, max_length=500)
    complete: bool = False


def router(opening: Opening, corpus: Corpus, memory: Memory, code: CodeIndex, token: str) -> APIRouter:
    """The routes under /v1/knowledge; those that write need the token."""
    routes = APIRouter(prefix="/v1/knowledge", route_class=door(token))

    @routes.get("/search")
    async def search(
        q: Annotated[str, Query(min_length=1, max_length=4000)], target: str = "",
        kind: Annotated[tuple[Kind, ...], Query()] = (), limit: Annotated[int, Query(ge=1, le=50)] = 5,
    ) -> Found:
        await opening.ensure()
        return await corpus.search(Search(text=q, target=target, kinds=kind, limit=limit))

    @routes.get("/recall")
    async def recall(question: Annotated[Recall, Query()]) -> Recalled:
        await opening.ensure()
        return await memory.recall(question)

    @routes.post("/ingest")
    async def ingest(body: Ingest) -> dict[str, int]:
        documents = [read(document.source, document.text, sent(document.attached)) for document in body.documents]
        await opening.ensure()
        return vars(await corpus.ingest(documents, body.origin, complete=body.complete))

    @routes.get("/lessons")
    async def lessons() -> list[Lesson]:
        await opening.ensure()
        return await memory.lessons()

    @routes.delete("/documents")
    async def remove(source: Annotated[str, Query(min_length=1)]) -> dict[str, Any]:
        await opening.ensure()
        return {"source": source, "removed": await corpus.remove(source)}

    @routes.delete("/code")
    async def forget(repository: Annotated[str, Query(min_length=1)]) -> dict[str, Any]:
        await opening.ensure()
        return {"repository": repository, "removed": await code.forget(repository)}

    return routes

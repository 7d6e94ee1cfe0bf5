"""Hands documents to the knowledge room over its own HTTP."""

from collections.abc import Sequence

import httpx2
from pydantic import ValidationError

from autopatch.contract.errors import OperatorError, Unavailable
from services.gateway.ports import Document, Ingested

TIP = "set AUTOPATCH_GATEWAY_KNOWLEDGE_URL, and AUTOPATCH_GATEWAY_KNOWLEDGE_TOKEN to what its AUTOPATCH_KNOWLEDGE_TOKEN is"


class KnowledgeDoor:
    """POST <url>/v1/knowledge/ingest {documents: [{source, text}]}. Without URL and token nothing is forwarded."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._token = token

    async def ingest(self, documents: Sequence[Document]) -> Ingested:
        """Raises Unavailable, OperatorError when the room refuses the documents."""
        if not (self._url and self._token):
            raise Unavailable("knowledge", "the gateway does not know its address and token", tip=TIP)
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            async with httpx2.AsyncClient(timeout=60, headers=headers, trust_env=False) as client:
                body = {"documents": [document.model_dump() for document in documents]}
                answer = await client.post(f"{self._url}/v1/knowledge/ingest", json=body)
            if answer.status_code == 401:
                raise Unavailable("knowledge", "it does not take the gateway's token", tip=TIP)
            if 400 <= answer.status_code < 500:
                raise OperatorError(_said(answer), tip="correct the document")
            answer.raise_for_status()
            return Ingested.model_validate_json(answer.content)
        except (httpx2.HTTPError, ValidationError) as error:
            raise Unavailable("knowledge", f"documents: {type(error).__name__}") from error


def _said(answer: httpx2.Response) -> str:
    try:
        return f"the knowledge room refused the documents: {str(answer.json()['error'])[:300]}"
    except (ValueError, KeyError, TypeError):
        return "the knowledge room refused the documents"

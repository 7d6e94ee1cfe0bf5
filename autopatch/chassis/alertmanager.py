"""A client of Alertmanager's API v2: which alerts does it hold, and is one of them silenced?"""

import asyncio
from datetime import datetime
from typing import Literal, TypeVar

import httpx2
from pydantic import Field, TypeAdapter, ValidationError

from autopatch.chassis.tls import trusted
from autopatch.contract.errors import Unavailable
from autopatch.contract.model import Moment, Word

MAX_BYTES = 32 * 1024 * 1024

T = TypeVar("T")


class HeldStatus(Word):
    """`suppressed` by a silence or by an inhibition; the ids of either."""

    state: Literal["unprocessed", "active", "suppressed"] = "active"
    silenced_by: tuple[str, ...] = Field(default=(), alias="silencedBy")
    inhibited_by: tuple[str, ...] = Field(default=(), alias="inhibitedBy")


class HeldAlert(Word):
    """An alert that Alertmanager holds now. `ends_at` lies in the future while it fires."""

    labels: dict[str, str]
    annotations: dict[str, str] = Field(default_factory=dict)
    starts_at: Moment = Field(alias="startsAt")
    ends_at: datetime | None = Field(default=None, alias="endsAt")
    generator_url: str = Field(default="", alias="generatorURL")
    status: HeldStatus = HeldStatus()


class Cluster(Word):
    """`settling`: still learning from its peers, so its answers have gaps."""

    status: Literal["ready", "settling", "disabled"] = "disabled"


class Version(Word):
    """Which Alertmanager."""

    version: str = ""


class AlertmanagerStatus(Word):
    """`started_at`: alerts are in memory only, so a young server does not know all that fire."""

    started_at: Moment = Field(alias="uptime")
    cluster: Cluster = Cluster()
    version: Version = Field(default=Version(), alias="versionInfo")


_ALERTS = TypeAdapter(tuple[HeldAlert, ...])
_STATUS = TypeAdapter(AlertmanagerStatus)


class Alertmanager:
    """One server. Every method raises Unavailable("alertmanager") when it is missing, slow, or answers something else."""

    def __init__(
        self, url: str, *, bearer_token: str = "", client: httpx2.AsyncClient | None = None, timeout_s: float = 5.0
    ) -> None:
        self._base = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {bearer_token}"} if bearer_token else {}
        self._client = client or httpx2.AsyncClient(verify=trusted(), trust_env=False)
        self._owned = client is None
        self._timeout_s = timeout_s

    async def alerts(self) -> tuple[HeldAlert, ...]:
        """All of them, active and suppressed. Either complete or Unavailable, never a part."""
        return await self._get("/api/v2/alerts", _ALERTS)

    async def status(self) -> AlertmanagerStatus:
        """Since when it runs, and whether its cluster has settled."""
        return await self._get("/api/v2/status", _STATUS)

    async def aclose(self) -> None:
        """Close connections that this client opened."""
        if self._owned:
            await self._client.aclose()

    async def _get(self, path: str, shape: TypeAdapter[T]) -> T:
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._client.stream(
                    "GET", self._base + path, headers=self._headers, timeout=self._timeout_s
                ) as response:
                    async for chunk in response.aiter_bytes():
                        body += chunk
                        if len(body) > MAX_BYTES:
                            raise self._missing(f"the answer is larger than {MAX_BYTES // 2**20} MiB")
        except TimeoutError as error:
            raise self._missing(f"no answer within {self._timeout_s:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._missing(f"{type(error).__name__}: {error}"[:200]) from error
        if response.status_code != 200:
            raise self._missing(f"{path}: HTTP {response.status_code}")
        try:
            return await asyncio.to_thread(shape.validate_json, bytes(body))
        except ValidationError as error:
            raise self._missing(
                f"{path}: not an answer of API v2 ({error.error_count()} faults)", tip="Alertmanager 0.16 or newer is needed"
            ) from error

    def _missing(self, reason: str, *, tip: str = "") -> Unavailable:
        return Unavailable("alertmanager", reason, tip=tip)

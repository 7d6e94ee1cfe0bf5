"""A client of Prometheus' HTTP API (2.42 and 3.x). What a query gives is told apart: a value, nothing, or failed(reason)."""

import asyncio
import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx2
from pydantic import Field, ValidationError

from autopatch.chassis.tls import trusted
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.model import Word
from autopatch.contract.target import Target

MAX_POINTS = 11_000
"""Prometheus refuses range queries with more points per series."""
MAX_BYTES = 32 * 1024 * 1024
_SHORTAGES = ("timeout", "canceled", "unavailable")

W = TypeVar("W", bound=Word)


class Series(Word):
    """One series: unix seconds and the value at each, oldest first. Never empty, never NaN or infinite."""

    labels: dict[str, str] = Field(default_factory=dict)
    times: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.values[-1]


class Value(Word):
    """At least one series. `dropped` counts samples that were no number (NaN, infinite, native histograms)."""

    status: Literal["value"] = "value"
    series: tuple[Series, ...] = Field(min_length=1)
    dropped: int = 0
    step_s: float = Field(default=0, description="seconds between points as asked of Prometheus; 0 for an instant query")
    warnings: tuple[str, ...] = ()

    @property
    def number(self) -> float | None:
        """The newest value when there is exactly one series, else None."""
        return self.series[0].last if len(self.series) == 1 else None


class Nothing(Word):
    """Prometheus answered and had no number: neither zero nor a failure."""

    status: Literal["nothing"] = "nothing"
    reason: str = "no series"
    dropped: int = 0
    warnings: tuple[str, ...] = ()


class Failed(Word):
    """Prometheus refused the query; `reason` is its own message."""

    status: Literal["failed"] = "failed"
    reason: str


Result = Value | Nothing | Failed


class FiringAlert(Word):
    """An alert as Prometheus itself evaluates it."""

    labels: dict[str, str]
    annotations: dict[str, str] = Field(default_factory=dict)
    state: str
    active_at: datetime | None = Field(default=None, alias="activeAt")


class AlertRule(Word):
    """An alerting rule; `duration` is its `for`, in seconds."""

    name: str
    query: str
    duration: float = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    state: str = ""
    health: str = ""
    last_error: str = Field(default="", alias="lastError")
    alerts: tuple[FiringAlert, ...] = ()


class Prometheus:
    """One server. Every method raises Unavailable("prometheus") when it is missing, slow, or answers something else."""

    def __init__(
        self, url: str, *, bearer_token: str | Callable[[], str] = "", tenant: str = "",
        client: httpx2.AsyncClient | None = None, timeout_s: float = 10.0,
    ) -> None:
        """`bearer_token` may be a function, asked before each request; `tenant` is sent as X-Scope-OrgID."""
        self._base = _without_userinfo(url.rstrip("/")) if bearer_token else url.rstrip("/")
        self._token = bearer_token
        self._tenant = tenant
        self._client = client or httpx2.AsyncClient(verify=trusted(), trust_env=False)
        self._owned = client is None
        self._timeout_s = timeout_s

    @classmethod
    def from_target(cls, target: Target, *, client: httpx2.AsyncClient | None = None) -> "Prometheus":
        """The server that a target names. Raises OperatorError when its bearer token file cannot be read."""
        source = target.prometheus
        if not source.bearer_token_file:
            return cls(source.url, tenant=source.tenant, client=client)
        _read_token(target)
        return cls(source.url, bearer_token=lambda: _read_token(target), tenant=source.tenant, client=client)

    async def query(self, expr: str, at: datetime | None = None) -> Result:
        """An instant query; `at` defaults to the server's now."""
        form = {"query": expr} | ({"time": f"{at.timestamp():.3f}"} if at else {})
        return await self._ask("/api/v1/query", form, 0.0)

    async def query_range(self, expr: str, start: datetime, end: datetime, step_s: float) -> Result:
        """A range query. The step grows when the range would give more than 11,000 points; `Value.step_s` says to what."""
        step = max(step_s, math.ceil((end - start).total_seconds() / (MAX_POINTS - 1) * 1000) / 1000)
        form = {
            "query": expr, "start": f"{start.timestamp():.3f}", "end": f"{end.timestamp():.3f}", "step": f"{step:.3f}",
        }
        return await self._ask("/api/v1/query_range", form, step)

    async def rules(self) -> tuple[AlertRule, ...]:
        """All alerting rules with the alerts that each has now."""
        data = await self._get("/api/v1/rules?type=alert")
        return self._words(AlertRule, (rule for group in data.get("groups", ()) for rule in group.get("rules", ())))

    async def alerts(self) -> tuple[FiringAlert, ...]:
        """Pending and firing alerts."""
        return self._words(FiringAlert, (await self._get("/api/v1/alerts")).get("alerts", ()))

    async def ready(self) -> None:
        """Returns when the server serves queries."""
        status, _ = await self._send("GET", "/-/ready")
        if status != 200:
            raise self._missing(f"not ready: HTTP {status}")

    async def aclose(self) -> None:
        """Close connections that this client opened."""
        if self._owned:
            await self._client.aclose()

    async def _ask(self, path: str, form: dict[str, str], step_s: float) -> Result:
        status, body = await self._send("POST", path, {**form, "timeout": f"{int(self._timeout_s * 1000)}ms"})
        if len(body) > MAX_BYTES:
            return Failed(reason=f"the answer is larger than {MAX_BYTES // 2**20} MiB; narrow the query")
        answer = await asyncio.to_thread(self._decode, status, body)
        if answer.get("status") == "error":
            return Failed(reason=str(answer.get("error", "no reason given")))
        warnings = tuple(str(w) for w in (*(answer.get("warnings") or ()), *(answer.get("infos") or ())))
        try:
            return await asyncio.to_thread(_result, answer["data"], step_s, warnings)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise self._missing(f"an answer that is not Prometheus': {error!r}"[:200]) from error

    async def _get(self, path: str) -> dict[str, Any]:
        answer = self._decode(*await self._send("GET", path))
        data = answer.get("data")
        if answer.get("status") != "success" or not isinstance(data, dict):
            raise self._missing(f"{path}: {answer.get('error', 'no data')}"[:200])
        return data

    async def _send(self, method: str, path: str, form: dict[str, str] | None = None) -> tuple[int, bytes]:
        token = self._token if isinstance(self._token, str) else self._token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"X-Scope-OrgID": self._tenant} if self._tenant else {}
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout_s * 1.1):
                async with self._client.stream(
                    method, self._base + path, data=form, headers=headers, timeout=self._timeout_s * 1.1
                ) as response:
                    async for chunk in response.aiter_bytes():
                        body += chunk
                        if len(body) > MAX_BYTES:
                            break
                    return response.status_code, bytes(body)
        except TimeoutError as error:
            raise self._missing(f"no answer within {self._timeout_s:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._missing(f"{type(error).__name__}: {error}"[:200]) from error

    def _decode(self, status: int, body: bytes) -> dict[str, Any]:
        """The answer's JSON; an error in it is left to the caller only when it is about the query."""
        if status in (401, 403):
            raise self._missing(f"HTTP {status}: not let in", tip="check prometheus.bearer_token_file and tenant of the target")
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self._missing(f"HTTP {status} without JSON", tip="is prometheus.url the address of a Prometheus?") from error
        if not isinstance(answer, dict) or (status not in (200, 400, 422)):
            reason = answer.get("error", "") if isinstance(answer, dict) else "not an object"
            raise self._missing(f"HTTP {status}: {reason}"[:300])
        if answer.get("errorType") in _SHORTAGES:
            raise self._missing(str(answer.get("error"))[:300])
        return answer

    def _words(self, kind: type[W], items: Iterable[Any]) -> tuple[W, ...]:
        try:
            return tuple(kind.model_validate(item) for item in items)
        except ValidationError as error:
            raise self._missing(f"an answer that is not Prometheus': {error.error_count()} faults") from error

    def _missing(self, reason: str, *, tip: str = "") -> Unavailable:
        return Unavailable("prometheus", f"{_without_userinfo(self._base)}: {reason}", tip=tip)


from_target = Prometheus.from_target


def _result(data: Mapping[str, Any], step_s: float, warnings: tuple[str, ...]) -> Result:
    kind, found = data["resultType"], data["result"]
    if kind == "string":
        return Failed(reason="the query gives a string, not a number")
    raw = [{"metric": {}, "value": found}] if kind == "scalar" else found
    series, dropped = [], 0
    for item in raw:
        points = item.get("values") or ([item["value"]] if "value" in item else [])
        dropped += len(item.get("histograms") or ([item["histogram"]] if "histogram" in item else []))
        good = [(float(t), v) for t, v in ((t, float(v)) for t, v in points) if math.isfinite(v)]
        dropped += len(points) - len(good)
        if good:
            times, values = zip(*good, strict=True)
            series.append(Series(labels=item["metric"], times=times, values=values))
    if not series:
        reason = f"{dropped} samples, none of them a number (NaN, infinite or a histogram)" if dropped else "no series"
        return Nothing(reason=reason, dropped=dropped, warnings=warnings)
    return Value(series=tuple(series), dropped=dropped, step_s=step_s, warnings=warnings)


def _read_token(target: Target) -> str:
    path = target.prometheus.bearer_token_file
    try:
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(
            f"target {target.name}: prometheus.bearer_token_file {path} cannot be read: {error}",
            tip="create the file, or remove the field when Prometheus asks for no token",
        ) from error
    if not token:
        raise OperatorError(f"target {target.name}: prometheus.bearer_token_file {path} is empty", tip="put the token into it")
    return token


def _without_userinfo(url: str) -> str:
    if "@" not in url:
        return url
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"

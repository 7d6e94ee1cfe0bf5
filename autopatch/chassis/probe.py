"""A health endpoint over HTTP."""

import httpx2

from autopatch.chassis.tls import trusted


class HttpHealth:
    """GETs it once; redirects are not followed and the body is not read."""

    def __init__(self, timeout_s: float) -> None:
        self._client = httpx2.AsyncClient(verify=trusted(), trust_env=False, timeout=timeout_s)

    async def probe(self, url: str) -> tuple[bool, str]:
        """2xx is well; anything else, silence too, is not."""
        try:
            async with self._client.stream("GET", url) as answer:
                return answer.is_success, f"HTTP {answer.status_code}"
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return False, f"no answer: {type(error).__name__}"

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()

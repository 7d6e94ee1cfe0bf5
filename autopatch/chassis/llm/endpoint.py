"""Where a model answers."""

from dataclasses import dataclass

from pydantic import SecretStr


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible address up to and including /v1. On loopback no proxy of the environment is used."""

    base_url: str
    model: str
    api_key: SecretStr
    loopback: bool = False


@dataclass(frozen=True)
class Fixed:
    """An endpoint that somebody else runs."""

    endpoint: Endpoint

    async def ready(self) -> Endpoint:
        """As configured; whether it answers shows when it is asked."""
        return self.endpoint

    async def close(self) -> None:
        """Nothing of ours."""

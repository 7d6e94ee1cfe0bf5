"""One Prometheus client per target."""

from autopatch.chassis.prometheus import Prometheus
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.target import Target


class PrometheusSources:
    """Made when first asked for, and again when the target's file names another server."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[object, Prometheus]] = {}

    def of(self, target: Target) -> Prometheus:
        """Raises Unavailable when the token cannot be read; it is tried again, so mending the file is enough."""
        known = self._made.get(target.name)
        if known and known[0] == target.prometheus:
            return known[1]
        try:
            made = Prometheus.from_target(target)
        except OperatorError as error:
            raise Unavailable("prometheus", str(error)) from error
        self._made[target.name] = (target.prometheus, made)
        return made

    async def aclose(self) -> None:
        """Close every connection."""
        for _, client in self._made.values():
            await client.aclose()
        self._made.clear()

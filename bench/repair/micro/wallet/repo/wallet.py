"""Shared wallets. Many tasks spend from the same wallet; every payment is written to a ledger that takes its time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

Write = Callable[[str], Awaitable[None]]


async def nowhere(line: str) -> None:
    """A ledger that keeps nothing, but lets others run as a real one does."""
    await asyncio.sleep(0)


class TooLittle(Exception):
    """The wallet does not hold that much."""


@dataclass
class Wallet:
    """Money in cents. `write` is called once for every payment that was made."""

    balance: int = 0
    write: Write = nowhere
    payments: list[int] = field(default_factory=list)

    async def put(self, amount: int) -> int:
        """Add money; what is in the wallet then."""
        if amount <= 0:
            raise ValueError("an amount is more than zero")
        balance = self.balance
        await self.write(f"+{amount}")
        self.balance = balance + amount
        return self.balance

    async def pay(self, amount: int) -> int:
        """Take money; what is left then. Raises TooLittle, and then nothing was taken."""
        if amount <= 0:
            raise ValueError("an amount is more than zero")
        if self.balance < amount:
            raise TooLittle(f"{self.balance} is less than {amount}")
        self.balance -= amount
        self.payments.append(amount)
        await self.write(f"-{amount}")
        return self.balance

    @property
    def spent(self) -> int:
        """All that was paid."""
        return sum(self.payments)


async def move(source: Wallet, target: Wallet, amount: int) -> None:
    """From one wallet to another."""
    await source.pay(amount)
    await target.put(amount)

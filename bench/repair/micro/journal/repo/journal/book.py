"""Accounts and the entries that move money between them."""

from collections.abc import Iterable


class Rejected(Exception):
    """An entry that cannot be booked; nothing of its batch was booked."""


class Book:
    """Balances by account, in cents. No balance may fall below zero."""

    def __init__(self, balances: dict[str, int]) -> None:
        self.balances = dict(balances)
        self.booked = 0

    def move(self, source: str, target: str, amount: int) -> None:
        """Book one entry. Raises Rejected."""
        if amount <= 0:
            raise Rejected(f"an amount is more than zero, not {amount}")
        for account in (source, target):
            if account not in self.balances:
                raise Rejected(f"there is no account {account}")
        if self.balances[source] < amount:
            raise Rejected(f"{source} has {self.balances[source]}, not {amount}")
        self.balances[source] -= amount
        self.balances[target] += amount
        self.booked += 1

    def batch(self, entries: Iterable[tuple[str, str, int]]) -> int:
        """Book all entries and say how many there were. When one is rejected, none is booked and Rejected is raised."""
        before, booked = dict(self.balances), self.booked
        try:
            for source, target, amount in entries:
                self.move(source, target, amount)
        except KeyError:
            self.balances, self.booked = before, booked
            raise
        return self.booked - booked

    def total(self) -> int:
        """All the money there is."""
        return sum(self.balances.values())

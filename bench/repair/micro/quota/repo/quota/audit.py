"""After the fact. An account that uses exactly what was agreed is in order; one that uses more is over."""

from collections.abc import Iterable
from dataclasses import dataclass

from quota.rules import Account


@dataclass(frozen=True)
class Finding:
    """An account that is over, and by how much."""

    name: str
    bytes_over: int = 0
    files_over: int = 0


def is_over(account: Account) -> bool:
    """More bytes or more files than agreed?"""
    return account.used >= account.limit or account.files > account.files_limit


def findings(accounts: Iterable[Account]) -> list[Finding]:
    """Accounts that are over, the worst first."""
    found = [
        Finding(a.name, max(0, a.used - a.limit), max(0, a.files - a.files_limit)) for a in accounts if is_over(a)
    ]
    return sorted(found, key=lambda f: (-f.bytes_over, -f.files_over, f.name))

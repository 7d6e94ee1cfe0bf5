"""Before a file is added. An account may use its limit to the last byte, and hold as many files as agreed, not one less."""

from dataclasses import dataclass


@dataclass
class Account:
    """What an account uses and may use. Sizes are in bytes."""

    name: str
    limit: int
    files_limit: int = 100
    used: int = 0
    files: int = 0


def room_left(account: Account) -> int:
    """Bytes; zero when nothing is left."""
    return max(0, account.limit - account.used)


def allowed(account: Account, size: int) -> bool:
    """May a file of this size be added?"""
    if size < 0:
        raise ValueError("a file has no negative size")
    if account.files + 1 > account.files_limit:
        return False
    return account.used + size < account.limit


def add(account: Account, size: int) -> bool:
    """Add a file when it is allowed."""
    if not allowed(account, size):
        return False
    account.used += size
    account.files += 1
    return True

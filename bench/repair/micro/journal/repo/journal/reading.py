"""Reads entries from text, one a line: `source -> target: 12.50`."""

from journal.book import Rejected


def read(text: str) -> list[tuple[str, str, int]]:
    """Entries with amounts in cents. Empty lines and lines that begin with # are passed over."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            accounts, amount = line.split(":")
            source, target = accounts.split("->")
            entries.append((source.strip(), target.strip(), round(float(amount) * 100)))
        except ValueError as error:
            raise Rejected(f"line {number} is no entry: {line}") from error
    return entries

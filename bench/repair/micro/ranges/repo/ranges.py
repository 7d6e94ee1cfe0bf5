"""Ranges of whole numbers as people write them: `1-3,7,9-12`."""

from collections.abc import Iterable


def parse(text: str) -> list[tuple[int, int]]:
    """Pairs of first and last, in the order in which they are written. Raises ValueError."""
    pairs = []
    for part in text.split(","):
        part = part.strip()
        if not part:
            continue
        first, dash, last = part.partition("-")
        pair = (int(first), int(last if dash else first))
        if pair[1] < pair[0]:
            raise ValueError(f"{part} ends before it begins")
        pairs.append(pair)
    return pairs


def merge(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted, and those that overlap or touch made one: 1-3 and 4-6 are 1-6."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


def write(pairs: Iterable[tuple[int, int]]) -> str:
    """The shortest way to write them."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in merge(pairs))


def contains(pairs: Iterable[tuple[int, int]], number: int) -> bool:
    """Is the number in one of them?"""
    return any(first <= number <= last for first, last in pairs)


def size(pairs: Iterable[tuple[int, int]]) -> int:
    """How many different numbers they hold."""
    return sum(last - first + 1 for first, last in merge(pairs))

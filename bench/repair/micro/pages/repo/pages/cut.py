"""Cuts a list into numbered pages. Pages are counted from 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list. `first` and `last` are positions in the whole list, counted from 1; both are 0 on an empty page."""

    number: int
    items: Sequence[T]
    first: int
    last: int
    has_previous: bool
    has_next: bool


def page_count(total: int, size: int) -> int:
    """How many pages `total` items fill. An empty list has one empty page."""
    if size < 1:
        raise ValueError("a page holds at least one item")
    return max(1, (total + size - 1) // size)


def cut(items: Sequence[T], number: int, size: int = 10) -> Page[T]:
    """One page. A number below the first page gives the first, one beyond the last gives the last."""
    count = page_count(len(items), size)
    number = min(max(number, 1), count)
    start = (number - 1) * size
    stop = min(start + size, len(items) - 1)
    part = items[start:stop]
    return Page(
        number=number,
        items=part,
        first=start + 1 if part else 0,
        last=start + len(part) if part else 0,
        has_previous=number > 1,
        has_next=number < count,
    )

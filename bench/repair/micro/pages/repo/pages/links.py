"""Which page numbers are shown below a list."""

GAP = 0
"""Stands for the pages that are left out."""


def links(current: int, count: int, around: int = 1) -> list[int]:
    """The first page, the last page, those around the current one, and a GAP wherever numbers are left out."""
    shown = {1, count} | {n for n in range(current - around, current + around + 1) if 1 <= n <= count}
    made: list[int] = []
    for number in sorted(shown):
        if made and number - made[-1] > 1:
            made.append(GAP)
        made.append(number)
    return made

"""An account book whose entries are booked all together or not at all."""

from journal.book import Book, Rejected
from journal.reading import read

__all__ = ["Book", "Rejected", "read"]

"""Cuts long lists into pages and says which page links to show."""

from pages.cut import Page, cut, page_count
from pages.links import GAP, links

__all__ = ["GAP", "Page", "cut", "links", "page_count"]

"""Byte-exact edits of configuration files: one scalar changes, no other byte does."""

from services.executor.adapters.editors.edit import Edit, Span, edit, locate, masked, read_values
from services.executor.adapters.editors.formats import format_of

__all__ = ["Edit", "Span", "edit", "format_of", "locate", "masked", "read_values"]

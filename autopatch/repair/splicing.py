"""A whole corrected function takes the place of the old one, in the file's own indent and line ends."""


def splice_python(text: str, name: str, code: str) -> tuple[str, tuple[str, ...]]:
    """`text` with the function of this qualified name replaced by the one in `code`, and notes. Raises EditError.

    Decorators and a docstring that the answer left out stay, imports that it brings are added, other definitions are ignored.
    """
    raise NotImplementedError


def splice_lines(text: str, span: tuple[int, int], code: str) -> str:
    """`text` with these lines (from 1, both included) replaced by `code`, indented as the first of them was."""
    raise NotImplementedError

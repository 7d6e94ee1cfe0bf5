"""Lines that mean something in an answer: markers of blocks, fences, turns of a conversation."""

import re

HEAD = re.compile(
    r"(?P<indent>[ \t]*(?:[-*>][ \t]+|\d+[.)][ \t]+)?)(?P<mark><{5,10})[ \t]*"
    r"(?:(?:search|original|old|find|before|head)\b)?[ \t:]*(?P<name>[\w./`\"'\\-].*|)",
    re.I,
)
DIVIDER = re.compile(r"[ \t]*(?P<mark>={5,10})[ \t]*")
TAIL = re.compile(r"[ \t]*>{5,10}(?:[ \t]*[A-Za-z].*|[ \t]*)")
FENCE = re.compile(r"(?P<indent>[ \t]*(?:[-*][ \t]+|\d+[.)][ \t]+)?)(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)")
TURN = re.compile(
    r"\s*(?:(?:#{1,4}[ \t]*|\*\*)?(?:user|human)(?:\*\*)?[ \t]*:.*|#{1,4}[ \t]*(?:user|human|instruction)\b.*|"
    r"<\|(?:im_start|im_end|user|end|eot_id|endoftext|start_header_id)\|>.*|\[INST\].*|</s>.*)",
    re.I,
)
TURN_MARK = re.compile(r"\s*<\|(?:im_start|user|start_header_id)\|>.*")
"""These end even what was left open: no file has such a line."""
_LAST_TOKEN = re.compile(r"(?m)^([ \t]*(?:`{3,}|~{3,}|>{5,10}[ \t]*\w*[ \t]*))<\|\w+\|>")
LANGUAGES = {
    "python", "python3", "py", "javascript", "js", "jsx", "mjs", "typescript", "ts", "tsx", "go", "golang", "java", "rust", "rs",
    "c", "cpp", "ruby", "json", "yaml", "toml", "markdown", "md", "rst", "html", "css", "sql", "diff", "patch", "code",
}
NO_EDIT = {"bash", "sh", "shell", "zsh", "console", "text", "txt", "output", "log", "pycon", "plaintext", "traceback", "pwsh"}
"""Tags of blocks that show a command or what it printed."""


def lines_of(answer: str) -> list[str]:
    """The answer's lines without their ends; a last word of the model's own format is taken from behind a fence or marker."""
    return _LAST_TOKEN.sub(r"\1", answer.replace("\r\n", "\n")).split("\n")


def unindented(line: str, width: int) -> str:
    """A line without as much of a list's indent as it has."""
    return line[min(width, len(line) - len(line.lstrip(" \t"))):]

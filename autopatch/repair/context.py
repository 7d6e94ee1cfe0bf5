"""The code that a model gets to read: whole functions before fragments, within a budget."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from autopatch.contract.code import Frame, Place
from autopatch.repair.outlining import innermost, outline_of
from autopatch.repair.tree import Tree

CHARACTERS_PER_TOKEN = 3.2
"""Estimate for code; tokenizers of code models lie between 3 and 4. No tokenizer is at hand here, so it is kept low."""
AROUND = 8
"""Lines before and after a suspicious line in a fragment."""
IMPORT = re.compile(r"^(?:import\b|from\s+\S+\s+import\b|(?:const|let|var)\s.*\brequire\(|#include\b|use\s|package\s)")
GAP = "..."


@dataclass(frozen=True)
class Block:
    """Lines of a file, from 1, both included."""

    path: str
    start: int
    end: int


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, by its length."""
    return -int(-len(text) // CHARACTERS_PER_TOKEN)


def choose(
    tree: Tree, places: Sequence[Place], frames: Sequence[Frame], similar: Sequence[Place] = (), *,
    tokens: int | None = None, lines: int | None = None,
) -> str:
    """Code for a prompt: what is suspicious, what the traceback names, then what is similar, with imports, file by file.

    At most `tokens` (estimated by `estimate_tokens`) and `lines`. Whole functions are taken as they fit; the first place is cut
    around its suspicious lines when it alone is too long. Imports are those whose names the chosen code uses.
    """
    texts = {path: tree[path].decode(errors="replace").splitlines() for path in _paths(places, frames, similar) if path in tree}
    whole = [Block(p.path, p.start, p.end) for p in places if p.path in texts]
    whole += [block for frame in reversed(frames) if frame.path in texts and (block := _around(tree, texts, frame))]
    whole += [Block(p.path, p.start, p.end) for p in similar if p.path in texts]
    chosen: list[Block] = []
    for index, block in enumerate(dict.fromkeys(whole)):
        if any(c.path == block.path and c.start <= block.start and block.end <= c.end for c in chosen):
            continue
        if _fits(render(texts, [*chosen, block]), tokens, lines):
            chosen.append(block)
        elif not chosen and index == 0 and places:
            chosen = _fragments(texts, block, places[0], tokens, lines)
    return render(texts, chosen)


def _paths(places: Sequence[Place], frames: Sequence[Frame], similar: Sequence[Place]) -> set[str]:
    return {p.path for p in places} | {f.path for f in frames} | {p.path for p in similar}


def _fits(text: str, tokens: int | None, lines: int | None) -> bool:
    return (tokens is None or estimate_tokens(text) <= tokens) and (lines is None or len(text.splitlines()) <= lines)


def _around(tree: Tree, texts: dict[str, list[str]], frame: Frame) -> Block | None:
    """The function that holds a frame's line, else the lines around it."""
    last = len(texts[frame.path])
    if not 1 <= frame.line <= last:
        return None
    span = innermost(outline_of(frame.path, tree[frame.path], {}), frame.line)
    start, end = (span[1], span[2]) if span else (max(1, frame.line - AROUND), min(last, frame.line + AROUND))
    return Block(frame.path, start, end)


def _fragments(texts: dict[str, list[str]], block: Block, place: Place, tokens: int | None, lines: int | None) -> list[Block]:
    """The head of a function and what is around its most suspicious lines, as much as fits."""
    suspicious = sorted(place.lines, key=lambda line: (-place.lines[line], line)) or [block.start]
    wanted = {block.start}
    chosen: list[Block] = []
    for line in suspicious:
        grown = wanted | {n for n in range(line - AROUND, line + AROUND + 1) if block.start <= n <= block.end}
        blocks = _runs(block.path, sorted(grown))
        if grown == wanted or not _fits(render(texts, blocks), tokens, lines):
            continue
        wanted, chosen = grown, blocks
    return chosen


def _runs(path: str, numbers: Sequence[int]) -> list[Block]:
    runs: list[Block] = []
    for number in numbers:
        if runs and runs[-1].end == number - 1:
            runs[-1] = Block(path, runs[-1].start, number)
        else:
            runs.append(Block(path, number, number))
    return runs


def render(texts: dict[str, list[str]], blocks: Sequence[Block]) -> str:
    """File by file in the order in which they were chosen, lines in theirs; what is left out shows as `...`."""
    parts: list[str] = []
    for path in dict.fromkeys(block.path for block in blocks):
        body, text = sorted((b for b in blocks if b.path == path), key=lambda b: b.start), texts[path]
        own = {n for b in body for n in range(b.start, b.end + 1)}
        shown = own | _heads(text, body) | _imports(text, own)
        parts.append(f"File: {path}")
        last = 0
        for number in sorted(shown):
            if number > last + 1 and any(line.strip() for line in text[last:number - 1]):
                parts.append(GAP)
            parts.append(text[number - 1] if number <= len(text) else "")
            last = number
        if any(line.strip() for line in text[last:]):
            parts.append(GAP)
    return "\n".join(parts)


def _heads(text: list[str], blocks: Sequence[Block]) -> set[int]:
    """Lines that open the classes around indented blocks."""
    found = set()
    for block in blocks:
        line = text[block.start - 1] if block.start <= len(text) else ""
        indent = len(line) - len(line.lstrip())
        for number in range(block.start - 1, 0, -1):
            above = text[number - 1]
            depth = len(above) - len(above.lstrip())
            if above.strip() and depth < indent:
                indent = depth
                if re.match(r"\s*(?:export\s+)?(?:default\s+)?(?:abstract\s+)?(?:class|impl|interface)\b", above):
                    found.add(number)
    return found


def _imports(text: list[str], own: set[int]) -> set[int]:
    """Lines of imports that name something that the chosen lines use, continuation lines included."""
    used = set(re.findall(r"[A-Za-z_]\w*", "\n".join(text[n - 1] for n in own if n <= len(text))))
    found: set[int] = set()
    for number, line in enumerate(text, 1):
        if number in own or not IMPORT.match(line):
            continue
        end, whole = number, line
        while whole.count("(") + whole.count("{") > whole.count(")") + whole.count("}") and end < min(len(text), number + 30):
            whole += text[end]
            end += 1
        if used & set(re.findall(r"[A-Za-z_]\w*", re.sub(r"^from\s+\S+\s+import|^import\b", "", whole))):
            found |= set(range(number, end + 1))
    return found

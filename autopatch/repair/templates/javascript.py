"""Single edits of JavaScript and TypeScript, token by token: operators, limits, constants, names, siblings.

No syntax tree is at hand, so an edit replaces a token by one of the same kind, or adds a sign that may stand there; whether the
result runs is left to the tests.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

SUFFIXES = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)"
    r"|(?P<number>(?<![\w$.])\d+(?:\.\d+)?\b)|(?P<name>[A-Za-z_$][\w$]*)"
    r"|(?P<operator>===|!==|==|!=|<=|>=|=>|&&|\|\||\?\?|\+\+|--|\*\*=?|[-+*/%]=|<<|>>>?|[-+*/%<>=!?:.,;(){}\[\]&|^~])",
    re.S,
)
REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*")
BEFORE_REGEX = frozenset("=(,:[!&|?{};") | {"return", "=>", "&&", "||", "==", "===", "!=", "!=="}
BINARY: dict[str, tuple[tuple[str, float], ...]] = {
    "<": (("<=", 0.9), (">", 0.7), (">=", 0.6)), "<=": (("<", 0.9), (">=", 0.7), (">", 0.6)),
    ">": ((">=", 0.9), ("<", 0.7), ("<=", 0.6)), ">=": ((">", 0.9), ("<=", 0.7), ("<", 0.6)),
    "===": (("!==", 0.7), ("==", 0.2)), "!==": (("===", 0.7), ("!=", 0.2)), "==": (("!=", 0.7), ("===", 0.5)),
    "!=": (("==", 0.7), ("!==", 0.5)), "&&": (("||", 0.7),), "||": (("&&", 0.7), ("??", 0.5)), "??": (("||", 0.4),),
    "+": (("-", 0.65), ("*", 0.3)), "-": (("+", 0.65),), "*": (("/", 0.6), ("+", 0.4), ("**", 0.3)), "/": (("*", 0.6),
    ("%", 0.3)),
    "%": (("/", 0.5),), "**": (("*", 0.5),), "+=": (("-=", 0.6), ("=", 0.4)), "-=": (("+=", 0.6), ("=", 0.3)),
    "*=": (("/=", 0.5), ("+=", 0.4)), "/=": (("*=", 0.5),), "++": (("--", 0.5),), "--": (("++", 0.5),),
}
SIBLINGS = (
    ("push", "unshift"), ("pop", "shift"), ("some", "every"), ("toLowerCase", "toUpperCase"), ("startsWith", "endsWith"),
    ("floor", "ceil", "round", "trunc"), ("min", "max"), ("keys", "values", "entries"), ("slice", "splice"),
    ("indexOf", "lastIndexOf"),
    ("trim", "trimStart", "trimEnd"), ("map", "filter", "forEach", "flatMap"), ("find", "filter", "findLast"),
    ("padStart", "padEnd"),
    ("parseInt", "parseFloat", "Number"), ("true", "false"), ("null", "undefined"), ("break", "continue"), ("has", "delete"),
    ("resolve", "reject"), ("all", "allSettled", "race", "any"), ("reduce", "reduceRight"), ("replace", "replaceAll"),
    ("in", "of"),
)
DECLARED = re.compile(
    r"\b(?:let|const|var)\s+([A-Za-z_$][\w$]*)|\b(?:let|const|var)\s*[\[{]([^\]}]*)[\]}]|\(([^()]*)\)\s*(?:=>|\{)"
)
OPERAND = r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*|\d+(?:\.\d+)?"
LEFT = re.compile(rf"(?<![\w$.)\]*/%])(?<![*/%] )({OPERAND})([ \t]*)\Z")
RIGHT = re.compile(rf"([ \t]*)({OPERAND})(?![\w$.(\[])(?! ?[*/%])")
KEYWORDS = frozenset({
    "if", "for", "while", "switch", "catch", "function", "return", "new", "typeof", "await", "async", "of", "in", "instanceof",
    "let", "const", "var", "else", "do", "class", "this", "try",
})


@dataclass(frozen=True)
class Change:
    """Characters `start` to `end` become `text`."""

    template: str
    start: int
    end: int
    text: str
    prior: float


@dataclass(frozen=True)
class Token:
    """A piece of code that is no comment and no regular expression."""

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """Comments and regular expressions left out; a template string is one token."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        before = found[-1].text if found else "("
        slash = text[at] == "/" and text[at:at + 2] not in ("//", "/*") and before in BEFORE_REGEX
        match = REGEX.match(text, at) if slash else None
        if match:
            found.append(Token("regex", match.group(), at, match.end()))
        else:
            match = TOKEN.match(text, at)
            kind = match.lastgroup if match else None
            if match and kind and kind != "comment":
                found.append(Token(kind, match.group(), at, match.end()))
        at = match.end() if match else at + 1
    return found


def changes(text: str, start: int, end: int, *, typed: bool = False) -> Iterator[Change]:
    """Edits of the characters from `start` to `end`, whole lines of a file; in `typed` code `<` may open a list of types."""
    found = [t for t in tokens(text) if start <= t.start and t.end <= end]
    names = _declared(text[start:end])
    for index, token in enumerate(found):
        before = found[index - 1] if index else None
        after = found[index + 1] if index + 1 < len(found) else None
        match token.kind:
            case "operator":
                yield from _operator(text, token, before, after, typed)
                yield from _swapped(text, token)
            case "number":
                yield from _number(token)
            case "name":
                yield from _name(token, before, after, names)
            case "string":
                if token.text[1:-1] in ("", " "):
                    other = " " if token.text[1:-1] == "" else ""
                    yield Change("string in another form", token.start, token.end, token.text[0] + other + token.text[-1], 0.3)
            case _:
                pass


def _operator(text: str, token: Token, before: Token | None, after: Token | None, typed: bool) -> Iterator[Change]:
    unary = before is None or (before.kind == "operator" and before.text not in (")", "]")) or before.text in KEYWORDS
    angle = typed and token.text in "<>" and text[token.start - 1:token.end + 1] != f" {token.text} "
    if (not unary or token.text in ("++", "--")) and not angle:
        for new, prior in BINARY.get(token.text, ()):
            yield Change("operator", token.start, token.end, new, prior)
    if token.text == "!" and after is not None:
        yield Change("negated condition", token.start, token.end, "", 0.5)
    if unary and token.text == "-":
        yield Change("sign", token.start, token.end, "", 0.35)
    if token.text == "(" and before is not None and before.text in ("if", "while"):
        close = _closing(text, token.start)
        if close:
            yield Change("negated condition", token.end, close, f"!({text[token.end:close]})", 0.45)


def _swapped(text: str, token: Token) -> Iterator[Change]:
    """`b.size - a.size` for `a.size - b.size`; operands are names with dots, or numbers; nothing near binds stronger."""
    left, right = LEFT.search(text, max(0, token.start - 100), token.start), RIGHT.match(text, token.end)
    if token.text in ("-", "/", "%") and left and right:
        swapped = right[2] + left[2] + token.text + right[1] + left[1]
        yield Change("operands the wrong way round", left.start(1), right.end(2), swapped, 0.45)


def _closing(text: str, at: int) -> int:
    depth = 0
    for token in tokens(text[at:]):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "operator" else 0
        if depth == 0:
            return at + token.start
    return 0


def _number(token: Token) -> Iterator[Change]:
    if token.text.isdigit():
        value = int(token.text)
        for new in (value - 1, value + 1):
            yield Change("number off by one", token.start, token.end, f"({new})" if new < 0 else str(new), 0.6)


def _name(token: Token, before: Token | None, after: Token | None, names: list[str]) -> Iterator[Change]:
    member = before is not None and before.text == "."
    for family in SIBLINGS:
        for new in family if token.text in family else ():
            if new != token.text:
                yield Change("sibling", token.start, token.end, new, 0.55 if len(family) == 2 else 0.4)
    if member and token.text == "length" and (after is None or after.text not in ("=", "++", "--")):
        yield Change("index or bound off by one", token.end, token.end, " - 1", 0.4)
        yield Change("index or bound off by one", token.end, token.end, " + 1", 0.3)
    called = after is not None and after.text == "("
    if not member and token.text in names:
        for new in names:
            if new != token.text:
                yield Change("another variable", token.start, token.end, new, 0.4)
        if after is not None and after.text == "]":
            yield Change("index or bound off by one", token.end, token.end, " + 1", 0.4)
            yield Change("index or bound off by one", token.end, token.end, " - 1", 0.4)
    first = before is None or before.text in ("=", "return", "{", ";", "(")
    if called and not member and token.text not in KEYWORDS and first:
        yield Change("await missing", token.start, token.start, "await ", 0.15)
    if token.text == "await" and after is not None:
        yield Change("await too many", token.start, after.start, "", 0.1)


def _declared(text: str) -> list[str]:
    found: dict[str, None] = {}
    for match in DECLARED.finditer(text):
        for name in re.findall(r"(?<![\w$.])[A-Za-z_$][\w$]*", " ".join(g for g in match.groups() if g)):
            if name not in KEYWORDS:
                found[name] = None
    return list(found)

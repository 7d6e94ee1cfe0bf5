"""What a target's queries have in common: the labels of its series, and how far back its rates look. Pure."""

import re
from collections.abc import Sequence
from typing import Any

import promql_parser

SHORTEST_RATE_S = 10.0
USUAL_RATE_S = 60.0
_SKIPPED = re.compile(
    r"_(bucket|count|sum|created|info)$|^(go|python|promhttp|scrape|net_conntrack|process_virtual|process_start_time|process_max)_"
)


def shared_labels(queries: Sequence[str]) -> dict[str, str]:
    """The `label="value"` pairs that every series selector of all queries has; {} when a query cannot be read."""
    shared: dict[str, str] | None = None
    for query in queries:
        for selector in _selectors(query):
            equal = [m for m in selector.matchers.matchers if m.op == promql_parser.MatchOp.Equal and m.name != "__name__"]
            own = {m.name: m.value for m in equal}
            shared = own if shared is None else {k: v for k, v in shared.items() if own.get(k) == v}
    return shared or {}


def rate_window_s(queries: Sequence[str]) -> float:
    """Seconds: the shortest range in the queries, so that what is discovered moves as quickly as what is known."""
    ranges = [float(m.range.total_seconds()) for q in queries for m in _nodes(q) if isinstance(m, promql_parser.MatrixSelector)]
    return max(SHORTEST_RATE_S, min(ranges)) if ranges else USUAL_RATE_S


def selector(labels: dict[str, str]) -> str:
    """`{a="b"}`."""
    quoted = ", ".join(f'{k}="{_escaped(v)}"' for k, v in sorted(labels.items()))
    return f"{{{quoted}}}"


def names_query(labels: dict[str, str]) -> str:
    """How many series there are of every name with these labels."""
    return f"count by (__name__) ({selector(labels)})"


def query_for(name: str, labels: dict[str, str], rate_s: float) -> str | None:
    """How a discovered series is looked at: counters as rates, gauges as sums; None for what says nothing by itself."""
    if _SKIPPED.search(name) or not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name):
        return None
    if name.endswith("_total"):
        return f"sum(rate({name}{selector(labels)}[{int(rate_s)}s]))"
    return f"sum({name}{selector(labels)})"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _selectors(query: str) -> list[Any]:
    found = []
    for node in _nodes(query):
        if isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)
        elif isinstance(node, promql_parser.VectorSelector):
            found.append(node)
    return found


def _nodes(query: str) -> list[Any]:
    """Every node of the parsed query; none when it cannot be parsed (Prometheus will say why)."""
    try:
        waiting: list[Any] = [promql_parser.parse(query)]
    except ValueError:
        return []
    found = []
    while waiting:
        node = waiting.pop()
        found.append(node)
        for field in ("args", "expr", "lhs", "rhs", "param"):
            child = getattr(node, field, None)
            if isinstance(child, list):
                waiting += child
            elif child is not None:
                waiting.append(child)
    return found

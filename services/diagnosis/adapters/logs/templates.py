"""Which kinds of log lines are new, grown or vanished since the incident began. Pure."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from drain3 import TemplateMiner
from drain3.masking import MaskingInstruction
from drain3.template_miner_config import TemplateMinerConfig

from services.diagnosis.facts import Novelty, Pattern

MESSAGE_KEYS = ("message", "msg", "event", "log", "body", "text")
LEVEL_KEYS = ("level", "severity", "lvl", "levelname")
CAUSE_KEYS = ("error", "err", "exception", "reason")
SEVERE = re.compile(r"\b(error|err|fatal|crit|critical|alert|emerg|emergency|panic|severe)\b", re.IGNORECASE)
LONGEST_LINE = 600
GROWN = 3.0
"""Times more often than before."""

_MASKS = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:?\d\d)?", "time"),
    (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", "id"),
    (r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b", "address"),
    (r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", "hex"),
    (r"(?i)(?<![\w.])\d+(\.\d+)?(ms|us|ns|s|kb|mb|gb|kib|mib|gib|%)(?!\w)", "amount"),
    (r"(?<![\w.])[-+]?\d+(\.\d+)?(?![\w.])", "number"),
)


@dataclass
class _Seen:
    red: int = 0
    healthy: int = 0
    severe: bool = False
    sample: str = ""


def patterns(
    red: Sequence[str], healthy: Sequence[str], red_s: float, healthy_s: float, *, limit: int = 12
) -> tuple[Pattern, ...]:
    """The patterns that tell the two windows (of so many seconds) apart, the most telling first. Steady ones are left out."""
    miner = TemplateMiner(config=_config())
    seen: dict[int, _Seen] = {}
    for line in healthy:
        _learn(miner, seen, line).healthy += 1
    for line in red:
        kind = _learn(miner, seen, line)
        kind.red += 1
        kind.sample = kind.sample or line[:LONGEST_LINE]
    names = {c.cluster_id: c.get_template() for c in miner.drain.clusters}
    found = [_pattern(names[key], kind, red_s, healthy_s) for key, kind in seen.items() if key in names]
    telling = [p for p in found if p.novelty != "steady"]
    return tuple(sorted(telling, key=_rank, reverse=True)[:limit])


def _learn(miner: TemplateMiner, seen: dict[int, _Seen], line: str) -> _Seen:
    message, severe = told(line)
    kind = seen.setdefault(int(miner.add_log_message(message)["cluster_id"]), _Seen())
    kind.severe = kind.severe or severe
    return kind


def told(line: str) -> tuple[str, bool]:
    """The message in a line, plain or JSON, and whether its level is an error's."""
    line = line[:LONGEST_LINE * 4]
    try:
        parts = json.loads(line[line.index("{"):]) if "{" in line[:64] else None
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, dict):
        return line[:LONGEST_LINE], bool(SEVERE.search(line[:80]))
    message = next((str(parts[k]) for k in MESSAGE_KEYS if parts.get(k)), line)
    causes = [str(parts[k]) for k in CAUSE_KEYS if isinstance(parts.get(k), str) and parts[k] not in message]
    level = next((str(parts[k]) for k in LEVEL_KEYS if parts.get(k)), "")
    return " ".join([message, *causes])[:LONGEST_LINE], bool(SEVERE.search(level))


def _pattern(template: str, kind: _Seen, red_s: float, healthy_s: float) -> Pattern:
    red, healthy = kind.red * 60 / max(red_s, 1), kind.healthy * 60 / max(healthy_s, 1)
    return Pattern(template, kind.red, kind.healthy, _novelty(kind, red, healthy), kind.severe, kind.sample)


def _novelty(kind: _Seen, red: float, healthy: float) -> Novelty:
    if kind.healthy == 0:
        return "new"
    if kind.red == 0:
        return "vanished" if kind.healthy >= 5 else "steady"
    return "grown" if red >= GROWN * healthy and kind.red >= 5 else "steady"


def _rank(found: Pattern) -> tuple[bool, bool, int]:
    return found.novelty in ("new", "grown"), found.severe, found.count


def _config() -> TemplateMinerConfig:
    config = TemplateMinerConfig()
    config.masking_instructions = [MaskingInstruction(pattern, mask) for pattern, mask in _MASKS]
    return config

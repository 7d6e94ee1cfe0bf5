"""`python -m autopatch.contract.tests.make_samples` writes golden samples of events that have none; none is ever edited.

An event that got fields after its first sample has a second one, `-later`, with all of them.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from autopatch.contract.envelope import Envelope
from autopatch.contract.events import EVENTS

FOLDER = Path(__file__).parent / "samples"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VALUES: dict[str, Any] = {
    "event_id": "0", "hash": "", "confidence": 0.9, "red_share": 0.5, "min": 1.0, "command": ("true",), "replicas": 2,
    "needed": 1, "repository": "payments",
    "soak_s": 30.0, "trust": 0.7,
}


def example(kind: Any, name: str = "") -> Any:
    """A value of a type, filled in everywhere so that every field is pinned."""
    if name in VALUES:
        return VALUES[name]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return args[0]
    if origin in (Union, UnionType):
        return example(next(a for a in args if a is not type(None)), name)
    if origin is tuple:
        return (example(args[0], name.removesuffix("s")),)
    if origin is dict:
        return {"key": example(args[1])}
    if origin is not None and hasattr(kind, "__metadata__"):
        return example(args[0], name)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind(**{n: example(f.annotation, n) for n, f in kind.model_fields.items()})
    return {bool: True, int: 3, float: 1.5, datetime: AT}.get(kind, f"a {name or 'text'}")


def main() -> None:
    """One file an event and version."""
    FOLDER.mkdir(exist_ok=True)
    for name, event in EVENTS.items():
        path = FOLDER / f"{name}-v{event.version}.json"
        if path.exists() and "later" in str(event.model_json_schema()):
            path = path.with_stem(f"{path.stem}-later")
        if path.exists():
            continue
        body = example(event)
        envelope = Envelope(
            event_id="00000000-0000-0000-0000-000000000001", incident_id="payments-1", event=name, version=event.version, at=AT,
            by="monitor", caused_by="", attempt=1, previous_hash="", data=body,
        ).sealed()
        path.write_text(json.dumps(json.loads(envelope.encode()), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()

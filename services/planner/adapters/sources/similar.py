"""Code that is alike a failing case, as the index of the repository holds it."""

import re
from collections.abc import Sequence

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.redaction import redact
from autopatch.chassis.telemetry import span
from autopatch.contract.code import Place
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import Similar
from autopatch.contract.requests import Found, Search
from autopatch.repair.localise import reduced_case
from services.planner.adapters.gate.case import Case

LIMIT = 6
TEXT = 4000
"""Characters that a search takes."""
_LINES = re.compile(r":(\d{1,9})-(\d{1,9})\Z")


async def similar(chassis: Chassis, case: Case) -> tuple[Place, ...]:
    """Best first, without tests. Without knowledge there is none: it only adds to what a model reads."""
    reduced = reduced_case(case.tree, case.red, case.baseline)
    text = redact("\n".join([reduced.text() if reduced else "", case.job.issue])).strip()
    with span("retrieval code", gen_ai_operation_name="retrieval") as current:
        try:
            found = await chassis.asker.ask(
                Search(text=text[:TEXT] or "code", target=case.job.repository, kinds=("code",), limit=LIMIT), Found
            )
        except Unavailable as error:
            current.set_attribute("missing", error.reason[:300])
            return ()
        current.set_attribute("retrieval.found", [redact(item.id)[:200] for item in found.items])
    return _places(case, found.items)


def _places(case: Case, items: Sequence[Similar]) -> tuple[Place, ...]:
    """Of this snapshot: the index may hold another one by now."""
    places = []
    for item in items:
        lines = _LINES.search(item.id)
        if lines is None or item.source not in case.tree or item.source in case.tests:
            continue
        start, end = int(lines[1]), int(lines[2])
        if 1 <= start <= end <= case.tree[item.source].count(b"\n") + 1:
            places.append(Place(path=item.source, start=start, end=end, score=min(1.0, max(0.0, item.score)), why="alike"))
    return tuple(places)

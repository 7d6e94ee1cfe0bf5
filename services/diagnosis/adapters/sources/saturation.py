"""Resources that are used up: pairs of gauges, one of what is used and one of how much there is. Pure."""

import re
from collections.abc import Sequence
from statistics import median

from services.diagnosis.facts import Saturation, Track
from services.diagnosis.adapters.sources.shifts import LEAST_SINCE, Onset

USED_UP = 0.95
_USED = re.compile(r"^(?P<stem>.+?)_(in_use|used|active|busy|checked_out)(?P<unit>_\w+)?$")
_SIZES = ("size", "max", "limit", "capacity", "total_size")


def saturations(tracks: Sequence[Track], onset: Onset) -> tuple[Saturation, ...]:
    """Such as pool_in_use of pool_size, where nearly all is used since the onset."""
    known = {t.name: t for t in tracks}
    found = []
    for name, used in known.items():
        match = _USED.match(name)
        if match is None:
            continue
        unit = match["unit"] or ""
        sizes = (known.get(f"{match['stem']}_{word}{unit}") for word in _SIZES)
        size = next((s for s in sizes if s), None)
        if size and (seen := _share(used, size, onset)):
            found.append(Saturation(f"{used.name} of {size.name}", f"{used.query} / {size.query}", *seen))
    return tuple(found)


def _share(used: Track, size: Track, onset: Onset) -> tuple[float, float | None] | None:
    """The median share since the onset, when it is nearly all, and before."""
    sizes = dict(zip(size.times, size.values, strict=True))
    shares = [(t, v / sizes[t]) for t, v in zip(used.times, used.values, strict=True) if sizes.get(t)]
    before = [s for t, s in shares if onset.calm_from.timestamp() <= t < onset.at.timestamp()]
    after = [s for t, s in shares if t >= onset.at.timestamp()]
    if len(after) < LEAST_SINCE or median(after) < USED_UP:
        return None
    return median(after), median(before) if before else None

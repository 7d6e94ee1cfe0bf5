"""The machine that figures come from."""

import os
import platform
import re
from pathlib import Path


def machine() -> dict[str, str]:
    """Processor, cores that we may use, memory, load, system, Python; what cannot be read is left out."""
    found = {"cores": str(len(os.sched_getaffinity(0))), "system": platform.platform(), "python": platform.python_version()}
    if model := _first(Path("/proc/cpuinfo"), r"^model name\s*:\s*(.+)$"):
        found["processor"] = model
    if memory := _first(Path("/proc/meminfo"), r"^MemTotal:\s*(\d+) kB$"):
        found["memory"] = f"{int(memory) / 1024**2:.1f} GiB"
    found["load at start"] = f"{os.getloadavg()[0]:.1f}"
    return found


def _first(file: Path, pattern: str) -> str:
    try:
        match = re.search(pattern, file.read_text("utf-8", "replace"), re.M)
    except OSError:
        return ""
    return match[1].strip() if match else ""

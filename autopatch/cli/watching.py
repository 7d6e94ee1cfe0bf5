"""Follows one fault from when it is made to the end of its incident, with numbers from Prometheus and traces from Jaeger."""

import difflib
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autopatch.chassis.targets import load_targets
from autopatch.cli.client import Gateway
from autopatch.cli.lab.lab import Places
from autopatch.cli.lab.payments import CALM, DEMO
from autopatch.cli.lab.signals import firing, measure, services_of
from autopatch.contract.errors import Unavailable
from autopatch.contract.target import Signal
from services.gateway.views import Page, View

GREEN_S = 12
"""So many seconds all checks must have been good before a fault is made: a bit more than what the queries look back."""
WITHIN_S = {"healthy": 90.0, "alert": 90.0, "incident": 60.0, "end": 600.0, "lesson": 20.0, "trace": 15.0}
"""Seconds after which each stage is given up."""
CHECKS = {"pool": "latency_p95", "release": "error_ratio", "code": "refund_exceptions"}
"""The signal of the target that a fault shows in."""


@dataclass
class Episode:
    """One fault, what was seen of it, and its incident as it ended. Values are those of the check, in its unit."""

    fault: str
    check: str
    unit: str
    made_at: datetime
    healthy: float | None
    broken: float | None = None
    healed: float | None = None
    alert: str = ""
    alert_after_s: float = 0.0
    seconds: float = 0.0
    view: View = field(init=False)
    diff: str = ""
    branch: str = ""
    spans: Counter[str] = field(default_factory=Counter)
    trace: str = ""

    @property
    def model_calls(self) -> int:
        """Of the whole incident."""
        return sum(use.calls for use in self.view.models)

    def summary(self) -> list[str]:
        """The last lines that are shown of it."""
        figures = " → ".join(_shown(v, self.unit) for v in (self.healthy, self.broken, self.healed))
        plan = self.view.plan
        basis = f"{plan.basis.kind} {plan.basis.ref}" if plan else "no plan"
        lines = [f"{self.check}, measured at Prometheus: {figures} (healthy, broken, now)"]
        lines.append(f"fix from {basis}, {self.model_calls} model calls, {self.seconds:.0f} s from the fault to the end")
        lines += [f"offered as {self.branch}"] if self.branch else []
        changed = [row for row in self.diff.splitlines() if row[:1] in "+-" and row[:3] not in ("+++", "---")]
        lines += [f"{'changed' if self.branch else 'on disk'}: {row}" for row in changed]
        lines.append(self._traced())
        return lines

    def report(self) -> dict[str, Any]:
        """For --json."""
        return {
            "fault": self.fault, "state": self.view.state.value, "incident": self.view.id, "alert": self.alert,
            "alert_after_s": round(self.alert_after_s, 1), "seconds": round(self.seconds, 1), "check": self.check,
            "healthy": self.healthy, "broken": self.broken, "healed": self.healed, "model_calls": self.model_calls,
            "basis": self.view.plan.basis.kind if self.view.plan else "", "diff": self.diff, "branch": self.branch,
            "trace": self.trace, "spans": dict(self.spans), "view": self.view.model_dump(mode="json"),
        }

    def _traced(self) -> str:
        if not self.spans:
            return "trace: not stored, Jaeger is missing" if not self.trace else f"trace: {self.trace} has no spans"
        names = ", ".join(f"{name.removeprefix('autopatch-')} {count}" for name, count in sorted(self.spans.items()))
        return f"trace: {self.spans.total()} spans of {len(self.spans)} services ({names}): {self.trace}"


class Watcher:
    """`say` prints a line; `check` raises when something in the lab has failed."""

    def __init__(self, places: Places, gateway: Gateway, say: Callable[[str], None], check: Callable[[], None]) -> None:
        self._places, self._gateway, self._say, self._check = places, gateway, say, check
        target = load_targets(Path(places.folder) / "targets").get("payments")
        if target is None:
            raise Unavailable("lab", f"no target payments in {places.folder}/targets")
        self._signals: dict[str, Signal] = target.signals

    def wait_healthy(self) -> None:
        """All checks good for `GREEN_S`, traffic calm, no alert firing. Raises Unavailable when that takes too long."""

        def good() -> bool:
            calm = abs((self._value("traffic") or 0) - CALM) < 0.3 * CALM
            return calm and not firing(self._places.prometheus) and all(self._good(name) for name in CHECKS.values())

        self._until("healthy", good, "the service does not become healthy")
        traffic = self._value("traffic")
        figures = ", ".join(f"{name} {_shown(self._value(name), self._signals[name].unit)}" for name in CHECKS.values())
        self._say(f"healthy: {figures}" + (f", {traffic:.0f} requests/s" if traffic else ""))

    def episode(self, fault: str, make: Callable[[], None]) -> Episode:
        """Make the fault and follow it to the end of its incident. Raises Unavailable when a stage takes too long."""
        check = CHECKS[fault]
        known = {row.id for row in self._rows()}
        begun = time.monotonic()
        seen = Episode(fault, check, self._signals[check].unit, datetime.now(UTC), self._value(check))
        make()
        self._say(f"fault: {FAULTS[fault]}")
        self._alert(seen, begun)
        self._follow(seen, known)
        seen.seconds = time.monotonic() - begun
        seen.healed = self._value(check)
        seen.branch = self._branch(seen.view.id)
        seen.diff = self._git("diff", "--no-color", "HEAD", seen.branch, "--", "payments") if seen.branch else self._on_disk()
        self._trace(seen)
        return seen

    def _alert(self, seen: Episode, begun: float) -> None:
        found: dict[str, dict[str, Any]] = {}

        def fires() -> bool:
            found.update(firing(self._places.prometheus))
            return bool(found)

        self._until("alert", fires, "Prometheus fires no alert")
        name, alert = next(iter(found.items()))
        seen.alert, seen.alert_after_s, seen.broken = name, time.monotonic() - begun, float(alert["value"])
        fired = datetime.now(UTC).astimezone()
        self._say(f"alert: {name} fires in Prometheus at {fired:%H:%M:%S}, value {_shown(seen.broken, seen.unit)}")

    def _follow(self, seen: Episode, known: set[str]) -> None:
        """Says every event of the new incident as it comes, until it has ended and its lesson is recorded."""
        self._until("incident", lambda: bool(self._new(known)), "no incident was opened")
        incident, shown = self._new(known)[0], 0

        def ended() -> bool:
            nonlocal shown
            seen.view = self._gateway.get(f"/incidents/{incident}", View)
            for stage in seen.view.stages[shown:]:
                self._say(f"{stage.event:<18} {stage.by:<10} {stage.text}")
            shown = len(seen.view.stages)
            return not seen.view.open

        self._until("end", ended, "the incident does not end")
        with_lesson = time.monotonic() + WITHIN_S["lesson"]
        while ended() and seen.view.lesson is None and time.monotonic() < with_lesson:
            time.sleep(0.3)

    def _trace(self, seen: Episode) -> None:
        """Spans come late: asks until their number stays the same."""
        seen.trace = seen.view.trace_url
        if not self._places.jaeger or not seen.view.trace_id:
            return
        deadline, still = time.monotonic() + WITHIN_S["trace"], 0
        while time.monotonic() < deadline and still < 3:
            now = services_of(self._places.jaeger, seen.view.trace_id)
            still = still + 1 if now and now == seen.spans else 0
            seen.spans = now
            time.sleep(0.7)

    def _new(self, known: set[str]) -> list[str]:
        return [row.id for row in reversed(self._rows()) if row.id not in known]

    def _rows(self) -> tuple[Any, ...]:
        return self._gateway.get("/incidents", Page, {"limit": 50}).items

    def _on_disk(self) -> str:
        shipped, now = (path.read_text().splitlines() for path in (DEMO / "config.json", Path(self._places.config)))
        return "\n".join(difflib.unified_diff(shipped, now, "shipped", "now", n=0, lineterm=""))

    def _branch(self, incident: str) -> str:
        """Of the service's repository, made for this incident; '' when there is none."""
        return self._git("for-each-ref", "--format=%(refname:short)", f"refs/heads/autopatch/{incident}*").partition("\n")[0]

    def _git(self, *arguments: str) -> str:
        command = ["git", "-C", self._places.repository, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.strip()

    def _value(self, signal: str) -> float | None:
        return measure(self._places.prometheus, self._signals[signal].query)

    def _good(self, signal: str) -> bool:
        """In every second of the last `GREEN_S` by Prometheus' memory; one may be missing."""
        found = self._signals[signal]
        seconds = measure(
            self._places.prometheus, f"sum_over_time((({found.query}) <= bool {found.threshold})[{GREEN_S}s:1s])"
        )
        return seconds is not None and seconds >= GREEN_S - 1

    def _until(self, stage: str, done: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + WITHIN_S[stage]
        while not done():
            self._check()
            if time.monotonic() > deadline:
                raise Unavailable("demo", f"{otherwise} within {WITHIN_S[stage]:.0f} s")
            time.sleep(0.3)


FAULTS = {
    "pool": "traffic rises beyond what the service's connection pool can serve",
    "release": "version 2 is deployed, which fails on a share of the requests",
    "code": "version 3 is deployed, which raises on a share of the refunds",
}


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "no data"
    return f"{value * 1000:.0f} ms" if unit == "s" else f"{value:.1%}" if unit == "ratio" else f"{value:.3g} {unit}"

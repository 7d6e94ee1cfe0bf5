"""What a person sees of a job: a line a stage as it happens, and at the end tests before and after, the diff and the verdict."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.status import Status
from rich.text import Text

from autopatch.cli.asking import Result
from autopatch.cli.output import Output, diff, plain
from autopatch.cli.snapshot import Snapshot
from autopatch.contract.code import RepairVerdict, TestTable
from autopatch.contract.lifecycle import Stored
from services.gateway import words

NEXT = {
    "": "starting", "opened": "running the tests", "reproduced": "looking for the fault", "diagnosed": "trying fixes",
    "planned": "rehearsing the fix", "rehearsed": "deciding", "rehearsal_failed": "trying other fixes",
    "applying": "handing over", "applied": "judging the fix in a fresh sandbox", "not_recovered": "taking it back",
    "rolling_back": "taking it back", "rolled_back": "trying other fixes",
}
SHOWN = 12
BEAT_S = 15.0


class Progress:
    """Lines for people as long as the block lasts; nothing with --json. `began`: time.monotonic() when the command started."""

    def __init__(self, out: Output, began: float) -> None:
        self._out = out
        self._began = began
        self._status: Status | None = None
        self._stage = NEXT[""]

    @contextmanager
    def shown(self) -> Iterator["Progress"]:
        """With a spinner that says what is under way."""
        if self._out.json:
            yield self
            return
        over = threading.Event()
        if not self._out.err.is_terminal:
            threading.Thread(target=self._beat, args=(over,), daemon=True).start()
        try:
            with self._out.err.status(self._stage) as self._status:
                yield self
        finally:
            over.set()

    def _beat(self, over: threading.Event) -> None:
        """Where no spinner turns a line now and then says that it is alive."""
        while not over.wait(BEAT_S):
            self.note(f"{self._stage} …")

    @property
    def seconds(self) -> float:
        """Since the command started."""
        return time.monotonic() - self._began

    def tell(self, stored: Stored) -> None:
        """One event."""
        envelope = stored.envelope
        self._stage = NEXT.get(envelope.event, self._stage)
        if self._status:
            self._status.update(self._stage)
        by, what = envelope.by.removeprefix("person:"), envelope.event.replace("_", " ")
        text = str(plain(words.line(envelope.data)))
        self._out.say(f"{words.duration(self.seconds):>10}  ", (f"{what:<16}", "bold"), f" {by:<10} {text}")

    def note(self, text: str) -> None:
        """On stderr, where people look on."""
        if not self._out.json:
            self._out.note(f"{words.duration(self.seconds):>10}  {plain(text)}")


def snapshot(progress: Progress, taken: Snapshot) -> None:
    """What travels, and what does not."""
    at = f", at {taken.commit[:12]}" if taken.commit else ""
    progress.note(f"{len(taken.files)} files, {taken.size / 1024:.1f} KiB{at}")
    for path in list(taken.files.fixed)[:SHOWN]:
        progress.note(f"copied: {path} (a link: it is read, and not repaired)")
    for each in taken.left_out[:SHOWN]:
        progress.note(f"left out: {each.path} ({each.why})")
    if len(taken.left_out) > SHOWN:
        progress.note(f"left out: {len(taken.left_out) - SHOWN} more")


def verdict(out: Output, result: Result, seconds: float) -> None:
    """All of it; `seconds` since the command started."""
    found = result.verdict
    if (found.before or found.after) and found.verdict != "environment_error":
        out.head("Tests")
        tests(out, found.before, found.after)
    if found.diff:
        out.head("Diff")
        out.say(diff(str(plain(found.diff))))
    style = {"fixed": "bold green", "cancelled": "bold yellow"}.get(found.verdict, "bold red")
    out.say(("\n" + found.verdict.replace("_", " "), style), f": {plain(found.reason)}")
    facts = [f"{words.duration(seconds)} in all", f"attempts {found.attempts}"]
    facts += [f"from {found.basis}"] if found.basis else []
    facts += [f"sandbox {found.runtime}" if found.runtime else "", _model(found), found.incident]
    facts += [f"trace {found.trace}" if found.trace else ""]
    out.say((", ".join(fact for fact in facts if fact), "dim"))
    if found.tip:
        out.say(f"  try: {plain(found.tip)}")


def tests(out: Output, before: TestTable | None, after: TestTable | None) -> None:
    """Numbers, then each test that failed before or fails after."""
    none = TestTable()
    one, two = before or none, after or none
    rows: list[tuple[str | Text, ...]] = [
        (f"  {name}", f"{getattr(one, name):g}", f"{getattr(two, name):g}" if after else "")
        for name in ("passed", "failed", "skipped", "seconds")
    ]
    out.table(("  ", ">BEFORE", ">AFTER"), rows)
    known, still = {case.id for case in one.failing}, {case.id for case in two.failing}
    for case in one.failing:
        out.say(f"  {plain(case.id)}  ", (case.outcome, "red"), *_became(case.id in still, after))
    for case in two.failing:
        if case.id not in known:
            out.say(f"  {plain(case.id)}  ", (f"fails now: {case.outcome}", "red"))


def _became(fails: bool, after: TestTable | None) -> tuple[str | Text, ...]:
    if after is None:
        return ()
    return " → ", Text("still fails", "red") if fails else Text("passes", "green")


def _model(found: RepairVerdict) -> str:
    use = found.model
    if use is None or not use.calls:
        return "no model call" if use else ""
    return f"{use.calls} model call{'s' if use.calls > 1 else ''}, {use.input_tokens + use.output_tokens} tokens"

"""Working hours: reads shifts, adds them up, and says what is overtime. Shifts may go past midnight."""

from dataclasses import dataclass
from datetime import datetime, timedelta

FORMAT = "%Y-%m-%d %H:%M"
BREAK_AFTER = timedelta(hours=6)
BREAK = timedelta(minutes=30)
WEEK_HOURS = 38.5


@dataclass(frozen=True)
class Shift:
    """From when to when somebody worked."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise ValueError("a shift ends after it began")

    @property
    def length(self) -> timedelta:
        """Without the break that is due after six hours."""
        whole = self.end - self.start
        return whole - BREAK if whole > BREAK_AFTER else whole


def parse(line: str) -> Shift:
    """`2024-05-01 08:00 to 2024-05-01 16:30`"""
    start, end = line.split(" to ")
    return Shift(datetime.strptime(start.strip(), FORMAT), datetime.strptime(end.strip(), FORMAT))


def hours(span: timedelta) -> float:
    """A span in hours, to two digits."""
    return round(span.seconds / 3600, 2)


def worked(shifts: list[Shift]) -> float:
    """Hours of all shifts together."""
    return hours(sum((shift.length for shift in shifts), timedelta()))


def overtime(shifts: list[Shift]) -> float:
    """Hours beyond the week's; never less than zero."""
    return round(max(0.0, worked(shifts) - WEEK_HOURS), 2)


def by_day(shifts: list[Shift]) -> dict[str, float]:
    """Hours by the day on which a shift began."""
    days: dict[str, timedelta] = {}
    for shift in shifts:
        day = shift.start.date().isoformat()
        days[day] = days.get(day, timedelta()) + shift.length
    return {day: hours(span) for day, span in sorted(days.items())}

"""Dates, time zones, timers. Zones are IANA names where the machine knows them, or plain offsets such as '+05:30'."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from toolcrib.demo.source import Instant, Refused, Source, adds, pick, reads, removes, utc_now

Zone = Annotated[str, "IANA name such as 'Europe/Berlin', or an offset such as '+05:30'"]


class Timer(msgspec.Struct, frozen=True):
    id: str
    name: str
    ends: datetime


class Clock(Source):
    """The `clock` source."""

    label = "clock"
    about = "Current time, time zones, date arithmetic and timers."

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(now)
        self.timers: dict[str, Timer] = {}

    @reads
    def get_current_time(self, timezone: Zone = "UTC") -> dict[str, str]:
        """What time and day is it now, in a given time zone?"""
        here = self.now().astimezone(_zone(timezone))
        return {"time": here.isoformat(timespec="seconds"), "weekday": here.strftime("%A")}

    @reads
    def convert_timezone(self, time: Instant, to_timezone: Zone) -> str:
        """Express a point in time in another time zone."""
        return time.astimezone(_zone(to_timezone)).isoformat()

    @reads
    def add_to_date(
        self,
        start: date,
        days: Annotated[int, Meta(ge=-100_000, le=100_000)] = 0,
        weeks: Annotated[int, Meta(ge=-10_000, le=10_000)] = 0,
        business_days_only: Annotated[bool, "Skip Saturdays and Sundays"] = False,
    ) -> date:
        """Date arithmetic: which date is so many days or weeks (or working days) after or before another?"""
        total = days + 7 * weeks
        try:
            return _after_working_days(start, total) if business_days_only else start + timedelta(days=total)
        except OverflowError as error:
            raise Refused("That is outside of the calendar.") from error

    @reads
    def date_difference(self, start: date, end: date) -> dict[str, int]:
        """Days, weeks and working days between two dates."""
        days = (end - start).days
        low = min(start, end)
        whole, rest = divmod(abs(days), 7)
        working = whole * 5 + sum((low + timedelta(days=n)).weekday() < 5 for n in range(rest))
        return {"days": days, "weeks": int(days / 7), "working_days": working if days >= 0 else -working}

    @reads
    def countdown(self, until: Instant) -> str:
        """How long until a moment?"""
        left = until - self.now()
        hours, seconds = divmod(abs(left).seconds, 3600)
        return f"{abs(left).days} d {hours} h {seconds // 60} min {'ago' if left < timedelta() else 'left'}"

    @reads
    def day_of_week(self, day: date) -> dict[str, object]:
        """Weekday, ISO week number and day of the year for a date."""
        week = day.isocalendar().week
        return {"weekday": day.strftime("%A"), "iso_week": week, "day_of_year": day.timetuple().tm_yday}

    @reads
    def convert_timestamp(self, value: Annotated[str, "Unix seconds or an ISO 8601 time"]) -> dict[str, object]:
        """Unix epoch <-> ISO date."""
        try:
            moment = datetime.fromtimestamp(float(value), UTC) if _is_number(value) else datetime.fromisoformat(value)
        except (ValueError, OverflowError, OSError) as error:
            raise Refused(f"Not a timestamp: {value!r}") from error
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return {"iso": aware.isoformat(), "unix": int(aware.timestamp())}

    @adds
    def start_timer(self, minutes: Annotated[float, Meta(gt=0, le=10_080)], name: str = "timer") -> Timer:
        """Set a countdown timer, e.g. for glue to dry. Ask list_timers how much is left."""
        timer = Timer(self.next_id("timer"), name, self.now() + timedelta(minutes=minutes))
        self.timers[timer.id] = timer
        return timer

    @reads
    def list_timers(self, state: Literal["all", "running", "done"] = "all") -> list[dict[str, object]]:
        """Timers with the seconds that remain (0 when it has gone off)."""
        rows = [(timer, max(0, round((timer.ends - self.now()).total_seconds()))) for timer in self.timers.values()]
        wanted = {"all": (True, False), "running": (True,), "done": (False,)}[state]
        return [{"id": t.id, "name": t.name, "seconds_left": left} for t, left in rows if (left > 0) in wanted]

    @removes
    def cancel_timer(self, timer_id: str) -> str:
        """Stop a running timer."""
        name = pick(self.timers, timer_id, "timer").name
        del self.timers[timer_id]
        return f"Stopped {name}."


def _zone(name: str) -> tzinfo:
    if match := re.fullmatch(r"([+-])(\d\d):?(\d\d)", name):
        sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        if offset < timedelta(hours=24):
            return timezone(-offset if sign == "-" else offset)
    if name in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise Refused(f"Unknown time zone {name!r}.") from error


def _after_working_days(start: date, count: int) -> date:
    """Whole weeks at once, so that a large count costs no more than a small one; a week-end counts as its edge."""
    step = 1 if count >= 0 else -1
    weeks, rest = divmod(abs(count), 5)
    while start.weekday() > 4 and count:
        start -= timedelta(days=step)
    day = start + timedelta(days=7 * weeks * step)
    while rest:
        day += timedelta(days=step)
        rest -= day.weekday() < 5
    return day


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,15}(\.\d+)?", text.strip()) is not None

"""A shared calendar: events, invitations, free time. Instants carry a zone; a day is a UTC day."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolcrib.demo.source import Instant, Refused, Source, adds, mentions, pick, reads, removes, revised, sets, utc_now

EventId = Annotated[str, "Event id, e.g. 'evt-2'"]
Calendars = Literal["work", "workshop", "private"]
Answer = Literal["accepted", "declined", "tentative"]


class Event(msgspec.Struct, frozen=True):
    id: str
    title: str
    start: datetime
    end: datetime
    calendar: str = "work"
    location: str = ""
    attendees: dict[str, str] = {}


class Calendar(Source):
    """The `calendar` source."""

    label = "calendar"
    about = "Events on the team's calendars. Times are ISO 8601 with an offset."

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(now)
        self.events: dict[str, Event] = {}
        for title, days, hour, calendar, people in (
            ("Stand-up", 0, 9, "work", ("ada@workshop.example", "ben@workshop.example")),
            ("Lathe induction for new members", 1, 14, "workshop", ("cleo@workshop.example",)),
            ("Budget review", 2, 11, "work", ("ada@workshop.example",)),
            ("Dentist", 3, 16, "private", ()),
            ("Open evening", 5, 18, "workshop", ()),
        ):
            start = datetime.combine(self.today + timedelta(days=days), time(hour), UTC)
            self._store(title, start, start + timedelta(hours=1), calendar, "", people)

    @reads
    def list_calendars(self) -> dict[str, int]:
        """All calendars with the number of events on each."""
        names = ("work", "workshop", "private")
        return {name: sum(event.calendar == name for event in self.events.values()) for name in names}

    @reads
    def list_events(
        self,
        start: Annotated[date | None, "First day; today if omitted"] = None,
        days: Annotated[int, "How many days to look ahead", Meta(ge=1, le=366)] = 7,
        calendar: Annotated[Calendars | None, "Restrict to one calendar"] = None,
    ) -> list[Event]:
        """Returns the events in a date range in chronological order, optionally from one calendar only. Use it to
        answer what is on the agenda on a day or in a week."""
        first = start or self.today
        until = first + timedelta(days=days)
        return [e for e in self._sorted() if first <= e.start.date() < until and calendar in (None, e.calendar)]

    @reads
    def get_event(self, event_id: EventId) -> Event:
        """Full details of one event, with attendees and their responses."""
        return pick(self.events, event_id, "event")

    @adds
    def create_event(
        self,
        title: Annotated[str, Meta(min_length=1, max_length=200)],
        start: Instant,
        end: Instant,
        calendar: Calendars = "work",
        location: str = "",
        attendees: Annotated[tuple[str, ...], "E-mail addresses to invite"] = (),
    ) -> Event:
        """Schedule a meeting or appointment. Attendees receive an invitation with status 'needs-action'. The slot is
        not checked for overlaps; check_conflicts tells which hours are taken."""
        return self._store(title, start, end, calendar, location, attendees)

    @adds
    def create_recurring_event(
        self,
        title: str,
        start: Instant,
        minutes: Annotated[int, "Duration", Meta(ge=5, le=1440)],
        frequency: Literal["daily", "weekly"],
        count: Annotated[int, "Number of occurrences", Meta(ge=2, le=60)],
    ) -> list[str]:
        """Put a series of events on the work calendar, repeating every day or every week. Returns all event ids."""
        step = timedelta(days=1 if frequency == "daily" else 7)
        long = timedelta(minutes=minutes)
        starts = [start + step * number for number in range(count)]
        return [self._store(title, each, each + long, "work", "", ()).id for each in starts]

    @sets
    def update_event(
        self,
        event_id: EventId,
        title: str | None = None,
        location: str | None = None,
        calendar: Calendars | None = None,
    ) -> Event:
        """Change title, place or calendar of an event."""
        event = revised(self.get_event(event_id), title=title, location=location, calendar=calendar)
        self.events[event_id] = event
        return event

    @sets
    def reschedule_event(self, event_id: EventId, new_start: Instant) -> Event:
        """Move an event to another time, keeping its duration. All responses are reset."""
        event = self.get_event(event_id)
        asked = dict.fromkeys(event.attendees, "needs-action")
        end = new_start + (event.end - event.start)
        self.events[event_id] = revised(event, start=new_start, end=end, attendees=asked)
        return self.events[event_id]

    @removes
    def cancel_event(self, event_id: EventId) -> str:
        """Remove an event from the calendar and notify everybody who was invited."""
        event = self.get_event(event_id)
        del self.events[event_id]
        return f"Cancelled {event.title!r}; {len(event.attendees)} attendees notified."

    @reads
    def find_free_slots(
        self,
        day: date,
        minutes: Annotated[int, "Length of the wanted slot", Meta(ge=5, le=480)] = 30,
        attendees: Annotated[tuple[str, ...], "Only events of these people block time; empty: all events"] = (),
    ) -> list[dict[str, datetime]]:
        """Find open times between 08:00 and 18:00 on a given day when nobody is busy."""
        return [{"start": start, "end": end} for start, end in self._gaps(day, attendees) if _fits(start, end, minutes)]

    @reads
    def check_conflicts(self, start: Instant, end: Instant) -> list[Event]:
        """Lists events that overlap with the given period."""
        return [event for event in self._sorted() if event.start < end and start < event.end]

    @sets
    def respond_to_invitation(self, event_id: EventId, attendee: str, response: Answer) -> Event:
        """Accept, decline or tentatively accept an invitation on behalf of an attendee."""
        event = self.get_event(event_id)
        if attendee not in event.attendees:
            raise Refused(f"{attendee} is not invited to {event.title!r}.")
        self.events[event_id] = revised(event, attendees={**event.attendees, attendee: response})
        return self.events[event_id]

    @sets
    def invite_attendees(self, event_id: EventId, emails: Annotated[list[str], Meta(min_length=1)]) -> Event:
        """Invite more people to an existing event."""
        event = self.get_event(event_id)
        everybody = {**dict.fromkeys(emails, "needs-action"), **event.attendees}
        self.events[event_id] = revised(event, attendees=everybody)
        return self.events[event_id]

    @reads
    def search_events(self, query: Annotated[str, "Words in title or location"]) -> list[Event]:
        """Full-text search over past and upcoming events."""
        return [event for event in self._sorted() if mentions(query, event.title, event.location)]

    def _sorted(self) -> list[Event]:
        return sorted(self.events.values(), key=lambda event: (event.start, event.id))

    def _store(
        self, title: str, start: datetime, end: datetime, calendar: str, place: str, people: tuple[str, ...]
    ) -> Event:
        if end <= start:
            raise Refused("An event must end after it starts.")
        event = Event(self.next_id("evt"), title, start, end, calendar, place, dict.fromkeys(people, "needs-action"))
        self.events[event.id] = event
        return event

    def _gaps(self, day: date, people: tuple[str, ...]) -> Iterator[tuple[datetime, datetime]]:
        free_from, close = (datetime.combine(day, time(hour), UTC) for hour in (8, 18))
        for event in self._sorted():
            if event.end <= free_from or event.start >= close or (people and not event.attendees.keys() & people):
                continue
            yield free_from, event.start
            free_from = max(free_from, event.end)
        yield free_from, close


def _fits(start: datetime, end: datetime, minutes: int) -> bool:
    return end - start >= timedelta(minutes=minutes)

"""An issue tracker: tickets with a status, comments, labels and links."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolcrib.demo.source import Refused, Source, adds, mentions, pick, reads, removes, revised, sets, utc_now

TicketId = Annotated[str, "Ticket key, e.g. 'TCK-3'"]
Status = Literal["open", "in_progress", "blocked", "closed"]
Priority = Literal["low", "normal", "high", "urgent"]
Kind = Literal["bug", "task", "request"]


class Comment(msgspec.Struct, frozen=True):
    author: str
    text: str
    written: datetime


class Ticket(msgspec.Struct, frozen=True):
    id: str
    title: str
    description: str
    kind: str
    priority: str
    opened: datetime
    status: str = "open"
    assignee: str = ""
    labels: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    comments: tuple[Comment, ...] = ()


class Tickets(Source):
    """The `tickets` source."""

    label = "tickets"
    about = "The workshop's issue tracker. Keys look like TCK-3."

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(now)
        self.tickets: dict[str, Ticket] = {}
        for title, text, kind, priority, assignee in (
            ("Band saw trips the breaker", "Happens after about ten minutes.", "bug", "urgent", "ben"),
            ("Booking page shows wrong opening hours", "Saturday says 18:00.", "bug", "normal", ""),
            ("Order more 3 mm plywood", "Members ask every week.", "task", "low", "cleo"),
            ("Quieter dust extraction", "Requested at the open evening.", "request", "normal", ""),
            ("Login fails with umlauts in the password", "Stack trace in the notes.", "bug", "high", "ada"),
        ):
            self._open(title, text, kind, priority, assignee)

    @adds
    def create_ticket(
        self,
        title: Annotated[str, "One-line summary", Meta(min_length=3, max_length=200)],
        description: Annotated[str, "What happened, what was expected, steps to reproduce"] = "",
        kind: Kind = "task",
        priority: Priority = "normal",
        assignee: Annotated[str, "User name; leave empty for the triage queue"] = "",
    ) -> Ticket:
        """Open a new ticket (bug, task or feature request) in the tracker."""
        return self._open(title, description, kind, priority, assignee)

    @reads
    def get_ticket(self, ticket_id: TicketId) -> Ticket:
        """Fetch a ticket by key, including its comments, labels and links."""
        return pick(self.tickets, ticket_id, "ticket")

    @reads
    def list_tickets(
        self,
        status: Annotated[Status | None, "Only tickets in this status"] = None,
        assignee: Annotated[str | None, "Only tickets of this person"] = None,
        priority: Priority | None = None,
        label: str | None = None,
        limit: Annotated[int, Meta(ge=1, le=100)] = 20,
    ) -> list[Ticket]:
        """Lists tickets, newest first, filtered by status, assignee, priority or label."""
        found = [
            ticket
            for ticket in reversed(self.tickets.values())
            if status in (None, ticket.status)
            and assignee in (None, ticket.assignee)
            and priority in (None, ticket.priority)
            and (label is None or label in ticket.labels)
        ]
        return found[:limit]

    @reads
    def search_tickets(self, query: Annotated[str, "Words to look for"]) -> list[Ticket]:
        """Search tickets by text in title, description and comments."""
        return [
            t for t in self.tickets.values() if mentions(query, t.title, t.description, *(c.text for c in t.comments))
        ]

    @sets
    def update_ticket(
        self,
        ticket_id: TicketId,
        title: str | None = None,
        description: str | None = None,
        status: Status | None = None,
        kind: Kind | None = None,
    ) -> Ticket:
        """Modify fields of a ticket. Fields that are omitted keep their value. To close a ticket prefer close_ticket,
        which records the resolution."""
        return self._revise(ticket_id, title=title, description=description, status=status, kind=kind)

    @sets
    def set_priority(self, ticket_id: TicketId, priority: Priority) -> Ticket:
        """Escalate or de-escalate a ticket."""
        return self._revise(ticket_id, priority=priority)

    @sets
    def assign_ticket(self, ticket_id: TicketId, assignee: Annotated[str, "User name, empty to unassign"]) -> Ticket:
        """Hand a ticket to somebody, or put it back into the queue."""
        return self._revise(ticket_id, assignee=assignee)

    @sets
    def close_ticket(
        self, ticket_id: TicketId, resolution: Literal["fixed", "duplicate", "wont_fix", "cannot_reproduce"]
    ) -> Ticket:
        """Mark a ticket as done with a resolution."""
        if self.get_ticket(ticket_id).status == "closed":
            raise Refused(f"{ticket_id} is closed already.")
        self.add_comment(ticket_id, f"Resolution: {resolution}", "tracker")
        return self._revise(ticket_id, status="closed")

    @sets
    def reopen_ticket(self, ticket_id: TicketId, reason: str) -> Ticket:
        """Reopen a closed ticket, e.g. because the bug came back."""
        if self.get_ticket(ticket_id).status != "closed":
            raise Refused(f"{ticket_id} is not closed.")
        self.add_comment(ticket_id, f"Reopened: {reason}", "tracker")
        return self._revise(ticket_id, status="open")

    @adds
    def add_comment(
        self, ticket_id: TicketId, text: Annotated[str, Meta(min_length=1)], author: str = "agent"
    ) -> Comment:
        """Post a comment on a ticket."""
        comment = Comment(author, text, self.now())
        self._revise(ticket_id, comments=(*self.get_ticket(ticket_id).comments, comment))
        return comment

    @reads
    def list_comments(self, ticket_id: TicketId) -> list[Comment]:
        """The discussion on a ticket, oldest comment first."""
        return list(self.get_ticket(ticket_id).comments)

    @sets
    def label_ticket(self, ticket_id: TicketId, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> Ticket:
        """Add and/or remove labels."""
        labels = tuple(sorted({*self.get_ticket(ticket_id).labels, *add} - set(remove)))
        return self._revise(ticket_id, labels=labels)

    @sets
    def link_tickets(
        self, ticket_id: TicketId, other_id: TicketId, relation: Literal["blocks", "duplicates", "relates_to"]
    ) -> Ticket:
        """Record that one ticket blocks, duplicates or relates to another one."""
        link = f"{relation} {self.get_ticket(other_id).id}"
        return self._revise(ticket_id, links=tuple(dict.fromkeys((*self.get_ticket(ticket_id).links, link))))

    @reads
    def ticket_stats(self, by: Literal["status", "priority", "assignee", "kind"] = "status") -> dict[str, int]:
        """Counts of tickets grouped by a field. Useful for dashboards and weekly reports."""
        return dict(Counter(str(getattr(ticket, by)) or "nobody" for ticket in self.tickets.values()))

    @removes
    def delete_ticket(self, ticket_id: TicketId) -> str:
        """Delete a ticket for good. Admins only; closing is almost always better."""
        del self.tickets[self.get_ticket(ticket_id).id]
        return f"Deleted {ticket_id}."

    def _open(self, title: str, description: str, kind: str, priority: str, assignee: str) -> Ticket:
        ticket = Ticket(self.next_id("TCK"), title, description, kind, priority, self.now(), assignee=assignee)
        self.tickets[ticket.id] = ticket
        return ticket

    def _revise(self, ticket_id: str, **changes: object) -> Ticket:
        self.tickets[ticket_id] = revised(self.get_ticket(ticket_id), **changes)
        return self.tickets[ticket_id]

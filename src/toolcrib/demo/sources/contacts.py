"""An address book of people, beside (and on purpose easily confused with) the customers of `invoices`."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from toolcrib.demo.source import Refused, Source, adds, mentions, pick, reads, removes, revised, sets, utc_now

ContactId = Annotated[str, "Contact id"]

_SEED = (
    ("Ada Okafor", "ada@workshop.example", "+49 30 555 0101", "Workshop", date(1988, 3, 14)),
    ("Ben Lindqvist", "ben@workshop.example", "+49 30 555 0102", "Workshop", date(1993, 11, 30)),
    ("Cleo Marchetti", "cleo@workshop.example", "+49 30 555 0103", "Workshop", None),
    ("Mika Sato", "office@nordlicht.example", "+49 40 555 0177", "Nordlicht Theatre", None),
)


class Contact(msgspec.Struct, frozen=True):
    id: str
    name: str
    email: str = ""
    phone: str = ""
    company: str = ""
    birthday: date | None = None
    groups: tuple[str, ...] = ()


class Contacts(Source):
    """The `contacts` source."""

    label = "contacts"
    about = "The address book: people, their phone numbers, e-mail addresses and groups."

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(now)
        self.contacts: dict[str, Contact] = {}
        for name, email, phone, company, birthday in _SEED:
            self.add_contact(name, email, phone, company, birthday)

    @reads
    def find_contact(self, query: Annotated[str, "Part of a name, address, number or company"]) -> list[Contact]:
        """Look up a person in the address book, e.g. to get a phone number or an e-mail address."""
        return [c for c in self.contacts.values() if mentions(query, c.name, c.email, c.phone, c.company)]

    @reads
    def get_contact(self, contact_id: ContactId) -> Contact:
        """One contact card."""
        return pick(self.contacts, contact_id, "contact")

    @reads
    def list_contacts(self, group: str | None = None, company: str | None = None) -> list[Contact]:
        """All people in the address book in alphabetical order, or those of a group or company."""
        found = [
            c for c in self.contacts.values() if (group is None or group in c.groups) and company in (None, c.company)
        ]
        return sorted(found, key=lambda contact: contact.name)

    @adds
    def add_contact(
        self,
        name: Annotated[str, "Full name", Meta(min_length=1)],
        email: str = "",
        phone: str = "",
        company: str = "",
        birthday: date | None = None,
    ) -> Contact:
        """Save a new person."""
        contact = Contact(self.next_id("con"), name, email, phone, company, birthday)
        self.contacts[contact.id] = contact
        return contact

    @sets
    def update_contact(
        self,
        contact_id: ContactId,
        name: str | None = None,
        email: str | None = None,
        phone: str | None = None,
        company: str | None = None,
    ) -> Contact:
        """Correct or complete a contact's details."""
        changed = revised(self.get_contact(contact_id), name=name, email=email, phone=phone, company=company)
        self.contacts[contact_id] = changed
        return changed

    @removes
    def delete_contact(self, contact_id: ContactId) -> str:
        """Remove a person from the address book."""
        gone = self.get_contact(contact_id)
        del self.contacts[contact_id]
        return f"{gone.name} is removed."

    @removes
    def merge_contacts(self, keep_id: ContactId, duplicate_id: ContactId) -> Contact:
        """Combine two entries for the same person. Gaps in the first are filled from the second, which is deleted."""
        if keep_id == duplicate_id:
            raise Refused("Give two different contacts.")
        keep, other = self.get_contact(keep_id), self.get_contact(duplicate_id)
        pairs = [(field, getattr(keep, field), getattr(other, field)) for field in keep.__struct_fields__]
        self.contacts[keep_id] = Contact(**{field: mine or theirs for field, mine, theirs in pairs})
        del self.contacts[duplicate_id]
        return self.contacts[keep_id]

    @sets
    def add_to_group(self, contact_ids: Annotated[list[str], Meta(min_length=1)], group: str) -> list[str]:
        """Put people into a group or distribution list; returns the names of all members."""
        for contact_id in contact_ids:
            contact = self.get_contact(contact_id)
            self.contacts[contact_id] = revised(contact, groups=tuple(sorted({*contact.groups, group})))
        return [contact.name for contact in self.list_contacts(group)]

    @reads
    def upcoming_birthdays(self, days: Annotated[int, Meta(ge=1, le=366)] = 30) -> list[dict[str, object]]:
        """Whose birthday is in the next days?"""
        ahead = {(day := self.today + timedelta(days=n)).strftime("%m-%d"): day for n in range(days)}
        return [
            {"name": c.name, "on": ahead[key]}
            for c in self.contacts.values()
            if c.birthday and (key := c.birthday.strftime("%m-%d")) in ahead
        ]

    @reads
    def export_vcard(self, contact_id: ContactId) -> str:
        """vCard 4.0 text for a contact."""
        c = self.get_contact(contact_id)
        lines = [
            f"FN:{c.name}",
            c.email and f"EMAIL:{c.email}",
            c.phone and f"TEL:{c.phone}",
            c.company and f"ORG:{c.company}",
        ]
        return "\r\n".join(["BEGIN:VCARD", "VERSION:4.0", *filter(None, lines), "END:VCARD", ""])

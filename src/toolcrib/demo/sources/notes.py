"""A personal notebook: notes with tags and [[links]] between them."""

import re
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from toolcrib.demo.source import Source, adds, mentions, pick, reads, removes, revised, sets, utc_now

NoteId = Annotated[str, "Note id"]

_SEED = (
    ("Lathe settings", "Brass: 900 rpm, 0.1 mm per turn. See [[Safety talk]].", ("machines",)),
    ("Safety talk", "Goggles, sleeves, emergency stop. Twenty minutes at most.", ("teaching",)),
    ("Ideas for the open evening", "Key rings on the laser cutter; soldering corner.", ("events", "teaching")),
)


class Note(msgspec.Struct, frozen=True):
    id: str
    title: str
    body: str
    changed: datetime
    tags: tuple[str, ...] = ()
    is_pinned: bool = False


class Notes(Source):
    """The `notes` source."""

    label = "notes"
    about = "A notebook in Markdown. Link notes to one another by [[title]]."

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(now)
        self.notes: dict[str, Note] = {}
        for title, body, tags in _SEED:
            self.create_note(title, body, tags)

    @adds
    def create_note(
        self,
        title: Annotated[str, Meta(min_length=1, max_length=200)],
        body: Annotated[str, "Markdown text"] = "",
        tags: tuple[str, ...] = (),
    ) -> Note:
        """Jot something down. Creates a new note with optional tags."""
        return self._keep(Note(self.next_id("note"), title, body, self.now(), tags))

    @reads
    def get_note(self, note_id: NoteId) -> Note:
        """Open a note."""
        return pick(self.notes, note_id, "note")

    @reads
    def list_notes(self, tag: Annotated[str | None, "Only notes with this tag"] = None) -> list[dict[str, object]]:
        """Titles of all notes, pinned ones first, then by last change."""
        notes = sorted(self.notes.values(), key=lambda n: n.changed, reverse=True)
        notes.sort(key=lambda n: not n.is_pinned)
        return [{"id": n.id, "title": n.title, "tags": n.tags} for n in notes if tag is None or tag in n.tags]

    @reads
    def search_notes(self, query: Annotated[str, "Words that must all occur"]) -> list[Note]:
        """Find notes by words in title, body or tags."""
        return [note for note in self.notes.values() if mentions(query, note.title, note.body, *note.tags)]

    @removes
    def update_note(self, note_id: NoteId, title: str | None = None, body: str | None = None) -> Note:
        """Replace title and/or body of a note. The old text is lost; use append_to_note to add to it."""
        return self._keep(revised(self.get_note(note_id), title=title, body=body, changed=self.now()))

    @adds
    def append_to_note(self, note_id: NoteId, text: str) -> Note:
        """Adds a paragraph at the end of a note."""
        note = self.get_note(note_id)
        return self._keep(revised(note, body=f"{note.body}\n\n{text}".strip(), changed=self.now()))

    @removes
    def delete_note(self, note_id: NoteId) -> str:
        """Throw a note away."""
        del self.notes[self.get_note(note_id).id]
        return f"Deleted {note_id}."

    @sets
    def tag_note(self, note_id: NoteId, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> Note:
        """Put tags on a note or take them off."""
        note = self.get_note(note_id)
        return self._keep(revised(note, tags=tuple(sorted({*note.tags, *add} - set(remove)))))

    @reads
    def list_tags(self) -> dict[str, int]:
        """Tags in use and how many notes carry each."""
        return dict(Counter(tag for note in self.notes.values() for tag in note.tags).most_common())

    @sets
    def pin_note(self, note_id: NoteId, pinned: bool = True) -> Note:
        """Keep a note at the top of the list (or stop doing so)."""
        return self._keep(revised(self.get_note(note_id), is_pinned=pinned))

    @reads
    def get_backlinks(self, note_id: NoteId) -> list[str]:
        """Which other notes refer to this one with a [[link]]?"""
        title = self.get_note(note_id).title
        return [n.id for n in self.notes.values() if title in re.findall(r"\[\[([^\[\]]+)\]\]", n.body)]

    @sets
    def open_daily_note(self, day: Annotated[date | None, "Default: today"] = None) -> Note:
        """Get the journal page of a day, creating it if there is none yet."""
        title = f"Journal {day or self.today}"
        known = next((note for note in self.notes.values() if note.title == title), None)
        return known or self.create_note(title, "", ("journal",))

    def _keep(self, note: Note) -> Note:
        self.notes[note.id] = note
        return note

"""A mailbox: folders, drafts, rules. Sent messages stay in this process and go nowhere."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolcrib.demo.source import Refused, Source, adds, mentions, pick, reads, removes, revised, sets, utc_now

MessageId = Annotated[str, "Message id, e.g. 'msg-2'"]
Addresses = Annotated[list[str], "Recipients", Meta(min_length=1, max_length=50)]

_ME = "me@workshop.example"
_SEED = (
    ("office@nordlicht.example", "Stage set: delivery date?", "Can you deliver before the 20th? Regards, Mika"),
    ("cleo@workshop.example", "Plywood order", "Ten sheets of 3 mm, please. The receipt is attached."),
    ("newsletter@bits.example", "Router bits, 20 % off", "This week only."),
    ("admin@hill.example", "Lathe course", "We are eight people. Is Thursday possible?"),
)


class Letter(msgspec.Struct, frozen=True):
    id: str
    sender: str
    to: tuple[str, ...]
    subject: str
    body: str
    folder: str
    written: datetime
    is_read: bool = False
    is_flagged: bool = False


class Rule(msgspec.Struct, frozen=True):
    id: str
    sender_contains: str
    move_to: str


class Mail(Source):
    """The `mail` source."""

    label = "mail"
    about = "The workshop's mailbox. Folders: inbox, sent, drafts, archive, trash and any you create by moving."

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(now)
        self.letters: dict[str, Letter] = {}
        self.rules: dict[str, Rule] = {}
        self.auto_reply = ""
        for sender, subject, body in _SEED:
            self._keep(Letter(self.next_id("msg"), sender, (_ME,), subject, body, "inbox", now()))

    @reads
    def list_messages(
        self,
        folder: str = "inbox",
        unread_only: bool = False,
        limit: Annotated[int, Meta(ge=1, le=200)] = 25,
    ) -> list[dict[str, object]]:
        """Lists e-mails in a folder, newest first, without their bodies."""
        found = [m for m in reversed(self.letters.values()) if m.folder == folder and not (unread_only and m.is_read)]
        return [{"id": m.id, "from": m.sender, "subject": m.subject, "is_read": m.is_read} for m in found[:limit]]

    @sets
    def read_message(self, message_id: MessageId) -> Letter:
        """Open an e-mail and mark it as read. Returns headers and body."""
        return self._revise(message_id, is_read=True)

    @adds
    def send_message(self, to: Addresses, subject: str, body: str) -> Letter:
        """Send an email to one or more recipients."""
        return self._keep(self._written(to, subject, body, "sent"))

    @adds
    def reply(self, message_id: MessageId, body: str) -> Letter:
        """Answer an e-mail; the subject is prefixed with 'Re:'."""
        letter = self._open(message_id)
        return self.send_message([letter.sender], f"Re: {letter.subject.removeprefix('Re: ')}", body)

    @adds
    def forward(self, message_id: MessageId, to: Addresses, comment: str = "") -> Letter:
        """Pass an e-mail on to somebody else, with an optional comment above it."""
        letter = self._open(message_id)
        return self.send_message(to, f"Fwd: {letter.subject}", f"{comment}\n\n> {letter.body}".strip())

    @adds
    def save_draft(self, to: Addresses, subject: str, body: str = "") -> Letter:
        """Compose an email without sending it. Drafts are kept until send_draft."""
        return self._keep(self._written(to, subject, body, "drafts"))

    @sets
    def send_draft(self, message_id: MessageId) -> Letter:
        """Sends a saved draft."""
        if self._open(message_id).folder != "drafts":
            raise Refused(f"{message_id} is not a draft.")
        return self._revise(message_id, folder="sent")

    @reads
    def search_mail(
        self,
        query: Annotated[str, "Words in subject or body"] = "",
        sender: Annotated[str | None, "Part of the sender's address"] = None,
        folder: str | None = None,
    ) -> list[Letter]:
        """Search the mailbox by words, sender and folder."""
        return [
            m
            for m in self.letters.values()
            if mentions(query, m.subject, m.body) and (sender or "") in m.sender and folder in (None, m.folder)
        ]

    @sets
    def move_message(self, message_id: MessageId, folder: Annotated[str, Meta(min_length=1)]) -> Letter:
        """File an e-mail into another folder. The folder is created if needed."""
        return self._revise(message_id, folder=folder)

    @sets
    def archive_message(self, message_id: MessageId) -> Letter:
        """Take a message out of the inbox without deleting it."""
        return self._revise(message_id, folder="archive")

    @removes
    def delete_message(self, message_id: MessageId) -> str:
        """Move a message to the trash; a message that is in the trash already is erased."""
        if self._open(message_id).folder != "trash":
            self._revise(message_id, folder="trash")
            return f"{message_id} is in the trash."
        del self.letters[message_id]
        return f"{message_id} is erased."

    @sets
    def mark_message(
        self, message_id: MessageId, state: Literal["read", "unread", "flagged", "unflagged"] = "read"
    ) -> Letter:
        """Set read/unread or flagged/unflagged."""
        changes = {"is_read": state == "read"} if state in ("read", "unread") else {"is_flagged": state == "flagged"}
        return self._revise(message_id, **changes)

    @reads
    def list_folders(self) -> dict[str, int]:
        """Mail folders and the number of messages in each."""
        return dict(Counter(letter.folder for letter in self.letters.values()))

    @reads
    def count_unread(self, folder: str = "inbox") -> int:
        """Number of unread e-mails."""
        return sum(letter.folder == folder and not letter.is_read for letter in self.letters.values())

    @adds
    def create_rule(
        self,
        sender_contains: Annotated[str, "Part of the sender's address", Meta(min_length=1)],
        move_to: Annotated[str, "Target folder"],
    ) -> dict[str, object]:
        """Create an inbox filter which files messages from a sender into a folder, now and in future."""
        rule = Rule(self.next_id("rule"), sender_contains, move_to)
        self.rules[rule.id] = rule
        caught = [m.id for m in self.letters.values() if m.folder == "inbox" and sender_contains in m.sender]
        for message_id in caught:
            self._revise(message_id, folder=move_to)
        return {"rule": rule, "moved": caught}

    @sets
    def set_auto_reply(self, text: Annotated[str, "Empty to switch it off"]) -> str:
        """Out-of-office notice: answer every incoming mail with this text."""
        self.auto_reply = text
        return f"Automatic reply is on: {text}" if text else "Automatic reply is off."

    def _open(self, message_id: str) -> Letter:
        return pick(self.letters, message_id, "message")

    def _written(self, to: list[str], subject: str, body: str, folder: str) -> Letter:
        if bad := [address for address in to if "@" not in address]:
            raise Refused(f"Not an e-mail address: {', '.join(bad)}.")
        return Letter(self.next_id("msg"), _ME, tuple(to), subject, body, folder, self.now(), is_read=True)

    def _revise(self, message_id: str, **changes: object) -> Letter:
        return self._keep(revised(self._open(message_id), **changes))

    def _keep(self, letter: Letter) -> Letter:
        self.letters[letter.id] = letter
        return letter

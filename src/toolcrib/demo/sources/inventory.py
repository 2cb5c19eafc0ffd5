"""The crib itself: what the workshop owns, where it lies, who has it, and when it must be calibrated."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolcrib.demo.source import Refused, Source, adds, mentions, pick, reads, removes, revised, sets, utc_now

Sku = Annotated[str, "Stock number, e.g. 'DRL-01'"]
Member = Annotated[str, "Name of the member", Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1, le=100_000)]

_SEED = (
    ("DRL-01", "Cordless drill 18 V", "power tool", "A1", 4, 1, None),
    ("SAW-02", "Jigsaw", "power tool", "A2", 2, 1, None),
    ("CAL-03", "Digital caliper 150 mm", "measuring", "B1", 6, 2, 20),
    ("MIC-04", "Micrometer 0-25 mm", "measuring", "B1", 3, 1, -5),
    ("TRQ-05", "Torque wrench 20-100 Nm", "measuring", "B2", 2, 1, 60),
    ("SCR-06", "Wood screws 4x40, box of 200", "consumable", "C3", 7, 10, None),
    ("SND-07", "Sanding discs 125 mm, grit 120", "consumable", "C4", 40, 25, None),
    ("CLP-08", "Bar clamp 600 mm", "hand tool", "D1", 12, 4, None),
)


class Item(msgspec.Struct, frozen=True):
    sku: str
    name: str
    category: str
    bin: str
    quantity: int
    reorder_point: int = 0
    calibration_due: date | None = None
    remarks: tuple[str, ...] = ()


class Loan(msgspec.Struct, frozen=True):
    id: str
    sku: str
    member: str
    due: date


class Reservation(msgspec.Struct, frozen=True):
    id: str
    sku: str
    member: str
    day: date


class Inventory(Source):
    """The `inventory` source."""

    label = "inventory"
    about = "The workshop's tool crib: physical tools and consumables, loans, reservations, calibration."

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(now)
        self.items = {
            sku: Item(sku, name, kind, place, count, point, None if due is None else self.today + timedelta(days=due))
            for sku, name, kind, place, count, point, due in _SEED
        }
        self.loans: dict[str, Loan] = {}
        self.reservations: dict[str, Reservation] = {}
        for sku, member, days in (("DRL-01", "Ada", 3), ("CAL-03", "Ben", -2)):
            self._lend(sku, member, self.today + timedelta(days=days))

    @reads
    def search_items(
        self, query: str = "", category: Literal["power tool", "hand tool", "measuring", "consumable"] | None = None
    ) -> list[Item]:
        """Look up tools and materials in the crib by name or category."""
        return [i for i in self.items.values() if mentions(query, i.name, i.sku) and category in (None, i.category)]

    @reads
    def get_item(self, sku: Sku) -> Item:
        """Details of one stock item."""
        return pick(self.items, sku, "item")

    @reads
    def check_availability(self, sku: Sku) -> dict[str, int]:
        """How many pieces are on the shelf right now, how many are out and how many are reserved from today on."""
        item = self.get_item(sku)
        out = sum(loan.sku == sku for loan in self.loans.values())
        reserved = sum(r.sku == sku and r.day >= self.today for r in self.reservations.values())
        return {"on_shelf": item.quantity - out, "on_loan": out, "reserved": reserved}

    @adds
    def add_item(
        self,
        sku: Sku,
        name: str,
        category: Literal["power tool", "hand tool", "measuring", "consumable"],
        bin: Annotated[str, "Storage location, e.g. 'C3'"],
        quantity: Count = 1,
        reorder_point: Annotated[int, "Reorder when stock falls below this", Meta(ge=0)] = 0,
    ) -> Item:
        """Register a new tool or material in the crib."""
        if sku in self.items:
            raise Refused(f"{sku} exists already; use adjust_stock to change how many there are.")
        self.items[sku] = Item(sku, name, category, bin, quantity, reorder_point)
        return self.items[sku]

    @adds
    def adjust_stock(
        self, sku: Sku, change: Annotated[int, "Positive to add, negative to take away"], reason: str = "count"
    ) -> Item:
        """Correct the quantity after a delivery, a stock count or consumption."""
        item = self.get_item(sku)
        if item.quantity + change < 0:
            raise Refused(f"Only {item.quantity} of {sku} in stock.")
        self.items[sku] = revised(
            item, quantity=item.quantity + change, remarks=(*item.remarks, f"{change:+d}: {reason}")
        )
        return self.items[sku]

    @reads
    def list_low_stock(self) -> list[Item]:
        """Everything that has fallen below its reorder point."""
        return [item for item in self.items.values() if item.quantity < item.reorder_point]

    @adds
    def create_purchase_order(self, sku: Sku, quantity: Count, supplier: str = "default supplier") -> dict[str, object]:
        """Order new stock from a supplier. The order is only recorded; stock changes when adjust_stock books the
        delivery."""
        item = self.get_item(sku)
        return {"order": self.next_id("PO"), "item": item.name, "quantity": quantity, "supplier": supplier}

    @adds
    def check_out_tool(
        self, sku: Sku, member: Member, days: Annotated[int, "Loan period in days", Meta(ge=1, le=30)] = 7
    ) -> Loan:
        """Lend a tool to a member. Fails when none is left on the shelf or when its calibration has expired."""
        item = self.get_item(sku)
        if self.check_availability(sku)["on_shelf"] < 1:
            raise Refused(f"No {item.name} left on the shelf.")
        if item.calibration_due and item.calibration_due < self.today:
            raise Refused(f"{item.name} is out of calibration since {item.calibration_due}.")
        return self._lend(sku, member, self.today + timedelta(days=days))

    @removes
    def return_tool(self, loan_id: Annotated[str, "Loan id, e.g. 'loan-1'"]) -> str:
        """Check a borrowed tool back in."""
        loan = pick(self.loans, loan_id, "loan")
        del self.loans[loan_id]
        late = (self.today - loan.due).days
        return f"{loan.member} returned {loan.sku}" + (f", {late} days late." if late > 0 else ".")

    @reads
    def list_loans(self, member: str | None = None, overdue_only: bool = False) -> list[Loan]:
        """Who has borrowed what and until when. Set overdue_only to see what should have come back by now."""
        return [
            loan
            for loan in self.loans.values()
            if member in (None, loan.member) and not (overdue_only and loan.due >= self.today)
        ]

    @adds
    def reserve_tool(self, sku: Sku, member: Member, day: date) -> Reservation:
        """Book a tool for a member on a future day."""
        if day < self.today:
            raise Refused(f"{day} is past.")
        taken = sum(r.sku == sku and r.day == day for r in self.reservations.values())
        if taken >= self.get_item(sku).quantity:
            raise Refused(f"All {sku} are reserved on {day}.")
        reservation = Reservation(self.next_id("res"), sku, member, day)
        self.reservations[reservation.id] = reservation
        return reservation

    @removes
    def cancel_reservation(self, reservation_id: str) -> str:
        """Release a reserved tool."""
        gone = pick(self.reservations, reservation_id, "reservation")
        del self.reservations[reservation_id]
        return f"{gone.sku} is free again on {gone.day}."

    @sets
    def move_item(self, sku: Sku, bin: str) -> Item:
        """Change the shelf or bin where an item is stored."""
        self.items[sku] = revised(self.get_item(sku), bin=bin)
        return self.items[sku]

    @adds
    def report_damage(self, sku: Sku, description: str) -> Item:
        """Note that a tool is broken or worn; one piece is taken out of circulation."""
        return self.adjust_stock(sku, -1, f"damaged: {description}")

    @reads
    def list_calibration_due(self, within_days: Annotated[int, Meta(ge=0, le=730)] = 30) -> list[Item]:
        """Measuring instruments whose calibration expires soon or has expired."""
        limit = self.today + timedelta(days=within_days)
        return [item for item in self.items.values() if item.calibration_due and item.calibration_due <= limit]

    @sets
    def record_calibration(self, sku: Sku, valid_until: date, certificate: str = "") -> Item:
        """File a calibration result, so that the instrument may be lent again."""
        item = self.get_item(sku)
        remarks = (*item.remarks, f"certificate {certificate}") if certificate else item.remarks
        self.items[sku] = revised(item, calibration_due=valid_until, remarks=remarks)
        return self.items[sku]

    @removes
    def retire_item(self, sku: Sku) -> str:
        """Remove an item from the crib's books for good (scrapped, sold, lost)."""
        if any(loan.sku == sku for loan in self.loans.values()):
            raise Refused(f"{sku} is on loan; take it back first.")
        del self.items[self.get_item(sku).sku]
        return f"{sku} is retired."

    def _lend(self, sku: str, member: str, due: date) -> Loan:
        loan = Loan(self.next_id("loan"), sku, member, due)
        self.loans[loan.id] = loan
        return loan

"""Billing: customers, invoices, payments. Amounts are in cents inside and in currency units at the edge."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolcrib.demo.source import Refused, Source, adds, pick, reads, removes, revised, sets, utc_now

InvoiceId = Annotated[str, "Invoice number, e.g. 'INV-4'"]
CustomerId = Annotated[str, "Customer number, e.g. 'CUS-1'"]
Amount = Annotated[float, Meta(gt=0, le=1_000_000)]


class Customer(msgspec.Struct, frozen=True):
    id: str
    name: str
    email: str
    vat_number: str = ""


class Line(msgspec.Struct, frozen=True):
    text: str
    quantity: float
    unit_price: float

    @property
    def cents(self) -> int:
        return round(self.quantity * self.unit_price * 100)


class Invoice(msgspec.Struct, frozen=True):
    id: str
    customer: str
    issued: date
    due: date
    lines: tuple[Line, ...] = ()
    tax_percent: float = 19.0
    status: str = "draft"
    paid_cents: int = 0

    @property
    def net_cents(self) -> int:
        return sum(line.cents for line in self.lines)

    @property
    def total_cents(self) -> int:
        return self.net_cents + round(self.net_cents * self.tax_percent / 100)


class Invoices(Source):
    """The `invoices` source."""

    label = "invoices"
    about = "Customers, invoices and payments of the workshop, in euro."

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(now)
        self.customers: dict[str, Customer] = {}
        self.invoices: dict[str, Invoice] = {}
        for name, email, text, price, age, status in (
            ("Nordlicht Theatre", "office@nordlicht.example", "Stage set, oak", 2400.0, 50, "sent"),
            ("Cafe Anker", "hello@anker.example", "Bar counter repair", 380.0, 10, "sent"),
            ("School on the Hill", "admin@hill.example", "Lathe course, 8 people", 640.0, 2, "draft"),
        ):
            customer = self.add_customer(name, email)
            issued = self.today - timedelta(days=age)
            self._keep(
                Invoice(
                    self.next_id("INV"),
                    customer.id,
                    issued,
                    issued + timedelta(days=30),
                    (Line(text, 1, price),),
                    status=status,
                )
            )

    @adds
    def create_invoice(
        self,
        customer_id: CustomerId,
        description: Annotated[str, "Text of the first line item"],
        amount: Annotated[Amount, "Net price of the first line item in euro"],
        due_in_days: Annotated[int, Meta(ge=0, le=120)] = 30,
        tax_percent: Annotated[float, Meta(ge=0, le=30)] = 19.0,
    ) -> Invoice:
        """Draft a bill for a customer. The invoice stays a draft until send_invoice is called."""
        pick(self.customers, customer_id, "customer")
        due = self.today + timedelta(days=due_in_days)
        lines = (Line(description, 1, amount),)
        return self._keep(Invoice(self.next_id("INV"), customer_id, self.today, due, lines, tax_percent))

    @reads
    def get_invoice(self, invoice_id: InvoiceId) -> dict[str, object]:
        """Retrieve an invoice with its line items, totals and what is still open."""
        invoice = self._open(invoice_id)
        open_cents = invoice.total_cents - invoice.paid_cents
        return {
            "invoice": invoice,
            "net": _euro(invoice.net_cents),
            "total": _euro(invoice.total_cents),
            "open": _euro(open_cents),
        }

    @reads
    def list_invoices(
        self,
        status: Literal["draft", "sent", "paid", "void"] | None = None,
        customer_id: str | None = None,
        issued_after: date | None = None,
    ) -> list[Invoice]:
        """List invoices, filtered by status, customer and date of issue."""
        return [
            invoice
            for invoice in self.invoices.values()
            if status in (None, invoice.status)
            and customer_id in (None, invoice.customer)
            and (issued_after is None or invoice.issued > issued_after)
        ]

    @reads
    def list_overdue_invoices(self) -> list[dict[str, object]]:
        """Unpaid invoices past their due date, with days overdue and the open amount."""
        return [
            {
                "id": i.id,
                "customer": i.customer,
                "days": (self.today - i.due).days,
                "open": _euro(i.total_cents - i.paid_cents),
            }
            for i in self.invoices.values()
            if i.status == "sent" and i.due < self.today
        ]

    @adds
    def add_line_item(
        self, invoice_id: InvoiceId, text: str, unit_price: Amount, quantity: Annotated[float, Meta(gt=0)] = 1
    ) -> Invoice:
        """Append a position to a draft invoice."""
        invoice = self._draft(invoice_id)
        return self._keep(revised(invoice, lines=(*invoice.lines, Line(text, quantity, unit_price))))

    @sets
    def send_invoice(self, invoice_id: InvoiceId) -> str:
        """Finalise a draft and e-mail it to the customer. It cannot be edited afterwards."""
        invoice = self._keep(revised(self._draft(invoice_id), status="sent"))
        return f"{invoice.id} sent to {self.customers[invoice.customer].email}."

    @adds
    def send_payment_reminder(
        self, invoice_id: InvoiceId, tone: Literal["friendly", "firm", "final"] = "friendly"
    ) -> str:
        """Dun a customer for an unpaid invoice."""
        invoice = self._open(invoice_id)
        if invoice.status != "sent":
            raise Refused(f"{invoice_id} is {invoice.status}; only sent invoices are reminded of.")
        return f"{tone.capitalize()} reminder for {invoice.id} sent to {self.customers[invoice.customer].email}."

    @adds
    def record_payment(
        self, invoice_id: InvoiceId, amount: Amount, method: Literal["transfer", "card", "cash"] = "transfer"
    ) -> dict[str, object]:
        """Book money received against an invoice. When the full amount is in, the status becomes 'paid'."""
        invoice = self._open(invoice_id)
        if invoice.status != "sent":
            raise Refused(f"{invoice_id} is {invoice.status}; only sent invoices take payments.")
        paid = invoice.paid_cents + round(amount * 100)
        status = "paid" if paid >= invoice.total_cents else "sent"
        self._keep(revised(invoice, paid_cents=paid, status=status))
        return {"id": invoice_id, "status": status, "method": method, "open": _euro(max(0, invoice.total_cents - paid))}

    @removes
    def void_invoice(self, invoice_id: InvoiceId, reason: str) -> str:
        """Cancel an invoice that was issued by mistake. Paid invoices need a credit note instead."""
        if self._open(invoice_id).status == "paid":
            raise Refused(f"{invoice_id} is paid; use create_credit_note.")
        self._keep(revised(self._open(invoice_id), status="void"))
        return f"{invoice_id} is void: {reason}"

    @adds
    def create_credit_note(self, invoice_id: InvoiceId, amount: Amount, reason: str) -> Invoice:
        """Refund all or part of a paid invoice."""
        invoice = self._open(invoice_id)
        if round(amount * 100) > invoice.paid_cents:
            raise Refused(f"Only {_euro(invoice.paid_cents):.2f} has been paid on {invoice_id}.")
        note = Line(f"Credit for {invoice_id}: {reason}", 1, -amount)
        return self._keep(Invoice(self.next_id("CRN"), invoice.customer, self.today, self.today, (note,), 0.0, "sent"))

    @reads
    def revenue_summary(self, start: date, end: date) -> dict[str, float]:
        """Turnover in a period: invoiced net, tax, received and outstanding, in euro."""
        period = [i for i in self.invoices.values() if i.status in ("sent", "paid") and start <= i.issued <= end]
        net, total = sum(i.net_cents for i in period), sum(i.total_cents for i in period)
        paid = sum(i.paid_cents for i in period)
        return {
            "net": _euro(net),
            "tax": _euro(total - net),
            "received": _euro(paid),
            "outstanding": _euro(total - paid),
        }

    @reads
    def list_customers(self) -> list[Customer]:
        """Customers we bill."""
        return list(self.customers.values())

    @adds
    def add_customer(
        self, name: Annotated[str, Meta(min_length=1)], email: Annotated[str, "Where bills go"], vat_number: str = ""
    ) -> Customer:
        """Create a billing account for a company or person, so that invoices can be written to them."""
        customer = Customer(self.next_id("CUS"), name, email, vat_number)
        self.customers[customer.id] = customer
        return customer

    @reads
    def calculate_tax(
        self, net: Amount, tax_percent: Annotated[float, "VAT rate", Meta(ge=0, le=30)] = 19.0
    ) -> dict[str, float]:
        """VAT and gross price for a net amount."""
        tax = round(net * tax_percent / 100, 2)
        return {"net": round(net, 2), "tax": tax, "gross": round(net + tax, 2)}

    def _open(self, invoice_id: str) -> Invoice:
        return pick(self.invoices, invoice_id, "invoice")

    def _draft(self, invoice_id: str) -> Invoice:
        invoice = self._open(invoice_id)
        if invoice.status != "draft":
            raise Refused(f"{invoice_id} is {invoice.status}, not a draft.")
        return invoice

    def _keep(self, invoice: Invoice) -> Invoice:
        self.invoices[invoice.id] = invoice
        return invoice


def _euro(cents: int) -> float:
    return cents / 100

"""What the demo's tools do: small, but real."""

from datetime import UTC, datetime
from itertools import islice, product
from typing import Any

import msgspec
import pytest

from toolcrib.demo.source import Refused, Source
from toolcrib.demo.sources import LABELS, open_source

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


class World:
    """A source at a fixed moment, whose answers are read as a client would read them."""

    def __init__(self, label: str) -> None:
        self.source: Source = open_source(label, lambda: NOON)

    def __call__(self, name: str, /, **arguments: Any) -> Any:
        return msgspec.json.decode(msgspec.json.encode(self.source.tools[name].call(arguments)))


def test_a_file_is_written_moved_searched_and_deleted() -> None:
    files = World("files")
    files("write_file", path="new/plan.md", content="cut oak\n")
    files("append_to_file", path="new/plan.md", content="glue oak\n")
    files("edit_file", path="new/plan.md", old_text="glue", new_text="screw")
    files("move_file", source="new/plan.md", destination="jobs/plan.md")
    assert files("read_file", path="/jobs/plan.md", tail=1) == "screw oak\n"
    assert files("grep", pattern="OAK", path_glob="jobs/*.md") == ["jobs/plan.md:1:cut oak", "jobs/plan.md:2:screw oak"]
    assert files("get_file_info", path="jobs/plan.md")["lines"] == 2
    assert files("find_files", pattern="*.md") == [
        "README.md",
        "docs/opening-hours.md",
        "docs/safety.md",
        "jobs/plan.md",
    ]
    assert files("list_directory") == ["README.md", "docs/", "jobs/", "new/", "scripts/"]
    assert "new/" in files("directory_tree")
    files("delete_file", path="jobs/plan.md")
    with pytest.raises(Refused, match="no file"):
        files("read_file", path="jobs/plan.md")


@pytest.mark.parametrize("path", ["..", "../etc/passwd", "/", "docs/../../x"])
def test_no_path_leaves_the_workspace(path: str) -> None:
    with pytest.raises(Refused, match="inside the workspace"):
        World("files")("write_file", path=path, content="x")


def test_an_event_is_scheduled_answered_moved_and_cancelled() -> None:
    calendar = World("calendar")
    at = {"start": "2026-11-18T10:00:00Z", "end": "2026-11-18T11:30:00Z"}
    event = calendar("create_event", title="Glue-up", attendees=["ada@workshop.example"], **at)
    assert event["attendees"] == {"ada@workshop.example": "needs-action"}
    assert [e["title"] for e in calendar("check_conflicts", **at)] == ["Glue-up", "Budget review"]
    assert calendar("find_free_slots", day="2026-11-18", minutes=60) == [
        {"start": "2026-11-18T08:00:00Z", "end": "2026-11-18T10:00:00Z"},
        {"start": "2026-11-18T12:00:00Z", "end": "2026-11-18T18:00:00Z"},
    ]
    answer = {"event_id": event["id"], "attendee": "ada@workshop.example", "response": "accepted"}
    assert calendar("respond_to_invitation", **answer)["attendees"]["ada@workshop.example"] == "accepted"
    moved = calendar("reschedule_event", event_id=event["id"], new_start="2026-11-19T08:00:00+01:00")
    assert moved["end"] == "2026-11-19T09:30:00+01:00"
    assert "Glue-up" in calendar("cancel_event", event_id=event["id"])
    assert calendar("search_events", query="glue") == []


def test_a_ticket_lives_from_open_to_reopened() -> None:
    tickets = World("tickets")
    key = tickets("create_ticket", title="Lamp flickers", kind="bug")["id"]
    tickets("assign_ticket", ticket_id=key, assignee="cleo")
    tickets("label_ticket", ticket_id=key, add=["light", "hall"], remove=["hall"])
    tickets("link_tickets", ticket_id=key, other_id="TCK-1", relation="relates_to")
    tickets("close_ticket", ticket_id=key, resolution="fixed")
    with pytest.raises(Refused, match="closed already"):
        tickets("close_ticket", ticket_id=key, resolution="fixed")
    ticket = tickets("reopen_ticket", ticket_id=key, reason="flickers again")
    assert (ticket["status"], ticket["labels"], ticket["links"]) == ("open", ["light"], ["relates_to TCK-1"])
    assert [c["text"] for c in tickets("list_comments", ticket_id=key)] == [
        "Resolution: fixed",
        "Reopened: flickers again",
    ]
    assert [t["id"] for t in tickets("list_tickets", assignee="cleo")] == [key, "TCK-3"]
    assert tickets("ticket_stats", by="kind") == {"bug": 4, "task": 1, "request": 1}
    with pytest.raises(Refused, match="Nothing to change"):
        tickets("update_ticket", ticket_id=key)


def test_a_tool_is_lent_only_when_it_is_there_and_calibrated() -> None:
    crib = World("inventory")
    assert crib("check_availability", sku="SAW-02") == {"on_shelf": 2, "on_loan": 0, "reserved": 0}
    loan = crib("check_out_tool", sku="SAW-02", member="Cleo", days=2)
    crib("check_out_tool", sku="SAW-02", member="Ben")
    with pytest.raises(Refused, match="left on the shelf"):
        crib("check_out_tool", sku="SAW-02", member="Ada")
    assert crib("return_tool", loan_id=loan["id"]) == "Cleo returned SAW-02."
    assert [each["member"] for each in crib("list_loans", overdue_only=True)] == ["Ben"]
    with pytest.raises(Refused, match="out of calibration"):
        crib("check_out_tool", sku="MIC-04", member="Ada")
    crib("record_calibration", sku="MIC-04", valid_until="2027-11-16", certificate="K-1")
    assert crib("check_out_tool", sku="MIC-04", member="Ada")["due"] == "2026-11-23"
    assert [item["sku"] for item in crib("list_calibration_due")] == ["CAL-03"]
    assert [item["sku"] for item in crib("list_low_stock")] == ["SCR-06"]


def test_an_invoice_is_drafted_sent_and_paid() -> None:
    invoices = World("invoices")
    key = invoices("create_invoice", customer_id="CUS-1", description="Shelf", amount=100)["id"]
    invoices("add_line_item", invoice_id=key, text="Hours", unit_price=50, quantity=1.5)
    assert invoices("send_invoice", invoice_id=key).endswith("office@nordlicht.example.")
    with pytest.raises(Refused, match="not a draft"):
        invoices("add_line_item", invoice_id=key, text="More", unit_price=1)
    assert invoices("record_payment", invoice_id=key, amount=100)["open"] == 108.25
    assert invoices("record_payment", invoice_id=key, amount=108.25)["status"] == "paid"
    assert invoices("get_invoice", invoice_id=key)["total"] == 208.25
    with pytest.raises(Refused, match="credit_note"):
        invoices("void_invoice", invoice_id=key, reason="oops")
    assert [i["days"] for i in invoices("list_overdue_invoices")] == [20]
    month = invoices("revenue_summary", start="2026-11-01", end="2026-11-30")
    assert month == {"net": 555.0, "tax": 105.45, "received": 208.25, "outstanding": 452.2}


def test_weather_is_the_same_whenever_it_is_asked() -> None:
    weather = World("weather")
    assert weather("get_forecast", city="Oslo", days=5) == World("weather")("get_forecast", city="oslo, Norway", days=5)
    assert len(weather("get_hourly_forecast", city="Paris")) == 24
    june, december = (
        weather("get_sun_times", city="Oslo", day=f"2026-{month}-21")["day_length"] for month in ("06", "12")
    )
    assert june > "18:00" > "06:30" > december
    with pytest.raises(Refused, match="Known cities"):
        weather("get_air_quality", city="Atlantis")
    with pytest.raises(Refused, match="not past"):
        weather("get_history", city="Oslo", day="2026-11-16")


def test_notes_are_tagged_linked_and_pinned() -> None:
    notes = World("notes")
    note = notes("create_note", title="Plan", body="See [[Lathe settings]]", tags=["todo"])
    assert notes("get_backlinks", note_id="note-1") == [note["id"]]
    notes("append_to_note", note_id=note["id"], text="Buy brass")
    notes("pin_note", note_id="note-2")
    assert notes("list_notes")[0]["title"] == "Safety talk"
    assert [n["id"] for n in notes("search_notes", query="brass plan")] == [note["id"]]
    assert notes("open_daily_note")["id"] == notes("open_daily_note", day="2026-11-16")["id"]
    assert notes("list_tags")["teaching"] == 2


def test_mail_is_read_answered_filed_and_thrown_away() -> None:
    mail = World("mail")
    assert mail("count_unread") == 4
    mail("read_message", message_id="msg-1")
    assert mail("count_unread") == 3
    assert mail("reply", message_id="msg-1", body="Yes")["subject"] == "Re: Stage set: delivery date?"
    draft = mail("save_draft", to=["cleo@workshop.example"], subject="Wood")
    assert mail("send_draft", message_id=draft["id"])["folder"] == "sent"
    assert mail("create_rule", sender_contains="newsletter", move_to="ads")["moved"] == ["msg-3"]
    mail("delete_message", message_id="msg-2")
    assert mail("list_folders") == {"inbox": 2, "trash": 1, "ads": 1, "sent": 2}
    assert [m["id"] for m in mail("search_mail", sender="hill")] == ["msg-4"]
    with pytest.raises(Refused, match="Not an e-mail address"):
        mail("send_message", to=["cleo"], subject="", body="")


def test_people_are_found_and_merged() -> None:
    contacts = World("contacts")
    twin = contacts("add_contact", name="Cleo M.", phone="1", birthday="1990-12-01")
    merged = contacts("merge_contacts", keep_id="con-3", duplicate_id=twin["id"])
    assert (merged["phone"], merged["birthday"]) == ("+49 30 555 0103", "1990-12-01")
    assert [c["name"] for c in contacts("find_contact", query="nordlicht")] == ["Mika Sato"]
    assert [b["name"] for b in contacts("upcoming_birthdays", days=20)] == ["Ben Lindqvist", "Cleo Marchetti"]
    assert "TEL:+49 30 555 0101\r\n" in contacts("export_vcard", contact_id="con-1")


@pytest.mark.parametrize(
    ("label", "name", "arguments", "answer"),
    [
        ("text", "change_case", {"text": "parse HTTPResponse code", "style": "snake"}, "parse_http_response_code"),
        ("text", "slugify", {"text": "Crème brûlée, bitte!"}, "creme-brulee-bitte"),
        ("text", "find_and_replace", {"text": r"a.b A.B", "find": "a.b", "replace": r"\1", "ignore_case": True},
         {"text": r"\1 \1", "replaced": 2}),
        ("text", "extract_entities", {"text": "a@b.de, a@b.de; see http://x.y/z.", "kind": "email"}, ["a@b.de"]),
        ("text", "decode_base64", {"data": "aGVsbG8="}, "hello"),
        ("text", "csv_to_json", {"text": "a;b\n1;2\n", "delimiter": ";"}, [{"a": "1", "b": "2"}]),
        ("text", "strip_markdown", {"text": "# Hi\n\n- see **this** [link](http://x)"}, "Hi\n\nsee this link"),
        ("text", "sort_lines", {"text": "b\na\nB\na", "unique": True}, "a\nb\nB"),
        ("math", "calculate", {"expression": "2 * (3 + 4)^2 - sqrt(16)"}, 94),
        ("math", "percentage", {"operation": "change", "a": 80, "b": 100}, 25),
        ("math", "solve_quadratic", {"a": 1, "b": -5, "c": 6}, [2, 3]),
        ("math", "factorize", {"number": 360}, [2, 2, 2, 3, 3, 5]),
        ("math", "convert_base", {"number": "ff", "from_base": 16, "to_base": 2}, "11111111"),
        ("math", "combinations", {"n": 10, "k": 3}, "120"),
        ("math", "loan_payment", {"principal": 1200, "annual_rate_percent": 0, "years": 1},
         {"monthly": 100, "interest": 0, "total": 1200}),
        ("units", "convert_length", {"value": 5, "from_unit": "mi", "to_unit": "km"}, 8.04672),
        ("units", "convert_temperature", {"value": -40, "from_unit": "celsius", "to_unit": "fahrenheit"}, -40),
        ("units", "convert_currency", {"amount": 10, "from_currency": "EUR", "to_currency": "USD"},
         {"amount": 10.8, "currency": "USD", "rates_of": "2026-10-30"}),
        ("clock", "get_current_time", {"timezone": "+05:30"},
         {"time": "2026-11-16T17:30:00+05:30", "weekday": "Monday"}),
        ("clock", "add_to_date", {"start": "2026-11-20", "days": 6, "business_days_only": True}, "2026-11-30"),
        ("clock", "add_to_date", {"start": "2026-11-21", "days": 5, "business_days_only": True}, "2026-11-27"),
        ("clock", "date_difference", {"start": "2026-11-16", "end": "2026-11-30"},
         {"days": 14, "weeks": 2, "working_days": 10}),
        ("clock", "countdown", {"until": "2026-11-18T13:30:00Z"}, "2 d 1 h 30 min left"),
        ("clock", "convert_timestamp", {"value": "0"}, {"iso": "1970-01-01T00:00:00+00:00", "unix": 0}),
    ],
)  # fmt: skip
def test_a_pure_tool_gives_the_right_answer(label: str, name: str, arguments: dict[str, Any], answer: object) -> None:
    assert World(label)(name, **arguments) == answer


@pytest.mark.parametrize(
    "expression", ["__import__('os')", "1/0", "9**9**9**9", "x", "(1).real", "", "sqrt(-1)", "1e308*10"]
)
def test_the_calculator_refuses_what_is_no_sum(expression: str) -> None:
    with pytest.raises(Refused):
        World("math")("calculate", expression=expression)


def test_a_timer_runs_until_it_is_stopped() -> None:
    clock = World("clock")
    timer = clock("start_timer", minutes=20, name="glue")
    assert clock("list_timers", state="running") == [{"id": timer["id"], "name": "glue", "seconds_left": 1200}]
    assert clock("cancel_timer", timer_id=timer["id"]) == "Stopped glue."
    assert clock("list_timers") == []


def samples(schema: dict[str, Any]) -> list[Any]:
    """A few values that the schema allows, edges first."""
    if "enum" in schema:
        return schema["enum"]
    match schema.get("type"):
        case "string" if "format" in schema:
            return ["2026-11-20", "0001-01-01"] if schema["format"] == "date" else ["2026-11-20T09:00:00Z"]
        case "string":
            size = schema.get("minLength", 0)
            return ["EUR" if size == 3 else "x" * size, "Oslo.9 (["[: schema.get("maxLength", 99)].ljust(size, "y")]
        case "integer" | "number":
            low = schema["exclusiveMinimum"] + 1 if "exclusiveMinimum" in schema else schema.get("minimum", -3)
            return [low, schema.get("maximum", 7)]
        case "boolean":
            return [True, False]
        case "array":
            return [samples(schema["items"])[-1:] * schema.get("minItems", 0), samples(schema["items"]) * 2]
        case _:
            return [{}]


def refusal(world: World, name: str, arguments: dict[str, Any]) -> str:
    """Why the call was refused; nothing where it was done."""
    try:
        world(name, **arguments)
    except Refused as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("label", LABELS)
def test_whatever_the_schema_allows_is_done_or_refused_and_never_crashes(label: str) -> None:
    world = World(label)
    for name, tool in world.source.tools.items():
        properties = tool.definition["inputSchema"]["properties"]
        for values in islice(product(*(samples(schema) for schema in properties.values())), 64):
            given = dict(zip(properties, values, strict=True))
            assert "Invalid arguments" not in refusal(world, name, given), (name, given)

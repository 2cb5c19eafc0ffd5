"""What is recorded of a call is worded once, and reads back as it was."""

from __future__ import annotations

import msgspec
import pytest

from toolcrib.storage.records_calls import CallRecord, text, who
from toolcrib.toolboxes.calls import kinds, shape


@pytest.mark.parametrize("odd", ["plain", 'quo"te', "ümlaut", "back\\slash", "line\nbreak", "\u2028"])
def test_the_text_of_a_call_is_that_of_its_record(odd: str) -> None:
    arguments = {odd: 1, "b": [True], "c": None, "d": {}, "e": 1.5, "f": odd}
    written = text(1234.9, who(3, odd, odd, odd), "ok", 56.7, shape(kinds(arguments)))
    record = msgspec.json.decode(written, type=CallRecord)
    assert written == msgspec.json.encode(record)
    shown = {odd: "integer", "b": "array", "c": "null", "d": "object", "e": "number", "f": "string"}
    assert msgspec.json.decode(record.arguments) == shown
    assert (record.at, record.version, record.principal, record.label, record.tool) == (1234, 3, odd, odd, odd)
    assert (record.outcome, record.duration_us) == ("ok", 56)

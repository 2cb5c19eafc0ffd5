"""The token bill of a tool list, from Python; `toolcrib tokens FILE` prints the same."""

from toolcrib.client import tokens

tools = [
    {
        "name": f"tool_{number}",
        "description": "Does one thing, and says so in a sentence.",
        "inputSchema": {
            "type": "object",
            "properties": {
                field: {"type": "string", "description": f"The {field} to work on, as the service knows it."}
                for field in ("project", "item", "owner", "note")
            },
            "required": ["project", "item"],
        },
    }
    for number in range(40)
]

bill = tokens(tools, turns=20, loads=4)
for way in bill.ways:
    print(f"{way.way:8} first turn {way.first_turn:6,}   20 turns {way.total:8,}   not cached {way.uncached:7,}")

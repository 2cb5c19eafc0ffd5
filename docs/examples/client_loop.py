"""Deferral without any provider: what the model is sent, and what its calls mean, in one small conversation."""

from toolcrib.client import Call, DeferredTools, Found

CITIES = {"Oslo": "4 °C", "Lima": "19 °C"}
tools = [
    {
        "name": f"{verb}_{noun}",
        "description": f"{verb.capitalize()} the {noun} of a city.",
        "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    for verb in ("get", "set", "watch", "forecast")
    for noun in ("weather", "traffic", "air_quality", "tides")
]

deferred = DeferredTools(tools)  # 16 tools: at or above the threshold of 15
turn = deferred.turn(session="conversation-1")

print(len([tool for tool in turn.listed() if tool.is_stub]), "of", len(turn.listed()), "tools are listed as stubs")

# The model reads the note, and asks for the tool it wants.
match turn.route("tool_search", {"query": "get_weather"}):
    case Found(tools=found):
        print("answer with:", [tool.name for tool in found])
    case Call():
        print("a call of your own tool")

# From the next request on the tool is listed whole, in this conversation only.
print("still stubs here:", len([tool for tool in turn.listed() if tool.is_stub]))
print("still stubs elsewhere:", len([tool for tool in deferred.turn("conversation-2").listed() if tool.is_stub]))

match turn.route("get_weather", '{"city": "Oslo"}'):
    case Call(name=name, arguments=arguments):
        print("run:", name, "->", CITIES[str(arguments["city"])])
    case Found():
        print("a search")

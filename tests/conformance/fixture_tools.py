"""The tools of the fixture upstream, one per scenario of the official suite, written from its scenario descriptions.

A tool knows what it was called with and how to answer. Which era it is spoken to in shows in one place only, `ask`:
a session is asked by a pushed request, a stateless caller by an `input_required` result. Transport, prompts and
resources are fixture.py's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import PromptsListChanged, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

PIXEL_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENT_WAV = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA"
WATCHED = "test://watched-resource"
STEP_S = 0.05

Result = types.CallToolResult | types.InputRequiredResult
Answers = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """One call of one tool."""

    context: ServerRequestContext[Any, Any]
    params: types.CallToolRequestParams
    stage: Any
    """What the fixture shares between calls: `change(event)` and `log(context, level, text)` (see fixture.Stage)."""

    @property
    def arguments(self) -> dict[str, Any]:
        return self.params.arguments or {}

    @property
    def is_stateless(self) -> bool:
        return not self.context.session.can_send_request

    @property
    def client(self) -> types.ClientCapabilities:
        return self.context.session.client_capabilities or types.ClientCapabilities()

    async def log(self, text: str) -> None:
        await self.stage.log(self.context, "info", text)


Behaviour = Callable[[Call], Awaitable[Result]]


@dataclass(frozen=True)
class Fixture:
    """A listed tool and what it does."""

    tool: types.Tool
    run: Behaviour


TOOLS: dict[str, Fixture] = {}


def tool(description: str, **properties: dict[str, Any]) -> Callable[[Behaviour], Behaviour]:
    """List the decorated function as a tool of the same name; every property given is required."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if properties:
        schema["required"] = list(properties)
    return tool_with(description, schema)


def tool_with(description: str, schema: dict[str, Any]) -> Callable[[Behaviour], Behaviour]:
    def listed(run: Behaviour) -> Behaviour:
        name = run.__name__
        TOOLS[name] = Fixture(types.Tool(name=name, description=description, input_schema=schema), run)
        return run

    return listed


def text(*lines: str, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=line) for line in lines], is_error=is_error
    )


def form(message: str, required: bool = True, **properties: dict[str, Any]) -> types.ElicitRequest:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema["required"] = list(properties) if required else []
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str, max_tokens: int = 100) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


async def ask(
    call: Call, state: str | None = None, **requests: types.InputRequest
) -> Answers | types.InputRequiredResult:
    """The client's answer to every request, or the `input_required` result that asks for them."""
    if call.is_stateless:
        given = call.params.input_responses or {}
        if all(key in given and _fits(request, given[key]) for key, request in requests.items()):
            return {key: given[key] for key in requests}
        return types.InputRequiredResult(input_requests=dict(requests), request_state=state)
    return {key: await push(call.context, request) for key, request in requests.items()}


def _fits(request: types.InputRequest, answer: Any) -> bool:
    return isinstance(answer, _ANSWERS[type(request)])


_ANSWERS: dict[type[Any], tuple[type[Any], ...]] = {
    types.ElicitRequest: (types.ElicitResult,),
    types.CreateMessageRequest: (types.CreateMessageResult, types.CreateMessageResultWithTools),
    types.ListRootsRequest: (types.ListRootsResult,),
}


async def push(context: ServerRequestContext[Any, Any], request: types.InputRequest) -> Any:
    """Ask a session, on the stream of the request that needs the answer."""
    related = ServerMessageMetadata(related_request_id=context.request_id)
    return await context.session.send_request(request, _ANSWERS[type(request)][0], metadata=related)


def shown(answer: types.ElicitResult) -> str:
    return f"action={answer.action}, content={json.dumps(answer.content or {}, sort_keys=True)}"


def spoken(answer: Any) -> str:
    return answer.content.text if isinstance(answer.content, types.TextContent) else str(answer.content)


# Content


@tool("Answers one line of text")
async def test_simple_text(call: Call) -> Result:
    return text("This is a simple text response for testing.")


@tool("Answers one image")
async def test_image_content(call: Call) -> Result:
    return types.CallToolResult(content=[_image()])


@tool("Answers one sound")
async def test_audio_content(call: Call) -> Result:
    return types.CallToolResult(content=[types.AudioContent(type="audio", data=SILENT_WAV, mime_type="audio/wav")])


@tool("Answers one embedded resource")
async def test_embedded_resource(call: Call) -> Result:
    held = embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    return types.CallToolResult(content=[held])


@tool("Answers text, an image and a resource at once")
async def test_multiple_content_types(call: Call) -> Result:
    return types.CallToolResult(
        content=[
            types.TextContent(type="text", text="Multiple content types test:"),
            _image(),
            embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        ]
    )


@tool("Fails, always")
async def test_error_handling(call: Call) -> Result:
    return text("This tool intentionally returns an error for testing", is_error=True)


@tool("Answers the protocol version that it is spoken to in")
async def test_protocol_version(call: Call) -> Result:
    return text(call.context.protocol_version)


def _image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PIXEL_PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, body: str) -> types.EmbeddedResource:
    held = types.TextResourceContents(uri=uri, mime_type=mime_type, text=body)
    return types.EmbeddedResource(type="resource", resource=held)


# What a call says while it runs


@tool("Logs three times while it works")
async def test_tool_with_logging(call: Call) -> Result:
    await call.log("Tool execution started")
    await anyio.sleep(STEP_S)
    await call.log("Tool processing data")
    await anyio.sleep(STEP_S)
    await call.log("Tool execution completed")
    return text("Tool with logging executed successfully")


@tool("Logs once; a stateless caller that names no level must not hear it")
async def test_logging_tool(call: Call) -> Result:
    await call.log("A line for those who asked")
    return text("Logged")


@tool("Reports its progress in three steps")
async def test_tool_with_progress(call: Call) -> Result:
    for done in (0, 50, 100):
        await call.context.session.report_progress(done, 100)
        if done < 100:
            await anyio.sleep(STEP_S)
    return text("Tool with progress executed successfully")


@tool("Closes its stream in mid call; the answer waits for whoever reconnects")
async def test_reconnection(call: Call) -> Result:
    if call.context.close_sse_stream is not None:
        await call.context.close_sse_stream()
        await anyio.sleep(2 * STEP_S)
    return text("Reconnection test completed successfully")


# Questions to the client, in the caller's era


@tool("Asks the client's model", prompt={"type": "string", "description": "The prompt to send"})
async def test_sampling(call: Call) -> Result:
    if call.client.sampling is None:
        return text("Client does not support sampling", is_error=True)
    answers = await ask(call, answer=sample(call.arguments["prompt"]))
    return (
        answers
        if isinstance(answers, types.InputRequiredResult)
        else text(f"LLM response: {spoken(answers['answer'])}")
    )


@tool("Asks the user two things", message={"type": "string", "description": "The message to show"})
async def test_elicitation(call: Call) -> Result:
    if call.client.elicitation is None:
        return text("Client does not support elicitation", is_error=True)
    asked = form(
        call.arguments["message"],
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return await _elicited(call, asked, "User response")


@tool("Asks with a default for every primitive type (SEP-1034)")
async def test_elicitation_sep1034_defaults(call: Call) -> Result:
    asked = form(
        "Please review and update the form fields with defaults",
        required=False,
        name={"type": "string", "description": "User name", "default": "John Doe"},
        age={"type": "integer", "description": "User age", "default": 30},
        score={"type": "number", "description": "User score", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "description": "Verification status", "default": True},
    )
    return await _elicited(call, asked, "Elicitation completed")


@tool("Asks with every form of enumeration (SEP-1330)")
async def test_elicitation_sep1330_enums(call: Call) -> Result:
    plain = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    asked = form(
        "Please select options from the enum fields",
        required=False,
        untitledSingle={"type": "string", "enum": plain},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return await _elicited(call, asked, "Elicitation completed")


@tool("Asks for a confirmation; its stream carries no request of its own")
async def test_streaming_elicitation(call: Call) -> Result:
    return await _elicited(call, form("Go on?", ok={"type": "boolean"}), "Confirmed")


async def _elicited(call: Call, asked: types.ElicitRequest, said: str) -> Result:
    answers = await ask(call, answer=asked)
    return answers if isinstance(answers, types.InputRequiredResult) else text(f"{said}: {shown(answers['answer'])}")


@tool("Cannot work without the client's sampling")
async def test_missing_capability(call: Call) -> Result:
    if call.client.sampling is None:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs the client's sampling capability",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return text("Sampling is there")


# Multi-round trips (SEP-2322)

NAME_FORM = form("What is your name?", name={"type": "string"})
CONFIRM_FORM = form("Please confirm", ok={"type": "boolean"})


@tool("Asks for a name, then greets")
async def test_input_required_result_elicitation(call: Call) -> Result:
    answers = await ask(call, user_name=NAME_FORM)
    if isinstance(answers, types.InputRequiredResult):
        return answers
    return text(f"Hello, {(answers['user_name'].content or {}).get('name')}!")


@tool("Asks the client's model for a capital")
async def test_input_required_result_sampling(call: Call) -> Result:
    answers = await ask(call, capital_question=sample("What is the capital of France?"))
    return answers if isinstance(answers, types.InputRequiredResult) else text(spoken(answers["capital_question"]))


@tool("Asks for the client's roots")
async def test_input_required_result_list_roots(call: Call) -> Result:
    answers = await ask(call, client_roots=types.ListRootsRequest())
    if isinstance(answers, types.InputRequiredResult):
        return answers
    return text("Roots: " + ", ".join(str(root.uri) for root in answers["client_roots"].roots))


@tool("Asks for a confirmation and expects its state back")
async def test_input_required_result_request_state(call: Call) -> Result:
    answers = await ask(call, state="confirming", confirm=CONFIRM_FORM)
    return answers if isinstance(answers, types.InputRequiredResult) else _with_state(call, "confirming")


@tool("Asks for a confirmation and refuses a state that it did not write")
async def test_input_required_result_tampered_state(call: Call) -> Result:
    answers = await ask(call, state="untouched", confirm=CONFIRM_FORM)
    return answers if isinstance(answers, types.InputRequiredResult) else _with_state(call, "untouched")


def _with_state(call: Call, expected: str) -> types.CallToolResult:
    """The seal is the SDK's RequestStateBoundary; what arrives here is what was sent, or nothing."""
    if call.is_stateless and call.params.request_state != expected:
        raise MCPError(types.INVALID_PARAMS, "requestState is missing or not ours")
    return text("state-ok")


@tool("Asks the user, the model and the file system at once")
async def test_input_required_result_multiple_inputs(call: Call) -> Result:
    answers = await ask(
        call,
        state="three things",
        user_name=NAME_FORM,
        greeting=sample("Generate a greeting", max_tokens=50),
        client_roots=types.ListRootsRequest(),
    )
    if isinstance(answers, types.InputRequiredResult):
        return answers
    return text(spoken(answers["greeting"]), shown(answers["user_name"]), f"{len(answers['client_roots'].roots)} roots")


@tool("Asks twice, one thing after the other")
async def test_input_required_result_multi_round(call: Call) -> Result:
    first = form("Step 1: What is your name?", name={"type": "string"})
    second = form("Step 2: What is your favorite color?", color={"type": "string"})
    if not call.is_stateless or call.params.request_state == "2":
        answers = await ask(call, state="2", **({} if call.is_stateless else {"step1": first}), step2=second)
        return answers if isinstance(answers, types.InputRequiredResult) else text(shown(answers["step2"]))
    answers = await ask(call, state="1", step1=first)
    if isinstance(answers, types.InputRequiredResult):
        return answers
    return types.InputRequiredResult(input_requests={"step2": second}, request_state="2")


@tool("Asks only for what this client declared")
async def test_input_required_result_capabilities(call: Call) -> Result:
    requests: dict[str, types.InputRequest] = {}
    if call.client.elicitation is not None:
        requests["user_name"] = NAME_FORM
    if call.client.sampling is not None:
        requests["greeting"] = sample("Generate a greeting", max_tokens=50)
    if call.client.roots is not None:
        requests["client_roots"] = types.ListRootsRequest()
    if not requests:
        return text("The client can do nothing that could be asked of it")
    answers = await ask(call, **requests)
    return answers if isinstance(answers, types.InputRequiredResult) else text("Asked: " + ", ".join(requests))


# Lists and resources that change


@tool("Changes the list of tools: its own description counts the changes")
async def test_trigger_tool_change(call: Call) -> Result:
    await call.stage.change(ToolsListChanged())
    return text("The list of tools has changed")


@tool("Changes the list of prompts")
async def test_trigger_prompt_change(call: Call) -> Result:
    await call.stage.change(PromptsListChanged())
    return text("The list of prompts has changed")


@tool("Changes the watched resource")
async def test_trigger_resource_update(call: Call) -> Result:
    await call.stage.change(ResourceUpdated(uri=WATCHED))
    return text("The watched resource has changed")


# Schemas


@tool("Wants its region mirrored as a header (SEP-2243)", region={"type": "string", "x-mcp-header": "Region"})
async def test_header_parameter(call: Call) -> Result:
    return text(f"Region: {call.arguments['region']}")


@tool_with(
    "Tool with JSON Schema 2020-12 features",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema_2020_12_tool(call: Call) -> Result:
    return text(json.dumps(call.arguments, sort_keys=True))

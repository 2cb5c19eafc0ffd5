"""Real clients through a running server to real upstreams: every client era with every upstream era, every transport.

The clients are the official Python SDK in both of its modes and the official JavaScript SDK; the upstreams are the
conformance fixture in either era and the reference servers from npm. All make the same visit and must see the same.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

import kit_node
from conformance.upstream import announced, fixture_upstream
from kit.running import Server, running

pytestmark = [
    pytest.mark.anyio,
    # sampling, roots and logging are deprecated by 2026-07-28 and relayed all the same
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

STATELESS, SESSION = "2026-07-28", "2025-11-25"
SCRIPTS = kit_node.PACKAGES
VISIT_S = 60
HEARD_WITHIN_S = 20
ANSWERS: dict[str, Any] = {
    "username": "ada",
    "email": "ada@example.org",
    "name": "Ada",
    "color": "blue",
    "context": "a garden",
    "ok": True,
    "What is the capital of France?": "Paris",
    "Say hello": "Hello",
    "Generate a greeting": "Good day",
}

Visitor = Literal["mcp auto", "mcp legacy", "npm sdk"]
VISITORS: dict[Visitor, str] = {"mcp auto": STATELESS, "mcp legacy": SESSION, "npm sdk": SESSION}
UPSTREAMS = {"stateless": STATELESS, "session": SESSION}
Calls = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Crib:
    """The running server, where its upstreams are, and the toolboxes made for these tests."""

    server: Server
    addresses: dict[str, str]
    files: Path
    numbers: itertools.count[int]

    def toolbox(self, *sources: str) -> str:
        """The MCP address of a new toolbox with these sources."""
        name = f"clients-{next(self.numbers)}"
        tools = [_entry(source, self.addresses[source]) for source in sources]
        with self.server.client() as rest:
            rest.post(f"toolboxes/{name}/versions", json={"tools": tools}).raise_for_status()
        return f"{self.server.endpoint}/toolboxes/{name}/mcp?api-version=v1"

    @property
    def root(self) -> str:
        """What its clients name as theirs. server-filesystem asks, and then serves nothing else."""
        return self.files.as_uri()

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.server.token}"}


def _entry(label: str, address: str) -> dict[str, Any]:
    return {"type": "mcp", "server_label": label, "server_url": address, "require_approval": "never"}


@pytest.fixture(scope="module")
def crib(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crib]:
    home = tmp_path_factory.mktemp("clients")
    files = home / "files"
    files.mkdir()
    data = home / "crib"
    data.mkdir()
    (data / "toolcrib.toml").write_text(_stdio_upstreams(files, home / "memory.jsonl"))
    with ExitStack() as stack:
        addresses = {
            "stateless": stack.enter_context(fixture_upstream()),
            "session": stack.enter_context(fixture_upstream("--legacy-only")),
            "everything_http": f"{stack.enter_context(_everything('streamableHttp'))}/mcp",
            "everything_sse": f"{stack.enter_context(_everything('sse'))}/sse",
            **{name: f"stdio://{name}" for name in ("everything_stdio", "files", "memory")},
        }
        yield Crib(stack.enter_context(running(data)), addresses, files, itertools.count(1))


def _stdio_upstreams(files: Path, memory: Path) -> str:
    """What an operator writes to declare the reference servers as child processes."""

    def table(name: str, package: str, *arguments: str, **env: str) -> str:
        command = [str(kit_node.node()), str(kit_node.program(f"@modelcontextprotocol/{package}")), *arguments]
        variables = ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items())
        return f"[stdio.{name}]\ncommand = {json.dumps(command)}\nenv = {{ {variables} }}\n"

    return "\n".join(
        (
            table("everything_stdio", "server-everything", "stdio"),
            table("files", "server-filesystem", str(files)),
            table("memory", "server-memory", MEMORY_FILE_PATH=str(memory)),
        )
    )


@contextmanager
def _everything(transport: str) -> Iterator[str]:
    """npm's server-everything on a free port."""
    program = kit_node.program("@modelcontextprotocol/server-everything")
    command = [str(kit_node.node()), "--import", str(SCRIPTS / "announce.mjs"), str(program), transport]
    with announced(command, r"bound to port (\d+)", environment={**os.environ, "PORT": "0"}) as port:
        yield f"http://127.0.0.1:{port}"


# The clients


@asynccontextmanager
async def python_client(url: str, headers: dict[str, str], mode: str, **options: Any) -> AsyncIterator[Client]:
    """The official Python client; HTTP as it does it, plus our token."""
    async with httpx2.AsyncClient(headers=headers, timeout=VISIT_S, trust_env=False) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=VISIT_S, **options) as client:
            yield client


async def visit(visitor: Visitor, crib: Crib, url: str, calls: Calls) -> dict[str, Any]:
    """Connect, list, call, answer: the protocol version, the tools' names, and what each call said."""
    if visitor == "npm sdk":
        return await _visit_with_node(crib, url, calls)
    return await _visit_with_python(crib, url, calls, mode=visitor.removeprefix("mcp "))


async def _visit_with_node(crib: Crib, url: str, calls: Calls) -> dict[str, Any]:
    plan = {"url": url, "headers": crib.headers, "calls": calls, "answers": ANSWERS, "roots": [crib.root]}
    child = await asyncio.create_subprocess_exec(
        str(kit_node.node()),
        str(SCRIPTS / "visit.mjs"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(VISIT_S):
        said, complaints = await child.communicate(json.dumps(plan).encode())
    assert child.returncode == 0, complaints.decode()
    return json.loads(said)


async def _visit_with_python(crib: Crib, url: str, calls: Calls, mode: str) -> dict[str, Any]:
    async with python_client(url, crib.headers, mode, **_answering(crib)) as client:
        tools = (await client.list_tools()).tools
        made = [await _call(client, name, arguments) for name, arguments in calls]
        return {"version": client.protocol_version, "tools": [tool.name for tool in tools], "calls": made}


async def _call(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    progress: list[list[float | None]] = []

    async def on_progress(done: float, total: float | None, _: str | None) -> None:
        progress.append([done, total])

    result = await client.call_tool(name, arguments, progress_callback=on_progress)
    said = [part.text for part in result.content if isinstance(part, types.TextContent)]
    return {"said": said, "isError": bool(result.is_error), "progress": progress}


def _answering(crib: Crib) -> dict[str, Any]:
    async def elicited(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        return types.ElicitResult(
            action="accept", content={name: ANSWERS[name] for name in params.requested_schema["properties"]}
        )

    async def sampled(_: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        asked = params.messages[0].content
        assert isinstance(asked, types.TextContent)
        answer = types.TextContent(type="text", text=ANSWERS[asked.text])
        return types.CreateMessageResult(role="assistant", content=answer, model="none")

    async def roots(_: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=crib.root)])

    return {"elicitation_callback": elicited, "sampling_callback": sampled, "list_roots_callback": roots}


# Every era with every era


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("visitor", VISITORS)
async def test_every_client_era_meets_every_upstream_era(crib: Crib, visitor: Visitor, upstream: str) -> None:
    calls: dict[str, tuple[dict[str, Any], list[str]]] = {
        "test_protocol_version": ({}, [UPSTREAMS[upstream]]),
        "test_simple_text": ({}, ["This is a simple text response for testing."]),
        "test_header_parameter": ({"region": "Köln"}, ["Region: Köln"]),
        "test_tool_with_progress": ({}, ["Tool with progress executed successfully"]),
        "test_elicitation": (
            {"message": "Who are you?"},
            ['User response: action=accept, content={"email": "ada@example.org", "username": "ada"}'],
        ),
        "test_sampling": ({"prompt": "Say hello"}, ["LLM response: Hello"]),
        "test_input_required_result_list_roots": ({}, [f"Roots: {crib.root}"]),
        "test_input_required_result_multiple_inputs": (
            {},
            ["Good day", 'action=accept, content={"name": "Ada"}', "1 roots"],
        ),
        "test_input_required_result_multi_round": ({}, ['action=accept, content={"color": "blue"}']),
        "test_input_required_result_request_state": ({}, ["state-ok"]),
    }
    url = crib.toolbox(upstream)
    named = [(f"{upstream}.{name}", arguments) for name, (arguments, _) in calls.items()]
    seen = await visit(visitor, crib, url, named)
    assert seen["version"] == VISITORS[visitor]
    assert f"{upstream}.test_simple_text" in seen["tools"]
    said = {name: call["said"] for name, call in zip(calls, seen["calls"], strict=True)}
    assert said == {name: expected for name, (_, expected) in calls.items()}
    assert not any(call["isError"] for call in seen["calls"])
    progress = seen["calls"][list(calls).index("test_tool_with_progress")]["progress"]
    assert progress == [[0, 100], [50, 100], [100, 100]]


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_prompt_may_ask_the_client_too(crib: Crib, mode: str, upstream: str) -> None:
    async with python_client(crib.toolbox(upstream), crib.headers, mode, **_answering(crib)) as client:
        got = await client.get_prompt(f"{upstream}.test_input_required_result_prompt")
        content = got.messages[0].content
        assert isinstance(content, types.TextContent)
        assert content.text == "Context: a garden"


async def test_a_client_that_declares_nothing_is_told_what_is_missing(crib: Crib) -> None:
    for upstream, mode in itertools.product(UPSTREAMS, ("auto", "legacy")):
        async with python_client(crib.toolbox(upstream), crib.headers, mode) as client:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("test_missing_capability", {})
            assert refused.value.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
            assert refused.value.error.data == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_is_listed_and_read_is_what_the_upstream_offers(crib: Crib, mode: str, upstream: str) -> None:
    """Schemas in every keyword, resources, templates, prompts and completions: the same through us as without us."""
    async with (
        python_client(crib.addresses[upstream], {}, mode) as directly,
        python_client(crib.toolbox(upstream), crib.headers, mode) as through,
    ):
        prefix = f"{upstream}."
        tools = {tool.name: tool for tool in (await through.list_tools()).tools}
        originals = {prefix + tool.name: tool for tool in (await directly.list_tools()).tools}
        assert {name: (tool.description, tool.input_schema) for name, tool in tools.items()} == {
            name: (tool.description, tool.input_schema) for name, tool in originals.items()
        }
        assert {(tool.meta or {})["tool_configuration"]["type"] for tool in tools.values()} == {"mcp"}
        prompts = {prompt.name: prompt for prompt in (await through.list_prompts()).prompts}
        assert {name: (prompt.description, prompt.arguments) for name, prompt in prompts.items()} == {
            prefix + prompt.name: (prompt.description, prompt.arguments)
            for prompt in (await directly.list_prompts()).prompts
        }
        resources, templates = await through.list_resources(), await through.list_resource_templates()
        assert _by_name(resources.resources) == _by_name((await directly.list_resources()).resources)
        offered = (await directly.list_resource_templates()).resource_templates
        assert _by_name(templates.resource_templates) == _by_name(offered)
        for uri in ("test://static-text", "test://static-binary", "test://template/7/data"):
            assert (await through.read_resource(uri)).contents == (await directly.read_resource(uri)).contents
        given = {"arg1": "one", "arg2": "two"}
        for name in (f"{prefix}test_prompt_with_arguments", "test_prompt_with_arguments"):
            got = await through.get_prompt(name, given)
            assert got.messages == (await directly.get_prompt("test_prompt_with_arguments", given)).messages
        ref = types.PromptReference(type="ref/prompt", name=f"{prefix}test_prompt_with_arguments")
        completed = await through.complete(ref, {"name": "arg1", "value": "par"})
        assert completed.completion.values == ["paris", "park", "party"]


def _by_name(items: Sequence[Any]) -> list[Any]:
    return sorted(items, key=lambda item: item.name)


# Changes


@pytest.mark.parametrize("upstream", UPSTREAMS)
async def test_a_stateless_client_hears_of_changes_upstream(crib: Crib, upstream: str) -> None:
    watched = "test://watched-resource"
    async with python_client(crib.toolbox(upstream), crib.headers, "auto") as client, asyncio.timeout(HEARD_WITHIN_S):
        await client.list_tools()
        async with client.listen(
            tools_list_changed=True, prompts_list_changed=True, resource_subscriptions=[watched]
        ) as changes:
            heard: set[Any] = set()
            for trigger, expected in (
                ("test_trigger_resource_update", ResourceUpdated(uri=watched)),
                ("test_trigger_tool_change", ToolsListChanged()),
            ):
                await client.call_tool(trigger, {})
                while expected not in heard:
                    heard.add(await anext(changes))
        described = {tool.name: tool.description for tool in (await client.list_tools(cache_mode="bypass")).tools}
        assert "changed 0 times" not in str(described[f"{upstream}.test_trigger_tool_change"])


@pytest.mark.parametrize("upstream", UPSTREAMS)
async def test_a_session_hears_of_changes_upstream(crib: Crib, upstream: str) -> None:
    watched = "test://watched-resource"
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def hear(message: Any) -> None:
        heard.put_nowait(message)

    async def until(kind: type[Any]) -> Any:
        while not isinstance(message := await heard.get(), kind):
            pass
        return message

    async with (
        python_client(crib.toolbox(upstream), crib.headers, "legacy", message_handler=hear) as client,
        asyncio.timeout(HEARD_WITHIN_S),
    ):
        await client.list_tools()
        await client.subscribe_resource(watched)
        await client.call_tool("test_trigger_resource_update", {})
        assert (await until(types.ResourceUpdatedNotification)).params.uri == watched
        await client.call_tool("test_trigger_tool_change", {})
        await until(types.ToolListChangedNotification)
        await client.unsubscribe_resource(watched)


# The reference servers, over every transport


@pytest.mark.parametrize("visitor", VISITORS)
@pytest.mark.parametrize("source", ["everything_http", "everything_sse", "everything_stdio"])
async def test_the_everything_server_works_over_every_transport(crib: Crib, visitor: Visitor, source: str) -> None:
    calls: Calls = [
        (f"{source}.echo", {"message": "Grüße"}),
        (f"{source}.get-sum", {"a": 2, "b": 3}),
        (f"{source}.trigger-long-running-operation", {"duration": 0.1, "steps": 2}),
    ]
    seen = await visit(visitor, crib, crib.toolbox(source), calls)
    assert seen["version"] == VISITORS[visitor]
    assert {name for name, _ in calls} <= set(seen["tools"])
    assert [call["said"] for call in seen["calls"]] == [
        ["Echo: Grüße"],
        ["The sum of 2 and 3 is 5."],
        ["Long running operation completed. Duration: 0.1 seconds, Steps: 2."],
    ]
    assert seen["calls"][2]["progress"] == [[1, 2], [2, 2]]


@pytest.mark.parametrize("visitor", VISITORS)
async def test_the_reference_servers_share_a_toolbox(crib: Crib, visitor: Visitor) -> None:
    note = crib.files / f"{visitor.replace(' ', '-')}.txt"
    who = f"Ada of {visitor}"
    calls: Calls = [
        ("files.write_file", {"path": str(note), "content": "kept"}),
        ("files.read_text_file", {"path": str(note)}),
        ("memory.create_entities", {"entities": [{"name": who, "entityType": "person", "observations": ["here"]}]}),
        ("memory.open_nodes", {"names": [who]}),
        ("everything_http.echo", {"message": "over HTTP"}),
        ("stateless.test_simple_text", {}),
    ]
    seen = await visit(visitor, crib, crib.toolbox("files", "memory", "everything_http", "stateless"), calls)
    assert {name.partition(".")[0] for name in seen["tools"]} == {"files", "memory", "everything_http", "stateless"}
    assert not any(call["isError"] for call in seen["calls"]), seen["calls"]
    assert note.read_text() == "kept"
    said = [call["said"] for call in seen["calls"]]
    assert said[1] == ["kept"]
    assert who in said[3][0]
    assert said[4:] == [["Echo: over HTTP"], ["This is a simple text response for testing."]]

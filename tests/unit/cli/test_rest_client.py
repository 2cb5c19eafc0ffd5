"""The typed client against a scripted transport: what it sends, and which of our errors an answer becomes."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import msgspec
import pytest

from toolcrib import errors, wire
from toolcrib.client import rest

Handler = Callable[[httpx2.Request], httpx2.Response]
VERSION = {
    "id": "v-1",
    "name": "ops",
    "version": "3",
    "created_at": 1,
    "metadata": {"team": "a"},
    "tools": [{"type": "mcp", "server_label": "x", "server_url": "http://x/mcp"}],
    "skills": [{"type": "skill_reference", "name": "review"}],
    "digest": "d",
    "something_newer": True,
}
TOOLBOX = {"id": "t-1", "name": "ops", "updated_at": 1, "default_version": "2", "versions": {"latest": VERSION}}


def client(handler: Handler) -> rest.Client:
    return rest.Client("http://127.0.0.1:1/api/projects/p", "secret-token", transport=httpx2.MockTransport(handler))


def failing(status: int, code: str, **problem: object) -> Handler:
    body = {"error": {"code": code, "message": "it did not work", **problem}}
    return lambda request: httpx2.Response(status, json=body)


def test_every_request_carries_the_api_version_and_the_token() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json=TOOLBOX)

    assert client(answer).toolbox("ops").versions.latest.version == "3"
    assert str(seen[0].url) == "http://127.0.0.1:1/api/projects/p/toolboxes/ops?api-version=v1"
    assert seen[0].headers["authorization"] == "Bearer secret-token"


def test_create_version_leaves_absent_fields_out() -> None:
    bodies: list[object] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(msgspec.json.decode(request.content))
        return httpx2.Response(200, json=VERSION)

    skills = [wire.SkillReference(name="review")]
    client(answer).create_version("ops", wire.CreateVersion(tools=[], skills=skills))
    assert bodies == [{"tools": [], "skills": [{"type": "skill_reference", "name": "review"}]}]


def test_a_draft_holds_what_the_latest_version_says() -> None:
    draft = client(lambda _: httpx2.Response(200, json=TOOLBOX)).draft("ops")
    assert draft.tools == VERSION["tools"]
    assert draft.metadata == {"team": "a"}
    assert draft.skills == [wire.SkillReference(name="review")]


def test_paging_follows_the_cursor_until_the_last_page() -> None:
    asked: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        after = request.url.params.get("after")
        asked.append(after)
        page = {"data": [TOOLBOX], "has_more": after is None, "last_id": "t-1" if after is None else None}
        return httpx2.Response(200, json=page)

    assert len(list(client(answer).toolboxes())) == 2
    assert asked == [None, "t-1"]


def test_rollback_goes_to_the_entry_before_and_only_if_nothing_moved() -> None:
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        if request.method == "PATCH":
            return httpx2.Response(200, json=TOOLBOX)
        moves = [
            {"id": "2", "at": 2, "by": "k", "from_version": "1", "to_version": "2"},
            {"id": "1", "at": 1, "by": "k", "from_version": None, "to_version": "1"},
        ]
        return httpx2.Response(200, json={"data": moves, "has_more": False})

    client(answer).rollback("ops")
    assert sent[-1].headers["if-match"] == '"2"'
    assert msgspec.json.decode(sent[-1].content) == {"default_version": "1"}


def test_rollback_of_a_toolbox_never_promoted_is_refused_without_a_write() -> None:
    first = {"id": "1", "at": 1, "by": "k", "from_version": None, "to_version": "1"}
    answer = {"data": [first], "has_more": False}
    with pytest.raises(errors.BadRequest, match="nothing to roll back to"):
        client(lambda _: httpx2.Response(200, json=answer)).rollback("ops")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not_found", errors.NotFound),
        (400, "invalid_payload", errors.InvalidPayload),
        (400, "bad_request", errors.BadRequest),
        (401, "unauthenticated", errors.Unauthenticated),
        (403, "forbidden", errors.Forbidden),
        (403, "credentials_are_write_only", errors.Forbidden),
        (409, "conflict", errors.Conflict),
        (412, "precondition_failed", errors.PreconditionFailed),
        (424, "unreachable", errors.Unreachable),
        (424, "upstream_error", errors.SourceError),
        (503, "overloaded", errors.Overloaded),
        (500, "internal_error", errors.ToolcribError),
        (418, "made_up_tomorrow", errors.ToolcribError),
    ],
)
def test_an_envelope_becomes_our_own_error(status: int, code: str, kind: type[errors.ToolcribError]) -> None:
    with pytest.raises(errors.ToolcribError) as caught:
        client(failing(status, code, additionalInfo={"hint": "do this"})).toolbox("ops")
    assert type(caught.value) is kind
    assert caught.value.hint == "do this"


def test_an_unreachable_upstream_is_not_mistaken_for_an_unreachable_server() -> None:
    with pytest.raises(errors.Unreachable) as caught:
        client(failing(424, "unreachable")).toolbox("ops")
    assert not isinstance(caught.value, rest.NoServer)


def test_a_hint_is_said_once_though_the_server_sends_it_twice() -> None:
    body = {"error": {"code": "not_found", "message": "no (look)", "additionalInfo": {"hint": "look"}}}
    with pytest.raises(errors.NotFound) as caught:
        client(lambda _: httpx2.Response(404, json=body)).toolbox("ops")
    assert (caught.value.message, caught.value.hint) == ("no", "look")


def test_the_field_at_fault_is_kept() -> None:
    with pytest.raises(errors.InvalidPayload) as caught:
        client(failing(400, "invalid_payload", param="tools[0].type")).toolbox("ops")
    assert caught.value.param == "tools[0].type"


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"error":"text"}'])
def test_a_body_that_is_not_ours_says_so(body: bytes) -> None:
    with pytest.raises(errors.BadAnswer):
        client(lambda _: httpx2.Response(502, content=body)).toolbox("ops")
    with pytest.raises(errors.BadAnswer):
        client(lambda _: httpx2.Response(200, content=body)).toolbox("ops")


@pytest.mark.parametrize("cause", [httpx2.ConnectError("no"), httpx2.ReadTimeout("late")])
def test_no_answer_is_no_server(cause: Exception) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise cause

    with pytest.raises(rest.NoServer):
        client(answer).toolbox("ops")


@pytest.mark.parametrize("cause", [httpx2.ReadError("cut"), httpx2.RemoteProtocolError("cut")])
def test_a_connection_that_broke_may_have_carried_the_request(cause: Exception) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise cause

    with pytest.raises(rest.NoServer, match="closed the connection before it answered") as broken:
        client(answer).toolbox("ops")
    assert broken.value.sent


def test_names_cannot_escape_their_place_in_the_path() -> None:
    paths: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.raw_path)
        return httpx2.Response(200, json=TOOLBOX)

    client(answer).toolbox("a/../b?x#y")
    assert paths == [b"/api/projects/p/toolboxes/a%2F..%2Fb%3Fx%23y?api-version=v1"]


@pytest.mark.parametrize("endpoint", ["127.0.0.1:8700", "http://h", "http://h/api/projects/", "ftp://h/api/projects/p"])
def test_an_endpoint_of_another_shape_is_refused(endpoint: str) -> None:
    with pytest.raises(errors.BadSettings):
        rest.Client(endpoint)


def test_a_json_rpc_error_is_raised_with_its_code() -> None:
    reply = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such tool", "data": {"near": ["a"]}}}
    with pytest.raises(errors.UpstreamRefused) as caught:
        client(lambda _: httpx2.Response(400, json=reply)).rpc("ops", "tools/call", {"name": "x"})
    assert (caught.value.rpc_code, caught.value.data) == (-32602, {"near": ["a"]})


def test_an_envelope_from_the_mcp_endpoint_is_our_own_error() -> None:
    with pytest.raises(errors.NotFound):
        client(failing(404, "not_found")).rpc("ops", "tools/list", {})

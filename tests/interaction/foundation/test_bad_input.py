"""Bad input of every kind: a 4xx with the envelope naming the field, never a 5xx, and nothing stored."""

from __future__ import annotations

import http.client
import json
import socket
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import psycopg
import pytest
from tests.kit.running import Server

WEB: dict[str, Any] = {"type": "web_search"}
MCP: dict[str, Any] = {"type": "mcp", "server_label": "a", "server_url": "https://a.example/mcp"}
VERSIONS = "/api/projects/default/toolboxes/bad/versions?api-version=v1"
TABLES = ("projects", "api_keys", "toolbox_counters", "toolboxes", "toolbox_versions", "promotions", "sealed_values")


def deep(levels: int) -> str:
    return '{"tools":[{"type":"web_search","x":' + "[" * levels + "]" * levels + "}]}"


# (body, the field that must be named)
BODIES: dict[str, tuple[object, str]] = {
    "nothing": ("", "body"),
    "no JSON": ("tools", "body"),
    "half a JSON": ('{"tools": [', "body"),
    "two JSONs": ('{"tools": []} {}', "body"),
    "a trailing comma": ('{"tools": [],}', "body"),
    "a comment": ('{"tools": [] /* none */}', "body"),
    "a byte order mark": (b'\xef\xbb\xbf{"tools": []}', "body"),
    "UTF-16": ('{"tools": []}'.encode("utf-16"), "body"),
    "bytes that are no UTF-8": (b'{"tools":[{"type":"web_search","description":"\xff\xfe"}]}', "body"),
    "an encoded surrogate": (b'{"tools":[{"type":"web_search","description":"\xed\xa0\x80"}]}', "body"),
    "a lone surrogate": ('{"tools":[{"type":"web_search","description":"\\ud800"}]}', "body"),
    "a lone surrogate as a key": ('{"tools":[{"type":"web_search","\\udfff":1}]}', "body"),
    "NaN": ('{"tools":[{"type":"web_search","x":NaN}]}', "body"),
    "Infinity": ('{"tools":[{"type":"web_search","x":-Infinity}]}', "body"),
    "a number too large to be one": ('{"tools":[{"type":"web_search","x":1e999}]}', "tools[0]"),
    "an integer of 5,000 digits": ('{"tools":[{"type":"web_search","x":' + "9" * 5000 + "}]}", "tools[0]"),
    "JSON 65 deep": (deep(65), "tools"),
    "JSON 900 deep": (deep(900), "tools"),
    "JSON 100,000 deep": (deep(100_000), "body"),
    "JSON 100,000 deep and never closed": ("[" * 100_000, "body"),
    "a field sent twice": ('{"tools":[], "tools":[{"type":"web_search"}]}', "tools"),
    "a field sent twice inside an entry": ('{"tools":[{"type":"web_search","name":"a","name":"b"}]}', "name"),
    "a list": ([], "body"),
    "a string": ('"tools"', "body"),
    "null": ("null", "body"),
    "no tools": ({}, "tools"),
    "tools null": ({"tools": None}, "tools"),
    "tools a map": ({"tools": {"a": WEB}}, "tools"),
    "tools a string": ({"tools": "web_search"}, "tools"),
    "tools of strings": ({"tools": ["web_search"]}, "tools[0]"),
    "tools of nulls": ({"tools": [WEB, None]}, "tools[1]"),
    "no tools and no skills": ({"tools": []}, "tools"),
    "1,001 tools": ({"tools": [WEB] * 1001}, "tools"),
    "an unknown field": ({"tools": [WEB], "surprise": 1}, "surprise"),
    "a field of the answer": ({"tools": [WEB], "version": "7"}, "version"),
    "a description of a wrong type": ({"tools": [WEB], "description": 5}, "description"),
    "a description that is too long": ({"tools": [WEB], "description": "d" * 10_001}, "description"),
    "metadata a list": ({"tools": [WEB], "metadata": []}, "metadata"),
    "metadata of numbers": ({"tools": [WEB], "metadata": {"a": 1}}, "metadata"),
    "metadata nested": ({"tools": [WEB], "metadata": {"a": {"b": "c"}}}, "metadata"),
    "skills a map": ({"tools": [WEB], "skills": {}}, "skills"),
    "a skill of another type": ({"tools": [WEB], "skills": [{"type": "x", "name": "a"}]}, "skills[0].type"),
    "a skill without a name": ({"tools": [WEB], "skills": [{"type": "skill_reference"}]}, "skills[0]"),
    "a skill with a slash": (
        {"tools": [WEB], "skills": [{"type": "skill_reference", "name": "a/b"}]},
        "skills[0].name",
    ),
    "a skill twice": (
        {"tools": [], "skills": [{"type": "skill_reference", "name": n} for n in ("a", "b", "a")]},
        "skills[2]",
    ),
    "policies a list": ({"tools": [WEB], "policies": []}, "policies"),
    "a policy without a name": ({"tools": [WEB], "policies": {"rai_config": {}}}, "policies.rai_config"),
    "an entry without a type": ({"tools": [{"name": "a"}]}, "tools[0].type"),
    "an entry of an unknown type": ({"tools": [{"type": "teleport"}]}, "tools[0].type"),
    "an entry with a type of a wrong type": ({"tools": [{"type": ["mcp"]}]}, "tools[0].type"),
    "a label with a slash": ({"tools": [{**MCP, "server_label": "a/b"}]}, "tools[0].server_label"),
    "a label with a dot": ({"tools": [{**MCP, "server_label": "a.b"}]}, "tools[0].server_label"),
    "a label that ends in a line break": ({"tools": [{**MCP, "server_label": "a\n"}]}, "tools[0].server_label"),
    "a label with a NUL": ({"tools": [{**MCP, "server_label": "a\0"}]}, "tools[0].server_label"),
    "an empty label": ({"tools": [{**MCP, "server_label": ""}]}, "tools[0].server_label"),
    "a URL that is a file": ({"tools": [{**MCP, "server_url": "file:///etc/passwd"}]}, "tools[0].server_url"),
    "a URL with a password": ({"tools": [{**MCP, "server_url": "https://u:p@a.example"}]}, "tools[0].server_url"),
    "a URL with a line break": ({"tools": [{**MCP, "server_url": "https://a.example/\nx"}]}, "tools[0].server_url"),
    "a URL with a port from nowhere": ({"tools": [{**MCP, "server_url": "http://a:99999/"}]}, "tools[0].server_url"),
    "headers of numbers": ({"tools": [{**MCP, "headers": {"a": 1}}]}, "tools[0].headers"),
    "headers a list": ({"tools": [{**MCP, "headers": [["a", "b"]]}]}, "tools[0].headers"),
    "headers of numbers where nobody reads them": ({"tools": [{**WEB, "headers": {"a": 1}}]}, "tools[0].headers"),
    "headers a string where nobody reads them": ({"tools": [{**WEB, "headers": "k: v"}]}, "tools[0].headers"),
    "an authorization map": ({"tools": [{**WEB, "authorization": {"t": "s"}}]}, "tools[0].authorization"),
    "a header that breaks the line": ({"tools": [{**MCP, "headers": {"a": "b\r\nc: d"}}]}, "tools[0].headers"),
    "a header name with a space": ({"tools": [{**MCP, "headers": {"a b": "c"}}]}, "tools[0].headers"),
    "an authorization that breaks the line": (
        {"tools": [{**MCP, "authorization": "t\r\nx: y"}]},
        "tools[0].authorization",
    ),
    "a sealed value from nowhere": (
        {"tools": [{**MCP, "authorization": "sealed:0123456789abcdef01234567"}]},
        "tools[0].authorization",
    ),
    "a command": ({"tools": [{**MCP, "server_url": "stdio://", "command": ["sh"]}]}, "tools[0].server_url"),
}


@pytest.fixture
def stored(either_server: Server) -> Iterator[Callable[[], dict[str, int]]]:
    """How many rows each table holds, read past the server."""
    url = either_server.environment.get("TOOLCRIB_DATABASE_URL")
    if url is not None:
        connection: Any = psycopg.connect(url, autocommit=True)
    else:
        connection = sqlite3.connect(either_server.data / "toolcrib.sqlite3")
    yield lambda: {t: connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in TABLES}
    connection.close()


@pytest.fixture
def client(either_server: Server) -> Iterator[httpx2.Client]:
    with either_server.client() as it:
        yield it


def check_refusal(answer: httpx2.Response, status: int, param: str | None = None) -> dict[str, Any]:
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    problem = answer.json()["error"]
    assert problem["code"]
    assert problem["message"]
    if param is not None:
        assert problem["param"] == param or problem["param"].startswith(f"{param}."), problem
    return problem


def test_every_bad_body_is_refused_by_the_name_of_the_field(
    client: httpx2.Client, stored: Callable[[], dict[str, int]]
) -> None:
    before, wrong = stored(), list[str]()
    for what, (body, param) in BODIES.items():
        content = body if isinstance(body, (str, bytes)) else json.dumps(body)
        answer = client.post("/toolboxes/bad/versions", content=content, headers={"content-type": "application/json"})
        named = answer.json().get("error", {}).get("param", "")
        is_named = named == param or named.startswith((f"{param}.", f"{param}["))
        if answer.status_code != 400 or not is_named or stored() != before:
            wrong.append(f"{what}: {answer.status_code} {answer.text[:200]}")
        else:
            assert check_refusal(answer, 400)["code"] == "invalid_payload", what
    assert wrong == []
    assert client.get("/toolboxes/bad").status_code == 404


NAMES = {
    "a%2Fb": 400,
    "a/b": 404,
    "..": 400,
    ".": 400,
    "%2e%2e": 400,
    "a.b": 400,
    "a%20b": 400,
    "%C3%A9": 400,
    "a%0A": 400,
    "%ED%A0%80": 400,
    "%FF": 400,
    "%zz": 400,
    "a%00b": 404,
    "n" * 129: 400,
    "a:b": 400,
    "*": 400,
    "": 404,
}


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_none_are_refused_on_every_route(
    either_server: Server, stored: Callable[[], dict[str, int]], name: str
) -> None:
    before = stored()
    body = json.dumps({"tools": [WEB]}).encode()
    calls = [("POST", "/versions", body), ("GET", "", b""), ("DELETE", "", b""), ("GET", "/versions/1", b"")]
    for method, rest, content in calls:
        path = f"/api/projects/default/toolboxes/{name}{rest}?api-version=v1"
        status, headers, answer = raw(either_server, method, path, content)
        assert status in (NAMES[name], 404, 405), (method, path, status, answer)
        assert 400 <= status < 500
        assert headers["content-type"] == "application/json"
        assert json.loads(answer)["error"]["code"]
    assert stored() == before


VERSION_NUMBERS = ("0", "-1", "01", "1.0", "1e3", "v1", "9999999999", "9" * 5000, "%00", "%D9%A1", "top", "1%0A", "%20")


def test_versions_that_are_none_are_not_found(either_server: Server) -> None:
    with either_server.client() as client:
        client.post("/toolboxes/numbered/versions", json={"tools": [WEB]}).raise_for_status()
        for number in VERSION_NUMBERS:
            for method in ("GET", "DELETE"):
                path = f"/api/projects/default/toolboxes/numbered/versions/{number}?api-version=v1"
                status, _, answer = raw(either_server, method, path)
                assert (status, json.loads(answer)["error"]["code"]) == (404, "not_found"), (number, answer)
        promotions = [{"default_version": v} for v in ("0", "-1", "", "v1", "1\n", 1, None, 1.5, "9" * 10, [], "１")]
        for body in [*promotions, {}, {"default_version": "1", "x": 1}]:
            problem = check_refusal(client.patch("/toolboxes/numbered", json=body), 400)
            assert problem["param"] in ("default_version", "x"), (body, problem)
        check_refusal(client.patch("/toolboxes/numbered", json={"default_version": "999"}), 404, "version")
        for tag in ("x", '"', '"a"', '"1', "1, 2", '"99999999999"', "٣".encode()):
            answer = client.patch("/toolboxes/numbered", json={"default_version": "1"}, headers={"if-match": tag})
            assert answer.status_code in (400, 412), (tag, answer.text)


QUERIES = (
    ("/toolboxes", "limit", ("0", "101", "-1", "1.5", "", "x", "1e2", "٣", "9" * 5000)),
    ("/toolboxes", "order", ("", "up", "ASC", "asc,desc")),
    ("/toolboxes", "after", ("", "x", "tb_", "tb_\0", "tb_é", "' OR 1=1 --", "tb_" + "a" * 5000)),
    ("/toolboxes", "before", ("", "1", "tb_ 1")),
    ("/toolboxes/queried/versions", "after", ("", "x", "1:x", "tb_1:99999999999", "-1", "\0")),
    ("/toolboxes/queried/versions", "limit", ("0", "1000")),
    ("/toolboxes/queried/promotions", "after", ("", "x", "-1", "9" * 10, "\0")),
    ("/toolboxes/queried/diff?to=1", "from", ("", "x", "0", "٣")),
    ("/toolboxes/queried/diff?from=1", "to", ("", "x", "0")),
)


@pytest.mark.parametrize(("path", "name", "values"), QUERIES, ids=lambda v: v if isinstance(v, str) else "")
def test_queries_that_say_nothing_are_refused(
    client: httpx2.Client, path: str, name: str, values: tuple[str, ...]
) -> None:
    client.post("/toolboxes/queried/versions", json={"tools": [WEB]}).raise_for_status()
    for value in values:
        path_only, _, given = path.partition("?")
        query = dict(part.split("=") for part in given.split("&") if part)
        answer = client.get(path_only, params={"api-version": "v1", **query, name: value})
        assert answer.status_code in (400, 404), (name, value, answer.text)
        assert answer.json()["error"]["param"] in (name, "version"), (name, value, answer.text)


def test_a_missing_api_version_is_named(either_server: Server) -> None:
    with either_server.client() as client:
        for params in ({}, {"api-version": ""}):
            answer = httpx2.get(
                f"{either_server.endpoint}/toolboxes", params=params, headers=dict(client.headers), trust_env=False
            )
            check_refusal(answer, 400, "api-version")
        answer = client.get("/toolboxes", params={"api-version": "2031-02-29-preview"})
        assert answer.status_code == 200
        assert client.get("/toolboxes", headers={"foundry-features": "Toolboxes=V1Preview"}).status_code == 200


# --- HTTP itself -----------------------------------------------------------------------------------------------------


def raw(
    server: Server, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """A request whose path nobody tidies up on the way."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        sent = {"Host": "localhost", "Authorization": f"Bearer {server.token}", **(headers or {})}
        if body or method in ("POST", "PATCH", "PUT"):
            sent.setdefault("Content-Length", str(len(body)))
            sent.setdefault("Content-Type", "application/json")
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


def raw_bytes(server: Server, *chunks: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        for chunk in chunks:
            connection.sendall(chunk)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def test_bodies_over_the_cap_are_refused_declared_or_not(
    either_server: Server, client: httpx2.Client, stored: Callable[[], dict[str, int]]
) -> None:
    before = stored()
    large = json.dumps({"tools": [WEB], "description": "x" * (4 * 2**20)}).encode()
    json_type = {"content-type": "application/json"}
    check_refusal(client.post("/toolboxes/large/versions", content=large, headers=json_type), 413, "body")

    def in_chunks() -> Iterator[bytes]:
        yield from (large[i : i + 50_000] for i in range(0, len(large), 50_000))

    chunked = client.post("/toolboxes/large/versions", content=in_chunks(), headers=json_type)
    check_refusal(chunked, 413, "body")
    one_chunk = client.post("/toolboxes/large/versions", content=iter([large]), headers=json_type)
    check_refusal(one_chunk, 413, "body")
    assert stored() == before
    assert client.get("/toolboxes").status_code == 200


def test_a_body_of_another_kind_is_refused(client: httpx2.Client, stored: Callable[[], dict[str, int]]) -> None:
    before = stored()
    body = json.dumps({"tools": [WEB]})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", ""):
        answer = client.post("/toolboxes/kind/versions", content=body, headers={"content-type": kind})
        assert check_refusal(answer, 415, "Content-Type")["code"] == "unsupported_media_type"
    assert stored() == before
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/merge-patch+json"):
        answer = client.post("/toolboxes/kind/versions", content=body, headers={"content-type": kind})
        assert answer.status_code == 200, kind
    client.delete("/toolboxes/kind")


def test_other_methods_are_refused_with_the_ones_there_are(either_server: Server) -> None:
    path = "/api/projects/default/toolboxes/some?api-version=v1"
    for method in ("PUT", "POST", "OPTIONS", "TRACE", "PROPFIND"):
        status, headers, answer = raw(either_server, method, path)
        assert (status, json.loads(answer)["error"]["code"]) == (405, "method_not_allowed"), (method, answer)
        assert headers["allow"] == "DELETE, GET, PATCH"


def test_head_is_answered_as_get_without_a_body(either_server: Server) -> None:
    for path, expected in (("/readyz", 200), ("/api/projects/default/toolboxes/none?api-version=v1", 404)):
        status, headers, answer = raw(either_server, "HEAD", path)
        assert (status, answer) == (expected, b"")
        assert int(headers["content-length"]) > 0
    status, headers, _ = raw(either_server, "HEAD", "/api/projects/default/toolboxes/some/mcp?api-version=v1")
    assert (status, headers["allow"]) == (405, "DELETE, GET, POST")


def test_unknown_routes_are_not_found(either_server: Server) -> None:
    for path in ("/", "/nope", "/api", "/api/", "/api/projects/default/", "/api/projects/default/toolboxes/a/b/c/d"):
        for method in ("GET", "POST"):
            status, headers, answer = raw(either_server, method, f"{path}?api-version=v1")
            assert (status, json.loads(answer)["error"]["code"]) == (404, "not_found"), (method, path)
            assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"NONSENSE\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"FOO /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /h\xc3\xa9 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nBad Header: x\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0." + b"9" * 5000 + b"\r\nConnection: close\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nConnection: close\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\nConnection: close\r\n\r\n",
    ],
    ids=range(15),
)
def test_what_is_hardly_http_gets_the_envelope_too(server: Server, request_bytes: bytes) -> None:
    head, _, body = raw_bytes(server, request_bytes).partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert 400 <= status < 500, head
    assert b"content-type: application/json" in head
    assert json.loads(body)["error"]["code"]


def test_the_request_id_is_echoed_unless_it_could_hurt(client: httpx2.Client) -> None:
    for name in ("x-ms-client-request-id", "x-request-id"):
        answer = client.get("/toolboxes", headers={name: "abc-123"})
        assert answer.headers["x-request-id"] == "abc-123"
        assert answer.headers.get("x-ms-client-request-id") == ("abc-123" if name.startswith("x-ms") else None)
    for bad in ("x" * 129, "é".encode(), "a\tb"):
        answer = client.get("/toolboxes", headers={"x-ms-client-request-id": bad})
        assert answer.status_code == 200
        assert answer.headers["x-request-id"] not in (bad, "")


def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(
    either_server: Server, client: httpx2.Client, stored: Callable[[], dict[str, int]]
) -> None:
    before = stored()
    head = f"POST {VERSIONS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {either_server.token}\r\n"
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", either_server.port), timeout=30) as connection:
            connection.sendall(f'{head}Content-Length: 1000\r\n\r\n{{"tools": ['.encode())
    assert client.get("/toolboxes").status_code == 200
    assert stored() == before
    assert "Traceback" not in either_server.log.read_text()


def test_keys_and_projects_refuse_what_they_cannot_be(
    either_server: Server, client: httpx2.Client, stored: Callable[[], dict[str, int]]
) -> None:
    before = stored()
    for body, param in (
        ({}, "role"),
        ({"role": "root"}, "role"),
        ({"role": "viewer", "label": "a\0b"}, "label"),
        ({"role": "viewer", "label": "x" * 201}, "label"),
        ({"role": "viewer", "act_for_users": "yes"}, "act_for_users"),
        ({"role": "viewer", "key": "mine"}, "key"),
    ):
        check_refusal(client.post("/keys", json=body), 400, param)
    for name in ("a/b", "a b", "", "..", "x" * 65, "a\n", "é", None, 5):
        answer = client.post(f"{either_server.address}/api/projects", json={"name": name})
        check_refusal(answer, 400, "name")
    for key in ("x", "%00", "a%2Fb", "0123456789ab"):
        check_refusal(client.delete(f"/keys/{key}"), 404)
    assert stored() == before


def test_a_nul_where_a_name_or_text_is_meant_is_never_the_servers_fault(client: httpx2.Client) -> None:
    """PostgreSQL cannot keep one, SQLite can: whichever it is, the asker is told, or it works."""
    client.post("/toolboxes/nul/versions", json={"tools": [WEB]}).raise_for_status()
    properties = {
        "authType": "None",
        "category": "RemoteTool",
        "target": "https://a.example/\0",
        "metadata": {"a": "\0"},
    }
    answers = [
        client.get("/toolboxes/nul/autopins", params={"api-version": "v1", "principal": "a\0b"}),
        client.put("/connections/nul", json={"properties": properties}),
        client.post("/toolboxes/nul/versions", json={"tools": [{**WEB, "description": "\0"}], "description": "\0"}),
        client.post("/toolboxes/nul/versions", json={"tools": [WEB], "metadata": {"\0": "\0"}}),
        client.get("/skills/a%00b"),
        client.get("/toolboxes/a%00b"),
    ]
    assert [a.status_code for a in answers if a.status_code >= 500] == []

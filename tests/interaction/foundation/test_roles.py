"""Who may do what: one table, role × route, every cell called on a running server.

The table is written by hand and the route list is the server's own, so a route nobody thought about fails here.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import pytest
from tests.kit.running import Server

from toolcrib.web.routes import ROUTES, Route

ANYONE, VIEWER, AGENT, EDITOR, ADMIN, OPERATOR = range(6)
PROJECT = "/api/projects/{project}"
BOXES = f"{PROJECT}/toolboxes"
SKILLS = f"{PROJECT}/skills"

# The least a caller must be.
TABLE: dict[str, int] = {
    "GET /healthz": ANYONE,
    "GET /readyz": ANYONE,
    "GET /openapi.json": ANYONE,
    f"GET {BOXES}": VIEWER,
    f"GET {BOXES}/{{name}}": VIEWER,
    f"PATCH {BOXES}/{{name}}": EDITOR,
    f"DELETE {BOXES}/{{name}}": EDITOR,
    f"POST {BOXES}/{{name}}/versions": EDITOR,
    f"GET {BOXES}/{{name}}/versions": VIEWER,
    f"GET {BOXES}/{{name}}/versions/{{version}}": VIEWER,
    f"DELETE {BOXES}/{{name}}/versions/{{version}}": EDITOR,
    f"GET {BOXES}/{{name}}/diff": VIEWER,
    f"GET {BOXES}/{{name}}/promotions": VIEWER,
    f"GET {BOXES}/{{name}}/sources": VIEWER,
    f"POST {BOXES}/{{name}}/sources/refresh": EDITOR,
    f"GET {BOXES}/{{name}}/drift": VIEWER,
    f"POST {BOXES}/{{name}}/drift": EDITOR,
    f"GET {BOXES}/{{name}}/autopins": AGENT,
    f"DELETE {BOXES}/{{name}}/autopins": AGENT,
    f"POST {BOXES}/{{name}}/mcp": AGENT,
    f"GET {BOXES}/{{name}}/mcp": AGENT,
    f"DELETE {BOXES}/{{name}}/mcp": AGENT,
    f"POST {BOXES}/{{name}}/versions/{{version}}/mcp": AGENT,
    f"GET {BOXES}/{{name}}/versions/{{version}}/mcp": AGENT,
    f"DELETE {BOXES}/{{name}}/versions/{{version}}/mcp": AGENT,
    f"POST {BOXES}/{{name}}:invoke_mcp": AGENT,
    f"GET {PROJECT}/connections": VIEWER,
    f"GET {PROJECT}/connections/{{connection}}": VIEWER,
    f"PUT {PROJECT}/connections/{{connection}}": EDITOR,
    f"DELETE {PROJECT}/connections/{{connection}}": EDITOR,
    f"POST {PROJECT}/connections/{{connection}}/getConnectionWithCredentials": EDITOR,
    f"POST {PROJECT}/connections/{{connection}}/test": EDITOR,
    f"GET {SKILLS}": VIEWER,
    f"GET {SKILLS}/{{skill}}": VIEWER,
    f"POST {SKILLS}/{{skill}}": EDITOR,
    f"DELETE {SKILLS}/{{skill}}": EDITOR,
    f"POST {SKILLS}/{{skill}}/versions": EDITOR,
    f"GET {SKILLS}/{{skill}}/versions": VIEWER,
    f"GET {SKILLS}/{{skill}}/versions/{{version}}": VIEWER,
    f"DELETE {SKILLS}/{{skill}}/versions/{{version}}": EDITOR,
    f"GET {SKILLS}/{{skill}}/content": VIEWER,
    f"GET {SKILLS}/{{skill}}/versions/{{version}}/content": VIEWER,
    "GET /api/projects": VIEWER,
    "POST /api/projects": OPERATOR,
    f"DELETE {PROJECT}": OPERATOR,
    f"GET {PROJECT}/keys": ADMIN,
    f"POST {PROJECT}/keys": ADMIN,
    f"DELETE {PROJECT}/keys/{{key}}": ADMIN,
}
IDS = {"name": "nothing-here", "version": "7", "key": "0123456789ab"}
BODIES = {f"POST {PROJECT}/keys": {"role": "viewer"}}


@dataclass(frozen=True)
class Caller:
    """Somebody at the door. `level` is what they may at most do inside the project of the table."""

    name: str
    level: int
    token: str
    user: str | None = None
    inside: bool = True

    @property
    def headers(self) -> dict[str, str]:
        token = {"authorization": f"Bearer {self.token}"} if self.token else {}
        return {**token, **({"x-toolcrib-user": self.user} if self.user else {})}


def route_id(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def project(server: Server) -> str:
    name = f"table-{uuid.uuid4().hex[:8]}"
    with server.client() as client:
        client.post(f"{server.address}/api/projects", json={"name": name}).raise_for_status()
    return name


@pytest.fixture(scope="module")
def door(server: Server) -> Iterator[httpx2.Client]:
    """A client that brings no credential of its own."""
    with server.client(token="") as client:
        yield client


def issue(server: Server, project: str, role: str, *, act_for_users: bool = False) -> dict[str, str]:
    body = {"role": role, "act_for_users": act_for_users}
    with server.client() as client:
        return client.post(f"{server.project(project)}/keys", json=body).raise_for_status().json()


@pytest.fixture(scope="module")
def callers(server: Server, project: str) -> dict[str, Caller]:
    levels = {"viewer": VIEWER, "agent": AGENT, "editor": EDITOR, "admin": ADMIN}
    known = [Caller(role, level, issue(server, project, role)["key"]) for role, level in levels.items()]
    revoked = issue(server, project, "admin")
    with server.client() as client:
        client.get(server.project(project) + "/keys", headers={"authorization": f"Bearer {revoked['key']}"})
        client.delete(f"{server.project(project)}/keys/{revoked['id']}").raise_for_status()
    acting = issue(server, project, "editor", act_for_users=True)["key"]
    plain = known[-1].token
    everybody = [
        *known,
        Caller("operator", OPERATOR, server.token),
        Caller("an editor's user", EDITOR, acting, user="ada@example.com"),
        Caller("a user the key may not act for", ANYONE, plain, user="ada@example.com"),
        Caller("a stranger's admin", ADMIN, issue(server, "default", "admin")["key"], inside=False),
        Caller("nobody", ANYONE, ""),
        Caller("a revoked key", ANYONE, revoked["key"]),
        Caller("an invented key", ANYONE, f"tck_{'0' * 12}_{'x' * 43}"),
    ]
    return {caller.name: caller for caller in everybody}


CALLERS = (
    "viewer",
    "agent",
    "editor",
    "admin",
    "operator",
    "an editor's user",
    "a user the key may not act for",
    "a stranger's admin",
    "nobody",
    "a revoked key",
    "an invented key",
)


def test_every_route_is_in_the_table_and_the_table_names_no_other() -> None:
    assert {route_id(route) for route in ROUTES} == set(TABLE)


@pytest.mark.parametrize("who", CALLERS)
def test_every_cell_of_the_table(
    server: Server, door: httpx2.Client, project: str, callers: dict[str, Caller], who: str
) -> None:
    caller = callers[who]
    for route in ROUTES:
        answer = call(server, door, project, caller, route)
        cell = f"{who} × {route_id(route)}: {answer.status_code} {answer.text[:200]}"
        expected = refusal(caller, route)
        if expected is None:
            assert answer.status_code not in (401, 403), cell
            assert answer.status_code < 500, cell
        else:
            status, code = expected
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), cell
            if status == 401:
                assert answer.headers["www-authenticate"].startswith("Bearer"), cell


def refusal(caller: Caller, route: Route) -> tuple[int, str] | None:
    """How this cell must end, when it must not be let through."""
    needed = TABLE[route_id(route)]
    if needed == ANYONE:
        return None
    if caller.name in ("nobody", "a revoked key", "an invented key"):
        return 401, "unauthenticated"
    may_enter = caller.inside or "{project}" not in route.path
    return None if may_enter and caller.level >= needed else (403, "forbidden")


def call(server: Server, door: httpx2.Client, project: str, caller: Caller, route: Route) -> httpx2.Response:
    deletes_project = route_id(route) == f"DELETE {PROJECT}"
    if deletes_project and caller.level == OPERATOR:
        project = doomed(server)
    ids = {**IDS, "project": project}
    path = re.sub(r"{(\w+)}", lambda m: ids.get(m[1], "nothing-here"), route.path)
    query = {"api-version": "v1", **dict.fromkeys(route.required_query, "1")}
    content = {"json": BODIES.get(route_id(route), {})} if route.method in ("POST", "PATCH", "PUT") else {}
    return door.request(route.method, server.address + path, params=query, headers=caller.headers, **content)


def doomed(server: Server) -> str:
    name = f"doomed-{uuid.uuid4().hex[:8]}"
    with server.client() as client:
        client.post(f"{server.address}/api/projects", json={"name": name}).raise_for_status()
    return name


@pytest.fixture
def key_of_default(server: Server) -> str:
    return issue(server, "default", "admin")["key"]


def test_a_stranger_cannot_tell_which_projects_exist(server: Server, project: str, key_of_default: str) -> None:
    with server.client(token=key_of_default) as client:
        there = client.get(f"{server.project(project)}/toolboxes")
        missing = client.get(f"{server.project('no-such')}/toolboxes")
        listed = client.get(f"{server.address}/api/projects").json()["data"]
    assert there.status_code == missing.status_code == 403
    assert there.text.replace(project, "") == missing.text.replace("no-such", "")
    assert [p["name"] for p in listed] == ["default"]


def test_the_host_header_changes_no_decision(server: Server, callers: dict[str, Caller], project: str) -> None:
    """Authorization goes by the matched route, never by a URL put together from headers."""
    for host in ("localhost/healthz?", "127.0.0.1/healthz#", "localhost:1/openapi.json"):
        headers = {**callers["nobody"].headers, "host": host}
        path = f"{server.project(project)}/keys?api-version=v1"
        answer = httpx2.get(path, headers=headers, trust_env=False)
        assert answer.status_code in (401, 421), answer.text


# --- acting for users ------------------------------------------------------------------------------------------------


@pytest.fixture
def acting(server: Server) -> Iterator[httpx2.Client]:
    key = issue(server, "default", "editor", act_for_users=True)
    with server.client(token=key["key"]) as client:
        client.headers["x-key-id"] = key["id"]
        yield client


def test_what_a_user_does_is_recorded_as_that_user_within_that_key(acting: httpx2.Client) -> None:
    name = f"acted-{uuid.uuid4().hex[:8]}"
    body = {"tools": [{"type": "web_search"}]}
    user = {"x-toolcrib-user": "zoë".encode()}
    acting.post(f"/toolboxes/{name}/versions", json=body, headers=user).raise_for_status()
    key_id = acting.headers["x-key-id"]
    history = acting.get(f"/toolboxes/{name}/promotions").json()["data"]
    assert [p["by"] for p in history] == [f"{key_id}/zoë"]
    acting.delete(f"/toolboxes/{name}")
    acting.post(f"/toolboxes/{name}/versions", json=body).raise_for_status()
    assert [p["by"] for p in acting.get(f"/toolboxes/{name}/promotions").json()["data"]] == [key_id]


@pytest.mark.parametrize("user", ["", "u" * 257, "tab\there"])
def test_a_user_that_cannot_be_a_name_is_refused(acting: httpx2.Client, user: str) -> None:
    answer = acting.get("/toolboxes", headers={"x-toolcrib-user": user})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "X-Toolcrib-User"


def test_without_the_right_naming_a_user_is_forbidden(server: Server) -> None:
    key = issue(server, "default", "admin")["key"]
    with server.client(token=key) as client:
        answer = client.get("/toolboxes", headers={"x-toolcrib-user": "ada"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (403, "X-Toolcrib-User")


# --- keys and projects over time -------------------------------------------------------------------------------------


def test_a_key_shown_once_is_nowhere_afterwards(either_server: Server) -> None:
    key = issue(either_server, "default", "viewer")
    with either_server.client() as client:
        assert key["key"] not in client.get("/keys").text
        assert key["key"] not in client.get("/keys").text
    assert key["key"] not in either_server.log.read_text()


def test_a_revoked_key_ends_at_once_and_stays_in_the_list(either_server: Server) -> None:
    key = issue(either_server, "default", "viewer")
    with either_server.client() as admin, either_server.client(token=key["key"]) as client:
        assert client.get("/toolboxes").status_code == 200
        assert admin.delete(f"/keys/{key['id']}").status_code == 204
        assert client.get("/toolboxes").status_code == 401
        assert admin.delete(f"/keys/{key['id']}").status_code == 204
        listed = {k["id"]: k for k in admin.get("/keys").json()["data"]}
    assert listed[key["id"]]["revoked_at"] is not None


def test_a_deleted_project_takes_everything_with_it_and_its_numbers_go_on(either_server: Server) -> None:
    name = f"gone-{uuid.uuid4().hex[:8]}"
    projects = f"{either_server.address}/api/projects"
    body = {"tools": [{"type": "web_search"}]}
    with either_server.client() as client:
        client.post(projects, json={"name": name}).raise_for_status()
        key = issue(either_server, name, "editor")["key"]
        mine = {"authorization": f"Bearer {key}"}
        url = f"{projects}/{name}/toolboxes/box"
        assert client.post(f"{url}/versions", json=body, headers=mine).json()["version"] == "1"
        assert client.get(url, headers=mine).status_code == 200
        assert client.post(projects, json={"name": name}).status_code == 409
        assert client.delete(f"{projects}/{name}").status_code == 204
        assert client.get(url, headers=mine).status_code == 401
        assert client.get(url).json()["error"]["code"] == "not_found"
        client.post(projects, json={"name": name}).raise_for_status()
        assert client.get(url).status_code == 404
        assert client.get(url, headers=mine).status_code == 401
        assert client.post(f"{url}/versions", json=body).json()["version"] == "2"
        assert client.delete(f"{projects}/default").status_code == 409
        assert client.delete(f"{projects}/{name}").status_code == 204

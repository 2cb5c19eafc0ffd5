"""Every URL in one list: method, path, handler, the role it takes, and what it reads and answers.

The list is the truth that the router, the OpenAPI description, the role table and their tests are made from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from toolcrib import wire
from toolcrib.api import access, autopins, connections, health, skills, sources, toolboxes
from toolcrib.domain import Role
from toolcrib.errors import MethodNotAllowed, NotFound
from toolcrib.gateway import endpoint
from toolcrib.http import Request, Response, parse_query

Handler = Callable[[Any, Request], Awaitable[Response | None]]
"""Takes the crib (or, behind an MCP URL, the gateway) and the request; None when it has streamed its answer."""
PROJECT = "/api/projects/{project}"
_MOST_KNOWN_TARGETS = 4096
_LONGEST_KNOWN_TARGET = 256  # those that come back are short; a stranger's may be 64 KiB
PAGING = ("limit", "order", "after", "before")


@dataclass(frozen=True, slots=True)
class Route:
    """One URL. `role` None means that no credential is needed."""

    method: str
    path: str
    handler: Handler
    role: Role | None
    summary: str
    answers: Any = None
    reads: Any = None
    status: int = 200
    query: tuple[str, ...] = ()
    required_query: tuple[str, ...] = ()
    refusals: tuple[int, ...] = ()
    is_mcp: bool = False
    takes_files: bool = False  # besides `reads`: a multipart body or a ZIP, up to the limit of uploads
    gives_zip: bool = False  # instead of `answers`
    needs_api_version: bool = True

    @property
    def operation(self) -> str:
        of_version = "_of_version" if self.is_mcp and "{version}" in self.path else ""
        return f"{self.handler.__module__.rpartition('.')[2]}.{self.handler.__name__.rstrip('_')}{of_version}"


def _mcp(method: str, path: str, handler: Handler, summary: str, **rest: Any) -> Route:
    return Route(
        method,
        f"{PROJECT}/toolboxes/{path}",
        handler,
        Role.agent,
        summary,
        is_mcp=True,
        refusals=(405, 406),
        **rest,
    )


def _box(method: str, path: str, handler: Handler, role: Role, summary: str, **rest: Any) -> Route:
    return Route(method, f"{PROJECT}/toolboxes{path}", handler, role, summary, **rest)


def _skill(method: str, path: str, handler: Handler, role: Role, summary: str, **rest: Any) -> Route:
    return Route(method, f"{PROJECT}/skills{path}", handler, role, summary, **rest)


ROUTES: tuple[Route, ...] = (
    Route("GET", "/healthz", health.healthz, None, "Is the process up?", wire.Health, needs_api_version=False),
    Route("GET", "/readyz", health.readyz, None, "Can it answer requests?", wire.Health, needs_api_version=False),
    Route("GET", "/openapi.json", health.openapi, None, "This description.", dict[str, Any], needs_api_version=False),
    # toolboxes
    _box("GET", "", toolboxes.list_, Role.viewer, "List toolboxes.", answers=wire.Page[wire.Toolbox], query=PAGING),
    _box("GET", "/{name}", toolboxes.get, Role.viewer, "Get a toolbox.", answers=wire.Toolbox),
    _box(
        "PATCH",
        "/{name}",
        toolboxes.set_default,
        Role.editor,
        "Promote a version: make it the default. `If-Match` with the toolbox's ETag guards against races.",
        reads=wire.SetDefaultVersion,
        answers=wire.Toolbox,
        refusals=(412,),
    ),
    _box("DELETE", "/{name}", toolboxes.delete, Role.editor, "Delete a toolbox with all its versions.", status=204),
    _box(
        "POST",
        "/{name}/versions",
        toolboxes.create_version,
        Role.editor,
        "Create a version; the first one creates the toolbox and becomes its default.",
        reads=wire.CreateVersion,
        answers=wire.ToolboxVersion,
    ),
    _box(
        "GET",
        "/{name}/versions",
        toolboxes.list_versions,
        Role.viewer,
        "List the versions of a toolbox.",
        answers=wire.Page[wire.ToolboxVersion],
        query=PAGING,
    ),
    _box(
        "GET",
        "/{name}/versions/{version}",
        toolboxes.get_version,
        Role.viewer,
        "Get a version.",
        answers=wire.ToolboxVersion,
    ),
    _box(
        "DELETE",
        "/{name}/versions/{version}",
        toolboxes.delete_version,
        Role.editor,
        "Delete a version; deleting the only one deletes the toolbox.",
        status=204,
    ),
    _box(
        "GET",
        "/{name}/diff",
        toolboxes.diff,
        Role.viewer,
        "Compare two versions by entry, field and skill.",
        answers=wire.Diff,
        required_query=("from", "to"),
    ),
    _box(
        "GET",
        "/{name}/promotions",
        toolboxes.promotions,
        Role.viewer,
        "The history of the default pointer, newest first.",
        answers=wire.Page[wire.Promotion],
        query=PAGING,
    ),
    _box(
        "GET",
        "/{name}/sources",
        sources.get,
        Role.viewer,
        "How each source of a version is doing (the default version without `version`).",
        answers=wire.Sources,
        query=("version",),
    ),
    _box(
        "POST",
        "/{name}/sources/refresh",
        sources.refresh,
        Role.editor,
        "Ask every source of a version again, now.",
        answers=wire.Sources,
        query=("version",),
    ),
    _box(
        "GET",
        "/{name}/drift",
        sources.drift,
        Role.viewer,
        "Tools that changed upstream since the version was created, and what is done about it.",
        answers=wire.Drift,
        query=("version",),
    ),
    _box(
        "POST",
        "/{name}/drift",
        sources.accept_drift,
        Role.editor,
        "Accept the changed definition of one tool.",
        reads=wire.AcceptDrift,
        answers=wire.Drift,
    ),
    _box(
        "GET",
        "/{name}/autopins",
        autopins.get,
        Role.agent,
        "What auto-pinning knows of you in this toolbox (an admin may name another `principal`).",
        answers=wire.AutoPins,
        query=("principal",),
    ),
    _box(
        "DELETE",
        "/{name}/autopins",
        autopins.erase,
        Role.agent,
        "Forget what auto-pinning knows of you in this toolbox.",
        answers=wire.Erased,
        query=("principal",),
    ),
    # MCP
    _mcp("POST", "{name}/mcp", endpoint.post, "One MCP message to the default version.", answers=Any, reads=Any),
    _mcp("GET", "{name}/mcp", endpoint.get, "The session era's stream of changes."),
    _mcp("DELETE", "{name}/mcp", endpoint.delete, "End a session.", status=204),
    _mcp(
        "POST",
        "{name}/versions/{version}/mcp",
        endpoint.post,
        "One MCP message to one version.",
        answers=Any,
        reads=Any,
    ),
    _mcp("GET", "{name}/versions/{version}/mcp", endpoint.get, "The session era's stream of changes."),
    _mcp("DELETE", "{name}/versions/{version}/mcp", endpoint.delete, "End a session.", status=204),
    _mcp(
        "POST", "{name}:invoke_mcp", endpoint.invoke, "One MCP message to the default version.", answers=Any, reads=Any
    ),
    # skills
    _skill("GET", "", skills.list_, Role.viewer, "List skills.", answers=wire.Page[wire.Skill], query=PAGING),
    _skill("GET", "/{skill}", skills.get, Role.viewer, "Get a skill.", answers=wire.Skill),
    _skill(
        "POST",
        "/{skill}",
        skills.set_default,
        Role.editor,
        "Make a version the default; references without a version follow it from then on.",
        reads=wire.SetDefaultVersion,
        answers=wire.Skill,
    ),
    _skill(
        "DELETE",
        "/{skill}",
        skills.delete,
        Role.editor,
        "Delete a skill with all its versions; refused while a default version of a toolbox uses it, unless `force`.",
        answers=wire.DeletedSkill,
        query=("force",),
        refusals=(409,),
    ),
    _skill(
        "POST",
        "/{skill}/versions",
        skills.create_version,
        Role.editor,
        "Create a version: inline, from files, or from one ZIP. The first one creates the skill and is its default.",
        reads=wire.CreateSkillVersion,
        answers=wire.SkillVersion,
        query=("default",),
        takes_files=True,
    ),
    _skill(
        "GET",
        "/{skill}/versions",
        skills.list_versions,
        Role.viewer,
        "List the versions of a skill.",
        answers=wire.Page[wire.SkillVersion],
        query=PAGING,
    ),
    _skill(
        "GET",
        "/{skill}/versions/{version}",
        skills.get_version,
        Role.viewer,
        "Get a version of a skill.",
        answers=wire.SkillVersion,
    ),
    _skill(
        "DELETE",
        "/{skill}/versions/{version}",
        skills.delete_version,
        Role.editor,
        "Delete a version of a skill; deleting the only one deletes the skill.",
        answers=wire.DeletedSkillVersion,
        query=("force",),
        refusals=(409,),
    ),
    _skill("GET", "/{skill}/content", skills.download, Role.viewer, "Download the default version.", gives_zip=True),
    _skill(
        "GET",
        "/{skill}/versions/{version}/content",
        skills.download_version,
        Role.viewer,
        "Download a version of a skill.",
        gives_zip=True,
    ),
    # connections
    Route(
        "GET",
        f"{PROJECT}/connections",
        connections.list_,
        Role.viewer,
        "List connections.",
        wire.Connections,
        query=("connectionType", "defaultConnection"),
    ),
    Route(
        "GET",
        f"{PROJECT}/connections/{{connection}}",
        connections.get,
        Role.viewer,
        "Get a connection.",
        wire.Connection,
    ),
    Route(
        "PUT",
        f"{PROJECT}/connections/{{connection}}",
        connections.put,
        Role.editor,
        "Create or replace a connection; its secrets are sealed and never shown.",
        wire.Connection,
        wire.PutConnection,
    ),
    Route(
        "DELETE",
        f"{PROJECT}/connections/{{connection}}",
        connections.delete,
        Role.editor,
        "Delete a connection.",
        status=204,
    ),
    Route(
        "POST",
        f"{PROJECT}/connections/{{connection}}/getConnectionWithCredentials",
        connections.get_with_credentials,
        Role.editor,
        "Refused: credentials are write-only.",
        wire.Connection,
    ),
    Route(
        "POST",
        f"{PROJECT}/connections/{{connection}}/test",
        connections.test,
        Role.editor,
        "Connect to a connection's target and say what happened.",
        wire.ConnectionTest,
    ),
    # projects and keys
    Route("GET", "/api/projects", access.list_projects, Role.viewer, "List projects.", wire.Page[wire.Project]),
    Route(
        "POST",
        "/api/projects",
        access.create_project,
        Role.admin,
        "Create a project.",
        wire.Project,
        wire.CreateProject,
        refusals=(409,),
    ),
    Route(
        "DELETE",
        PROJECT,
        access.delete_project,
        Role.admin,
        "Delete a project and all it holds.",
        status=204,
        refusals=(409,),
    ),
    Route("GET", f"{PROJECT}/keys", access.list_keys, Role.admin, "List API keys.", wire.Page[wire.Key]),
    Route(
        "POST",
        f"{PROJECT}/keys",
        access.create_key,
        Role.admin,
        "Issue an API key; the answer shows it once.",
        wire.IssuedKey,
        wire.CreateKey,
    ),
    Route("DELETE", f"{PROJECT}/keys/{{key}}", access.revoke_key, Role.admin, "Revoke an API key.", status=204),
)


Match = tuple[Route, Mapping[str, str], Mapping[str, str]]
"""A route, what the path's parameters are, and the query."""


@dataclass(slots=True)
class _Node:
    """One segment of the tree of paths."""

    literals: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    parameter: _Node | None = None
    parameter_name: str = ""
    verbs: dict[str, _Node] = field(default_factory=dict[str, "_Node"])  # `{name}:verb`
    methods: dict[str, Route] = field(default_factory=dict[str, Route])


class Router:
    """Finds the route of a path by walking its segments; cost grows with the path, not with the list."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._root = _Node()
        self._known: dict[tuple[str, bytes], Match] = {}
        for route in routes:
            self._add(route)

    def match(self, method: str, target: bytes) -> Match:
        """The route of a request target; targets come back, so what they mean is remembered."""
        known = self._known.get((method, target))
        if known is not None:
            return known
        path, query = _split(target)
        found = (*self._walk(method, path), parse_query(query))
        if len(target) <= _LONGEST_KNOWN_TARGET:
            if len(self._known) >= _MOST_KNOWN_TARGETS:
                self._known.clear()
            self._known[method, target] = found
        return found

    def _walk(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """`path` still percent-encoded, so that an encoded slash stays inside its segment."""
        node, params = self._root, dict[str, str]()
        for segment in path.split("/")[1:]:
            found = node.literals.get(segment) or self._parameter(node, segment, params)
            if found is None:
                raise NotFound(f"There is nothing at {path[:200]}.", hint="/openapi.json lists every route")
            node = found
        route = node.methods.get(method)
        if route is None and method == "HEAD":
            route = node.methods.get("GET")  # its answer without the body; but an MCP GET is a stream
            route = None if route is None or route.is_mcp else route
        if route is None:
            raise _no_method(node, method, path)
        return route, params

    def _add(self, route: Route) -> None:
        node = self._root
        for segment in route.path.split("/")[1:]:
            node = self._child(node, segment)
        if route.method in node.methods:
            raise ValueError(f"two routes for {route.method} {route.path}")
        node.methods[route.method] = route

    def _child(self, node: _Node, segment: str) -> _Node:
        if not segment.startswith("{"):
            return node.literals.setdefault(segment, _Node())
        name, _, verb = segment.partition("}")
        node.parameter_name = name[1:]
        if verb:
            return node.verbs.setdefault(verb[1:], _Node())
        node.parameter = node.parameter or _Node()
        return node.parameter

    def _parameter(self, node: _Node, segment: str, params: dict[str, str]) -> _Node | None:
        value, colon, verb = segment.rpartition(":")
        if colon and (found := node.verbs.get(verb)):
            params[node.parameter_name] = _decode(value)
            return found
        if node.parameter is None or not segment:
            return None
        params[node.parameter_name] = _decode(segment)
        return node.parameter


def _split(target: bytes) -> tuple[str, bytes]:
    """Path and query of a request target, which may also be a whole URL."""
    if not target.startswith(b"/"):
        url = urlsplit(target)
        target = (url.path or b"/") + b"?" + url.query if url.netloc else b"*"
    path, _, query = target.partition(b"?")
    return path.decode("latin-1"), query


def _decode(segment: str) -> str:
    text = unquote(segment) if "%" in segment else segment
    if "\0" in text:  # no name of ours holds one, and PostgreSQL refuses it
        raise NotFound("There is nothing at a path with a NUL in it.", hint="/openapi.json lists every route")
    return text


def _no_method(node: _Node, method: str, path: str) -> MethodNotAllowed | NotFound:
    if not node.methods:
        return NotFound(f"There is nothing at {path[:200]}.", hint="/openapi.json lists every route")
    allowed = sorted(node.methods)
    return MethodNotAllowed(f"{path[:200]} takes {', '.join(allowed)}, not {method}.", info={"allowed": allowed})

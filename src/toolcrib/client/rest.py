"""The typed management client: one method per REST verb, answers and failures as our own types.

The CLI uses it, and so may any script. It knows the wire and nothing of the server's insides, of files or of
terminals; it never retries and never follows a redirect, so a token goes only where it was sent.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from toolcrib import errors, wire

if TYPE_CHECKING:
    import ssl

    import httpx2

DEFAULT_ENDPOINT = "http://127.0.0.1:8700/api/projects/default"
API_VERSION = "v1"
_PAGE = 100

T = TypeVar("T")
JsonObject = wire.JsonObject
Form = Sequence[tuple[str, tuple[str, bytes] | tuple[str, bytes, str]]]
"""Parts of a multipart body: field, then file name, content and type."""


class NoServer(errors.Unreachable):
    """The toolcrib server itself could not be reached, or gave no answer in time."""


class Client:
    """A project of one toolcrib server. Use it as a context manager, or call `close`.

    `endpoint` is the full project endpoint. `user` names the end user a key with act-for-users speaks for.
    """

    def __init__(
        self,
        endpoint: str = DEFAULT_ENDPOINT,
        token: str | None = None,
        *,
        user: str | None = None,
        timeout_s: float = 30.0,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        import httpx2  # takes most of a command's start; `--help` and a wrong command line go without

        self.root, self.project = split_endpoint(endpoint)
        self.endpoint = f"{self.root}/api/projects/{quote(self.project, safe='')}"
        headers = {"accept": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        if user:
            headers["x-toolcrib-user"] = user
        self._http = httpx2.Client(
            headers=headers,
            timeout=timeout_s,
            transport=transport,
            trust_env=not is_loopback(endpoint),
            verify=certificates(endpoint),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # --- toolboxes and versions --------------------------------------------------------------------------------------

    def create_version(self, toolbox: str, content: wire.CreateVersion) -> wire.ToolboxVersion:
        """Create the next version; the first one creates the toolbox and becomes its default."""
        body = {k: v for k, v in _fields(content).items() if v is not None}
        return self._ask("POST", f"{_toolbox(toolbox)}/versions", wire.ToolboxVersion, body=body)

    def toolbox(self, name: str) -> wire.Toolbox:
        return self._ask("GET", _toolbox(name), wire.Toolbox)

    def toolboxes(self) -> Iterator[wire.Toolbox]:
        return self._pages("/toolboxes", wire.Toolbox)

    def version(self, toolbox: str, version: str) -> wire.ToolboxVersion:
        return self._ask("GET", _version(toolbox, version), wire.ToolboxVersion)

    def versions(self, toolbox: str) -> Iterator[wire.ToolboxVersion]:
        return self._pages(f"{_toolbox(toolbox)}/versions", wire.ToolboxVersion)

    def draft(self, toolbox: str, from_version: str | None = None) -> wire.CreateVersion:
        """The content of the latest version (or the one named), to change and send back with `create_version`."""
        source = self.version(toolbox, from_version) if from_version else self.toolbox(toolbox).versions.latest
        return wire.CreateVersion(
            tools=source.tools,
            description=source.description or None,
            metadata=source.metadata or None,
            skills=msgspec.convert(source.skills, list[wire.SkillReference]) or None,
            policies=source.policies or None,
        )

    def publish(self, toolbox: str, version: str, *, if_default: str | None = None) -> wire.Toolbox:
        """Make `version` the default; with `if_default`, only while that one still is (else PreconditionFailed)."""
        headers = {"if-match": f'"{if_default}"'} if if_default else {}
        body = {"default_version": version}
        return self._ask("PATCH", _toolbox(toolbox), wire.Toolbox, body=body, headers=headers)

    def rollback(self, toolbox: str) -> wire.Toolbox:
        """Make the version before the last promotion the default again, unless somebody promoted meanwhile."""
        last = next(self.promotions(toolbox), None)
        if last is None or last.from_version is None:
            raise errors.BadRequest(
                f"toolbox `{toolbox}` has nothing to roll back to: its default version was never changed",
                hint="`toolcrib toolbox publish NAME VERSION` makes any version the default",
            )
        return self.publish(toolbox, last.from_version, if_default=last.to_version)

    def delete_toolbox(self, name: str) -> None:
        self._send("DELETE", self.endpoint + _toolbox(name))

    def delete_version(self, toolbox: str, version: str) -> None:
        self._send("DELETE", self.endpoint + _version(toolbox, version))

    def diff(self, toolbox: str, from_version: str, to_version: str) -> wire.Diff:
        query = {"from": from_version, "to": to_version}
        return self._ask("GET", f"{_toolbox(toolbox)}/diff", wire.Diff, query=query)

    def promotions(self, toolbox: str) -> Iterator[wire.Promotion]:
        """Every move of the default pointer, newest first."""
        return self._pages(f"{_toolbox(toolbox)}/promotions", wire.Promotion)

    def sources(self, toolbox: str, version: str | None = None) -> wire.Sources:
        """How the sources behind a version (the default one) are doing."""
        return self._ask("GET", f"{_toolbox(toolbox)}/sources", wire.Sources, query=_of(version))

    def refresh_sources(self, toolbox: str, version: str | None = None) -> wire.Sources:
        """Ask every source of a version again, now."""
        return self._ask("POST", f"{_toolbox(toolbox)}/sources/refresh", wire.Sources, query=_of(version))

    def drift(self, toolbox: str, version: str | None = None) -> wire.Drift:
        """Which tools of a version (the default one) are no longer what it was created with."""
        return self._ask("GET", f"{_toolbox(toolbox)}/drift", wire.Drift, query=_of(version))

    def accept_drift(self, toolbox: str, tool: str, version: str | None = None) -> wire.Drift:
        """Serve a tool's current definition from now on; what has drifted after that."""
        body = wire.AcceptDrift(accept=tool, version=version)
        return self._ask("POST", f"{_toolbox(toolbox)}/drift", wire.Drift, body=body)

    def autopins(self, toolbox: str, principal: str | None = None) -> wire.AutoPins:
        """What auto-pinning knows of a principal (oneself) in a toolbox."""
        return self._ask("GET", f"{_toolbox(toolbox)}/autopins", wire.AutoPins, query=_about(principal))

    def erase_autopins(self, toolbox: str, principal: str | None = None) -> wire.Erased:
        """Make the server forget it."""
        return self._ask("DELETE", f"{_toolbox(toolbox)}/autopins", wire.Erased, query=_about(principal))

    # --- skills ------------------------------------------------------------------------------------------------------

    def create_skill(self, name: str, content: wire.SkillInlineContent, *, default: bool = False) -> wire.SkillVersion:
        """Create the next version of a skill of one file; the first one creates the skill and is its default."""
        inline = {k: v for k, v in _fields(content).items() if v is not None}
        body = {"inline_content": inline, "default": default}
        return self._ask("POST", f"{_skill(name)}/versions", wire.SkillVersion, body=body)

    def create_skill_from_files(
        self, name: str, files: Sequence[tuple[str, bytes]], *, default: bool = False
    ) -> wire.SkillVersion:
        """Likewise from files, each with its path inside the skill."""
        form = [("files", (path, data)) for path, data in files]
        query = {"default": "true"} if default else {}
        return self._ask("POST", f"{_skill(name)}/versions", wire.SkillVersion, form=form, query=query)

    def create_skill_from_archive(self, name: str, archive: bytes, *, default: bool = False) -> wire.SkillVersion:
        """Likewise from one ZIP."""
        form = [("files", (f"{name}.zip", archive, "application/zip"))]
        query = {"default": "true"} if default else {}
        return self._ask("POST", f"{_skill(name)}/versions", wire.SkillVersion, form=form, query=query)

    def skill(self, name: str) -> wire.Skill:
        return self._ask("GET", _skill(name), wire.Skill)

    def skills(self) -> Iterator[wire.Skill]:
        return self._pages("/skills", wire.Skill)

    def skill_version(self, name: str, version: str) -> wire.SkillVersion:
        return self._ask("GET", f"{_skill(name)}/versions/{quote(version, safe='')}", wire.SkillVersion)

    def skill_versions(self, name: str) -> Iterator[wire.SkillVersion]:
        return self._pages(f"{_skill(name)}/versions", wire.SkillVersion)

    def set_default_skill(self, name: str, version: str) -> wire.Skill:
        """Make a version the default; references without a version follow it."""
        return self._ask("POST", _skill(name), wire.Skill, body={"default_version": version})

    def download_skill(self, name: str, version: str | None = None) -> bytes:
        """The files of the default version (or the one named), as a ZIP."""
        path = f"{_skill(name)}/versions/{quote(version, safe='')}" if version else _skill(name)
        return self._send("GET", f"{self.endpoint}{path}/content", headers={"accept": "application/zip"}).content

    def delete_skill(self, name: str, *, force: bool = False) -> None:
        """Delete a skill; one that a default version of a toolbox uses only with `force` (else SkillInUse)."""
        self._send("DELETE", self.endpoint + _skill(name), query={"force": "true"} if force else {})

    def delete_skill_version(self, name: str, version: str, *, force: bool = False) -> None:
        url = f"{self.endpoint}{_skill(name)}/versions/{quote(version, safe='')}"
        self._send("DELETE", url, query={"force": "true"} if force else {})

    # --- keys and projects -------------------------------------------------------------------------------------------

    def create_key(self, role: wire.RoleName, *, label: str = "", act_for_users: bool = False) -> wire.IssuedKey:
        """Issue an API key. This answer is the only place its secret is ever shown."""
        content = wire.CreateKey(role=role, label=label, act_for_users=act_for_users)
        return self._ask("POST", "/keys", wire.IssuedKey, body=content)

    def keys(self) -> Iterator[wire.Key]:
        return self._pages("/keys", wire.Key)

    def revoke_key(self, id: str) -> None:
        self._send("DELETE", f"{self.endpoint}/keys/{quote(id, safe='')}")

    def create_project(self, name: str) -> wire.Project:
        answer = self._send("POST", f"{self.root}/api/projects", body=wire.CreateProject(name=name))
        return _decode(answer, wire.Project)

    def projects(self) -> Iterator[wire.Project]:
        return self._pages(f"{self.root}/api/projects", wire.Project)

    def delete_project(self, name: str) -> None:
        self._send("DELETE", f"{self.root}/api/projects/{quote(name, safe='')}")

    # --- connections -------------------------------------------------------------------------------------------------

    def connections(self) -> list[wire.Connection]:
        return self._ask("GET", "/connections", wire.Connections).value

    def connection(self, name: str) -> wire.Connection:
        return self._ask("GET", _connection(name), wire.Connection)

    def put_connection(self, name: str, properties: wire.ConnectionProperties) -> wire.Connection:
        """Create or replace a connection, its secrets included."""
        return self._ask("PUT", _connection(name), wire.Connection, body=wire.PutConnection(properties))

    def delete_connection(self, name: str) -> None:
        self._send("DELETE", self.endpoint + _connection(name))

    def test_connection(self, name: str) -> wire.ConnectionTest:
        """What comes of reaching a connection's target with its credentials."""
        return self._ask("POST", f"{_connection(name)}/test", wire.ConnectionTest)

    # --- the MCP endpoint --------------------------------------------------------------------------------------------

    def mcp_url(self, toolbox: str, version: str | None = None) -> str:
        """What an agent is given: the default version's endpoint, or that of one version."""
        path = _version(toolbox, version) if version else _toolbox(toolbox)
        return f"{self.endpoint}{path}/mcp?api-version={API_VERSION}"

    def rpc(
        self, toolbox: str, method: str, params: JsonObject, *, version: str | None = None, expose: str | None = None
    ) -> JsonObject:
        """One JSON-RPC request to the MCP endpoint, no session; a JSON-RPC error raises UpstreamRefused."""
        url = self.mcp_url(toolbox, version) + (f"&expose={expose}" if expose else "")
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self._exchange("POST", url, body=message)
        reply = _rpc_reply(answer)
        if reply is None:
            _raise_for(answer)
            raise _not_ours(answer)
        if "error" in reply:
            problem = cast("JsonObject", reply["error"])
            raise errors.UpstreamRefused(str(problem["message"]), rpc_code=problem["code"], data=problem.get("data"))
        return reply["result"]

    # --- sending -----------------------------------------------------------------------------------------------------

    def _pages(self, path: str, kind: type[T]) -> Iterator[T]:
        url = path if path.startswith("http") else self.endpoint + path
        query: dict[str, str] = {"limit": str(_PAGE)}
        while True:
            page = _decode(self._send("GET", url, query=query), wire.Page[kind])
            yield from page.data
            if not page.has_more or page.last_id is None:
                return
            query["after"] = page.last_id

    def _ask(self, method: str, path: str, kind: type[T], **rest: Any) -> T:
        return _decode(self._send(method, self.endpoint + path, **rest), kind)

    def _send(
        self,
        method: str,
        url: str,
        *,
        query: dict[str, str] | None = None,
        body: object = None,
        form: Form | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx2.Response:
        params = {"api-version": API_VERSION, **(query or {})}
        answer = self._exchange(method, f"{url}?{urlencode(params)}", body=body, form=form, headers=headers)
        _raise_for(answer)
        return answer

    def _exchange(
        self,
        method: str,
        url: str,
        *,
        body: object = None,
        form: Form | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx2.Response:
        import httpx2

        content = None if body is None else msgspec.json.encode(body)
        typed = {"content-type": "application/json"} if content is not None else {}
        try:
            return self._http.request(method, url, content=content, files=form, headers={**typed, **(headers or {})})
        except httpx2.TimeoutException as error:
            raise NoServer(f"`{self.root}` gave no answer in time", source=self.root, sent=True) from error
        except httpx2.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                message, hint = f"the certificate of `{self.root}` is not trusted", "SSL_CERT_FILE names who signed it"
                raise NoServer(message, source=self.root, hint=hint) from error
            hint = "start the server with `toolcrib serve`, or name another with TOOLCRIB_ENDPOINT"
            raise NoServer(f"no toolcrib server answers at `{self.root}`", source=self.root, hint=hint) from error
        except httpx2.TransportError as error:
            hint = "it may have been carried out: look before you repeat it"
            message = f"`{self.root}` closed the connection before it answered"
            raise NoServer(message, source=self.root, hint=hint, sent=True) from error


def split_endpoint(endpoint: str) -> tuple[str, str]:
    """(`http://host:port`, project) of a project endpoint, or BadSettings."""
    parts = urlsplit(endpoint)
    prefix, _, project = parts.path.rstrip("/").rpartition("/")
    if parts.scheme not in ("http", "https") or not parts.netloc or prefix != "/api/projects" or not project:
        raise errors.BadSettings(
            f"`{endpoint}` is not a project endpoint",
            hint=f"it looks like `{DEFAULT_ENDPOINT}`; check --project-endpoint and TOOLCRIB_ENDPOINT",
        )
    return f"{parts.scheme}://{parts.netloc}", project


def certificates(endpoint: str) -> ssl.SSLContext | bool:
    """Whom to trust. Proxies are not for this machine's own addresses, but SSL_CERT_FILE is."""
    import httpx2

    return httpx2.create_ssl_context() if endpoint.startswith("https:") else False  # plain HTTP need not load any


def is_loopback(endpoint: str) -> bool:
    """Does this endpoint name the machine we are on?"""
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _toolbox(name: str) -> str:
    return f"/toolboxes/{quote(name, safe='')}"


def _version(toolbox: str, version: str) -> str:
    return f"{_toolbox(toolbox)}/versions/{quote(version, safe='')}"


def _skill(name: str) -> str:
    return f"/skills/{quote(name, safe='')}"


def _connection(name: str) -> str:
    return f"/connections/{quote(name, safe='')}"


def _about(principal: str | None) -> dict[str, str]:
    return {} if principal is None else {"principal": principal}


def _of(version: str | None) -> dict[str, str]:
    return {} if version is None else {"version": version}


def _fields(content: msgspec.Struct) -> JsonObject:
    return msgspec.structs.asdict(content)


def _decode(answer: httpx2.Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.DecodeError as error:
        raise _not_ours(answer) from error


def _rpc_reply(answer: httpx2.Response) -> JsonObject | None:
    """The JSON-RPC reply in a JSON body, or None when the body is something else."""
    try:
        reply = msgspec.json.decode(answer.content, type=JsonObject)
    except msgspec.DecodeError:
        return None
    return reply if "jsonrpc" in reply and ("result" in reply or "error" in reply) else None


def _raise_for(answer: httpx2.Response) -> None:
    if answer.is_success:
        return
    try:
        problem = msgspec.json.decode(answer.content, type=wire.Failure).error
    except msgspec.DecodeError:
        raise _not_ours(answer) from None
    raise _error(answer.status_code, problem)


def _not_ours(answer: httpx2.Response) -> errors.BadAnswer:
    return errors.BadAnswer(
        f"`{answer.url.host}` answered {answer.status_code} with a body that toolcrib does not send",
        hint="is the endpoint that of a toolcrib server of this release?",
    )


_BY_STATUS: dict[int, type[errors.ToolcribError]] = {
    400: errors.BadRequest,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    409: errors.Conflict,
    412: errors.PreconditionFailed,
    413: errors.TooLarge,
    415: errors.UnsupportedMedia,
    424: errors.SourceError,
}


def _error(status: int, problem: wire.Problem) -> errors.ToolcribError:
    """Our own error for the server's envelope: by its code where we know it, else by the status."""
    info: JsonObject = {**(problem.additionalInfo or {}), "status": status, "code": problem.code}
    hint = cast("str | None", info.pop("hint", None))
    message = problem.message.removesuffix(f" ({hint})")  # the server says it in both places, for clients that read one
    kind = _by_code().get(problem.code) or _BY_STATUS.get(status, errors.ToolcribError)
    if issubclass(kind, errors.UpstreamRefused):
        kind = errors.SourceError
    if issubclass(kind, errors.SourceError):
        return kind(message, hint=hint, info=info)
    if issubclass(kind, errors.Overloaded):
        return kind(message, hint=hint)
    return kind(message, param=problem.param or None, hint=hint, info=info)


def _by_code() -> dict[str, type[errors.ToolcribError]]:
    """The tree by code; where a group and its leaf share one, the leaf stands for it."""
    found: dict[str, type[errors.ToolcribError]] = {}
    queue: list[type[errors.ToolcribError]] = [errors.ToolcribError]
    for kind in queue:
        if kind.__module__ == errors.__name__:
            found[kind.code] = kind
            queue.extend(kind.__subclasses__())
    return found

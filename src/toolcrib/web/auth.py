"""Who is asking over HTTP: from headers to a `Principal`, and whether the page or host that asks may do so at all.

API keys come as `Authorization: Bearer` or `api-key`. Host and Origin are checked even with auth off, because that is
when a web page in the operator's browser could reach a server that listens on loopback.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from toolcrib.access import LOCAL_ADMIN, Access, act_for
from toolcrib.domain import Principal
from toolcrib.errors import ForeignHost, ForeignOrigin, Unauthenticated

_LOOPBACK_NAMES = frozenset({"localhost", "[::1]"})
_MOST_REMEMBERED = 1000


class Doorkeeper:
    """Turns the headers of a request into a principal, or turns the request away."""

    def __init__(
        self,
        access: Access,
        *,
        auth: bool,
        loopback: bool,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
    ) -> None:
        self._access = access
        self._auth = auth
        self._loopback = loopback
        self._hosts = frozenset(h.lower() for h in allowed_hosts)
        self._origins = frozenset(o.lower().rstrip("/") for o in allowed_origins)
        self._passed: set[tuple[bytes | None, bytes | None]] = set()

    async def principal(self, headers: Mapping[bytes, bytes]) -> Principal:
        principal = await self._access.authenticate(_token(headers)) if self._auth else LOCAL_ADMIN
        user = headers.get(b"x-toolcrib-user")
        return principal if user is None else act_for(principal, _text(user))

    def check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse foreign host names on a loopback server, and pages of foreign origins on any."""
        seen = (headers.get(b"host"), headers.get(b"origin"))
        if seen in self._passed:
            return
        host, origin = (_text(value).lower() for value in (seen[0] or b"", seen[1] or b""))
        if self._loopback and not self._is_ours(host):
            raise ForeignHost(
                f"This server does not answer to the host name {host[:100]!r}.", hint="add it to allowed_hosts"
            )
        if origin and not self._may_ask(origin, host):
            raise ForeignOrigin(
                f"Pages of {origin[:100]!r} may not call this server.", hint="add it to allowed_origins"
            )
        if len(self._passed) >= _MOST_REMEMBERED:
            self._passed.clear()
        self._passed.add(seen)

    def _is_ours(self, host: str) -> bool:
        name = _without_port(host)
        return name in _LOOPBACK_NAMES or name in self._hosts or _is_loopback_address(name)

    def _may_ask(self, origin: str, host: str) -> bool:
        if origin in self._origins:
            return True
        scheme, separator, rest = origin.partition("://")
        if scheme not in ("http", "https") or not separator or "/" in rest or "@" in rest:
            return False
        return self._is_ours(rest) if self._loopback else rest == host


def _token(headers: Mapping[bytes, bytes]) -> str:
    scheme, _, credential = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and (token := credential.strip()):
        return _text(token)
    if key := headers.get(b"api-key"):
        return _text(key)
    raise Unauthenticated(
        "The request carries no credential.", hint="send `Authorization: Bearer KEY`; `toolcrib key create` issues one"
    )


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and port.isdigit() else host


def _is_loopback_address(name: str) -> bool:
    parts = name.split(".")
    return len(parts) == 4 and parts[0] == "127" and all(map(_is_byte, parts))


def _is_byte(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3 and int(text) < 256

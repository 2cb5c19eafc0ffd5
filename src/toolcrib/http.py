"""One HTTP request, one answer and the way back: all that handlers know of HTTP.

Routing, authentication and the mapping of failures live in `web`; this only carries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec

from toolcrib.domain import Principal
from toolcrib.errors import InvalidPayload, UnsupportedMedia

T = TypeVar("T")
Header = tuple[bytes, bytes]

_MOST_QUERY_FIELDS = 100
JSON: Header = (b"content-type", b"application/json")


class Channel(Protocol):
    """The way back to the client of one request, for handlers that take long or answer piece by piece."""

    is_gone: bool
    """The client has closed the connection."""
    on_gone: Callable[[], None] | None
    """Called when it does so. Without one a handler simply runs to its end."""

    def cancel(self) -> None:
        """Cancel the task that serves this request."""
        ...

    def start(self, headers: Sequence[Header]) -> None:
        """Begin a 200 of unknown length."""
        ...

    async def write(self, piece: bytes) -> None:
        """Send a piece at once; waits while the client is slow to read."""
        ...

    async def end(self, piece: bytes = b"") -> None:
        """The last piece."""
        ...


class Request(msgspec.Struct):
    """A request that has been let in."""

    params: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[bytes, bytes]
    principal: Principal
    body: bytes
    request_id: str
    raw_headers: Sequence[Header]  # as they came, repeated ones included
    channel: Channel
    begun: Any = None  # what the handler did for it before it was served

    @property
    def project(self) -> str:
        return self.params["project"]


class Response(msgspec.Struct, frozen=True):
    status: int
    body: bytes = b""
    headers: tuple[Header, ...] = (JSON,)


NO_CONTENT = Response(204, b"", ())


def parse_query(raw: bytes) -> Mapping[str, str]:
    try:
        return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_QUERY_FIELDS))
    except ValueError:
        raise InvalidPayload(f"The query has more than {_MOST_QUERY_FIELDS} parameters.", param="query") from None


def repeated(headers: Sequence[Header], names: Collection[bytes]) -> str | None:
    """The first of these headers that came more than once: readers differ in which of two they take."""
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in names:
            if name in seen:
                return name.decode("ascii")
            seen.add(name)
    return None


def answer(value: object, *headers: Header, status: int = 200) -> Response:
    return Response(status, msgspec.json.encode(value), (JSON, *headers))


def read_json(request: Request, shape: type[T]) -> T:
    """The body as one of our wire shapes, or a refusal that names the field."""
    content_type = request.headers.get(b"content-type", b"application/json").partition(b";")[0].strip().lower()
    if content_type != b"application/json" and not content_type.endswith(b"+json"):
        raise UnsupportedMedia(
            f"The body is {content_type.decode('latin-1')!r}; this route reads application/json.", param="Content-Type"
        )
    try:
        value = msgspec.json.decode(request.body, type=shape)
        json.loads(request.body, object_pairs_hook=_refuse_repeats)
        return value
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$")
        param = at.strip("`.").replace("[...]", "") or _named_field(what) or "body"
        raise InvalidPayload(f"{param}: {what}.", param=param) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidPayload(f"The body is not JSON: {error}.", param="body") from None
    except RecursionError:
        raise InvalidPayload("The body nests too deeply.", param="body") from None


def _named_field(what: str) -> str:
    """msgspec names a missing or unknown field in backticks after the word `field`."""
    return what.rpartition("field `")[2].rstrip("`") if "field `" in what else ""


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> None:
    """A field sent twice has no one meaning: readers differ in which they take."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise InvalidPayload(f"The body has the field {name[:100]!r} twice in one object.", param=name[:100])
        seen.add(name)

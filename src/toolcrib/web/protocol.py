"""Bytes that are no HTTP request are refused with the error envelope too, not with the server library's plain text.

Everything else about HTTP/1.1 is uvicorn's business.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from toolcrib.errors import BadRequest
from toolcrib.web.problems import problem


class EnvelopeProtocol(HttpToolsProtocol):
    """uvicorn's protocol with our words for what cannot be parsed."""

    def send_400_response(self, msg: str) -> None:
        response = problem(BadRequest("This is not a valid HTTP/1.1 request.", hint="check method, path and headers"))
        head = [b"HTTP/1.1 400 Bad Request", b"connection: close", b"content-length: %d" % len(response.body)]
        lines = [*head, *(b": ".join(header) for header in response.headers)]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + response.body)
        self.transport.close()

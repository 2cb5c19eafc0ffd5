"""Whether the process is up and ready, and the description of the API."""

from __future__ import annotations

from toolcrib import __version__, wire
from toolcrib.http import JSON, Request, Response, answer
from toolcrib.toolboxes.crib import Crib


async def healthz(crib: Crib, request: Request) -> Response:
    return answer(wire.Health("ok", __version__))


async def readyz(crib: Crib, request: Request) -> Response:
    await crib.access.projects()  # proves that the database answers
    return answer(wire.Health("ok", __version__))


async def openapi(crib: Crib, request: Request) -> Response:
    return Response(200, crib.openapi, (JSON,))

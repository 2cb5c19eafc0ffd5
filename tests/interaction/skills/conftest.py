"""A client of the running server, and names nobody else uses."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx2
import pytest

from kit.running import Server


@pytest.fixture
def client(server: Server) -> Iterator[httpx2.Client]:
    with server.client() as it:
        yield it


@pytest.fixture
def name() -> str:
    return f"skill-{uuid.uuid4().hex[:10]}"

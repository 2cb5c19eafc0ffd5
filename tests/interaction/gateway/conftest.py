"""One server for the tests of the gateway that do not break it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.interaction.gateway.front_door import Gate, gate
from tests.kit.running import Server, running


@pytest.fixture(scope="session")
def gateway_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    limits = {"TOOLCRIB_MAX_RESULT_BYTES": "1000000", "TOOLCRIB_CALL_TIMEOUT_S": "20"}
    with running(tmp_path_factory.mktemp("gateway") / "crib", environment=limits) as it:
        yield it
    log = it.log.read_text()
    assert "Traceback" not in log, log[-5000:]


@pytest.fixture(scope="module")
async def door(gateway_server: Server) -> AsyncIterator[Gate]:
    async with gate(gateway_server) as it:
        yield it

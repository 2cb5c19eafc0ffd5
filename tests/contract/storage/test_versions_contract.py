"""What storage promises about versions and the default pointer, on both engines, by the front door."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from tests.kit.running import Server

WEB: dict[str, Any] = {"tools": [{"type": "web_search"}]}


@pytest.fixture
def client(either_server: Server) -> Iterator[httpx2.Client]:
    with either_server.client() as it:
        yield it


@pytest.fixture
def name() -> str:
    return f"box-{uuid.uuid4().hex[:12]}"


def create(client: httpx2.Client, name: str, times: int = 1) -> list[dict[str, Any]]:
    return [client.post(f"/toolboxes/{name}/versions", json=WEB).raise_for_status().json() for _ in range(times)]


def promote(client: httpx2.Client, name: str, to: object, if_match: str | None = None) -> httpx2.Response:
    headers = {} if if_match is None else {"if-match": if_match}
    return client.patch(f"/toolboxes/{name}", json={"default_version": str(to)}, headers=headers)


def numbers(client: httpx2.Client, name: str, **query: object) -> list[int]:
    answer = client.get(f"/toolboxes/{name}/versions", params={"api-version": "v1", "limit": 100, **query})
    return [int(v["version"]) for v in answer.raise_for_status().json()["data"]]


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_a_hundred_at_once_get_a_hundred_numbers(client: httpx2.Client, name: str) -> None:
    with ThreadPoolExecutor(32) as crowd:
        answers = list(crowd.map(lambda _: client.post(f"/toolboxes/{name}/versions", json=WEB), range(100)))
    assert {a.status_code for a in answers} == {200}
    assert sorted(int(a.json()["version"]) for a in answers) == list(range(1, 101))
    box = client.get(f"/toolboxes/{name}").json()
    assert (box["default_version"], box["versions"]["latest"]["version"]) == ("1", "100")
    assert [p["to_version"] for p in client.get(f"/toolboxes/{name}/promotions").json()["data"]] == ["1"]


def test_the_first_version_becomes_the_default_and_no_later_one_does(client: httpx2.Client, name: str) -> None:
    create(client, name, 3)
    assert client.get(f"/toolboxes/{name}").json()["default_version"] == "1"


def test_a_number_is_never_used_again(client: httpx2.Client, name: str) -> None:
    create(client, name, 3)
    assert client.delete(f"/toolboxes/{name}/versions/3").status_code == 204
    assert create(client, name)[0]["version"] == "4"
    assert client.delete(f"/toolboxes/{name}").status_code == 204
    assert code(client.get(f"/toolboxes/{name}")) == (404, "not_found")
    again = create(client, name, 2)
    assert [v["version"] for v in again] == ["5", "6"]
    box = client.get(f"/toolboxes/{name}").json()
    assert box["default_version"] == "5"
    assert code(client.get(f"/toolboxes/{name}/versions/1")) == (404, "not_found")


def test_versions_are_what_was_sent_for_ever(client: httpx2.Client, name: str) -> None:
    first = client.post(f"/toolboxes/{name}/versions", json={**WEB, "description": "one"}).json()
    client.post(f"/toolboxes/{name}/versions", json={**WEB, "description": "two"}).raise_for_status()
    promote(client, name, 2).raise_for_status()
    assert client.get(f"/toolboxes/{name}/versions/1").json() == first


def test_promotion_is_recorded_with_who_when_from_and_to(client: httpx2.Client, name: str) -> None:
    create(client, name, 3)
    for to in (2, 3, 2, 2):
        assert promote(client, name, to).json()["default_version"] == str(to)
    history = client.get(f"/toolboxes/{name}/promotions").json()["data"]
    assert [(p["from_version"], p["to_version"]) for p in history] == [("3", "2"), ("2", "3"), ("1", "2"), (None, "1")]
    assert {p["by"] for p in history} == {"operator"}
    assert all(isinstance(p["at"], int) and p["at"] > 1_700_000_000 for p in history)


def test_promoting_what_is_not_there_changes_nothing(client: httpx2.Client, name: str) -> None:
    create(client, name)
    assert code(promote(client, name, 2)) == (404, "not_found")
    assert client.get(f"/toolboxes/{name}").json()["default_version"] == "1"
    assert code(promote(client, f"{name}-other", 1)) == (404, "not_found")


def test_if_match_refuses_a_promotion_from_a_state_that_is_gone(client: httpx2.Client, name: str) -> None:
    create(client, name, 3)
    tag = client.get(f"/toolboxes/{name}").headers["etag"]
    moved = promote(client, name, 2, tag)
    assert (moved.status_code, moved.headers["etag"]) == (200, '"2"')
    assert code(promote(client, name, 3, tag)) == (412, "precondition_failed")
    assert promote(client, name, 3, "*").status_code == 200
    assert client.get(f"/toolboxes/{name}").json()["default_version"] == "3"


def test_of_many_promotions_from_one_state_exactly_one_wins(client: httpx2.Client, name: str) -> None:
    create(client, name, 20)
    with ThreadPoolExecutor(16) as crowd:
        answers = list(crowd.map(lambda to: promote(client, name, to, '"1"'), range(2, 21)))
    won = [a for a in answers if a.status_code == 200]
    assert len(won) == 1
    assert {a.status_code for a in answers if a not in won} == {412}
    assert client.get(f"/toolboxes/{name}").json()["default_version"] == won[0].json()["default_version"]
    assert len(client.get(f"/toolboxes/{name}/promotions").json()["data"]) == 2


def test_unconditional_promotions_at_once_make_one_unbroken_chain(client: httpx2.Client, name: str) -> None:
    create(client, name, 10)
    with ThreadPoolExecutor(10) as crowd:
        answers = list(crowd.map(lambda to: promote(client, name, to), [*range(1, 11)] * 3))
    assert {a.status_code for a in answers} == {200}
    history = client.get(f"/toolboxes/{name}/promotions", params={"api-version": "v1", "limit": 100, "order": "asc"})
    moves = [(p["from_version"], p["to_version"]) for p in history.json()["data"]]
    assert all(before[1] == after[0] for before, after in itertools.pairwise(moves))
    assert client.get(f"/toolboxes/{name}").json()["default_version"] == moves[-1][1]


def test_the_default_cannot_be_deleted_while_others_are_there(client: httpx2.Client, name: str) -> None:
    create(client, name, 2)
    assert code(client.delete(f"/toolboxes/{name}/versions/1")) == (400, "bad_request")
    promote(client, name, 2)
    assert client.delete(f"/toolboxes/{name}/versions/1").status_code == 204
    assert code(client.delete(f"/toolboxes/{name}/versions/1")) == (404, "not_found")
    assert client.delete(f"/toolboxes/{name}/versions/2").status_code == 204
    assert code(client.get(f"/toolboxes/{name}")) == (404, "not_found")
    assert code(client.delete(f"/toolboxes/{name}")) == (404, "not_found")
    assert name not in {b["name"] for b in client.get("/toolboxes").json()["data"]}


def test_deletions_and_creations_at_once_leave_one_true_state(client: httpx2.Client, name: str) -> None:
    create(client, name)

    def either(i: int) -> int:
        if i % 5 == 0:
            return client.delete(f"/toolboxes/{name}").status_code
        return client.post(f"/toolboxes/{name}/versions", json=WEB).status_code

    with ThreadPoolExecutor(16) as crowd:
        statuses = set(crowd.map(either, range(60)))
    assert statuses <= {200, 204, 404}
    created = int(create(client, name)[0]["version"])
    seen = numbers(client, name)
    box = client.get(f"/toolboxes/{name}").json()
    assert seen == sorted(seen, reverse=True)
    assert int(box["versions"]["latest"]["version"]) == seen[0] == created
    assert int(box["default_version"]) in seen


def test_what_memory_answers_is_what_the_lists_say(client: httpx2.Client, name: str) -> None:
    """Reads of one toolbox come from memory, lists from the database; after every kind of write they agree."""

    def agree() -> None:
        box = client.get(f"/toolboxes/{name}").json()
        listed = [b for b in client.get("/toolboxes").json()["data"] if b["name"] == name]
        assert listed == [box]
        for number in numbers(client, name):
            one = client.get(f"/toolboxes/{name}/versions/{number}").json()
            assert one in client.get(f"/toolboxes/{name}/versions").json()["data"]

    create(client, name)
    agree()
    create(client, name, 2)
    agree()
    promote(client, name, 2)
    agree()
    client.delete(f"/toolboxes/{name}/versions/3")
    agree()
    client.delete(f"/toolboxes/{name}/versions/1")
    agree()


# --- pages -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def five(client: httpx2.Client, name: str) -> list[str]:
    """The ids of five versions, oldest first."""
    return [v["id"] for v in create(client, name, 5)]


@pytest.mark.parametrize(
    ("query", "expected", "has_more"),
    [
        ({}, [5, 4, 3, 2, 1], False),
        ({"limit": 2}, [5, 4], True),
        ({"limit": 5}, [5, 4, 3, 2, 1], False),
        ({"order": "asc", "limit": 2}, [1, 2], True),
        ({"order": "asc", "after": 2}, [3, 4, 5], False),
        ({"order": "asc", "after": 2, "limit": 2}, [3, 4], True),
        ({"after": 2}, [1], False),
        ({"after": 1}, [], False),
        ({"order": "asc", "before": 4}, [1, 2, 3], False),
        ({"order": "asc", "before": 4, "limit": 2}, [2, 3], True),
        ({"before": 2, "limit": 2}, [4, 3], True),
        ({"order": "asc", "after": 1, "before": 5}, [2, 3, 4], False),
        ({"order": "asc", "after": 1, "before": 5, "limit": 2}, [2, 3], True),
    ],
)
def test_pages_of_versions(
    client: httpx2.Client, name: str, five: list[str], query: dict[str, Any], expected: list[int], has_more: bool
) -> None:
    cursors = {k: five[v - 1] if k in ("after", "before") else v for k, v in query.items()}
    page = client.get(f"/toolboxes/{name}/versions", params={"api-version": "v1", **cursors}).json()
    assert [int(v["version"]) for v in page["data"]] == expected
    assert page["has_more"] is has_more
    assert page["first_id"] == (page["data"][0]["id"] if expected else None)
    assert page["last_id"] == (page["data"][-1]["id"] if has_more else None)


def test_a_cursor_still_means_something_after_its_row_is_gone(
    client: httpx2.Client, name: str, five: list[str]
) -> None:
    client.delete(f"/toolboxes/{name}/versions/3")
    assert numbers(client, name, order="asc", after=five[2]) == [4, 5]


def python_loop(client: httpx2.Client, path: str, limit: int) -> list[str]:
    """azure-ai-projects: again with `after` for as long as there is a `last_id`."""
    seen, after = list[str](), None
    for _ in range(100):
        query = {"api-version": "v1", "limit": limit, **({"after": after} if after else {})}
        page = client.get(path, params=query).json()
        seen += [item["id"] for item in page["data"]]
        after = page.get("last_id")
        if not after:
            return seen
    raise AssertionError("the Python client would never end")


def javascript_loop(client: httpx2.Client, path: str, limit: int) -> list[str]:
    """@azure/ai-projects: only while `has_more` is true and `last_id` is set."""
    seen, after = list[str](), None
    for _ in range(100):
        query = {"api-version": "v1", "limit": limit, **({"after": after} if after else {})}
        page = client.get(path, params=query).json()
        seen += [item["id"] for item in page["data"]]
        if page["has_more"] is not True or not page["last_id"]:
            return seen
        after = page["last_id"]
    raise AssertionError("the JavaScript client would never end")


def azd_loop(client: httpx2.Client, path: str, limit: int) -> list[str]:
    """azd: while `has_more` and the page holds something, by `last_id` or the last item's id."""
    seen, after = list[str](), None
    for _ in range(100):
        query = {"api-version": "v1", "limit": limit, **({"after": after} if after else {})}
        page = client.get(path, params=query).json()
        seen += [item["id"] for item in page["data"]]
        if not page["has_more"] or not page["data"]:
            return seen
        after = page["last_id"] or page["data"][-1]["id"]
    raise AssertionError("azd would never end")


@pytest.mark.parametrize("loop", [python_loop, javascript_loop, azd_loop])
@pytest.mark.parametrize("limit", [1, 2, 5, 6])
def test_the_three_official_loops_end_with_every_item_once(
    client: httpx2.Client, name: str, five: list[str], loop: Any, limit: int
) -> None:
    assert loop(client, f"/toolboxes/{name}/versions", limit) == five[::-1]
    for to in (2, 3, 4):
        promote(client, name, to)
    assert loop(client, f"/toolboxes/{name}/promotions", limit) == ["4", "3", "2", "1"]

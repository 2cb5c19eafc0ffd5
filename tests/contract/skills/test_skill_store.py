"""The store of skills over REST, on both engines: exact statuses, immutable versions, and references that hold."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import uuid
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from kit.running import Server


@pytest.fixture
def client(either_server: Server) -> Iterator[httpx2.Client]:
    with either_server.client() as it:
        yield it


@pytest.fixture
def name() -> str:
    return f"skill-{uuid.uuid4().hex[:10]}"


def md(name: str, description: str = "For tests.", body: str = "Body.") -> bytes:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n".encode()


def inline(description: str = "For tests.", **more: Any) -> dict[str, Any]:
    return {"inline_content": {"description": description, "instructions": "Body.", **more}}


def upload(client: httpx2.Client, name: str, files: dict[str, bytes], default: str | None = None) -> httpx2.Response:
    form = [("files", (path, data)) for path, data in files.items()]
    fields = {} if default is None else {"default": default}
    return client.post(f"/skills/{name}/versions", files=form, data=fields)


def error(answer: httpx2.Response) -> tuple[int, str, str | None]:
    problem = answer.json()["error"]
    return answer.status_code, problem["code"], problem.get("param")


def delete(client: httpx2.Client, path: str, **query: str) -> httpx2.Response:
    return client.delete(path, params={"api-version": "v1", **query})


def test_a_skill_lives_and_dies_with_the_contracts_statuses(client: httpx2.Client, name: str) -> None:
    made = client.post(f"/skills/{name}/versions", json=inline("First."))
    assert made.status_code == 200
    version = made.json()
    assert set(version) >= {"id", "skill_id", "name", "version", "description", "created_at"}
    assert (version["name"], version["version"], version["description"]) == (name, "1", "First.")
    skill = client.get(f"/skills/{name}")
    assert skill.status_code == 200
    assert skill.json() == {
        "id": version["skill_id"],
        "name": name,
        "description": "First.",
        "created_at": version["created_at"],
        "default_version": "1",
        "latest_version": "1",
    }
    assert upload(client, name, {"SKILL.md": md(name, "Second.")}).json()["version"] == "2"
    assert client.get(f"/skills/{name}").json()["default_version"] == "1"
    moved = client.post(f"/skills/{name}", json={"default_version": "2"})
    assert (moved.status_code, moved.json()["default_version"], moved.json()["description"]) == (200, "2", "Second.")
    assert [v["version"] for v in client.get(f"/skills/{name}/versions").json()["data"]] == ["2", "1"]
    assert client.get(f"/skills/{name}/versions/1").json() == version
    gone = delete(client, f"/skills/{name}/versions/1")
    assert (gone.status_code, gone.json()) == (
        200,
        {"id": version["id"], "name": name, "version": "1", "deleted": True},
    )
    gone = delete(client, f"/skills/{name}")
    assert (gone.status_code, gone.json()) == (200, {"id": version["skill_id"], "name": name, "deleted": True})
    for path in ("", "/versions", "/versions/2", "/content", "/versions/2/content"):
        assert error(client.get(f"/skills/{name}{path}"))[:2] == (404, "not_found")


def test_numbers_go_on_after_a_deletion(client: httpx2.Client, name: str) -> None:
    for expected in ("1", "2", "3"):
        assert client.post(f"/skills/{name}/versions", json=inline()).json()["version"] == expected
        delete(client, f"/skills/{name}/versions/{expected}")
    assert client.get(f"/skills/{name}").status_code == 404


@pytest.mark.parametrize(("sent", "moves"), [("True", True), ("true", True), ("False", False), ("false", False)])
def test_default_is_read_as_python_and_azd_write_it(client: httpx2.Client, name: str, sent: str, moves: bool) -> None:
    upload(client, name, {"SKILL.md": md(name)})
    upload(client, name, {"SKILL.md": md(name)}, sent)
    assert client.get(f"/skills/{name}").json()["default_version"] == ("2" if moves else "1")
    client.post(f"/skills/{name}/versions", json={**inline(), "default": moves})
    assert client.get(f"/skills/{name}").json()["default_version"] == ("3" if moves else "1")


def test_download_then_create_gives_the_same_bytes_and_the_same_digest(client: httpx2.Client, name: str) -> None:
    files = {"SKILL.md": md(name), "references/é x.md": b"A\r\n\0B", "scripts/run.py": b"print()", "empty.txt": b""}
    first = upload(client, name, files).json()
    packed = client.get(f"/skills/{name}/content")
    assert (packed.status_code, packed.headers["content-type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert {path: archive.read(path) for path in archive.namelist()} == files
    as_part = client.post(
        f"/skills/{name}/versions", files=[("files", ("any.zip", packed.content, "application/zip"))]
    ).json()
    as_body = client.post(
        f"/skills/{name}/versions", content=packed.content, headers={"content-type": "application/zip"}
    ).json()
    for version in (as_part, as_body):
        assert (version["digest"], version["files"]) == (first["digest"], first["files"])
        assert client.get(f"/skills/{name}/versions/{version['version']}/content").content == packed.content


def test_an_inline_skill_can_be_downloaded_and_created_again(client: httpx2.Client, name: str) -> None:
    first = client.post(
        f"/skills/{name}/versions",
        json=inline(license="MIT", compatibility="any", metadata={"a": "1.0"}, allowed_tools=["docs.search", "b"]),
    ).json()
    packed = client.get(f"/skills/{name}/content").content
    again = client.post(f"/skills/{name}/versions", files=[("files", (f"{name}.zip", packed))]).json()
    assert again["digest"] == first["digest"]


def test_a_folder_that_was_packed_whole_is_the_skill_inside_it(client: httpx2.Client, name: str) -> None:
    made = upload(client, name, {f"{name}/SKILL.md": md(name), f"{name}/a/b.md": b"x"}).json()
    assert [f["path"] for f in made["files"]] == ["SKILL.md", "a/b.md"]


@pytest.mark.parametrize(
    ("files", "param"),
    [
        ({"README.md": b"x"}, "files"),
        ({"skill.md": b"x"}, "files"),
        ({"SKILL.md": b"no head"}, "SKILL.md"),
        ({"SKILL.md": md("another-name")}, "name"),
        ({"SKILL.md": md("x"), "../x": b""}, "files"),
        ({"SKILL.md": md("x"), "C:\\x": b""}, "files"),
        ({"SKILL.md": md("x"), "/etc/passwd": b""}, "files"),
        ({"SKILL.md": md("x"), "a.md": b"", "A.md": b""}, "files"),
    ],
)
def test_files_that_make_no_skill_are_refused_and_nothing_is_kept(
    client: httpx2.Client, name: str, files: dict[str, bytes], param: str
) -> None:
    assert error(upload(client, name, files)) == (400, "invalid_payload", param)
    assert client.get(f"/skills/{name}").status_code == 404
    assert client.post(f"/skills/{name}/versions", json=inline()).json()["version"] == "1"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "inline_content"),
        ({"inline_content": {}}, "inline_content"),
        (inline(""), "inline_content.description"),
        (inline("d" * 1025), "inline_content.description"),
        (inline("a\0b"), "description"),
        (inline(compatibility="c" * 501), "inline_content.compatibility"),
        (inline(metadata={"a": 1}), "inline_content.metadata"),
        (inline(metadata={"io.modelcontextprotocol/x": "y"}), "metadata.io.modelcontextprotocol/x"),
        (inline(allowed_tools="a b"), "inline_content.allowed_tools"),
        (inline(allowed_tools=["a b"]), "allowed_tools"),
        (inline(unknown=1), "inline_content"),
        ({**inline(), "defualt": True}, "defualt"),
    ],
)
def test_inline_content_that_makes_no_skill_is_refused(
    client: httpx2.Client, name: str, body: dict[str, Any], param: str
) -> None:
    status, code, at = error(client.post(f"/skills/{name}/versions", json=body))
    assert (status, code) == (400, "invalid_payload")
    assert at is not None
    assert at.startswith(param), at


@pytest.mark.parametrize("bad", ["A", "a_b", "-a", "a--b", "a" * 65, "a.b", "%C3%A9", "a%0A"])
def test_a_name_that_the_format_does_not_allow_is_refused(client: httpx2.Client, bad: str) -> None:
    assert error(client.post(f"/skills/{bad}/versions", json=inline())) == (400, "invalid_payload", "name")
    assert client.get(f"/skills/{bad}").status_code == 404
    assert client.get(f"/skills/{bad}/content").status_code == 404


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"--x--"),
        ("multipart/form-data; boundary=x", b""),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data; name=files\r\n\r\nabc"),
        ("multipart/form-data; boundary=x", b"--x--\r\n"),
        ("multipart/form-data; boundary=" + "x" * 1000, b"--x--\r\n"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="f"\r\n\r\na\r\n--x--\r\n'),
        ("application/zip", b"not a zip"),
    ],
)
def test_a_body_that_is_no_upload_is_refused(client: httpx2.Client, name: str, content_type: str, body: bytes) -> None:
    answer = client.post(f"/skills/{name}/versions", content=body, headers={"content-type": content_type})
    assert error(answer)[:2] == (400, "invalid_payload"), answer.text


def test_another_content_type_is_415(client: httpx2.Client, name: str) -> None:
    answer = client.post(f"/skills/{name}/versions", content=b"x", headers={"content-type": "text/plain"})
    assert error(answer)[:2] == (415, "unsupported_media_type")


def test_more_parts_than_a_skill_may_have_are_413(client: httpx2.Client, name: str) -> None:
    files = {"SKILL.md": md(name), **{f"{n}.md": b"" for n in range(512)}}
    assert error(upload(client, name, files))[:2] == (413, "payload_too_large")
    assert error(upload(client, name, {**files, **{f"x{n}.md": b"" for n in range(900)}}))[:2] == (
        413,
        "payload_too_large",
    )


def test_an_upload_over_the_limit_is_413(client: httpx2.Client, name: str) -> None:
    answer = client.post(
        f"/skills/{name}/versions", content=b"\0" * (27 * 2**20), headers={"content-type": "application/zip"}
    )
    assert error(answer)[:2] == (413, "payload_too_large")
    answer = client.post(f"/skills/{name}/versions", files=[("files", ("a.zip", b"PK\x03\x04" + b"\0" * (25 * 2**20)))])
    assert error(answer)[:2] == (413, "payload_too_large")


def test_pages_hold_every_skill_and_every_version_once(client: httpx2.Client, name: str) -> None:
    for number in range(12):
        client.post(f"/skills/{name}-{number}/versions", json=inline())
    for _ in range(7):
        client.post(f"/skills/{name}/versions", json=inline())

    def walk(path: str, key: str, **query: str) -> list[str]:
        found: list[str] = []
        after: dict[str, str] = {}
        while True:
            page = client.get(path, params={"api-version": "v1", "limit": "5", **query, **after}).json()
            found += [item[key] for item in page["data"]]
            if not page["has_more"]:
                assert page["last_id"] is None
                return found
            after = {"after": page["last_id"]}

    mine = [n for n in walk("/skills", "name") if n.startswith(f"{name}-")]
    assert mine == [f"{name}-{n}" for n in reversed(range(12))]
    assert walk(f"/skills/{name}/versions", "version", order="asc") == [str(n) for n in range(1, 8)]


# --- references ------------------------------------------------------------------------------------------------------


def attach(client: httpx2.Client, toolbox: str, *skills: tuple[str, str | None]) -> httpx2.Response:
    entries = [{"type": "skill_reference", "name": n} | ({"version": v} if v else {}) for n, v in skills]
    return client.post(f"/toolboxes/{toolbox}/versions", json={"tools": [], "skills": entries})


def read(client: httpx2.Client, toolbox: str, uri: str) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}}
    return client.post(f"/toolboxes/{toolbox}/mcp", json=message).json()


def test_a_reference_to_what_does_not_exist_is_refused_and_nothing_is_created(client: httpx2.Client, name: str) -> None:
    assert error(attach(client, name, (name, None))) == (400, "invalid_payload", "skills[0]")
    client.post(f"/skills/{name}/versions", json=inline())
    assert error(attach(client, name, (name, "2"))) == (400, "invalid_payload", "skills[0]")
    assert client.get(f"/toolboxes/{name}").status_code == 404
    assert attach(client, name, (name, "1")).json()["version"] == "1"


def test_an_unpinned_reference_follows_the_default_and_a_pinned_one_stays(client: httpx2.Client, name: str) -> None:
    client.post(f"/skills/{name}/versions", json=inline("First."))
    attach(client, f"{name}-follows", (name, None))
    attach(client, f"{name}-stays", (name, "1"))
    uri = f"skill://{name}/SKILL.md"
    before = read(client, f"{name}-follows", uri)
    assert before == read(client, f"{name}-stays", uri)
    client.post(f"/skills/{name}/versions", json=inline("Second."))
    assert read(client, f"{name}-follows", uri) == before
    client.post(f"/skills/{name}", json={"default_version": "2"})
    assert "Second." in read(client, f"{name}-follows", uri)["result"]["contents"][0]["text"]
    assert read(client, f"{name}-stays", uri) == before


def test_a_skill_in_use_is_409_with_the_toolboxes_named_until_forced(client: httpx2.Client, name: str) -> None:
    client.post(f"/skills/{name}/versions", json=inline())
    client.post(f"/skills/{name}/versions", json=inline())
    boxes = [f"{name}-a", f"{name}-b"]
    attach(client, boxes[0], (name, None))
    attach(client, boxes[1], (name, "2"))
    refused = delete(client, f"/skills/{name}")
    assert error(refused)[:2] == (409, "skill_in_use")
    assert all(box in refused.json()["error"]["message"] for box in boxes)
    assert refused.json()["error"]["additionalInfo"]["toolboxes"] == boxes
    assert error(delete(client, f"/skills/{name}/versions/2"))[:2] == (409, "skill_in_use")
    assert error(delete(client, f"/skills/{name}/versions/1"))[:2] == (400, "bad_request")
    assert error(delete(client, f"/skills/{name}", force="perhaps"))[:2] == (400, "invalid_payload")
    assert delete(client, f"/skills/{name}/versions/2", force="true").status_code == 200
    assert delete(client, f"/skills/{name}", force="true").json()["deleted"] is True
    assert read(client, boxes[0], f"skill://{name}/SKILL.md")["error"]["code"] == -32002
    listed = {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {}}
    assert client.post(f"/toolboxes/{boxes[0]}/mcp", json=listed).json()["result"]["resources"] == []


def test_only_default_versions_keep_a_skill_alive(client: httpx2.Client, name: str) -> None:
    client.post(f"/skills/{name}/versions", json=inline())
    attach(client, name, (name, None))
    client.post(f"/toolboxes/{name}/versions", json={"tools": [{"type": "web_search"}]})
    client.patch(f"/toolboxes/{name}", json={"default_version": "2"})
    assert delete(client, f"/skills/{name}").status_code == 200


def test_a_skill_of_another_project_is_out_of_reach(either_server: Server, client: httpx2.Client, name: str) -> None:
    client.post(f"{either_server.address}/api/projects", json={"name": name}).raise_for_status()
    client.post(f"{either_server.project(name)}/skills/{name}/versions", json=inline()).raise_for_status()
    assert client.get(f"/skills/{name}").status_code == 404
    assert error(attach(client, name, (name, None)))[:2] == (400, "invalid_payload")
    client.delete(f"{either_server.address}/api/projects/{name}").raise_for_status()
    client.post(f"{either_server.address}/api/projects", json={"name": name}).raise_for_status()
    assert client.get(f"{either_server.project(name)}/skills/{name}").status_code == 404
    made = client.post(f"{either_server.project(name)}/skills/{name}/versions", json=inline())
    assert made.json()["version"] == "2"


def at_once(server: Server, *works: Callable[[httpx2.Client], httpx2.Response]) -> list[httpx2.Response]:
    """The answers of several clients that asked at the same moment."""
    barrier = threading.Barrier(len(works), timeout=30)

    def run(work: Callable[[httpx2.Client], httpx2.Response]) -> httpx2.Response:
        with server.client() as client:
            barrier.wait()
            return work(client)

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works, timeout=60))


def test_attaching_and_deleting_at_once_never_leaves_a_default_version_without_its_skill(
    either_server: Server, client: httpx2.Client, name: str
) -> None:
    for number in range(8):
        skill = f"{name}-{number}"
        client.post(f"/skills/{skill}/versions", json=inline())
        answers = at_once(
            either_server,
            lambda c, s=skill: attach(c, s, (s, None)),
            lambda c, s=skill: delete(c, f"/skills/{s}"),
        )
        statuses = tuple(answer.status_code for answer in answers)
        assert statuses in ((200, 409), (400, 200)), [answer.text for answer in answers]


def test_versions_created_at_once_get_numbers_of_their_own(
    either_server: Server, client: httpx2.Client, name: str
) -> None:
    works = [lambda c: c.post(f"/skills/{name}/versions", json=inline())] * 8
    numbers = [answer.json()["version"] for answer in at_once(either_server, *works)]
    assert sorted(numbers) == [str(n) for n in range(1, 9)]
    assert client.get(f"/skills/{name}").json()["latest_version"] == "8"


def test_readers_of_a_skill_that_changes_see_one_version_or_the_other_and_never_a_mixture(
    either_server: Server, name: str
) -> None:
    """Index, list and body carry digests; whatever a reader gets, it fits a version that was whole."""
    with either_server.client() as client:
        bodies: dict[str, str] = {}
        for number in range(1, 3):
            made = upload(client, name, {"SKILL.md": md(name, f"Version {number}."), "n.md": b"%d" % number}).json()
            bodies[made["files"][0]["digest"]] = made["files"][1]["digest"]
        attach(client, name, (name, None))
        stop = threading.Event()
        torn: list[str] = []

        def reading() -> None:
            with either_server.client() as reader:
                while not stop.is_set():
                    message = {"jsonrpc": "2.0", "id": 1, "method": "skills/list", "params": {}}
                    entry = reader.post(f"/toolboxes/{name}/mcp", json=message).json()["result"]["skills"][0]
                    digests = [r["digest"] for r in entry["resources"]]
                    if bodies.get(digests[0]) != digests[1]:
                        torn.append(json.dumps(entry))
                    text = read(reader, name, f"skill://{name}/SKILL.md")["result"]["contents"][0]["text"]
                    if "sha256:" + hashlib.sha256(text.encode()).hexdigest() not in bodies:
                        torn.append(text)

        readers = [threading.Thread(target=reading) for _ in range(3)]
        for thread in readers:
            thread.start()
        for number in range(40):
            answer = client.post(f"/skills/{name}", json={"default_version": str(number % 2 + 1)})
            assert answer.status_code == 200
            text = read(client, name, f"skill://{name}/SKILL.md")["result"]["contents"][0]["text"]
            assert f"Version {number % 2 + 1}." in text  # who changed it reads the change
        stop.set()
        for thread in readers:
            thread.join(30)
    assert not torn

"""The OpenAPI description: served, complete, and true as far as schemathesis can tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from tests.kit.running import Server, running

from toolcrib.web.routes import ROUTES

MODES = {"well-formed": GenerationMode.POSITIVE, "malformed": GenerationMode.NEGATIVE}
EXAMPLES = 25
# What a description cannot say: whether the named thing exists, that a secret header's value is a known one.
NOT_MEANT = {"positive_data_acceptance", "ignored_auth", "missing_required_header"}
SEED = 20261115
PROJECT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
ENTRY = {"type": "mcp", "server_label": "a", "server_url": "http://127.0.0.1:1/mcp", "headers": {"k": "v"}}
CONNECTION = {"properties": {"authType": "None", "category": "RemoteTool", "target": "http://127.0.0.1:1/mcp"}}


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own, with one toolbox that the fuzzer is led to."""
    with running(tmp_path_factory.mktemp("fuzzed") / "crib") as server:
        yield server


@pytest.fixture(scope="module")
def description(server: Server) -> dict[str, Any]:
    with server.client(token="") as client:
        answer = client.get(f"{server.address}/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def test_every_route_is_described_with_its_own_answers_and_no_other_is(description: dict[str, Any]) -> None:
    described = {(m.upper(), p): o for p, operations in description["paths"].items() for m, o in operations.items()}
    assert set(described) == {(r.method, r.path) for r in ROUTES}
    for route in ROUTES:
        responses = described[route.method, route.path]["responses"]
        assert str(route.status) in responses
        assert "default" not in responses
        assert all(status.isdigit() for status in responses)
        assert ("401" in responses) == (route.role is not None)
    operations = [o["operationId"] for o in described.values()]
    assert len(set(operations)) == len(operations)


def operations() -> list[str]:
    return [f"{r.method} {r.path}" for r in ROUTES if not getattr(r, "is_mcp", False)]


@pytest.fixture(scope="module")
def schema(description: dict[str, Any]) -> Any:
    """Without the security schemes: every request brings the operator's token, the role table tells of the others."""
    paths = {p: {m: o | {"security": []} for m, o in ops.items()} for p, ops in description["paths"].items()}
    return schemathesis.openapi.from_dict(description | {"security": [], "paths": paths})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", operations())
def test_schemathesis_finds_no_undocumented_answer(fuzzed: Server, schema: Any, operation: str, mode: str) -> None:
    method, _, path = operation.partition(" ")
    target = schema[path][method]
    checks = [CHECKS.get_one(name) for name in CHECKS.get_all_names() if name not in NOT_MEANT]
    is_empty = method == "GET" and not target.path_parameters and not target.query
    if mode == "malformed" and is_empty:
        return  # nothing of it can be malformed

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=target.as_strategy(MODES[mode]), lead=st.booleans())
    def examine(case: Any, lead: bool) -> None:
        if case.path_parameters and PROJECT_NAME.fullmatch(str(case.path_parameters.get("project"))) and lead:
            case.path_parameters["project"] = "default"
        if mode == "well-formed" and lead:
            lead_to_what_exists(client, case)
        headers = {**(case.headers or {}), "authorization": f"Bearer {fuzzed.token}"}
        answer = case.call(base_url=fuzzed.address, headers=headers)
        assert answer.status_code < 500, answer.text
        case.validate_response(answer, checks=checks, headers=headers)

    with fuzzed.client() as client:
        examine()
    assert "Traceback" not in fuzzed.log.read_text()


def lead_to_what_exists(client: httpx2.Client, case: Any) -> None:
    """Half of the well-formed requests are about things that are there, so that more than refusals is seen."""
    parameters, query = case.path_parameters or {}, case.query or {}
    if "connection" in parameters:
        parameters["connection"] = "known"
        client.put("/connections/known", json=CONNECTION)
    if "name" not in parameters:
        return
    version = client.post("/toolboxes/known/versions", json={"tools": [ENTRY]}).raise_for_status().json()["version"]
    parameters["name"] = "known"
    if "version" in parameters:
        parameters["version"] = version
    if "from" in query:
        query.update({"from": version, "to": version})
    if isinstance(case.body, dict) and "tools" in case.body:
        case.body["tools"] = [ENTRY, {"type": "web_search"}]

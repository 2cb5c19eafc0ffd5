"""The router: what a target means, and how little of a stranger's it remembers."""

from __future__ import annotations

import pytest

from toolcrib.errors import InvalidPayload, NotFound
from toolcrib.web.routes import ROUTES, Router

BOX = b"/api/projects/default/toolboxes/box/mcp?api-version=v1"


@pytest.fixture
def router() -> Router:
    return Router(ROUTES)


@pytest.mark.parametrize("target", [BOX, b"http://localhost:8700" + BOX], ids=["path", "whole URL"])
def test_a_target_is_a_path_or_a_whole_url(router: Router, target: bytes) -> None:
    route, params, query = router.match("POST", target)
    assert route.is_mcp
    assert params == {"project": "default", "name": "box"}
    assert query == {"api-version": "v1"}


@pytest.mark.parametrize("target", [b"*", b"", b"localhost:443", b"//evil.example/healthz"])
def test_anything_else_is_nowhere(router: Router, target: bytes) -> None:
    with pytest.raises(NotFound):
        router.match("GET", target)


def test_a_target_that_comes_back_is_not_worked_out_twice(router: Router) -> None:
    assert router.match("POST", BOX) is router.match("POST", BOX)


def test_a_long_target_is_worked_out_and_forgotten(router: Router) -> None:
    long = BOX + b"&x=" + b"y" * 10_000
    assert router.match("POST", long) is not router.match("POST", long)


def test_a_query_of_very_many_parameters_is_refused(router: Router) -> None:
    with pytest.raises(InvalidPayload, match="more than 100"):
        router.match("GET", b"/healthz?" + b"&".join(b"p%d=" % n for n in range(101)))

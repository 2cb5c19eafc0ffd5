import pytest


@pytest.fixture(params=["reveal", "bridge"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

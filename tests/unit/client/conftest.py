import importlib.util
from pathlib import Path
from typing import Any

import pytest

SURFACE = Path(__file__).parents[3] / "bench" / "client_surface.py"


@pytest.fixture(scope="session")
def surface() -> list[dict[str, Any]]:
    """The benchmark's tools, which live with the benchmark."""
    spec = importlib.util.spec_from_file_location("client_surface", SURFACE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TOOLS

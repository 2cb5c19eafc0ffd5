"""What importing the client costs: nothing heavy, and nothing of the server."""

import json
import subprocess
import sys

HEAVY = {
    *("numpy", "httpx", "httpx2", "msgspec", "click", "yaml", "starlette", "httptools", "mcp", "pydantic", "anyio"),
    *("openai", "anthropic", "pydantic_ai", "agents", "langchain", "langchain_core", "langgraph", "agent_framework"),
}
SERVER = ("app", "web", "api", "gateway", "toolboxes", "catalog", "upstreams", "connections", "storage", "settings")


def loaded_by(code: str) -> set[str]:
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout))


def test_importing_the_client_loads_neither_a_framework_nor_the_engine_nor_the_server() -> None:
    modules = loaded_by("from toolcrib.client import DeferredTools, DeferrablePolicy, tokens, Endpoint")
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()
    ours = {name.split(".")[1] for name in modules if name.startswith("toolcrib.")}
    assert ours == {"client", "errors"}


def test_a_search_by_exact_name_needs_no_engine_either() -> None:
    modules = loaded_by(
        "from toolcrib.client import DeferredTools\n"
        "tools = [{'name': f'tool_{n}'} for n in range(20)]\n"
        "assert DeferredTools(tools).turn('s').search('tool_3').tools"
    )
    assert "numpy" not in modules
    assert not any(name.startswith("toolcrib.search") for name in modules)


def test_the_client_never_imports_the_server_even_when_it_searches() -> None:
    modules = loaded_by(
        "from toolcrib.client import DeferredTools\n"
        "tools = [{'name': f'tool_{n}', 'description': 'weather'} for n in range(20)]\n"
        "DeferredTools(tools).turn('s').search('what is the weather')"
    )
    assert "toolcrib.search" in modules
    assert not modules & {f"toolcrib.{name}" for name in SERVER}


def test_a_name_that_is_not_there_is_an_ordinary_attribute_error() -> None:
    program = "import toolcrib.client\ntry:\n    toolcrib.client.nothing\nexcept AttributeError as e:\n    print(e)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "no attribute 'nothing'" in done.stdout

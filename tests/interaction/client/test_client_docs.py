"""The client guides say only what is there, and the examples run."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
GUIDES = [DOCS / "guides" / "client.md", DOCS / "guides" / "adapters.md"]
EXAMPLES = sorted((DOCS / "examples").glob("client_*.py"))


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_block_is_python_and_every_import_and_attribute_in_it_exists(page: Path) -> None:
    modules: dict[str, object] = {}
    for block in blocks(page):
        tree = compile(block, page.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("toolcrib"):
                modules |= {alias.asname or alias.name: found(node.module, alias.name) for alias in node.names}
    for block in blocks(page):
        for name, attribute in re.findall(r"\b(\w+)\.(\w+)\(", block):
            if name in modules:
                assert hasattr(modules[name], attribute), f"{name}.{attribute}"


def found(module: str, name: str) -> object:
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        return importlib.import_module(f"{module}.{name}")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_run(example: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_there_are_examples() -> None:
    assert [path.name for path in EXAMPLES] == ["client_loop.py", "client_tokens.py"]

"""The rules of the house that a machine can hold us to. What a reviewer says twice becomes a test here."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import toolcrib
from toolcrib import errors
from toolcrib.gateway import replies
from toolcrib.web import problems

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "toolcrib"
LONGEST_MODULE = 500
LONGEST_FUNCTION = 60
MODULES = sorted(SOURCE.rglob("*.py"))
MACHINE_WORDS = re.compile(r"/(?:work)/|--(?:extra-)?index-url|--find[-]links|/simple/")
FORBIDDEN_NAMES = {"manager", "service", "helper", "helpers", "utils", "util", "common", "misc"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def every_error() -> Iterator[type[errors.ToolcribError]]:
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.ToolcribError):
            yield kind


# --- failures --------------------------------------------------------------------------------------------------------


def one_of(kind: type[errors.ToolcribError]) -> errors.ToolcribError:
    more = {"rpc_code": -32603} if kind is errors.UpstreamRefused else {}
    return kind("it did not work", **more)


KINDS = [kind for kind in every_error() if kind is not errors.ToolcribError]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_an_http_answer(kind: type[errors.ToolcribError]) -> None:
    answer = problems.problem(one_of(kind))
    assert 400 <= answer.status < 600
    assert msgspec.json.decode(answer.body)["error"]["code"] == kind.code


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_an_mcp_answer(kind: type[errors.ToolcribError], modern: bool) -> None:
    for method in ("tools/call", "tools/list", "resources/read"):
        status, body = replies.refused(msgspec.Raw(b"7"), one_of(kind), method, modern=modern)
        answer = msgspec.json.decode(body)
        assert 200 <= status < 600
        assert answer["id"] == 7
        assert ("error" in answer) != ("result" in answer)


def test_every_error_is_in_the_tree_at_the_top_and_nothing_else_is() -> None:
    drawn = set(re.findall(r"(?:├──|└──) (\w+)", errors.__doc__ or ""))
    assert drawn | {"ToolcribError"} == {kind.__name__ for kind in every_error()}


def test_codes_are_stable_words() -> None:
    assert all(re.fullmatch(r"[a-z][a-z_]*", kind.code) for kind in every_error())


# --- sizes and words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_opens_with_what_it_is_for(path: Path) -> None:
    text = path.read_text("utf-8")
    if not text.strip():
        return
    assert ast.get_docstring(ast.parse(text)), f"{relative(path)} has no docstring"
    assert len(text.splitlines()) <= LONGEST_MODULE, f"{relative(path)}: look for the second subject"
    assert path.stem not in FORBIDDEN_NAMES


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_functions_can_be_read_at_a_glance(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{relative(path)}: {node.name} has {length} lines"


def test_every_module_can_be_imported_alone() -> None:
    """Nothing happens at import, and no module needs another to have been imported before it."""
    names = [m.name for m in pkgutil.walk_packages(toolcrib.__path__, "toolcrib.") if "__main__" not in m.name]
    for name in names:
        importlib.import_module(name)


def test_the_bare_package_imports_nothing_heavy() -> None:
    heavy = {"numpy", "httptools", "uvloop", "mcp"}
    code = f"import sys, toolcrib; print(sorted(m for m in sys.modules if m.split('.')[0] in {heavy}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_no_committed_file_names_this_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    texts = (".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".json", ".mjs", ".sql", "Makefile", "run")
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if not name or not name.endswith(texts) or not path.is_file() or path == Path(__file__):
            continue
        found = MACHINE_WORDS.search(path.read_text("utf-8", errors="replace"))
        assert found is None, f"{name}: {found and found[0]}"

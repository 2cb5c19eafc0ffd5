"""Writes docs/reference from the code: commands, routes, settings and errors. `--check` fails when a page lags behind.

Nothing on those pages is typed by hand, so nothing on them can be forgotten. Knows the shape of the pages only.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from toolcrib import errors, settings
from toolcrib.cli import failures
from toolcrib.cli.main import toolcrib
from toolcrib.web import openapi, problems, routes

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "<!-- Written by scripts/reference.py; do not edit. -->"
REF = "#/components/schemas/"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    made = {"cli.md": cli(), "rest.md": rest(), "settings.md": settings_page(), "errors.md": errors_page()}
    return {name: "\n".join([NOTE, "", *lines]).rstrip() + "\n" for name, lines in made.items()}


# --- commands --------------------------------------------------------------------------------------------------------


def cli() -> Iterator[str]:
    yield from ("# Commands", "", "Data goes to stdout; errors, hints, warnings and notes go to stderr.", "")
    yield from ("## Exit codes", "")
    yield from table(("code", "means"), [(code.value, code.sentence) for code in failures.ExitCode])
    yield from ("", "## Environment", "")
    yield from table(("variable", "means"), ENVIRONMENT)
    yield from ("", "Completion comes from the shell's own line, for example in bash:", "")
    yield from ("```sh", 'eval "$(_TOOLCRIB_COMPLETE=bash_source toolcrib)"', "```")
    for command, path in commands():
        yield from command_lines(command, path)


ENVIRONMENT = [
    ("`TOOLCRIB_ENDPOINT`", "the full project endpoint, where `--project-endpoint` is not given"),
    ("`TOOLCRIB_TOKEN`", "an API key, or the operator's token"),
    (
        "`TOOLCRIB_DATA`",
        "the data directory; its `admin.token` is used for a loopback endpoint without `TOOLCRIB_TOKEN`",
    ),
    ("`NO_COLOR`", "no colour on stderr, whatever its value"),
    ("`TOOLCRIB_DEBUG`", "print the traceback of an unexpected error"),
]


def commands() -> Iterator[tuple[click.Command, str]]:
    """Every command that does something, with its full name, in the order of `--help`."""
    queue: list[tuple[click.Command, str]] = [(toolcrib, "toolcrib")]
    while queue:
        command, path = queue.pop(0)
        if isinstance(command, click.Group):
            context = click.Context(command)
            children = ((name, command.get_command(context, name)) for name in command.list_commands(context))
            queue[:0] = [(child, f"{path} {name}") for name, child in children if child and not child.hidden]
        else:
            yield command, path


def command_lines(command: click.Command, path: str) -> Iterator[str]:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option)]
    usage = " ".join([path, "[OPTIONS]", *(a.make_metavar(click.Context(command)) for a in arguments)])
    yield from ("", f"## {path}", "", "```text", usage, "```", "", inspect.cleandoc(command.help or ""), "")
    yield from table(("option", "means"), [(f"`{spelled(option)}`", meaning(option)) for option in options])


def spelled(option: click.Option) -> str:
    value = "" if option.is_flag else " " + option.make_metavar(click.Context(toolcrib))
    return ", ".join(sorted(option.opts, key=len, reverse=True)) + value


def meaning(option: click.Option) -> str:
    extras = ["required"] if option.required else []
    if option.show_default and option.default is not None:
        extras.append(f"default: `{option.default}`")
    return (option.help or "") + (f" ({'; '.join(extras)})" if extras else "")


# --- routes ----------------------------------------------------------------------------------------------------------


def rest() -> Iterator[str]:
    document = openapi.document()
    roles = {(route.method, route.path): route.role for route in routes.ROUTES}
    yield from (
        "# REST API",
        "",
        "The running server describes itself at `/openapi.json`; this page is made from it.",
        "",
    )
    yield "Every route under `/api/` needs the query parameter `api-version` (any value) and a bearer token of the role"
    yield "named. Every failure has the body [Failure](#failure)."
    operations = [(m.upper(), path, op) for path, item in document["paths"].items() for m, op in item.items()]
    for tag in dict.fromkeys(op["tags"][0] for _, _, op in operations):
        yield from ("", f"## Routes: {tag}", "")
        for method, path, operation in operations:
            if operation["tags"][0] == tag:
                role = roles.get((method, path))
                yield from operation_lines(method, path, operation, role.name if role else "none")
    yield from ("", "## Shapes")
    for name, schema in document["components"]["schemas"].items():
        yield from schema_lines(name, schema)


def operation_lines(method: str, path: str, operation: dict[str, Any], role: str) -> Iterator[str]:
    yield from (f"### `{method} {path}`", "", operation["summary"], "", f"- role: {role}")
    asked = [p for p in operation["parameters"] if p["in"] != "path" and p["name"] != "api-version"]
    if asked:
        yield "- takes: " + ", ".join(f"`{p['name']}`" + (" (required)" if p["required"] else "") for p in asked)
    if "requestBody" in operation:
        yield f"- reads: {body(operation['requestBody'])}"
    for status, response in operation["responses"].items():
        if int(status) < 300:
            yield f"- answers: {status}" + (f" {body(response)}" if "content" in response else ", empty")
    yield "- refuses: " + ", ".join(s for s in operation["responses"] if int(s) >= 300)
    yield ""


def body(holder: dict[str, Any]) -> str:
    kinds = [f"{shape(c['schema'])}" for c in holder["content"].values()]
    return " or ".join(dict.fromkeys(kinds))


def shape(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REF)
        return f"[{title(name)}](#{anchor(title(name))})"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(shape(part) for part in schema[union])
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "anything")
    if kind == "array" and schema.get("items"):
        return f"list of {shape(schema['items'])}"
    return str(kind)


def schema_lines(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from ("", f"### {title(name)}", "")
    if schema.get("description"):
        yield from (schema["description"], "")
    required = schema.get("required", [])
    rows = [
        (f"`{field}`", shape(part), "yes" if field in required else "no", part.get("description", ""))
        for field, part in schema.get("properties", {}).items()
    ]
    yield from table(("field", "holds", "always", ""), rows)


def title(name: str) -> str:
    return re.sub(r"Page_(.+)_", r"Page of \1", name)


def anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


# --- settings and errors ---------------------------------------------------------------------------------------------


def settings_page() -> Iterator[str]:
    yield from ("# Settings", "")
    yield "Later wins: defaults, `toolcrib.toml` (at `--config`, else in the data directory), environment, flags."
    yield "Secrets are read from the environment or a file, never from a flag."
    yield ""
    rows = [
        (f"`{s.name}`", f"`{s.env}`" if s.env else "", f"`{s.default}`" if s.default else "", s.sentence)
        for s in settings.SETTINGS
    ]
    yield from table(("setting", "environment", "default", "means"), rows)


def errors_page() -> Iterator[str]:
    yield from ("# Errors", "")
    yield "What can go wrong, grouped by who must act. `code` is stable: over REST it is the `code` in the body"
    yield "([Failure](rest.md#failure)). `exit` is the exit code of the CLI when the server answers with this error."
    yield ""
    rows = [
        (f"`{kind.__name__}`", f"`{kind.code}`", http_status(kind), int(failures.exit_code(kind)), sentence)
        for kind, sentence in error_tree()
    ]
    yield from table(("error", "code", "HTTP", "exit", "means"), rows)


def error_tree() -> Iterator[tuple[type[errors.ToolcribError], str]]:
    """Each error with its sentence, as the tree at the top of errors.py draws them."""
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"[\s│├└─]+(\w+)\s{2,}(.+)", line):
            yield getattr(errors, found[1]), found[2]


def http_status(kind: type[errors.ToolcribError]) -> str:
    return next((str(problems.STATUS[base]) for base in kind.__mro__ if base in problems.STATUS), "500")


# --- writing ---------------------------------------------------------------------------------------------------------


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(headers) + " |"
    yield "|" + " --- |" * len(headers)
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is not current")
    check = parser.parse_args().check
    stale = [name for name, text in pages().items() if not _is_current(FOLDER / name, text)]
    if check:
        for name in stale:
            print(f"docs/reference/{name} is not current: run scripts/reference.py", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(pages()[name], "utf-8")
    return 0


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


if __name__ == "__main__":
    sys.exit(main())

"""The seed's benchmark surface: a generic agent's tools, 18 of them, `tool_search` being the nineteenth.

File, shell, web-fetch, session, storage, todo, time and subagent tools, with descriptions and schemas as rich as agents
carry them: full list 11 to 12.5 KB, schemas 7.8 to 8.8 KB. Data only; `bench/client.py` and the tests measure it.
"""

from __future__ import annotations

from typing import Any

Parameters = dict[str, dict[str, Any]]


def _tool(name: str, description: str, parameters: Parameters, required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": parameters, "required": required}
    return {"name": name, "description": description, "inputSchema": schema}


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _count(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "description": description, **more}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description, "default": False}


TOOLS: list[dict[str, Any]] = [
    _tool(
        "read_file",
        "Read a text file from the workspace, with line numbers. Reads up to 2,000 lines; use offset and limit for the "
        "rest of a longer file.",
        {
            "path": _text("Path of the file, relative to the workspace root."),
            "offset": _count("First line to return, counted from 1.", minimum=1, default=1),
            "limit": _count("How many lines to return at most.", minimum=1, maximum=2000, default=2000),
        },
        ["path"],
    ),
    _tool(
        "write_file",
        "Create a file in the workspace or replace its whole content. Parent directories are made as needed. Read an "
        "existing file first.",
        {
            "path": _text("Path of the file, relative to the workspace root."),
            "content": _text("The complete new content of the file."),
            "overwrite": _flag("Replace the file if it exists; otherwise an existing file is an error."),
        },
        ["path", "content"],
    ),
    _tool(
        "edit_file",
        "Replace exact pieces of text in a file. Each piece must occur exactly once unless replace_all is set.",
        {
            "path": _text("Path of the file, relative to the workspace root."),
            "edits": {
                "type": "array",
                "description": "Replacements, applied in order; all of them or none.",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "old_text": _text("The exact text to find, with its whitespace."),
                        "new_text": _text("The text to put in its place; empty deletes."),
                        "replace_all": _flag("Replace every occurrence."),
                    },
                    "required": ["old_text", "new_text"],
                    "additionalProperties": False,
                },
            },
            "dry_run": _flag("Return the difference without writing it."),
        },
        ["path", "edits"],
    ),
    _tool(
        "list_directory",
        "List files and directories below a path, with sizes and modification times, directories first.",
        {
            "path": _text("Directory to list, relative to the workspace root.", default="."),
            "recursive": _flag("Descend into subdirectories."),
            "pattern": _text("Only names that match this glob, e.g. *.py."),
            "include_hidden": _flag("Also list names that start with a dot."),
            "max_entries": _count("Stop after this many entries.", minimum=1, maximum=5000, default=500),
        },
        [],
    ),
    _tool(
        "grep_files",
        "Search file contents with a regular expression and return matching lines with their file and line number, "
        "newest file first.",
        {
            "pattern": _text("Regular expression to search for."),
            "path": _text("File or directory to search, relative to the workspace root.", default="."),
            "glob": _text("Only files whose name matches this glob, e.g. **/*.ts."),
            "ignore_case": _flag("Match without regard to case."),
            "context_lines": _count("Lines to show around each match.", minimum=0, maximum=20, default=0),
            "max_matches": _count("Stop after this many matches.", minimum=1, maximum=1000, default=100),
        },
        ["pattern"],
    ),
    _tool(
        "delete_file",
        "Delete a file or an empty directory from the workspace. This cannot be undone, so list the directory first.",
        {
            "path": _text("Path to delete, relative to the workspace root."),
            "recursive": _flag("Delete a directory with everything in it."),
        },
        ["path"],
    ),
    _tool(
        "bash",
        "Run a command in the workspace shell and return its output and exit code. State does not carry over from one "
        "call to the next.",
        {
            "command": _text("The command line to run."),
            "working_directory": _text("Directory to run in, relative to the workspace root.", default="."),
            "timeout_seconds": _count("Kill the command after this long.", minimum=1, maximum=600, default=120),
            "environment": {
                "type": "object",
                "description": "Variables to set in addition to the shell's own.",
                "additionalProperties": {"type": "string"},
            },
            "run_in_background": _flag("Return at once with a process id."),
        },
        ["command"],
    ),
    _tool(
        "web_fetch",
        "Fetch a web page or API answer and return it as markdown, plain text or raw, with the final address.",
        {
            "url": _text("Absolute http or https address.", format="uri"),
            "method": _text("HTTP method.", enum=["GET", "POST", "PUT", "DELETE", "HEAD"], default="GET"),
            "headers": {
                "type": "object",
                "description": "Request headers to send.",
                "additionalProperties": {"type": "string"},
            },
            "body": _text("Request body, for POST and PUT."),
            "format": _text("How to return the answer.", enum=["markdown", "text", "raw"], default="markdown"),
            "max_bytes": _count("Cut the answer after this many bytes.", minimum=1, default=200000),
        },
        ["url"],
    ),
    _tool(
        "get_session",
        "Describe the current session: title, model, agent, age, token use and how many messages it holds.",
        {
            "session_id": _text("Another session to describe; the current one if left out."),
            "include_usage": _flag("Add token and cost figures per model."),
        },
        [],
    ),
    _tool(
        "update_session",
        "Change the title, the tags or the summary of the current session, so that it can be found again.",
        {
            "title": _text("New title, one line.", maxLength=120),
            "tags": {"type": "array", "description": "New tags, replacing the old ones.", "items": {"type": "string"}},
            "summary": _text("New summary in a few sentences."),
            "archived": _flag("Move the session out of the active list."),
        },
        [],
    ),
    _tool(
        "search_sessions",
        "Search earlier sessions by words, tags or date and return the best matches with an excerpt of each.",
        {
            "query": _text("Words to look for in titles, summaries and messages."),
            "tags": {
                "type": "array",
                "description": "Only sessions with all of these tags.",
                "items": {"type": "string"},
            },
            "since": _text("Only sessions changed after this time.", format="date-time"),
            "until": _text("Only sessions changed before this time.", format="date-time"),
            "limit": _count("How many sessions to return.", minimum=1, maximum=50, default=10),
        },
        ["query"],
    ),
    _tool(
        "storage_get",
        "Read a value that was stored under a key, for this session or for the whole project; missing keys give null.",
        {
            "key": _text("Name of the value."),
            "scope": _text("Where it was stored.", enum=["session", "project", "user"], default="session"),
        },
        ["key"],
    ),
    _tool(
        "storage_put",
        "Store a JSON value under a key, to be read later in this session or by other sessions of the project.",
        {
            "key": _text("Name of the value.", maxLength=200),
            "value": {"description": "Any JSON value, up to 64 KB."},
            "scope": _text("Who can read it.", enum=["session", "project", "user"], default="session"),
            "ttl_seconds": _count("Forget the value after this long; never if left out.", minimum=1),
            "if_absent": _flag("Fail when the key exists already."),
        },
        ["key", "value"],
    ),
    _tool(
        "storage_list",
        "List stored keys with their size and age, optionally only those that start with a prefix.",
        {
            "prefix": _text("Only keys that start with this."),
            "scope": _text("Where to look.", enum=["session", "project", "user"], default="session"),
            "limit": _count("How many keys to return.", minimum=1, maximum=1000, default=100),
        },
        [],
    ),
    _tool(
        "write_todos",
        "Write the list of tasks for the current work, replacing the old list. Keep exactly one task in progress.",
        {
            "todos": {
                "type": "array",
                "description": "All tasks, in the order they will be done.",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": _text("What is to be done, as an order.", minLength=1),
                        "active_form": _text("The same in the present continuous, shown while it is done."),
                        "status": _text("Where the task stands.", enum=["pending", "in_progress", "completed"]),
                    },
                    "required": ["content", "status"],
                    "additionalProperties": False,
                },
            }
        },
        ["todos"],
    ),
    _tool(
        "get_current_time",
        "Tell the current date and time in a time zone, optionally shifted, in ISO 8601 and in words.",
        {
            "timezone": _text("IANA time zone, e.g. Europe/Oslo.", default="UTC"),
            "offset": _text("Shift to apply first, as an ISO 8601 duration, e.g. -P1D."),
            "format": _text("How to write it.", enum=["iso", "rfc2822", "unix", "human"], default="iso"),
        },
        [],
    ),
    _tool(
        "spawn_agent",
        "Start a subagent on a task of its own and return its id at once. It sees none of this conversation.",
        {
            "task": _text("Everything the subagent must know and do, complete in itself."),
            "agent_type": _text("Which kind of agent.", enum=["general", "researcher", "coder", "reviewer"]),
            "tools": {
                "type": "array",
                "description": "Tools it may use; all if left out.",
                "items": {"type": "string"},
            },
            "model": _text("Model to run it on; this agent's own if left out."),
            "max_turns": _count("Stop it after this many turns.", minimum=1, maximum=200, default=50),
        },
        ["task"],
    ),
    _tool(
        "wait_for_agent",
        "Wait until subagents finish and return what each of them reported, or its state if time runs out.",
        {
            "agent_ids": {
                "type": "array",
                "description": "Ids from spawn_agent.",
                "items": {"type": "string"},
                "minItems": 1,
            },
            "timeout_seconds": _count("How long to wait.", minimum=0, maximum=3600, default=600),
            "wait_for": _text("Return after all of them, or after the first.", enum=["all", "any"], default="all"),
        },
        ["agent_ids"],
    ),
]

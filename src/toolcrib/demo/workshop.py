"""The demo toolbox `workshop`: the create_version body that names every demo source, and the commands behind it."""

import sys
from typing import Any

from toolcrib.demo.sources import LABELS, open_source

NAME = "workshop"

Command = tuple[tuple[str, ...], dict[str, str], str | None]

# What people say and the descriptions do not; search reads it, no model ever sees it.
_TOOL_CONFIGS: dict[str, dict[str, dict[str, Any]]] = {
    "clock": {"get_current_time": {"pin": True}},
    "inventory": {
        "search_items": {"pin": True},
        "check_out_tool": {"additional_search_text": "borrow loan lend sign out hire take home equipment"},
        "list_low_stock": {"additional_search_text": "running out, need to restock, shopping list for supplies"},
    },
    "invoices": {
        "send_payment_reminder": {"additional_search_text": "chase late payer, dunning letter, Mahnung"},
        "*": {"additional_search_text": "billing accounting finance Rechnung facture"},
    },
    "calendar": {"*": {"additional_search_text": "agenda schedule diary Termin rendez-vous"}},
    "tickets": {"*": {"additional_search_text": "issue bug defect helpdesk"}},
    "weather": {"*": {"additional_search_text": "Wetter météo clima tiempo"}},
}


def toolbox() -> tuple[str, dict[str, Any]]:
    """The toolbox's name and the body of its first version."""
    entries = [_entry(label) for label in LABELS]
    return NAME, {
        "description": "A workshop's everyday tools, all local and made up: a playground for toolcrib.",
        "tools": [*entries, {"type": "toolbox_search_preview"}],
        "metadata": {"made_by": "toolcrib up"},
    }


def commands() -> dict[str, Command]:
    """The stdio upstreams that the entries name: name → (command, environment, working directory)."""
    # -P: whatever lies in the working directory must not stand in for a module of the standard library.
    return {f"demo-{label}": ((sys.executable, "-P", "-m", "toolcrib.demo", label), {}, None) for label in LABELS}


def catalogue() -> list[dict[str, Any]]:
    """Every tool under its full name, with source and keywords, in the form that `toolcrib.search` reads."""
    return [
        {**tool.definition, "name": f"{label}.{name}", "server": label, "keywords": _keywords(label, name)}
        for label in LABELS
        for name, tool in open_source(label).tools.items()
    ]


def _entry(label: str) -> dict[str, Any]:
    configs = _TOOL_CONFIGS.get(label)
    return {
        "type": "mcp",
        "server_label": label,
        "server_url": f"stdio://demo-{label}",
        "server_description": open_source(label).about,
        "require_approval": "never",
        **({"tool_configs": configs} if configs else {}),
    }


def _keywords(label: str, name: str) -> str:
    configs = _TOOL_CONFIGS.get(label, {})
    return configs.get(name, configs.get("*", {})).get("additional_search_text", "")

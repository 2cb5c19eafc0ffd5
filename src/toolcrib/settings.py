"""Every setting: its default, where it is read from, and its sentence.

Later wins: defaults, `toolcrib.toml` (at --config, else in the data directory), environment, flags. Secrets come from
the environment or a file, never from a flag. Only the app and the CLI read this.
"""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from toolcrib.errors import BadSettings

SHORTEST_ADMIN_TOKEN = 16


def _setting(default: Any, sentence: str, *, env: str | None = None, secret: bool = False) -> Any:
    return field(default=default, repr=not secret, metadata={"sentence": sentence, "env": env, "secret": secret})


class StdioCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `[stdio.NAME]` table: a child process an entry may name by `stdio://NAME`."""

    command: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one server, complete and checked."""

    data_dir: Path = _setting(
        Path("~/.local/share/toolcrib"),
        "Where the embedded database, keys and indexes live.",
        env="TOOLCRIB_DATA",
    )
    host: str = _setting("127.0.0.1", "The address to listen on.", env="TOOLCRIB_HOST")
    port: int = _setting(8700, "The port to listen on; 0 takes a free one.", env="TOOLCRIB_PORT")
    database_url: str | None = _setting(
        None,
        "`postgresql://…` to use PostgreSQL instead of the embedded SQLite.",
        env="TOOLCRIB_DATABASE_URL",
        secret=True,
    )
    admin_token: str | None = _setting(
        None,
        "The operator's token. Without it one is generated into `admin.token` in the data directory.",
        env="TOOLCRIB_ADMIN_TOKEN",
        secret=True,
    )
    seal_key: str | None = _setting(
        None,
        "The key that seals secrets at rest: 32 random bytes in base64.",
        env="TOOLCRIB_SEAL_KEY",
        secret=True,
    )
    seal_key_file: Path | None = _setting(
        None,
        "A file with the seal key. Without either, `seal.key` in the data directory is made on first start.",
        env="TOOLCRIB_SEAL_KEY_FILE",
    )
    auth: Literal["on", "off"] = _setting(
        "on", "`off` gives every request the local admin principal; only on a loopback address.", env="TOOLCRIB_AUTH"
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (), "Host names, besides loopback ones, that requests may name when bound to loopback.", env="TOOLCRIB_HOSTS"
    )
    allowed_origins: tuple[str, ...] = _setting(
        (), "Origins of web pages that may call this server, such as `https://app.example`.", env="TOOLCRIB_ORIGINS"
    )
    tls_cert: Path | None = _setting(None, "A certificate chain (PEM) to serve HTTPS with.", env="TOOLCRIB_TLS_CERT")
    tls_key: Path | None = _setting(None, "The private key of `tls_cert`.", env="TOOLCRIB_TLS_KEY")
    max_body_bytes: int = _setting(4 * 2**20, "The largest request body accepted.", env="TOOLCRIB_MAX_BODY_BYTES")
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "How much the server logs.", env="TOOLCRIB_LOG_LEVEL"
    )
    tool_names: Literal["dot", "triple", "safe"] = _setting(
        "dot",
        "How tools are named where a client does not choose: `label.tool`, `label___tool` or a safe form.",
        env="TOOLCRIB_TOOL_NAMES",
    )
    search_model: Literal["auto", "words", "table", "towers", "transformer", "endpoint", "fastembed"] = _setting(
        "auto",
        "What search ranks with besides words: the best installed (`auto`: two towers, else the table), nothing,"
        " one of ours (`transformer` embeds queries too, at some milliseconds each), or one of the two below.",
        env="TOOLCRIB_SEARCH_MODEL",
    )
    embeddings_url: str | None = _setting(
        None, "An OpenAI-compatible server for `search_model = endpoint`.", env="TOOLCRIB_EMBEDDINGS_URL"
    )
    embeddings_model: str = _setting(
        "text-embedding-3-small", "The model named to that server, or to fastembed.", env="TOOLCRIB_EMBEDDINGS_MODEL"
    )
    embeddings_key: str | None = _setting(
        None, "The bearer token for that server.", env="TOOLCRIB_EMBEDDINGS_KEY", secret=True
    )
    autopin: Literal["on", "off"] = _setting(
        "on", "`off` stops learning which tools each principal uses, and pins none by use.", env="TOOLCRIB_AUTOPIN"
    )
    call_timeout_s: float = _setting(60.0, "How long one tool call may take.", env="TOOLCRIB_CALL_TIMEOUT_S")
    keep_calls_days: float = _setting(30.0, "How long the record of calls is kept.", env="TOOLCRIB_KEEP_CALLS_DAYS")
    refresh_s: float = _setting(300.0, "How often each upstream's tools are read again.", env="TOOLCRIB_REFRESH_S")
    max_result_bytes: int = _setting(
        10 * 2**20, "The largest answer of an upstream that is relayed.", env="TOOLCRIB_MAX_RESULT_BYTES"
    )
    max_skill_archive_bytes: int = _setting(
        25 * 2**20,
        "The largest ZIP, or other upload, that a skill is made from.",
        env="TOOLCRIB_MAX_SKILL_ARCHIVE_BYTES",
    )
    max_skill_files: int = _setting(
        512, "How many files a skill may have; MCP hosts need not accept more than 512.", env="TOOLCRIB_MAX_SKILL_FILES"
    )
    max_skill_bytes: int = _setting(
        64 * 2**20,
        "How large a skill's files may be together, unpacked; MCP hosts need not accept more than 16 MiB.",
        env="TOOLCRIB_MAX_SKILL_BYTES",
    )
    stdio: Mapping[str, StdioCommand] = field(
        default_factory=dict[str, StdioCommand],
        metadata={
            "sentence": '`[stdio.NAME] command = [...] env = {...} cwd = "..."`: commands entries may name by `stdio://NAME`.',
            "env": None,
            "secret": False,
        },
    )

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


class Setting(NamedTuple):
    """One row of the settings reference."""

    name: str
    default: str
    env: str | None
    secret: bool
    sentence: str


def _describe() -> tuple[Setting, ...]:
    return tuple(
        Setting(f.name, "" if f.default in (MISSING, None, ()) else str(f.default), **f.metadata)
        for f in fields(Settings)
    )


SETTINGS = _describe()
_BY_NAME = {s.name: s for s in SETTINGS}


def load(
    config_path: Path | None = None, data_dir: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from all their places; `overrides` are the flags that were given."""
    flags = {k: v for k, v in (overrides or {}).items() if v is not None}
    environment = {s.name: os.environ[s.env] for s in SETTINGS if s.env and os.environ.get(s.env)}
    where = Path(data_dir or flags.get("data_dir") or environment.get("data_dir") or Settings().data_dir).expanduser()
    path = config_path or where / "toolcrib.toml"
    written = _read_toml(path, required=config_path is not None)
    merged = {**written, **{k: _split(k, v) for k, v in environment.items()}, **flags}
    if data_dir is not None or "data_dir" not in merged:
        merged["data_dir"] = where
    return _check(_convert(merged, path))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_toml(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if not required:
            return {}
        raise BadSettings(f"The configuration file {path} does not exist.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings(f"The configuration file {path} cannot be read: {error}.") from error


def _split(name: str, text: str) -> object:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if name.startswith("allowed_") else text


def _convert(merged: dict[str, Any], path: Path) -> Settings:
    unknown = sorted(set(merged) - set(_BY_NAME))
    if unknown:
        raise BadSettings(
            f"{path} has settings nobody reads: {', '.join(unknown)}.", hint="docs/reference/settings.md lists them all"
        )
    try:
        return msgspec.convert(merged, Settings, strict=False, dec_hook=_decode, builtin_types=(Path,))
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$.")
        name = at.rstrip("`").split("[")[0]
        env = _BY_NAME[name].env if name in _BY_NAME else None
        raise BadSettings(f"Setting {name or 'file'}{f' ({env})' if env else ''} is wrong: {what}.") from None


def _decode(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value).expanduser()
    return value


def _check(settings: Settings) -> Settings:
    if settings.auth == "off" and not settings.is_loopback:
        raise BadSettings(
            f"TOOLCRIB_AUTH=off is refused on {settings.host}: anybody who reaches it would be admin.",
            hint="bind to 127.0.0.1, or leave auth on",
        )
    if not 0 <= settings.port <= 65535:
        raise BadSettings(f"The port {settings.port} does not exist; ports are 0 to 65535.")
    for name in (
        "max_body_bytes",
        "max_result_bytes",
        "max_skill_archive_bytes",
        "max_skill_files",
        "max_skill_bytes",
        "call_timeout_s",
        "refresh_s",
    ):
        if getattr(settings, name) <= 0:
            raise BadSettings(f"The setting {name} must be above 0.")
    if settings.admin_token is not None and len(settings.admin_token) < SHORTEST_ADMIN_TOKEN:
        raise BadSettings(
            f"TOOLCRIB_ADMIN_TOKEN is shorter than {SHORTEST_ADMIN_TOKEN} characters.", hint="use a long random one"
        )
    if settings.database_url is not None and not settings.database_url.startswith(("postgresql://", "postgres://")):
        raise BadSettings("TOOLCRIB_DATABASE_URL must start with postgresql://; leave it out for SQLite.")
    if settings.search_model == "endpoint" and settings.embeddings_url is None:
        raise BadSettings("search_model = endpoint needs embeddings_url (TOOLCRIB_EMBEDDINGS_URL).")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise BadSettings("tls_cert and tls_key go together.")
    return settings

"""The composition root: settings in, a running server out. It only assembles."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache

import msgspec

from toolcrib import wire
from toolcrib.access import OPERATOR, Access
from toolcrib.catalog.encoders import EmbeddingsEndpoint, Fastembed
from toolcrib.catalog.indexes import Indexes, RecentVectors
from toolcrib.catalog.refresh import Catalogs, Pace
from toolcrib.connections.registry import Connections
from toolcrib.connections.sealing import Sealer, load_key, write_private
from toolcrib.demo import commands as commands_of_demo
from toolcrib.demo import toolbox as demo_toolbox
from toolcrib.errors import BadSettings, NotFound, SealKeyMismatch
from toolcrib.gateway.changes import Changes
from toolcrib.gateway.endpoint import Gateway
from toolcrib.search import Encoder, WordsOnly, best_installed, full_transformer, quickest, static_table, two_towers
from toolcrib.settings import SHORTEST_ADMIN_TOKEN, Settings
from toolcrib.settings import StdioCommand as DemoCommand
from toolcrib.skills.bundle import Limits as SkillLimits
from toolcrib.skills.library import Skills
from toolcrib.storage import migrations, records_secrets
from toolcrib.storage.database import Database, Transaction
from toolcrib.storage.records_sources import StoredSources
from toolcrib.storage.sqlite import DataDirectoryLock, SqliteDatabase
from toolcrib.toolboxes.calls import CallLog
from toolcrib.toolboxes.crib import Crib
from toolcrib.toolboxes.opened import Counter
from toolcrib.toolboxes.plumbing import Plumbing
from toolcrib.toolboxes.resolve import Shelf
from toolcrib.toolboxes.usage import Usage
from toolcrib.toolboxes.versions import Toolboxes
from toolcrib.upstreams.pool import UpstreamPool
from toolcrib.upstreams.upstream import Change, Limits, StdioCommand, UpstreamSpec
from toolcrib.web.auth import Doorkeeper
from toolcrib.web.edge import Edge
from toolcrib.web.openapi import document
from toolcrib.web.server import HttpServer

log = logging.getLogger("toolcrib")
_BACKLOG = 2048
_FRAMING_BYTES = 2**20  # what a multipart body may hold beside its files


@dataclass(frozen=True, slots=True)
class Opened:
    """A crib with the parts that only the app itself needs."""

    crib: Crib
    gateway: Gateway
    edge: Edge
    lock: DataDirectoryLock | None


def serve(settings: Settings, *, demo: bool = False) -> int:
    """Run a server until it is told to stop."""
    _configure_logging(settings)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings, demo=demo))
    return 0


def migrate(settings: Settings) -> list[str]:
    """Bring the database up to date; the names of the migrations that ran."""

    async def run() -> list[str]:
        async with AsyncExitStack() as stack:
            db, _ = await _open_database(settings, stack)
            return await db.write(migrations.apply_pending)

    return asyncio.run(run())


@asynccontextmanager
async def opened(settings: Settings) -> AsyncGenerator[Opened]:
    """Everything but the socket."""
    async with AsyncExitStack() as stack:
        db, lock = await _open_database(settings, stack)
        await db.write(migrations.apply_pending)
        key = load_key(text=settings.seal_key, path=settings.seal_key_file, default_path=settings.data_dir / "seal.key")
        sealer = await _open_seal(key, db)
        access = Access(db, _operator_token(settings))
        await access.load()
        shelf = Shelf(db)
        access.on_project_deleted.append(shelf.drop_project)
        toolboxes = Toolboxes(db, sealer, shelf)
        connections = Connections(db, sealer)
        skills = Skills(db, _skill_limits(settings))
        access.on_project_deleted.append(lambda project, _: skills.drop_project(project))
        changes = Changes()
        counter = _open_counter(settings, db, sealer, connections, skills, changes, stack)
        crib = Crib(access, shelf, toolboxes, connections, skills, counter, openapi=msgspec.json.encode(document()))
        gateway = Gateway(crib, changes, state_key=key, names=settings.tool_names)
        stack.callback(gateway.close)
        _connect(crib, changes)
        doorkeeper = Doorkeeper(
            access,
            auth=settings.auth == "on",
            loopback=settings.is_loopback,
            allowed_hosts=settings.allowed_hosts,
            allowed_origins=settings.allowed_origins,
        )
        edge = Edge(
            crib,
            gateway,
            doorkeeper,
            max_body_bytes=settings.max_body_bytes,
            max_upload_bytes=max(settings.max_body_bytes, settings.max_skill_archive_bytes + _FRAMING_BYTES),
        )
        yield Opened(crib, gateway, edge, lock)


async def _serve(settings: Settings, *, demo: bool) -> None:
    if demo:
        settings = _with_demo(settings)
    tls = _tls(settings)
    with _listen(settings) as listener:
        port = listener.getsockname()[1]
        scheme = "https" if settings.tls_cert else "http"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"{scheme}://{host}:{port}"
        async with opened(settings) as it:
            if it.lock:
                it.lock.announce(address)
            if demo:
                await _stock_demo(it.crib, address)
            if settings.auth == "off":
                log.warning("auth is off: every request on %s is admin", address)
            log.info("toolcrib listens on %s (project endpoint %s/api/projects/default)", address, address)
            await HttpServer(it.edge, hasten=it.edge.hasten, tls=tls, on_stop=it.gateway.close).run(listener)


def _with_demo(settings: Settings) -> Settings:
    """The demo's own stdio upstreams beside those the operator declared."""
    commands = {name: DemoCommand(command, env, cwd) for name, (command, env, cwd) in commands_of_demo().items()}
    return replace(settings, stdio={**commands, **settings.stdio})


async def _stock_demo(crib: Crib, address: str) -> None:
    """Put the demo toolbox on the shelf, once; a person may have changed or deleted it since."""
    name, body = demo_toolbox()
    try:
        await crib.toolboxes.get("default", name)
    except NotFound:
        content = msgspec.convert(body, wire.CreateVersion)
        await crib.toolboxes.create_version(OPERATOR, "default", name, content)
    endpoint = f"{address}/api/projects/default/toolboxes/{name}/mcp?api-version=v1"
    log.info("the demo toolbox %r is at TOOLBOX_ENDPOINT=%s", name, endpoint)


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_cert is None:
        return None
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise BadSettings(
            f"The certificate {settings.tls_cert} and its key cannot be used: {error}.",
            hint="tls_cert and tls_key name PEM files that belong together",
        ) from error
    return context


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)  # two that are only bound could share the port; and who comes early waits
    except OSError as error:
        listener.close()
        raise BadSettings(
            f"Cannot listen on {settings.host} port {settings.port}: {error.strerror}.",
            hint="stop what holds the port, or choose another with --port",
        ) from error
    return listener


async def _open_database(settings: Settings, stack: AsyncExitStack) -> tuple[Database, DataDirectoryLock | None]:
    if settings.database_url is not None:
        from toolcrib.storage.postgres import PostgresDatabase  # psycopg is an extra

        database: Database = await asyncio.to_thread(PostgresDatabase, settings.database_url)
        stack.push_async_callback(database.close)
        return database, None
    lock = DataDirectoryLock(settings.data_dir)
    stack.callback(lock.release)
    embedded = SqliteDatabase(settings.data_dir / "toolcrib.sqlite3")
    stack.push_async_callback(embedded.close)
    return embedded, lock


def _open_counter(
    settings: Settings,
    db: Database,
    sealer: Sealer,
    connections: Connections,
    skills: Skills,
    changes: Changes,
    stack: AsyncExitStack,
) -> Counter:
    """The upstreams, the catalogs that watch them, and the record of calls."""

    def heard(spec: UpstreamSpec, change: Change) -> None:
        catalogs.on_change(spec, change)
        if change.uri is not None:
            changes.publish_resource(spec.scope, change.uri)

    commands = {name: StdioCommand(c.command, c.env, c.cwd) for name, c in settings.stdio.items()}
    pool = UpstreamPool(commands=commands, on_change=heard)
    stack.push_async_callback(pool.aclose)
    limits = Limits(call_s=settings.call_timeout_s, answer_bytes=settings.max_result_bytes)
    plumbing = Plumbing(db, sealer, connections, pool, limits)
    catalogs = Catalogs(StoredSources(db), plumbing.upstream, pace=Pace(ttl_s=settings.refresh_s))
    stack.push_async_callback(catalogs.aclose)
    calls = CallLog(db, keep_days=settings.keep_calls_days)
    stack.push_async_callback(calls.close)
    quick, best, costs = _encoders(settings)
    indexes = Indexes(settings.data_dir / "indexes", quick, best, RecentVectors(), queries_cost=costs)
    stack.push_async_callback(indexes.close)
    usage = Usage(db) if settings.autopin == "on" else None
    if usage is not None:
        stack.push_async_callback(usage.close)
        usage.start()
    pool.start_sweeping()
    calls.start()
    stack.callback(asyncio.create_task(catalogs.run()).cancel)
    return Counter(catalogs, indexes, plumbing, calls, usage, skills)


def _encoders(settings: Settings) -> tuple[Callable[[], Encoder], Callable[[], Encoder], bool]:
    """(what answers at once, what replaces it, whether that one takes its time for a query)."""
    if settings.search_model == "endpoint":
        url = settings.embeddings_url or ""
        endpoint = EmbeddingsEndpoint(url, settings.embeddings_model, settings.embeddings_key)
        return WordsOnly, lambda: endpoint, True
    if settings.search_model == "fastembed":
        fastembed = Fastembed(settings.embeddings_model)
        return WordsOnly, lambda: fastembed, True
    ours = {"words": WordsOnly, "table": static_table, "towers": two_towers, "transformer": full_transformer}
    best = cache(ours.get(settings.search_model, best_installed))
    quick = WordsOnly if settings.search_model == "words" else quickest
    return quick, best, settings.search_model == "transformer"


def _connect(crib: Crib, changes: Changes) -> None:
    """Who tells whom: catalogs and toolboxes tell listening clients; new versions and connections tell catalogs."""
    catalogs = crib.counter.catalogs
    catalogs.subscribe(changes.publish_snapshot)
    crib.toolboxes.on_changed.append(changes.publish_lists)
    crib.toolboxes.on_created.append(crib.counter.look_at)
    crib.toolboxes.on_deleted.append(catalogs.forget)
    if crib.counter.usage is not None:
        crib.toolboxes.on_deleted.append(crib.counter.usage.forget_toolbox)
    crib.connections.on_changed.append(catalogs.connection_changed)
    crib.skills.on_changed.append(lambda c: changes.publish_skill(c.project, c.toolboxes, c.uris))


def _skill_limits(settings: Settings) -> SkillLimits:
    return SkillLimits(settings.max_skill_archive_bytes, settings.max_skill_files, settings.max_skill_bytes)


async def _open_seal(key: bytes, db: Database) -> Sealer:
    sealer = Sealer(key)

    def check(tx: Transaction) -> None:
        known = records_secrets.fact(tx, "seal_key_id")
        if known is not None and known != sealer.key_id:
            raise SealKeyMismatch(
                f"The secrets in this database are sealed with key {known}, the key given is {sealer.key_id}.",
                hint="start with the right TOOLCRIB_SEAL_KEY or TOOLCRIB_SEAL_KEY_FILE",
            )
        records_secrets.remember_fact(tx, "seal_key_id", sealer.key_id)

    await db.write(check)
    return sealer


def _operator_token(settings: Settings) -> str:
    if settings.admin_token is not None:
        return settings.admin_token
    path = settings.data_dir / "admin.token"
    if not path.exists():
        token = secrets.token_urlsafe(32)
        write_private(path, token)
        print(f"The operator's token, shown this once and kept in {path}: {token}", file=sys.stderr)
    token = path.read_text("ascii").strip()
    if len(token) < SHORTEST_ADMIN_TOKEN:
        raise BadSettings(f"The token in {path} is shorter than {SHORTEST_ADMIN_TOKEN} characters.")
    return token


def _configure_logging(settings: Settings) -> None:
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.Loop

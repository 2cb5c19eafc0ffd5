"""How the sources of a toolbox are doing, and what changed upstream since a version was created. All of it is ours."""

from __future__ import annotations

from toolcrib import wire
from toolcrib.catalog.snapshot import Snapshot
from toolcrib.domain import SourceState, Version
from toolcrib.http import Request, Response, answer, read_json
from toolcrib.toolboxes.crib import Crib
from toolcrib.toolboxes.resolve import resolve


async def get(crib: Crib, request: Request) -> Response:
    version = await _version(crib, request)
    return answer(_sources(version, await crib.counter.catalogs.snapshot(version)))


async def refresh(crib: Crib, request: Request) -> Response:
    version = await _version(crib, request)
    return answer(_sources(version, await crib.counter.catalogs.refresh(version)))


async def drift(crib: Crib, request: Request) -> Response:
    version = await _version(crib, request)
    return answer(_drift(version, await crib.counter.catalogs.snapshot(version)))


async def accept_drift(crib: Crib, request: Request) -> Response:
    body = read_json(request, wire.AcceptDrift)
    version = await resolve(crib.shelf, request.project, request.params["name"], body.version)
    return answer(_drift(version, await crib.counter.catalogs.accept(version, body.accept)))


async def _version(crib: Crib, request: Request) -> Version:
    return await resolve(crib.shelf, request.project, request.params["name"], request.query.get("version"))


def _sources(version: Version, snapshot: Snapshot) -> wire.Sources:
    return wire.Sources(
        name=version.toolbox,
        version=str(version.number),
        sources=[_source(state) for state in snapshot.sources],
        warnings=_warnings(snapshot),
    )


def _source(state: SourceState) -> wire.Source:
    return wire.Source(
        state.label, state.type, state.status.value, state.since, state.reason, state.remedy, state.tools
    )


def _warnings(snapshot: Snapshot) -> list[str]:
    """Things a person should know: what search cannot find, and what is refused."""
    silent = [name for name, tool in snapshot.listed() if not tool.described]
    found = [f"Without a description search can hardly find: {', '.join(silent[:20])}."] if silent else []
    return found + [f"{r.kind} {r.label}.{r.name} is not served: {r.reason}" for r in snapshot.refused[:20]]


def _drift(version: Version, snapshot: Snapshot) -> wire.Drift:
    tools = [
        wire.ToolDrift(
            tool=d.name,
            outcome=d.state,
            grade=d.grade,
            changes=[wire.DriftChange(c.grade, c.path, c.sentence) for c in d.changes],
        )
        for d in snapshot.drift
    ]
    return wire.Drift(name=version.toolbox, version=str(version.number), tools=tools)

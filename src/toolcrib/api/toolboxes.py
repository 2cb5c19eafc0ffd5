"""Toolboxes and versions over REST, as the official Foundry clients speak it; diff and promotions are ours."""

from __future__ import annotations

import re

from msgspec import UNSET

from toolcrib import wire
from toolcrib.api.paging import one_more, page, read_slice
from toolcrib.domain import Promotion, Toolbox, Version
from toolcrib.errors import InvalidPayload
from toolcrib.http import NO_CONTENT, Header, Request, Response, answer, read_json
from toolcrib.toolboxes.crib import Crib
from toolcrib.toolboxes.resolve import Current, parse_number

_ID = re.compile(r"tb_[0-9a-f]{1,64}")
_ETAG = re.compile(rb'(?:W/)?("?)([0-9]{1,9})\1')
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


async def create_version(crib: Crib, request: Request) -> Response:
    name = _name(request)
    body = read_json(request, wire.CreateVersion)
    version, warnings = await crib.toolboxes.create_version(request.principal, request.project, name, body)
    return answer(version_to_wire(version, warnings))


async def get(crib: Crib, request: Request) -> Response:
    return toolbox_answer(await crib.toolboxes.get(request.project, _name(request)))


async def list_(crib: Crib, request: Request) -> Response:
    part = read_slice(request, lambda text: text if _ID.fullmatch(text) else None)
    rows = await crib.toolboxes.list(request.project, one_more(part))
    return answer(page([toolbox_to_wire(box, latest) for box, latest in rows], part, lambda box: box.id))


async def list_versions(crib: Crib, request: Request) -> Response:
    part = read_slice(request, _number_in_id)
    rows = await crib.toolboxes.list_versions(request.project, _name(request), one_more(part))
    return answer(page([version_to_wire(v) for v in rows], part, lambda v: v.id))


async def get_version(crib: Crib, request: Request) -> Response:
    name = _name(request)
    number = parse_number(name, request.params["version"])
    return answer(version_to_wire(await crib.toolboxes.get_version(request.project, name, number)))


async def set_default(crib: Crib, request: Request) -> Response:
    name = _name(request)
    to = int(read_json(request, wire.SetDefaultVersion).default_version)
    expected = _if_match(request)
    return toolbox_answer(await crib.toolboxes.promote(request.principal, request.project, name, to, expected=expected))


async def delete(crib: Crib, request: Request) -> Response:
    await crib.toolboxes.delete(request.project, _name(request))
    return NO_CONTENT


async def delete_version(crib: Crib, request: Request) -> Response:
    name = _name(request)
    await crib.toolboxes.delete_version(request.project, name, parse_number(name, request.params["version"]))
    return NO_CONTENT


async def diff(crib: Crib, request: Request) -> Response:
    name = _name(request)
    before, after = (parse_number(name, _required(request, key)) for key in ("from", "to"))
    return answer(await crib.toolboxes.diff(request.project, name, before, after))


async def promotions(crib: Crib, request: Request) -> Response:
    part = read_slice(request, lambda text: int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None)
    rows = await crib.toolboxes.promotions(request.project, _name(request), one_more(part))
    return answer(page([_promotion_to_wire(p) for p in rows], part, lambda p: p.id))


def version_to_wire(version: Version, warnings: list[str] | None = None) -> wire.ToolboxVersion:
    content = version.content
    return wire.ToolboxVersion(
        id=version.id,
        name=version.toolbox,
        version=str(version.number),
        created_at=version.created_at,
        metadata=content.metadata,
        tools=list(content.tools),
        skills=list(content.skills),
        digest=version.digest,
        description=UNSET if content.description is None else content.description,
        policies=UNSET if content.policies is None else content.policies,
        warnings=warnings or UNSET,
    )


def toolbox_to_wire(box: Toolbox, latest: Version) -> wire.Toolbox:
    return wire.Toolbox(
        id=box.id,
        name=box.name,
        updated_at=box.updated_at,
        default_version=str(box.default_version),
        versions=wire.LatestVersion(version_to_wire(latest)),
    )


def toolbox_answer(current: Current) -> Response:
    """Encoded once per epoch: the answer is kept with the value it was made from."""
    kept: Response | None = current.memo.get("rest")
    if kept is None:
        etag: Header = (b"etag", b'"%d"' % current.toolbox.default_version)
        kept = current.memo["rest"] = answer(toolbox_to_wire(current.toolbox, current.latest), etag)
    return kept


def _promotion_to_wire(p: Promotion) -> wire.Promotion:
    came_from = None if p.from_version is None else str(p.from_version)
    return wire.Promotion(id=str(p.sequence), at=p.at, by=p.by, from_version=came_from, to_version=str(p.to_version))


def _name(request: Request) -> str:
    name = request.params["name"]
    if not _NAME.fullmatch(name):
        raise InvalidPayload(
            "A toolbox name is 1 to 128 letters, digits, `_` or `-`.", param="name", hint=f"it was {name[:80]!r}"
        )
    return name


def _required(request: Request, key: str) -> str:
    if not request.query.get(key):
        raise InvalidPayload(f"The query parameter {key!r} is missing.", param=key)
    return request.query[key]


def _number_in_id(text: str) -> int | None:
    number = text.rpartition(":")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None


def _if_match(request: Request) -> int | None:
    tag = request.headers.get(b"if-match")
    if tag is None or tag == b"*":
        return None
    match = _ETAG.fullmatch(tag)
    if match is None:
        raise InvalidPayload('If-Match must be the ETag of the toolbox, such as "3".', param="If-Match")
    return int(match[2])

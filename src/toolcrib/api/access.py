"""Projects and API keys over REST. All of it is ours."""

from __future__ import annotations

from typing import TypeVar

from toolcrib import wire
from toolcrib.domain import ApiKey, Project, Role
from toolcrib.errors import Forbidden
from toolcrib.http import NO_CONTENT, Request, Response, answer, read_json
from toolcrib.toolboxes.crib import Crib

T = TypeVar("T")


async def list_projects(crib: Crib, request: Request) -> Response:
    projects = await crib.access.projects()
    mine = request.principal.project
    return answer(_page([_project(p) for p in projects if mine is None or p.name == mine]))


async def create_project(crib: Crib, request: Request) -> Response:
    _operator_only(request)
    return answer(_project(await crib.access.create_project(read_json(request, wire.CreateProject).name)))


async def delete_project(crib: Crib, request: Request) -> Response:
    _operator_only(request)
    await crib.access.delete_project(request.project)
    return NO_CONTENT


async def list_keys(crib: Crib, request: Request) -> Response:
    return answer(_page([_key(k) for k in await crib.access.keys(request.project)]))


async def create_key(crib: Crib, request: Request) -> Response:
    body = read_json(request, wire.CreateKey)
    issued = await crib.access.issue_key(
        request.project, Role[body.role], body.label, may_act_for_users=body.act_for_users
    )
    key = issued.key
    return answer(wire.IssuedKey(key.id, body.role, key.label, key.may_act_for_users, key.created_at, issued.secret))


async def revoke_key(crib: Crib, request: Request) -> Response:
    await crib.access.revoke_key(request.project, request.params["key"])
    return NO_CONTENT


def _operator_only(request: Request) -> None:
    if request.principal.project is not None:
        raise Forbidden("Only the operator creates and deletes projects.", hint="use the token in admin.token")


def _project(project: Project) -> wire.Project:
    return wire.Project(project.name, project.created_at)


def _key(key: ApiKey) -> wire.Key:
    return wire.Key(
        id=key.id,
        role=key.role.name,  # pyright: ignore[reportArgumentType] - the enum's names are the wire's words
        label=key.label,
        act_for_users=key.may_act_for_users,
        created_at=key.created_at,
        revoked_at=key.revoked_at,
    )


def _page(rows: list[T]) -> wire.Page[T]:
    return wire.Page(data=rows, has_more=False)

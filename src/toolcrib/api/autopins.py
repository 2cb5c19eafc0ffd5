"""What auto-pinning knows of a principal in a toolbox, and the way to make it forget. All of it is ours.

Everybody may look at and erase their own; only an admin may name another principal.
"""

from __future__ import annotations

from toolcrib import wire
from toolcrib.domain import Role
from toolcrib.errors import BadRequest, Forbidden
from toolcrib.http import Request, Response, answer
from toolcrib.storage.records_habits import Owner
from toolcrib.toolboxes.crib import Crib
from toolcrib.toolboxes.usage import Usage


async def get(crib: Crib, request: Request) -> Response:
    owner, usage = await _owner(crib, request)
    habits = await usage.habits(owner)
    pins = await usage.pins(owner)
    tools = [
        wire.ToolHabit(tool=tool, calls=h.total + h.calls, score=round(h.score + h.calls, 3), pinned=tool in pins.tools)
        for tool, h in sorted(habits.items(), key=lambda item: (-item[1].score - item[1].calls, item[0]))
    ]
    return answer(wire.AutoPins(name=owner.toolbox, principal=owner.principal, tools=tools))


async def erase(crib: Crib, request: Request) -> Response:
    owner, usage = await _owner(crib, request)
    return answer(wire.Erased(name=owner.toolbox, principal=owner.principal, tools=await usage.erase(owner)))


async def _owner(crib: Crib, request: Request) -> tuple[Owner, Usage]:
    usage = crib.counter.usage
    if usage is None:
        raise BadRequest("Auto-pinning is off on this server.", hint="start it with TOOLCRIB_AUTOPIN=on")
    current = await crib.toolboxes.get(request.project, request.params["name"])
    named = request.query.get("principal")
    if named is not None and named != request.principal.id and request.principal.role < Role.admin:
        raise Forbidden("Only an admin may see or erase another principal's habits.", param="principal")
    return Owner(request.project, current.toolbox.name, named or request.principal.id), usage

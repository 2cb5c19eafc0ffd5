"""Who may come in: projects, API keys, the operator's token. A credential goes in, a `Principal` comes out.

Keys are random and long, so a plain SHA-256 at rest is enough; what was verified is remembered until the key is
revoked. Knows nothing of HTTP: tokens of other kinds (JWT, OIDC) can be added beside `_by_key` without touching a door.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from toolcrib.domain import ApiKey, Principal, Project, Role
from toolcrib.errors import Conflict, Forbidden, InvalidPayload, Unauthenticated
from toolcrib.storage import records_access as records
from toolcrib.storage.database import Database

LOCAL_ADMIN = Principal("local", Role.admin, project=None, may_act_for_users=True)
OPERATOR = Principal("operator", Role.admin, project=None, may_act_for_users=True)
_PREFIX = "tck"
_MOST_REMEMBERED = 10_000
_LONGEST_TOKEN = 512
_LONGEST_USER = 256


@dataclass(frozen=True, slots=True)
class Issued:
    key: ApiKey
    secret: str


class Access:
    """Projects and keys, with what is needed on every request in memory."""

    def __init__(self, db: Database, operator_token: str, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._verified: dict[bytes, Principal] = {_digest(operator_token): OPERATOR}
        self._operator = _digest(operator_token)
        self.withdrawals = 0
        """Grows whenever a credential stops being good or a project is gone: who was let in before may not be again."""
        self._projects: frozenset[str] = frozenset()
        # Told the project's name and, for every toolbox name it ever used, the epoch of the deletion.
        self.on_project_deleted: list[Callable[[str, Mapping[str, int]], None]] = []

    async def load(self) -> None:
        self._projects = frozenset(p.name for p in await self._db.read(records.list_projects))

    async def authenticate(self, token: str) -> Principal:
        digest = _digest(token)
        known = self._verified.get(digest)
        return known if known is not None else await self._by_key(token, digest)

    def enter(self, principal: Principal, project: str) -> None:
        """Refuse a principal of another project before saying whether this one exists."""
        if principal.project is not None and principal.project != project:
            raise Forbidden(f"This key belongs to project {principal.project!r} and cannot enter {project!r}.")
        if project not in self._projects:
            raise records.no_project(project)

    async def projects(self) -> list[Project]:
        return await self._db.read(records.list_projects)

    async def create_project(self, name: str) -> Project:
        project = await self._db.write(lambda tx: records.create_project(tx, name, int(self._clock())))
        self._projects |= {name}
        return project

    async def delete_project(self, name: str) -> None:
        if name == "default":
            raise Conflict("The project 'default' cannot be deleted.")
        epochs = await self._db.write(lambda tx: records.delete_project(tx, name))
        self._projects -= {name}
        self._withdraw(lambda principal: principal.project == name)
        for listener in self.on_project_deleted:
            listener(name, epochs)

    async def keys(self, project: str) -> list[ApiKey]:
        return await self._db.read(lambda tx: records.list_keys(tx, project))

    async def issue_key(self, project: str, role: Role, label: str, *, may_act_for_users: bool) -> Issued:
        key = ApiKey(secrets.token_hex(6), project, role, label, may_act_for_users, int(self._clock()))
        secret = f"{_PREFIX}_{key.id}_{secrets.token_urlsafe(32)}"
        await self._db.write(lambda tx: records.create_key(tx, project, key, _digest(secret)))
        return Issued(key, secret)

    async def revoke_key(self, project: str, key_id: str) -> None:
        await self._db.write(lambda tx: records.revoke_key(tx, project, key_id, int(self._clock())))
        self._withdraw(lambda principal: principal.key_id == key_id)

    def _withdraw(self, is_withdrawn: Callable[[Principal], bool]) -> None:
        self.withdrawals += 1
        self._verified = {d: p for d, p in self._verified.items() if not is_withdrawn(p)}

    async def _by_key(self, token: str, digest: bytes) -> Principal:
        withdrawals = self.withdrawals
        found = await self._find_key(token)
        if found is None or not hmac.compare_digest(found[1], digest) or found[0].revoked_at is not None:
            raise Unauthenticated(
                "The credential is unknown or was revoked.", hint="`toolcrib key create` issues a new key"
            )
        key = found[0]
        principal = Principal(key.id, key.role, key.project, may_act_for_users=key.may_act_for_users)
        if withdrawals != self.withdrawals:  # what was read may be what was just withdrawn
            return await self._by_key(token, digest)
        if len(self._verified) >= _MOST_REMEMBERED:
            self._verified = {self._operator: OPERATOR}
        self._verified[digest] = principal
        return principal

    async def _find_key(self, token: str) -> tuple[ApiKey, bytes] | None:
        prefix, _, rest = token[:_LONGEST_TOKEN].partition("_")
        key_id = rest.partition("_")[0]
        if prefix != _PREFIX or len(token) > _LONGEST_TOKEN or not (key_id.isascii() and key_id.isalnum()):
            return None
        return await self._db.read(lambda tx: records.find_key(tx, key_id))


def act_for(principal: Principal, user: str) -> Principal:
    """The principal for one end user of an application that may speak for its users."""
    if not principal.may_act_for_users:
        raise Forbidden(
            "This key may not act for users.",
            param="X-Toolcrib-User",
            hint="issue one with `toolcrib key create --act-for-users`, or leave X-Toolcrib-User out",
        )
    if not user or len(user) > _LONGEST_USER or not user.isprintable():
        raise InvalidPayload(
            f"X-Toolcrib-User must be 1 to {_LONGEST_USER} printable characters.", param="X-Toolcrib-User"
        )
    return replace(principal, user=user, may_act_for_users=False)


def require(principal: Principal, role: Role) -> None:
    if principal.role < role:
        raise Forbidden(
            f"This needs the role {role.name}; the key {principal.key_id} has {principal.role.name}.",
            hint=f"ask an admin for a key with --role {role.name}",
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()

"""Skills over REST, as the official clients speak it: inline, as files, or as one ZIP; `?force=true` is ours."""

from __future__ import annotations

import re

from toolcrib import wire
from toolcrib.api.multipart import Part, read_parts
from toolcrib.api.paging import one_more, page, read_slice
from toolcrib.domain import Skill, SkillVersion
from toolcrib.errors import InvalidPayload, NotFound
from toolcrib.http import Header, Request, Response, answer, read_json
from toolcrib.skills import archive
from toolcrib.skills.frontmatter import NAME_RULE, is_name
from toolcrib.storage.records_skills import no_version
from toolcrib.toolboxes.crib import Crib

ZIP = "application/zip"
_ZIP_TYPES = (ZIP, "application/x-zip-compressed")
_ID = re.compile(r"sk_[0-9a-f]{1,64}")
_YES, _NO = ("true", "1"), ("false", "0", "")


async def create_version(crib: Crib, request: Request) -> Response:
    name = _name(request)
    kind = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
    if kind == "multipart/form-data":
        return answer(version_to_wire(await _create_from_parts(crib, request, name)))
    if kind in _ZIP_TYPES:
        made = await crib.skills.create_from_archive(request.project, name, request.body, default=_default(request))
        return answer(version_to_wire(made))
    default = _default(request)
    body = read_json(request, wire.CreateSkillVersion)
    default = default or bool(body.default)
    made = await crib.skills.create_inline(request.project, name, body.inline_content, default=default)
    return answer(version_to_wire(made))


async def list_(crib: Crib, request: Request) -> Response:
    part = read_slice(request, lambda text: text if _ID.fullmatch(text) else None)
    rows = await crib.skills.list(request.project, one_more(part))
    return answer(page([skill_to_wire(skill) for skill in rows], part, lambda skill: skill.id))


async def get(crib: Crib, request: Request) -> Response:
    return answer(skill_to_wire(await crib.skills.get(request.project, request.params["skill"])))


async def set_default(crib: Crib, request: Request) -> Response:
    to = int(read_json(request, wire.SetDefaultVersion).default_version)
    return answer(skill_to_wire(await crib.skills.set_default(request.project, request.params["skill"], to)))


async def delete(crib: Crib, request: Request) -> Response:
    gone = await crib.skills.delete(request.project, request.params["skill"], force=_force(request))
    return answer(wire.DeletedSkill(gone.id, gone.name))


async def list_versions(crib: Crib, request: Request) -> Response:
    part = read_slice(request, _number_in_id)
    rows = await crib.skills.list_versions(request.project, request.params["skill"], one_more(part))
    return answer(page([version_to_wire(v) for v in rows], part, lambda v: v.id))


async def get_version(crib: Crib, request: Request) -> Response:
    found = await crib.skills.get_version(request.project, request.params["skill"], _number(request))
    return answer(version_to_wire(found))


async def delete_version(crib: Crib, request: Request) -> Response:
    name, number = request.params["skill"], _number(request)
    gone = await crib.skills.delete_version(request.project, name, number, force=_force(request))
    return answer(wire.DeletedSkillVersion(gone.id, name, str(number)))


async def download(crib: Crib, request: Request) -> Response:
    return _zip(request, await crib.skills.download(request.project, request.params["skill"], None))


async def download_version(crib: Crib, request: Request) -> Response:
    return _zip(request, await crib.skills.download(request.project, request.params["skill"], _number(request)))


def skill_to_wire(skill: Skill) -> wire.Skill:
    return wire.Skill(
        id=skill.id,
        name=skill.name,
        description=skill.description,
        created_at=skill.created_at,
        default_version=str(skill.default_version),
        latest_version=str(skill.latest_version),
    )


def version_to_wire(version: SkillVersion) -> wire.SkillVersion:
    return wire.SkillVersion(
        id=version.id,
        skill_id=version.skill_id,
        name=version.skill,
        version=str(version.number),
        description=version.manifest.description,
        created_at=version.created_at,
        digest=version.manifest.digest,
        files=[wire.SkillFile(f.path, f.size, f.digest) for f in version.manifest.files],
    )


async def _create_from_parts(crib: Crib, request: Request, name: str) -> SkillVersion:
    """`files` parts are the skill's files, or one of them is all of it, packed."""
    most = crib.skills.limits.files * 2 + 8
    parts = read_parts(request.headers.get(b"content-type", b""), request.body, most_parts=most)
    files, default = _sorted_out(parts)
    default = _default(request) or default
    if len(files) == 1 and _is_zip(files[0]):
        return await crib.skills.create_from_archive(request.project, name, files[0].data, default=default)
    named = [(part.filename or "", part.data) for part in files]
    return await crib.skills.create_from_files(request.project, name, named, default=default)


def _sorted_out(parts: list[Part]) -> tuple[list[Part], bool]:
    files: list[Part] = []
    default = False
    for part in parts:
        if part.name in ("files", "files[]"):
            files.append(part)
        elif part.name == "default" and part.filename is None:
            default = _flag(part.data[:16].decode("latin-1"), "default")
        else:
            raise InvalidPayload(
                f"The body has a part {part.name[:100]!r}; it may have `files` and `default`.", param=part.name[:100]
            )
    if not files:
        raise InvalidPayload("The body has no part `files`.", param="files")
    return files, default


def _is_zip(part: Part) -> bool:
    looks_packed = (part.filename or "").lower().endswith((".zip", ".skill"))
    return part.content_type in _ZIP_TYPES or (looks_packed and archive.is_archive(part.data))


def _flag(text: str, name: str) -> bool:
    """Official clients write `True`, `true` or nothing."""
    if text.strip().lower() not in (*_YES, *_NO):
        raise InvalidPayload(f"{name} must be true or false.", param=name)
    return text.strip().lower() in _YES


def _default(request: Request) -> bool:
    return _asked(request, "default")


def _force(request: Request) -> bool:
    return _asked(request, "force")


def _asked(request: Request, name: str) -> bool:
    """A flag of the query: absent is no, present must say which."""
    text = request.query.get(name, "false")
    if text not in ("true", "True", "false", "False"):
        raise InvalidPayload(f"{name} must be true or false.", param=name)
    return text.lower() == "true"


def _name(request: Request) -> str:
    name = request.params["skill"]
    if not is_name(name):
        raise InvalidPayload(f"A skill's name is {NAME_RULE}.", param="name", hint=f"it was {name[:80]!r}")
    return name


def _number(request: Request) -> int:
    text = request.params["version"]
    if not (text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= 9):
        raise no_version(request.params["skill"][:128], ascii(text[:40]))
    return int(text)


def _number_in_id(text: str) -> int | None:
    number = text.rpartition(":")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None


def _zip(request: Request, data: bytes) -> Response:
    name = request.params["skill"]
    if not is_name(name):  # it goes into a header
        raise NotFound(f"There is no skill {name[:80]!r}.", param="name")
    kind: Header = (b"content-type", ZIP.encode())
    return Response(200, data, (kind, (b"content-disposition", f'attachment; filename="{name}.zip"'.encode())))

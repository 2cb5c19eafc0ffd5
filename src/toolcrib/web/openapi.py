"""The OpenAPI description, made from the route list and the wire shapes, so that it cannot lag behind them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from toolcrib import __version__, wire
from toolcrib.web.routes import ROUTES, Route

JsonObject = dict[str, Any]
_REF = "#/components/schemas/{name}"
_MEANINGS = {
    400: "The request is malformed or not allowed in this state.",
    401: "No credential, or an unknown one.",
    403: "The credential lacks the right.",
    404: "The named thing does not exist.",
    405: "The protocol version in use has no such method.",
    406: "None of the accepted content types can be answered in.",
    409: "In use, or changed by somebody else.",
    412: "`If-Match` named an older state.",
    413: "The body is over the limit.",
    415: "Not a content type this route reads.",
    421: "The host name is not one this server answers to.",
    503: "The server cannot do this right now.",
}
_PATTERNS = {
    "project": "^[A-Za-z0-9_-]{1,64}$",
    "name": "^[A-Za-z0-9_-]{1,128}$",
    "version": "^[1-9][0-9]{0,8}$",
    "from": "^[1-9][0-9]{0,8}$",
    "to": "^[1-9][0-9]{0,8}$",
    "key": "^[0-9a-f]{12}$",
    "skill": "^[a-z0-9]+(-[a-z0-9]+)*$",
    "force": "^([Tt]rue|[Ff]alse)$",
    "default": "^([Tt]rue|[Ff]alse)$",
    "If-Match": '^("[0-9]{1,9}"|[*])$',
}
_KNOWN: dict[str, JsonObject] = {
    "limit": {"schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}},
    "connectionType": {"schema": {"type": "string"}},
    "defaultConnection": {"schema": {"type": "string"}},
    "order": {"schema": {"type": "string", "enum": ["asc", "desc"], "default": "desc"}},
}

_BINARY: JsonObject = {"type": "string", "format": "binary"}
_UPLOADS: JsonObject = {
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "properties": {"files": {"type": "array", "items": _BINARY}, "default": {"type": "boolean"}},
            "required": ["files"],
        }
    },
    "application/zip": {"schema": _BINARY},
}


def document(routes: Sequence[Route] = ROUTES) -> JsonObject:
    shapes = [s for r in routes for s in (r.reads, r.answers) if s is not None]
    schemas, components = msgspec.json.schema_components([*shapes, wire.Failure], ref_template=_REF)
    by_shape = dict(zip(map(repr, shapes), schemas, strict=False))
    paths: JsonObject = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_shape)
    return {
        "openapi": "3.1.0",
        "info": {"title": "toolcrib", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": _portable(components),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "responses": {"Failure": _json("A failure.", {"$ref": _REF.format(name="Failure")})},
        },
        "security": [{"key": []}],
    }


def _operation(route: Route, by_shape: dict[str, JsonObject]) -> JsonObject:
    operation: JsonObject = {
        "operationId": route.operation,
        "summary": route.summary,
        "tags": [route.operation.partition(".")[0]],
        "parameters": _parameters(route),
        "responses": _responses(route, by_shape),
    }
    if route.reads is not None:
        content = {**_content(by_shape[repr(route.reads)])["content"], **(_UPLOADS if route.takes_files else {})}
        operation["requestBody"] = {"required": True, "content": content}
    if route.role is None:
        operation["security"] = []
    return operation


def _parameters(route: Route) -> list[JsonObject]:
    in_path = [_parameter(name, "path", required=True) for name in re.findall(r"{(\w+)}", route.path)]
    in_query = [
        _parameter(name, "query", required=name in route.required_query)
        for name in (*route.query, *route.required_query)
    ]
    version = [_parameter("api-version", "query", required=True)] if route.needs_api_version else []
    headers = [_parameter("If-Match", "header", required=False)] if 412 in route.refusals else []
    return [*in_path, *in_query, *version, *headers]


def _parameter(name: str, place: str, *, required: bool) -> JsonObject:
    shape = {"pattern": _PATTERNS[name]} if name in _PATTERNS else {"minLength": 1}
    known = _KNOWN.get(name) or {"schema": {"type": "string", **shape}}
    return {"name": name, "in": place, "required": required, **known}


def _responses(route: Route, by_shape: dict[str, JsonObject]) -> JsonObject:
    success = {"description": "Done."} if route.answers is None else _json("Done.", by_shape[repr(route.answers)])
    if route.gives_zip:
        success = {"description": "The files, packed.", "content": {"application/zip": {"schema": _BINARY}}}
    refusals = {400, 403, 404, 421, 503, *route.refusals}
    refusals |= {401} if route.role is not None else set()
    refusals |= {413, 415} if route.reads is not None else set()
    failures = {str(s): _json(_MEANINGS[s], {"$ref": _REF.format(name="Failure")}) for s in sorted(refusals)}
    return {str(route.status): success, **failures}


def _json(description: str, schema: JsonObject) -> JsonObject:
    return {"description": description, **_content(schema)}


def _content(schema: JsonObject) -> JsonObject:
    return {"content": {"application/json": {"schema": schema}}}


def _portable(schema: Any) -> Any:
    """Patterns end in `\\Z` for Python (its `$` lets a line break pass) and in `$` for everybody else."""
    if isinstance(schema, dict):
        fields = cast("JsonObject", schema)
        return {
            k: v.replace(r"\Z", "$") if k == "pattern" and isinstance(v, str) else _portable(v)
            for k, v in fields.items()
        }
    return [_portable(item) for item in cast("list[Any]", schema)] if isinstance(schema, list) else schema

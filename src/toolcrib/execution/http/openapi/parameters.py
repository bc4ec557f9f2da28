"""Reads the parameters of an operation: the name, schema and place of each argument."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

from toolcrib.errors import InvalidSchemaError
from toolcrib.execution.http.assembly import FORBIDDEN_HEADERS, is_token
from toolcrib.execution.http.openapi.references import follow
from toolcrib.execution.http.openapi.schemas import Schemas
from toolcrib.execution.http.plan import Parameter, Place, Style

_STYLES: dict[Place, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The styles of each place; the first is the default."""
_JSON = re.compile(r"[^;]*[/+]json\b.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Input:
    """A parameter with the schema of its values, and whether it is required."""

    parameter: Parameter
    schema: Any
    required: bool


def is_json(media_type: str) -> bool:
    """Return whether a media type is JSON: `application/json`, or one that ends in `+json`."""
    return _JSON.fullmatch(media_type) is not None


def read_parameters(
    document: dict[str, Any], schemas: Schemas, listed: Iterable[Any], secret: set[tuple[str, str]]
) -> list[Input]:
    """Return the parameters of an operation, each with a unique argument name.

    Of two with one name and place the later counts, since an operation overrides its path item. Headers about
    credentials or the body are no arguments, nor are the places of secrets; `secret` has those as pairs of
    place and lower-case name.

    Raises:
        InvalidSchemaError: one of them is invalid.
    """
    raw: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in listed:
        found = follow(document, entry)
        if not isinstance(found, dict) or not isinstance(found.get("name"), str):
            raise InvalidSchemaError("a parameter has no name")
        place, name = str(found.get("in")), found["name"]
        if place not in get_args(Place):
            raise InvalidSchemaError(f"the parameter {name!r:.80} is in {place!r:.40}, which is not known")
        ignored = place == "header" and name.lower() in FORBIDDEN_HEADERS
        if not ignored and (place, name.lower()) not in secret:
            raw[place, name] = found
    order = {place: number for number, place in enumerate(get_args(Place))}
    ordered = sorted(raw, key=lambda key: order[key[0]])
    arguments = _name_arguments(ordered)
    return [_read_parameter(document, schemas, raw[key], arguments[key]) for key in raw]


def _name_arguments(keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the argument names: the name of each parameter, or place and name if that is taken."""
    keys = list(keys)
    plain = {name for _, name in keys}
    taken: dict[str, tuple[str, str]] = {}
    for place, name in keys:
        argument, number = name, 1
        while argument in taken or (argument != name and argument in plain):
            argument = f"{place}_{name}" if number == 1 else f"{place}_{name}_{number}"
            number += 1
        taken[argument] = (place, name)
    return {key: argument for argument, key in taken.items()}


def _read_parameter(document: dict[str, Any], schemas: Schemas, raw: dict[str, Any], argument: str) -> Input:
    place, name = raw["in"], raw["name"]
    if place == "cookie" and not is_token(name):
        raise InvalidSchemaError(f"{name!r:.80} cannot be the name of a cookie")
    if place == "header" and not is_token(name):
        raise InvalidSchemaError(f"{name!r:.80} cannot be the name of a header")
    schema, as_json = _find_schema(document, raw)
    style = raw.get("style", _STYLES[place][0])
    if style not in _STYLES[place] and not as_json:
        raise InvalidSchemaError(f"the {place} parameter {name!r:.80} has the style {style!r:.40}")
    explode = raw.get("explode", style == "form")
    parameter = Parameter(
        argument=argument,
        name=name,
        place=place,
        style=style,
        explode=explode is True,
        as_json=as_json,
        keep_reserved=raw.get("allowReserved") is True,
    )
    written = schemas.write(schema, "input")
    return Input(parameter, _add_annotations(written, raw), place == "path" or raw.get("required") is True)


def _find_schema(document: dict[str, Any], raw: dict[str, Any]) -> tuple[Any, bool]:
    """Return the schema of a parameter, and whether its value is written as JSON."""
    content = raw.get("content")
    if not isinstance(content, dict) or not content:
        return raw.get("schema", {}), False
    media_type, media = next(iter(content.items()))
    media = follow(document, media)
    schema = media.get("schema", {}) if isinstance(media, dict) else {}
    return schema, is_json(media_type)


def _add_annotations(schema: Any, raw: dict[str, Any]) -> Any:
    """Return a schema with the description and examples of the parameter itself."""
    extra = dict(_list_annotations(raw))
    return (
        {**(schema if isinstance(schema, dict) else {}), **extra} if extra and schema is not False else schema
    )


def _list_annotations(raw: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(raw.get("description"), str) and raw["description"].strip():
        yield "description", raw["description"].strip()
    if raw.get("deprecated") is True:
        yield "deprecated", True
    if "example" in raw:
        yield "examples", [raw["example"]]

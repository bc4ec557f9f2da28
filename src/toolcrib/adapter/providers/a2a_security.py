"""A2A 1.x: security schemes, which OpenAPI writes another way."""

from collections.abc import Mapping
from typing import Any, Final

from toolcrib.adapter.loss import Losses
from toolcrib.model.plain import copy_json, pointer

__all__ = ["write_scheme"]

_SECURITY: Final = "securitySchemes"
_NO_PLACE: Final = "has no place in this format, and is left out"
_SCHEMES: Final[Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    "apiKey": ("apiKeySecurityScheme", ("in", "name"), ()),
    "http": ("httpAuthSecurityScheme", ("scheme",), ("bearerFormat",)),
    "oauth2": ("oauth2SecurityScheme", ("flows",), ("oauth2MetadataUrl",)),
    "openIdConnect": ("openIdConnectSecurityScheme", ("openIdConnectUrl",), ()),
    "mutualTLS": ("mtlsSecurityScheme", (), ()),
}
"""OpenAPI's kinds of security: what A2A calls each, the parts that must be there, and those that may."""
_FLOWS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "authorizationCode": (("authorizationUrl", "tokenUrl", "scopes"), ("pkceRequired",)),
    "deviceCode": (("deviceAuthorizationUrl", "tokenUrl", "scopes"), ()),
    "clientCredentials": (("tokenUrl", "scopes"), ()),
    "implicit": (("authorizationUrl",), ("scopes",)),
    "password": (("tokenUrl",), ("scopes",)),
}
"""The flows of OAuth, those to prefer first: the parts that must be there, and those that may."""


def write_scheme(scheme: Any, path: str, losses: Losses) -> dict[str, Any] | None:
    """Return a security scheme as A2A writes it; one that is in its shape already is kept."""
    if isinstance(scheme, dict) and scheme.keys() & {wrapper for wrapper, _, _ in _SCHEMES.values()}:
        kept: dict[str, Any] = copy_json(scheme)
        return kept
    kind = scheme.get("type") if isinstance(scheme, dict) else None
    if not isinstance(kind, str) or kind not in _SCHEMES:
        losses.note(_SECURITY, path, f"is of none of the kinds {', '.join(_SCHEMES)}, and is left out")
        return None
    wrapper, required, optional = _SCHEMES[kind]
    parts: dict[str, Any] = _picked(scheme, (*required, *optional, "description"))
    if kind == "oauth2":
        parts |= _flow(scheme.get("flows"), path, losses)
    if missing := [key for key in required if key not in parts]:
        losses.note(_SECURITY, path, f"has no {' and no '.join(missing)} that A2A takes, and is left out")
        return None
    _note_rest(scheme, {*parts, "type"}, path, losses)
    return {wrapper: {"location" if key == "in" else key: part for key, part in parts.items()}}


def _flow(flows: Any, path: str, losses: Losses) -> dict[str, Any]:
    """Return the one flow of OAuth that a scheme may have, as its part `flows`; nothing if there is none."""
    given = dict(flows) if isinstance(flows, dict) else {}
    if "deviceAuthorization" in given:
        given["deviceCode"] = given.pop("deviceAuthorization")
    for name, (required, optional) in _FLOWS.items():
        parts = _picked(given.get(name), (*required, *optional, "refreshUrl"))
        if set(required) <= parts.keys():
            for other in given.keys() - {name}:
                reason = f"is left out: in this format a scheme has one flow, which is {name}"
                losses.note(_SECURITY, f"{path}{pointer(['flows', other])}", reason)
            _note_rest(given[name], set(parts), f"{path}/flows/{name}", losses)
            return {"flows": {name: parts}}
    return {}


def _note_rest(given: dict[str, Any], kept: set[str], path: str, losses: Losses) -> None:
    for key in given.keys() - kept:
        losses.note(_SECURITY, f"{path}{pointer([key])}", _NO_PLACE)


def _picked(given: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return those parts of a scheme that are there, and what they must be."""
    found = {}
    for key in keys:
        value = given.get(key) if isinstance(given, dict) else None
        if key == "scopes":
            is_right = (
                isinstance(value, dict) and value and all(isinstance(one, str) for one in value.values())
            )
        else:
            is_right = (
                isinstance(value, bool) if key == "pkceRequired" else (isinstance(value, str) and bool(value))
            )
        if is_right:
            found[key] = copy_json(value)
    return found

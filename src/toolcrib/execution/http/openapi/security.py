"""Reads the security schemes of a document, and makes credentials from their secrets."""

from collections.abc import Mapping
from typing import Any

from toolcrib.errors import InvalidSchemaError, NoBackendError
from toolcrib.execution.call import Call
from toolcrib.execution.http.assembly import is_token
from toolcrib.execution.http.base import config_error
from toolcrib.execution.http.credentials import Credentials, Scheme, Secret, read_secret
from toolcrib.execution.http.openapi.references import follow
from toolcrib.execution.http.plan import RequestPlan
from toolcrib.model.suggest import did_you_mean


def read_schemes(document: dict[str, Any]) -> dict[str, Scheme]:
    """Return the supported schemes by name; mutual TLS and unknown schemes are left out."""
    components = document.get("components")
    raw = components.get("securitySchemes") if isinstance(components, dict) else None
    found = (
        {name: _read_scheme(document, entry) for name, entry in raw.items()} if isinstance(raw, dict) else {}
    )
    return {name: scheme for name, scheme in found.items() if scheme is not None}


def _read_scheme(document: dict[str, Any], raw: Any) -> Scheme | None:
    try:
        raw = follow(document, raw)
    except InvalidSchemaError:
        return None
    kind = raw.get("type") if isinstance(raw, dict) else None
    if kind in ("oauth2", "openIdConnect"):
        return Scheme("bearer")
    if kind == "http":
        named = str(raw.get("scheme", "")).lower()
        return Scheme("basic") if named == "basic" else Scheme("bearer") if named == "bearer" else None
    return _read_key_scheme(raw) if kind == "apiKey" else None


def _read_key_scheme(raw: dict[str, Any]) -> Scheme | None:
    place, name = raw.get("in"), raw.get("name")
    if place not in ("header", "query", "cookie") or not isinstance(name, str) or not name:
        return None
    return Scheme("key", place, name) if place == "query" or is_token(name) else None


def read_security(document: dict[str, Any], operation: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Return the security alternatives of an operation; each lists the schemes that it needs together.

    An operation overrides the document; an empty list means that none is needed.

    Raises:
        InvalidSchemaError: it is not a list of objects.
    """
    raw = operation.get("security", document.get("security", []))
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
        raise InvalidSchemaError("the security of the operation is not a list of objects")
    return tuple(tuple(entry) for entry in raw)


class SchemeSecrets:
    """The secrets of one provider, by the names of their security schemes."""

    def __init__(
        self, provider_id: str, schemes: Mapping[str, Scheme], secrets: Mapping[str, Secret]
    ) -> None:
        for name in secrets:
            if name not in schemes:
                known = f"; it has {', '.join(map(repr, schemes))}" if schemes else ""
                reason = f"the document has no scheme {name!r:.80} that a secret fills{known}"
                raise config_error(provider_id, "/secrets", f"{reason}{did_you_mean(name, schemes)}")
        self._provider_id = provider_id
        self._schemes = schemes
        self._secrets = dict(secrets)

    async def make_credentials(self, call: Call, plan: RequestPlan) -> Credentials:
        """Return the credentials of a call, by the first alternative whose secrets are all known.

        Raises:
            NoBackendError: secrets are missing in every alternative; the message names their schemes.
        """
        if not plan.security:
            return Credentials()
        chosen = next(
            (names for names in plan.security if names and all(name in self._secrets for name in names)), None
        )
        if chosen is None and () in plan.security:
            return Credentials()
        if chosen is None:
            raise self._missing_error(call, plan)
        try:
            return Credentials.of(
                [(self._schemes[name], await self._read_secret(call, name)) for name in chosen]
            )
        except ValueError as error:
            raise self._credentials_error(call, f"a secret cannot be sent: {error}") from None

    async def _read_secret(self, call: Call, name: str) -> str:
        try:
            return await read_secret(self._secrets[name])
        except Exception as error:  # noqa: BLE001 - a function of the program, which may raise anything
            # `from None`: the original error may quote the secret.
            raise self._credentials_error(
                call, f"the secret {name!r} could not be obtained: {type(error).__name__}"
            ) from None

    def _missing_error(self, call: Call, plan: RequestPlan) -> NoBackendError:
        wanted = [
            " and ".join(repr(name) for name in names if name not in self._secrets) for names in plan.security
        ]
        usable = [
            text
            for text, names in zip(wanted, plan.security, strict=True)
            if all(name in self._schemes for name in names)
        ]
        if not usable:
            return self._credentials_error(call, f"it needs {' or '.join(wanted)}, which no secret can fill")
        return self._credentials_error(call, f"it needs the secret {' or '.join(usable)}; give it in secrets")

    def _credentials_error(self, call: Call, reason: str) -> NoBackendError:
        return NoBackendError(
            tool_id=call.tool_id, backend=f"provider:{self._provider_id}", reason=f"{reason[:500]}"
        )

"""The HTTP APIs of a configuration: each is read from its document, and run by its own executor."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread

from toolcrib.crib.listing import Origin, Tools
from toolcrib.crib.settings import OpenApiSettings, Settings
from toolcrib.errors import BackendUnavailableError, ConfigError
from toolcrib.execution import Answer, Call
from toolcrib.execution.mcp.status import ServerState, ServerStatus
from toolcrib.execution.mcp.variables import Expansion
from toolcrib.execution.provider import OpenApiProvider

__all__ = ["Apis"]

_CLOSING_TIME = 5.0


class Apis:
    """The APIs by name, each from the beginning, although it runs nothing before its document is read."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] | None) -> None:
        source = settings.source or "configuration"
        known = os.environ if environ is None else environ
        limit = settings.limits.result_bytes
        self._is_closed = False
        self.executors = {
            name: _Api(name, api, source, known, limit) for name, api in settings.openapi.items()
        }

    def origins(self) -> list[Origin]:
        """Return where the tools of APIs come from.

        They have no identity, and so are not kept: documents are files, and quickly read.
        """
        return [
            Origin(
                name=name,
                key=f"provider:{name}",
                identity="",
                list_tools=api.read,
                required=api.settings.required,
                prefix=f"api {name!r}: ",
            )
            for name, api in self.executors.items()
        ]

    def status(self, origins: Mapping[str, Origin]) -> dict[str, ServerStatus]:
        """Return how the APIs are doing, by name."""
        return {name: self._status(api, origins[name]) for name, api in self.executors.items()}

    def _status(self, api: "_Api", origin: Origin) -> ServerStatus:
        state: ServerState = "ready" if origin.answered.is_set() else "starting"
        if self._is_closed or origin.error is not None:
            state = "closed" if self._is_closed else "failed"
        return ServerStatus(
            name=api.name,
            state=state,
            transport="openapi",
            tools=None if api.provider is None else len(api.provider.tools()),
            last_error=None if origin.error is None else str(origin.error),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._is_closed = True
        with anyio.move_on_after(_CLOSING_TIME, shield=True):
            for api in self.executors.values():
                await api.close()


@dataclass(slots=True)
class _Api:
    """The executor of one API."""

    name: str
    settings: OpenApiSettings
    source: str
    environ: Mapping[str, str]
    max_bytes: int
    provider: OpenApiProvider | None = None

    async def call(self, call: Call) -> Answer:
        if self.provider is None:
            key, reason = f"provider:{self.name}", "its document has not been read"
            raise BackendUnavailableError(tool_id=call.tool_id, backend=key, reason=reason, sent=False)
        return await self.provider.call(call)

    async def read(self) -> Tools:
        """Return the tools of the document."""
        self.provider = await to_thread.run_sync(self._read)
        return self.provider.tools()

    def _read(self) -> OpenApiProvider:
        fill, api = Expansion(self.environ), self.settings
        place = f"/openapi/{self.name}"
        secrets = {
            scheme: fill.text(secret, path=f"{place}/secrets/{scheme}")
            for scheme, secret in api.secrets.items()
        }
        base_url = fill.text(api.base_url, path=f"{place}/base_url") if api.base_url else None
        if fill.problems:
            raise ConfigError(self.source, tuple(fill.problems))
        return OpenApiProvider.from_document(
            Path(api.document).expanduser(),
            id=self.name,
            base_url=base_url,
            secrets=secrets,
            allow_private=api.allow_private,
            max_response_bytes=self.max_bytes,
        )

    async def close(self) -> None:
        if self.provider is not None:
            await self.provider.aclose()

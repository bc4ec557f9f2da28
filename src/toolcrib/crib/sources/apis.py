"""The HTTP APIs of a configuration, each run by an executor that is made from its OpenAPI document."""

import json
import os
from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from toolcrib.concurrency.in_flight import InFlight
from toolcrib.crib.config.settings import OpenApiSettings, Settings
from toolcrib.crib.sources.origins import Origin, Tools
from toolcrib.errors import BackendUnavailableError, ConfigError, ToolcribError
from toolcrib.execution import Answer, Call
from toolcrib.execution.http import OpenApiProvider
from toolcrib.execution.mcp.pool import DRAIN_TIME
from toolcrib.execution.mcp.server_health import ServerState, ServerStatus
from toolcrib.execution.variables import Expansion
from toolcrib.redaction import host_of

_CLOSING_SECONDS = 5.0


class Apis:
    """The APIs by name; each has an executor from the start, which reads the document at its first use."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] | None) -> None:
        self._environ = os.environ if environ is None else environ
        self._is_closed = False
        self._tasks: TaskGroup | None = None
        self.executors = self._make_apis(settings)

    def _make_apis(self, settings: Settings) -> dict[str, "_Api"]:
        source, limit = settings.source or "configuration", settings.limits.result_bytes
        return {name: _Api(name, api, source, self._environ, limit) for name, api in settings.openapi.items()}

    def change(self, settings: Settings) -> tuple[set[str], set[str]]:
        """Apply other settings; return the names of the closed APIs, and of the new ones.

        Running calls of a closed API may finish. An API whose document has changed since it was read is both.
        """
        wanted = self._make_apis(settings)
        gone = {name for name, api in self.executors.items() if not api.serves_as(wanted.get(name))}
        for name in gone:
            api = self.executors.pop(name)
            if self._tasks is not None:
                Context().run(self._tasks.start_soon, api.retire)
        fresh = wanted.keys() - self.executors.keys()
        self.executors |= {name: wanted[name] for name in fresh}
        return gone, fresh

    def origins(self) -> dict[str, Origin]:
        """Return the origins of the tools, by name."""
        return {
            name: Origin(
                name=name,
                key=f"provider:{name}",
                identity=api.identity,
                list_tools=api.read,
                required=api.settings.required,
                prefix=f"api {name!r}: ",
            )
            for name, api in self.executors.items()
        }

    def is_read(self, name: str) -> bool:
        """Return whether the document of an API was read in this run."""
        return name in self.executors and self.executors[name].read_at is not None

    def status(self, origins: Mapping[str, Origin]) -> dict[str, ServerStatus]:
        """Return the status of each API, by name."""
        return {name: self._status_of(api, origins[name]) for name, api in self.executors.items()}

    def _status_of(self, api: "_Api", origin: Origin) -> ServerStatus:
        state: ServerState = "stopped" if origin.kept else "starting"
        if origin.answered.is_set():
            state = "ready"
        if self._is_closed or origin.error is not None:
            state = "closed" if self._is_closed else "failed"
        return ServerStatus(
            name=api.name,
            state=state,
            transport="openapi",
            address=host_of(api.settings.base_url) if api.settings.base_url else None,
            tools=None if api.provider is None else len(api.provider.tools()),
            listed_ago=None if api.read_at is None else anyio.current_time() - api.read_at,
            last_error=None if origin.error is None else str(origin.error),
            in_flight=len(api.in_flight),
        )

    async def __aenter__(self) -> Self:
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        self._tasks = tasks
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        tasks, self._tasks, self._is_closed = self._tasks, None, True
        if tasks is not None:
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)
        with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
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
    read_at: float | None = None
    """The time at which its document was read, by the clock of the event loop."""
    written: int | None = None
    """Modification time of the document when it was read; None before."""
    in_flight: InFlight = field(default_factory=InFlight)
    """The running calls."""
    reading: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while the document is read."""

    def serves_as(self, other: "_Api | None") -> bool:
        """Return whether this executor can stay in place of another with new settings."""
        if other is None or (self.settings, self.max_bytes) != (other.settings, other.max_bytes):
            return False
        return self.written is None or self.written == _modified_at(self.document)

    @property
    def document(self) -> Path:
        return Path(self.settings.document).expanduser()

    @property
    def identity(self) -> str:
        """A hash of the path and modification time of the document, and of the base URL."""
        parts = [str(self.document), _modified_at(self.document), self.settings.base_url]
        return sha256(json.dumps(parts).encode(errors="surrogatepass")).hexdigest()

    async def call(self, call: Call) -> Answer:
        with self.in_flight:
            try:
                provider = await self._open_provider()
            except ToolcribError as error:
                key = f"provider:{self.name}"
                raise BackendUnavailableError(
                    tool_id=call.tool_id, backend=key, reason=str(error), sent=False
                ) from error
            return await provider.call(call)

    async def read(self) -> Tools:
        """Return the tools of the document."""
        return (await self._open_provider()).tools()

    async def _open_provider(self) -> OpenApiProvider:
        """Return the executor of the tools; the first use reads the document."""
        async with self.reading:
            if self.provider is None:
                self.written = _modified_at(self.document)
                self.provider = await to_thread.run_sync(self._read_document, abandon_on_cancel=True)
                self.read_at = anyio.current_time()
            return self.provider

    def _read_document(self) -> OpenApiProvider:
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
            self.document,
            id=self.name,
            base_url=base_url,
            secrets=secrets,
            allow_private=api.allow_private,
            max_response_bytes=self.max_bytes,
        )

    async def retire(self) -> None:
        """Close it when its running calls have ended, or the time for that is over."""
        try:
            await self.in_flight.wait_until_none(DRAIN_TIME)
        finally:
            with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                await self.close()

    async def close(self) -> None:
        if self.provider is not None:
            await self.provider.aclose()


def _modified_at(document: Path) -> int | None:
    """Return the modification time of a file; None if it cannot be read."""
    try:
        return document.stat().st_mtime_ns
    except OSError:
        return None

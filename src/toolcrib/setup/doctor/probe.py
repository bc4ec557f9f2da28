"""Lists the tools of a server or an API once."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import anyio

from toolcrib.crib.config.settings import Settings
from toolcrib.crib.sources.apis import Apis
from toolcrib.errors import ConfigError, MissingExtraError, ServerUnavailableError, ToolcribError
from toolcrib.execution.mcp import McpServers, ServerConfig
from toolcrib.model import Tool
from toolcrib.redaction import hide_secrets

_LISTING_TIME = 15.0
"""Seconds that a started server may take to list its tools."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of listing the tools of a server."""

    name: str
    """The name of the server."""
    tools: tuple[Tool, ...] = ()
    """The tools that it listed."""
    refused: dict[str, str] = field(default_factory=dict)
    """Invalid definitions, by name, with the reasons."""
    error: ToolcribError | None = None
    """The error if its tools could not be listed; None if it answered."""
    stderr: str = ""
    """The last lines that it wrote to its standard error, without secrets."""
    seconds: float = 0.0
    """The duration."""


async def probe(
    name: str, server: ServerConfig, *, environ: Mapping[str, str] | None = None, limit: float | None = None
) -> Probe:
    """List the tools of a server; a failure is part of the result.

    Args:
        name: its name.
        server: its configuration.
        environ: where its variables are looked up, instead of the process's environment.
        limit: the seconds for everything; None allows its own `start_timeout`, and some more for the listing.
    """
    began = anyio.current_time()
    limit = server.start_limit + _LISTING_TIME if limit is None else limit
    wanted = server.replace(disabled=False)
    tools: tuple[Tool, ...] = ()
    error: ToolcribError | None = None
    async with McpServers({name: wanted}, environ=environ) as servers:
        try:
            with anyio.fail_after(limit):
                tools = await servers.tools(name)
        except TimeoutError:
            error = ServerUnavailableError(name, f"it did not list its tools within {limit:g} s")
        except (ConfigError, MissingExtraError, ServerUnavailableError) as failure:
            error = failure
        took = anyio.current_time() - began
        status = servers.status()[name]
    stderr = error.stderr if isinstance(error, ServerUnavailableError) else ""
    refused = {each: hide_secrets(reason) for each, reason in status.refused.items()}
    return Probe(name, tools, refused, error, hide_secrets(stderr or status.stderr), took)


async def probe_apis(settings: Settings, environ: Mapping[str, str] | None = None) -> list[Probe]:
    """Read the tools of all APIs from their documents; no API is called."""
    probes = []
    async with Apis(settings, environ) as apis:
        for name, origin in apis.origins().items():
            began = anyio.current_time()
            try:
                with anyio.fail_after(_LISTING_TIME):
                    found = Probe(name, tuple(await origin.list_tools()))
            except TimeoutError:
                found = Probe(name, error=ServerUnavailableError(name, "its document takes too long to read"))
            except ToolcribError as failure:
                found = Probe(name, error=failure)
            probes.append(replace(found, seconds=anyio.current_time() - began))
    return probes

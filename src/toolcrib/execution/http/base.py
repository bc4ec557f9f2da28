"""Base class of HTTP providers: tools with their request plans, and one client."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

from toolcrib.errors import ConfigError, InvalidToolError, NoBackendError, Problem
from toolcrib.errors.base import count_noun
from toolcrib.execution.call import Answer, Call
from toolcrib.execution.http.addresses import is_unusual_number
from toolcrib.execution.http.client import HttpClient, HttpOptions
from toolcrib.execution.http.credentials import Credentials
from toolcrib.execution.http.plan import RequestPlan
from toolcrib.model.backend import ProviderBackend
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import name_fault

PATH_SAFE = "/:@!$&'()*+,;=~%"
"""Characters that stay unescaped in paths of API descriptions, where they are part of the syntax."""


class WebProvider:
    """A `ProviderExecutor` whose tools are HTTP requests.

    The first call opens connections, which all calls of one event loop share. `async with` or `aclose` closes
    them; a later call opens new ones. Redirects are errors that name the target: following one would send
    credentials to another address.
    """

    def __init__(
        self, provider_id: str, tools: Mapping[str, tuple[Tool, RequestPlan]], options: HttpOptions
    ) -> None:
        check_provider_id(provider_id)
        self.id = provider_id
        self._tools = dict(tools)
        self._client = HttpClient(provider_id, options)

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, each bound to this provider and in the namespace of its id."""
        return tuple(tool for tool, _ in self._tools.values())

    async def call(self, call: Call) -> Answer:
        """Send the request of a tool and return its answer.

        Raises:
            NoBackendError: the provider has no such tool, or lacks a secret that it needs.
            InputValidationError: an argument cannot be sent in its place.
            PolicyDeniedError: the address of the server is private, and not allowed.
            BackendUnavailableError: the server cannot be reached, closed the connection, or is overloaded.
            ToolExecutionError: the request failed, or its response cannot be read.
        """
        name = call.backend.tool_id if isinstance(call.backend, ProviderBackend) else ""
        if name not in self._tools:
            raise NoBackendError(
                tool_id=call.tool_id,
                backend=f"provider:{self.id}",
                reason=f"provider {self.id!r} has no tool {name!r:.140}{did_you_mean(name, self._tools)}",
            )
        _, plan = self._tools[name]
        return await self._client.call(call, plan, await self._credentials(call, plan))

    async def _credentials(self, call: Call, plan: RequestPlan) -> Credentials:  # noqa: ARG002 - for subclasses
        return Credentials()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}, {count_noun(len(self._tools), 'tool')}>"


def check_provider_id(provider_id: str) -> None:
    """Raise `InvalidToolError` if a text cannot be the id of a provider, the namespace of its tools."""
    if fault := name_fault(provider_id):
        problem = Problem("/id", "name", f"{provider_id!r:.140} {fault}")
        raise InvalidToolError((problem,), record="provider")


def config_error(provider_id: str, path: str, reason: str) -> ConfigError:
    """Return the error for an invalid setting of a provider."""
    return ConfigError(f"provider {provider_id!r}", (Problem(path, "provider", reason[:500]),))


def check_base_url(provider_id: str, url: str) -> str:
    """Return the base URL of requests, without a slash at its end.

    Raises:
        ConfigError: it is not http or https, or has more than a host, a port and a path.
    """
    parts = _split_url(url)
    fault = ""
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        fault = "must begin with http:// or https:// and a host"
    elif parts.username is not None or parts.password is not None:
        fault = "must not contain a user or a password; give them as secrets"
    elif is_unusual_number(parts.hostname):
        fault = "is an odd spelling of an address; write it in full"
    elif not all(parts.hostname.removesuffix(".").split(".")):
        fault = "has a host with nothing between two dots, or before the first"
    elif parts.query or parts.fragment:
        fault = "must not contain a query or a fragment"
    if parts is None or fault:
        shown = "" if parts is None or parts.username is not None else f" {url!r:.200}"
        raise config_error(provider_id, "/base_url", f"the address{shown} {fault}")
    path = quote(parts.path, safe=PATH_SAFE).rstrip("/")
    if any(unquote(part) in {".", ".."} for part in path.split("/")):
        raise config_error(provider_id, "/base_url", f"the address {url!r:.200} must not contain '.' or '..'")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _split_url(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if it is invalid."""
    if any(sign <= " " or sign == "\\" or "\ud800" <= sign <= "\udfff" for sign in url):
        return None
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError:
        return None
    return parts if has_port else None

"""Calls to providers, each sent to the executor of its own."""

from collections.abc import Mapping

from toolcrib.errors import NoBackendError
from toolcrib.execution.protocols import ProviderExecutor
from toolcrib.execution.records import Answer, Call
from toolcrib.model.backend import ProviderBackend, ToolBackend
from toolcrib.model.suggest import did_you_mean

__all__ = ["ProviderRoutes"]


class ProviderRoutes:
    """The executor of every provider backend: it hands a call to the provider that the backend names.

    The mapping is looked at with every call, so that providers may come and go.
    """

    def __init__(self, providers: Mapping[str, ProviderExecutor]) -> None:
        self._providers = providers

    def missing(self, backend: ToolBackend) -> str | None:
        """Return why a backend cannot run here: no provider of its id is known."""
        name = _provider(backend)
        if name in self._providers:
            return None
        return f"no provider is named {name!r}{did_you_mean(name, self._providers)}"

    async def call(self, call: Call) -> Answer:
        """Run the tool with its provider."""
        executor = self._providers.get(_provider(call.backend))
        if executor is None:
            raise NoBackendError(tool_id=call.tool_id, reason=self.missing(call.backend) or "")
        return await executor.call(call)


def _provider(backend: ToolBackend) -> str:
    return backend.provider_id if isinstance(backend, ProviderBackend) else backend.kind

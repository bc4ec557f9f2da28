"""Which servers and APIs a call needs, and what to say of a tool whose server is not there."""

from collections.abc import Callable
from typing import Any

from toolcrib.discovery.keys import namespace_of
from toolcrib.errors import (
    BackendUnavailableError,
    InvalidConstraintError,
    InvalidToolIdError,
    LoginRequiredError,
    ServerUnavailableError,
    ToolLoginRequiredError,
    ToolNotFoundError,
)
from toolcrib.errors.base import either
from toolcrib.execution import LocalHandlers
from toolcrib.model import LocalTool, Resolver, Tool, ToolId
from toolcrib.redaction import hide_secrets

Ref = str | ToolId | Tool | Callable[..., Any]
"""What a verb takes for a tool: its id, the tool, or the function that `add` was given or has returned."""
UNKNOWN = (InvalidToolIdError, InvalidConstraintError, ToolNotFoundError, BackendUnavailableError)
"""Errors by which no tool is known here by a reference."""
Why = Callable[[str], tuple[str, ServerUnavailableError] | None]
"""Says of a namespace which server or API does not answer, and why; None where nothing is amiss."""


class AvailabilityResolver:
    """A resolver that tells a tool nobody has from one whose server is not there."""

    def __init__(
        self,
        index: Resolver,
        why: Why = lambda _: None,
        concerns: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Look tools up in a catalogue; a reference that does not concern it is left alone."""
        self._index = index
        self._why = why
        self._concerns = concerns
        self.backends = index.backends
        """Returns where a tool can run."""

    def resolve(self, ref: str | ToolId) -> Tool:
        """Return the tool that a reference means.

        Raises:
            ToolNotFoundError: there is none, with the nearest ids.
            BackendUnavailableError: it may be one of a server that has not listed its tools. What the server
                has written is in its cause alone: a model may see this one.
        """
        try:
            return self._index.resolve(ref)
        except ToolNotFoundError:
            absent = self._why(namespace_of(ref)) if self._concerns(str(ref)) else None
            if absent is None:
                raise
            backend, failure = absent
            reason = hide_secrets(failure.reason)
            if isinstance(failure, LoginRequiredError):
                raise ToolLoginRequiredError(
                    tool_id=str(ref), op="resolve", backend=backend, reason=reason, server=failure.server
                ) from failure
            raise BackendUnavailableError(
                tool_id=str(ref), op="resolve", backend=backend, reason=reason, sent=False
            ) from failure


def id_of(ref: Ref, handlers: LocalHandlers) -> str | ToolId:
    """Return the id of what stands for a tool; functions are those that have handlers.

    Raises:
        ToolNotFoundError: it is a function that was not added.
        InvalidToolIdError: it is a function that was added as several tools.
    """
    if isinstance(ref, Tool):
        return ref.id
    if isinstance(ref, str | ToolId) or not callable(ref):
        return ref
    names = handlers.names_of(ref)
    if isinstance(ref, LocalTool) and not names:
        return ref.tool.id
    called = str(getattr(ref, "__qualname__", type(ref).__qualname__))
    if not names:
        raise ToolNotFoundError(
            called, reason="this function was not added; add it first: crib.add(function)"
        )
    if len(names) > 1:
        raise InvalidToolIdError(called, f"this function was added as {either(names)}; name one of them")
    return names[0]

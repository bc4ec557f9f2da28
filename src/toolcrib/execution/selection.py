"""Which backend of a tool to try, and which after that."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from toolcrib.errors import BackendUnavailableError, InvalidBackendError, NoBackendError, ToolcribError
from toolcrib.execution.call import Request
from toolcrib.execution.protocols import Executor, Selector
from toolcrib.model.backend import BackendKind, LocalBackend, McpBackend, ProviderBackend, ToolBackend
from toolcrib.model.tool import Tool
from toolcrib.redaction import error_text

_ORDER: dict[BackendKind, int] = {"local": 0, "provider": 1, "mcp": 2}
_OPTION = {"local": "local=", "mcp": "mcp=", "provider": "providers="}
_MOST = 100
"""How many backends a selector may choose, so that one that never ends is known."""


def by_kind(_tool: Tool, backends: Sequence[ToolBackend]) -> Sequence[ToolBackend]:
    """Return backends with the nearest first: local, then provider, then MCP, each as registered."""
    return backends if len(backends) == 1 else sorted(backends, key=lambda backend: _ORDER[backend.kind])


def label(backend: ToolBackend) -> str:
    """Return how errors and records name a backend.

    >>> label(McpBackend(server_name="github"))
    'mcp:github'
    """
    match backend:
        case McpBackend():
            return f"mcp:{backend.server_name}"
        case ProviderBackend():
            return f"provider:{backend.provider_id}"
        case LocalBackend():
            return f"local:{backend.name}"
    return backend.kind


def select_backends(
    tool: Tool,
    backends: Sequence[ToolBackend],
    executors: Mapping[str, Executor],
    select: Selector,
) -> Sequence[ToolBackend]:
    """Return the backends to try, in order; all of them can run here.

    Raises:
        NoBackendError: there is none, or what runs it is not known here.
        InvalidBackendError: the selector failed, or chose something that is not a backend of the tool.
    """
    offered = backends or ((tool.backend,) if tool.backend is not None else ())
    if not offered:
        raise NoBackendError(tool_id=str(tool.id), reason="register it with one")
    try:
        choice = select(tool, offered)
        chosen = offered if choice is offered else _check_choice(choice, offered)
    except ToolcribError:
        raise
    except Exception as error:  # a selector is somebody else's code, and so is what it returns
        raise InvalidBackendError(f"the selector failed: {error_text(error)}") from error
    usable: list[ToolBackend] = []
    reasons: dict[str, None] = {}
    for backend in chosen:
        executor = executors.get(backend.kind)
        if executor is None:
            option = _OPTION[backend.kind]
            reasons[f"nothing here runs {backend.kind} backends; give the runner {option}"] = None
        elif (reason := executor.missing(backend)) is not None:
            reasons[reason] = None
        else:
            usable.append(backend)
    if not usable:
        text = "; ".join(filter(None, reasons)) or "the selector chose none"
        raise NoBackendError(tool_id=str(tool.id), reason=text)
    return usable


def may_try_next(request: Request, error: BackendUnavailableError) -> bool:
    """Return whether another backend may be tried: the call never arrived, or to run it twice is harmless."""
    return not error.sent or request.repeatable


def _check_choice(choice: Any, offered: Sequence[ToolBackend]) -> Sequence[ToolBackend]:
    if choice is None or isinstance(choice, ToolBackend):
        choice = () if choice is None else (choice,)
    if isinstance(choice, str | bytes | Mapping) or not isinstance(choice, Iterable):
        kind = type(choice).__name__
        raise InvalidBackendError(f"the selector must return a backend, or a list of them, and not a {kind}")
    chosen = list(islice(choice, _MOST + 1))
    if len(chosen) > _MOST:
        raise InvalidBackendError(f"the selector chose more than {_MOST} backends")
    for backend in chosen:
        if not isinstance(backend, ToolBackend) or backend not in offered:
            name = label(backend) if isinstance(backend, ToolBackend) else f"a {type(backend).__name__}"
            raise InvalidBackendError(f"the selector chose {name}, which is no backend of the tool")
    return chosen

"""Selects the backends of a tool to try, in order."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from toolcrib.errors import BackendUnavailableError, InvalidBackendError, NoBackendError, ToolcribError
from toolcrib.execution.call import Request
from toolcrib.execution.protocols import Executor, Selector
from toolcrib.model.backend import BackendKind, ToolBackend, label
from toolcrib.model.tool import Tool
from toolcrib.redaction import error_text

_KIND_ORDER: dict[BackendKind, int] = {"local": 0, "provider": 1, "mcp": 2}
_RUNNER_OPTION = {"local": "local=", "mcp": "mcp=", "provider": "providers="}
_MAX_CHOSEN = 100
"""A selector may be a generator; this stops one that never ends."""


def by_kind(_tool: Tool, backends: Sequence[ToolBackend]) -> Sequence[ToolBackend]:
    """Return backends ordered by kind: local, provider, MCP; equal kinds in the order of registration."""
    return backends if len(backends) == 1 else sorted(backends, key=lambda backend: _KIND_ORDER[backend.kind])


def select_backends(
    tool: Tool,
    backends: Sequence[ToolBackend],
    executors: Mapping[str, Executor],
    select: Selector,
) -> Sequence[ToolBackend]:
    """Return the backends to try, in order; only those that can run here.

    Raises:
        NoBackendError: the tool has none that can run here.
        InvalidBackendError: the selector failed, or chose something else than a backend of the tool.
    """
    offered = backends or ((tool.backend,) if tool.backend is not None else ())
    if not offered:
        raise NoBackendError(tool_id=str(tool.id), reason="register it with one")
    try:
        choice = select(tool, offered)
        chosen = offered if choice is offered else _check_choice(choice, offered)
    except ToolcribError:
        raise
    except Exception as error:  # a selector, and the object it returns, are foreign code
        raise InvalidBackendError(f"the selector failed: {error_text(error)}") from error
    usable: list[ToolBackend] = []
    reasons: dict[str, None] = {}
    for backend in chosen:
        executor = executors.get(backend.kind)
        if executor is None:
            option = _RUNNER_OPTION[backend.kind]
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
    """Return whether another backend may be tried: the call never arrived, or the tool is idempotent."""
    return not error.sent or request.repeatable


def _check_choice(choice: Any, offered: Sequence[ToolBackend]) -> Sequence[ToolBackend]:
    if choice is None or isinstance(choice, ToolBackend):
        choice = () if choice is None else (choice,)
    if isinstance(choice, str | bytes | Mapping) or not isinstance(choice, Iterable):
        kind = type(choice).__name__
        raise InvalidBackendError(f"the selector must return a backend, or a list of them, and not a {kind}")
    chosen = list(islice(choice, _MAX_CHOSEN + 1))
    if len(chosen) > _MAX_CHOSEN:
        raise InvalidBackendError(f"the selector chose more than {_MAX_CHOSEN} backends")
    for backend in chosen:
        if not isinstance(backend, ToolBackend) or backend not in offered:
            name = label(backend) if isinstance(backend, ToolBackend) else f"a {type(backend).__name__}"
            raise InvalidBackendError(f"the selector chose {name}, which is not a backend of the tool")
    return chosen

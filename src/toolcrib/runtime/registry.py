"""The registry of sandboxes: built-in kinds, plug-ins, and the check that one serves a profile."""

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.model.suggest import choose
from toolcrib.runtime.protocols import Sandbox
from toolcrib.runtime.request import BackendInfo, SecurityProfile

ENTRY_POINTS: Final = "toolcrib.sandboxes"
"""Entry point group of plug-ins; each names a class whose constructor takes no arguments."""
DEFAULT: Final = "monty"
UNSAFE: Final = "unsafe"
_BUILT_IN = {
    "monty": "toolcrib.runtime.sandboxes.monty:MontySandbox",
    "process": "toolcrib.runtime.sandboxes.process:ProcessSandbox",
    "docker": "toolcrib.runtime.sandboxes.docker:DockerSandbox",
    "gvisor": "toolcrib.runtime.sandboxes.docker:GvisorSandbox",
    "wasm": "toolcrib.runtime.sandboxes.wasm:WasmSandbox",
    "unsafe": "toolcrib.runtime.sandboxes.unsafe:UnsafeSandbox",
}


def kinds() -> tuple[str, ...]:
    """Return the kinds of sandboxes that are built in, and those of plug-ins."""
    return (*_BUILT_IN, *(name for name in _list_plugins() if name not in _BUILT_IN))


def backends() -> dict[str, BackendInfo]:
    """Return every kind of sandbox, and in its details whether it can run here.

    >>> list(backends())[:6]
    ['monty', 'process', 'docker', 'gvisor', 'wasm', 'unsafe']
    """
    return {kind: _describe_kind(kind) for kind in kinds()}


def make_sandbox(kind: str) -> Sandbox:
    """Return a new sandbox of a kind, not entered.

    Raises:
        RuntimeUnavailableError: there is no such kind, or the plug-in that offers it does not load.
    """
    if kind in _BUILT_IN:
        module, _, name = _BUILT_IN[kind].partition(":")
        built: Sandbox = getattr(import_module(module), name)()
        return built
    offered = _list_plugins()
    if kind not in offered:
        raise RuntimeUnavailableError(kind, f"no sandbox is called that{choose(kind, kinds())}")
    try:
        made = offered[kind].load()()
    except Exception as error:  # foreign code, which may raise anything
        raise RuntimeUnavailableError(kind, f"its plug-in does not load: {error}") from error
    if not isinstance(made, Sandbox):
        raise RuntimeUnavailableError(
            kind, f"its plug-in gives {type(made).__name__}, which is not a sandbox"
        )
    return made


def _describe_kind(kind: str) -> BackendInfo:
    try:
        return make_sandbox(kind).info()
    except RuntimeUnavailableError as error:  # a broken plug-in must not hide the other kinds
        details = {"available": False, "remedy": error.remedy, "isolation": [], "profiles": []}
        return BackendInfo(kind=kind, readiness="stub", details=details)


def check_profile(info: BackendInfo, profile: SecurityProfile) -> None:
    """Check that a sandbox can run here, and isolates enough for a profile.

    Raises:
        RuntimeUnavailableError: it cannot; the message says what to install or to use instead.
    """
    details = info.details
    if not details.get("available"):
        raise RuntimeUnavailableError(info.kind, str(details.get("remedy") or "it gives no reason"))
    served = details.get("profiles", ())
    if profile not in served:
        names = ", ".join(served) or "none"
        remedy = f"; {details['remedy']}" if details.get("remedy") else ""
        raise RuntimeUnavailableError(
            info.kind,
            f"it lacks the isolation that the profile '{profile}' requires; here it serves {names}{remedy}",
        )


def _list_plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}

"""Whether code can run here at all."""

from toolcrib.crib.config.gateway import GatewaySettings
from toolcrib.crib.config.settings import CodeSettings
from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime import backends
from toolcrib.runtime.choice import UNSAFE, check_profile

__all__ = ["why_no_code"]


def why_no_code(settings: GatewaySettings, code: CodeSettings, *, sandbox: bool | None = None) -> str:
    """Return why code cannot run, or nothing where it can; `sandbox` says so without looking.

    >>> why_no_code(GatewaySettings(code=False), CodeSettings())
    'it is switched off here; use run_tool or run_chain'
    """
    if not settings.code:
        return "it is switched off here; use run_tool or run_chain"
    if sandbox is not None:
        return "" if sandbox else "there is no sandbox here; use run_tool or run_chain"
    if code.backend == UNSAFE and not code.allow_unsafe:
        return "the sandbox 'unsafe' is not allowed here; use run_tool or run_chain"
    found = backends().get(code.backend)
    if found is None:
        return f"there is no sandbox {code.backend!r}; use run_tool or run_chain"
    try:
        check_profile(found, code.profile)
    except RuntimeUnavailableError as error:
        return f"{error}; use run_tool or run_chain"
    return ""

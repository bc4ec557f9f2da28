"""Whether a request may run: the one place where that is asked."""

import inspect

import anyio

from toolcrib.concurrency.background import is_being_cancelled
from toolcrib.errors import PolicyDeniedError
from toolcrib.execution.protocols import Policy
from toolcrib.execution.records import Request
from toolcrib.redaction import said_by

__all__ = ["ask_policy"]


async def ask_policy(policy: Policy, request: Request) -> None:
    """Ask whether a request may run; a policy that cannot say refuses."""
    try:
        verdict = policy(request)
        if inspect.isawaitable(verdict):
            verdict = await verdict
    except PolicyDeniedError:
        raise
    except anyio.get_cancelled_exc_class() as error:
        if is_being_cancelled():
            raise
        reason = "the policy failed: what it waited for was cancelled"
        raise PolicyDeniedError(tool_id=request.tool_id, reason=reason) from error
    except Exception as error:  # a policy is somebody else's code, and its failure must not open the door
        reason = f"the policy failed: {said_by(error)}"
        raise PolicyDeniedError(tool_id=request.tool_id, reason=reason) from error
    if verdict is not None and verdict is not True:
        raise PolicyDeniedError(tool_id=request.tool_id, reason=verdict if isinstance(verdict, str) else "")

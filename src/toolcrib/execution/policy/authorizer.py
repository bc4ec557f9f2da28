"""The one place that decides whether a call may run.

`Authorizer` combines the rules of the configuration, the policy of the program, and the consent of a person.
"""

from collections.abc import Callable
from dataclasses import replace
from inspect import isawaitable
from typing import Any

import anyio

from toolcrib.concurrency.background import is_being_cancelled
from toolcrib.errors import PolicyDeniedError, Unconfirmed
from toolcrib.execution.call import CallSuspendedError, Decision, Request
from toolcrib.execution.policy.rule import declares_destructive
from toolcrib.execution.policy.rules import Rules, refusal_by
from toolcrib.execution.protocols import Allowed, Policy
from toolcrib.redaction import error_text

_UNCONFIRMED = (
    "it may destroy something, and the user has to agree before the code begins; "
    "write its id {!r} in the code, or run it with run_tool"
)


class Authorizer:
    """Decides whether a call may run.

    The rules of the configuration are evaluated first, then the policy of the program. A person decides last,
    if a rule requires it, or if the tool may destroy something and the client can ask its user.

    `authorize` and `obtain_consent` are separate so that the arguments can be validated in between. The rules
    are read at each use, and again after a person has answered: they may be reloaded in the meantime.
    """

    def __init__(
        self, rules: "Callable[[], Rules | None]" = lambda: None, policy: Policy | None = None
    ) -> None:
        self._rules, self._policy = rules, policy

    def check_tool(self, request: Request) -> None:
        """Check that the call may run with some arguments, before handles are replaced by values.

        Raises:
            PolicyDeniedError: it is denied whatever its arguments are.
        """
        if (refusal := request.context.approval.refusal) is not None:
            raise replace(refusal, tool_id=request.tool_id)
        if (rules := self._rules()) is not None:
            rules.grants(request.principal).check_tool(request.tool)

    async def authorize(self, request: Request) -> Decision:
        """Return the decision about a call that may run, at once or with the consent of a person.

        Raises:
            PolicyDeniedError: the rules or the policy deny it, or a person has refused it already.
        """
        if (refusal := request.context.approval.refusal) is not None:
            raise replace(refusal, tool_id=request.tool_id)
        decision = self._apply_rules(request)
        named = None if self._policy is None else await _ask_policy(self._policy, request)
        # Where there are rules, one of them has allowed the call; the policy's name counts only without them.
        allowed_by = named if decision.rule is None else decision.rule.name
        return decision if allowed_by is None else replace(decision, allowed_by=allowed_by)

    async def obtain_consent(self, request: Request, decision: Decision) -> None:
        """Obtain the consent of a person to a call, unless it was given before.

        Raises:
            PolicyDeniedError: the person refused, there is no person to ask, or the rules now deny the call.
            CallSuspendedError: the client repeats the request with the answer.
        """
        approval = request.context.approval
        if request.tool_id in approval.granted:
            return
        rule = decision.rule
        name = None if rule is None else rule.name
        failed = "a person has to agree, and asking failed"
        if (ask := approval.ask) is not None:
            await _deny_on_failure(
                lambda: ask(request, decision), request, failed, rule=name, answer="unanswered"
            )
        else:
            # No client to ask: a rule's question goes to the program's `approve`, a mere risk is refused.
            rules = self._rules()
            if rule is not None and rule.effect == "ask" and rules is not None:
                await _deny_on_failure(
                    lambda: rules.approve(request, rule), request, failed, rule=name, answer="unanswered"
                )
            if decision.is_risky:
                reason = _UNCONFIRMED.format(request.tool_id)
                raise PolicyDeniedError(tool_id=request.tool_id, reason=reason)
        self._apply_rules(request)

    def _apply_rules(self, request: Request) -> Decision:
        """Return the decision of the rules and the hints of the tool.

        Raises:
            PolicyDeniedError: the rules deny the call.
        """
        rules, approval = self._rules(), request.context.approval
        decision = Decision("allow") if rules is None else rules.decide(request)
        if decision.effect == "deny":
            raise refusal_by(request.tool_id, decision.rule)
        if not approval.confirm_destructive or not declares_destructive(request.tool.annotations):
            return decision
        if decision.rule is not None and decision.rule.consents_to(request.tool_id):
            return decision
        return replace(decision, effect="ask", is_risky=True)


async def _ask_policy(policy: Policy, request: Request) -> str | None:
    """Call the policy of the program; return the name of its rule that allows the call, if it gives one.

    Raises:
        PolicyDeniedError: it denies the call, or fails.
    """
    verdict = await _deny_on_failure(lambda: policy(request), request, "the policy failed")
    if isinstance(verdict, Allowed):
        return verdict.rule
    if verdict is not None and verdict is not True:
        raise PolicyDeniedError(tool_id=request.tool_id, reason=verdict if isinstance(verdict, str) else "")
    return None


async def _deny_on_failure(
    ask: Callable[[], Any],
    request: Request,
    failed: str,
    *,
    rule: str | None = None,
    answer: Unconfirmed | None = None,
) -> Any:
    """Return a function's verdict on a call, sync or async.

    Raises:
        PolicyDeniedError: it denies the call, or fails: it is code of the program, or needs a client or a
            person, and without an answer nothing may run.
        CallSuspendedError: the client repeats the request with the answer.
    """
    try:
        verdict = ask()
        return await verdict if isawaitable(verdict) else verdict
    except (PolicyDeniedError, CallSuspendedError):
        raise
    except anyio.get_cancelled_exc_class() as error:
        if is_being_cancelled():
            raise
        reason = f"{failed}: what it waited for was cancelled"
        raise PolicyDeniedError(tool_id=request.tool_id, reason=reason, rule=rule, answer=answer) from error
    except Exception as error:
        reason = f"{failed}: {error_text(error)}"
        raise PolicyDeniedError(tool_id=request.tool_id, reason=reason, rule=rule, answer=answer) from error

"""Running tools for clients: a destructive one only when a person has agreed to it."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from toolcrib.crib import View
from toolcrib.errors import (
    PolicyDeniedError,
    ToolcribError,
    Unconfirmed,
)
from toolcrib.execution import CallContext, Request
from toolcrib.execution.call import Approval, Decision
from toolcrib.execution.progress import Progress, notify
from toolcrib.execution.rule import is_destructive
from toolcrib.gateway.frontend import CallingClient, Confirmation, ConfirmationResult
from toolcrib.model import RunResult, Tool
from toolcrib.model.display import visible

MAX_QUESTION = 32_000
"""How many characters a question may have; what takes more is refused, since nothing may be left out."""
_SHORT = 400
"""Up to how many characters arguments, steps or code stand in one line of a question."""
_MAX_NAMED = 10
"""How many tools an error names."""
_REFUSALS: dict[ConfirmationResult, tuple[Unconfirmed, str]] = {
    ConfirmationResult.DECLINED: (
        "declined",
        "the user declined; do not try again unless the user asks for it",
    ),
    ConfirmationResult.DISMISSED: (
        "dismissed",
        "the question whether it may run was dismissed without an answer, as by a client without a user",
    ),
    ConfirmationResult.UNANSWERED: (
        "unanswered",
        "the user was asked, and gave no answer; ask whether to try again",
    ),
}
_RISK = "It says that it may destroy or overwrite something."
_RULED = "The rules here ask for your consent."
_FIRST_RULE = "; where there is a rule, what no rule allows is refused"


@dataclass(frozen=True, slots=True)
class _Why:
    """Why a person is asked: a tool may destroy something, or a rule says so."""

    text: str
    """What the person reads."""
    is_risk: bool
    """Whether `gateway.confirm` is the reason."""
    rule: str | None = None
    """The rule that is the reason, where it is one."""

    def remedy(self, tools: Sequence[str], *, has_rules: bool) -> str:
        """Return how the operator of the gateway lets these tools run without a question."""
        begin = "to let it run without a question, the operator of the gateway can"
        if self.is_risk:
            named = ", ".join(tools[:_MAX_NAMED])
            return (
                f'{begin} add a [[policy]] rule with effect = "allow" that names {named}'
                f"{'' if has_rules else _FIRST_RULE}; or set gateway.confirm = false, "
                "with which nobody is asked about any destructive tool (the default is true)"
            )
        if self.rule is None:
            return f"{begin} change the effect of the [[policy]] rule that asks"
        return f"{begin} change the effect of the rule {self.rule!r}, which asks"


class ConfirmedCalls:
    """Runs single tools of a view for clients; a person agrees to a destructive one first."""

    def __init__(self, view: View, *, confirm: bool) -> None:
        self._view = view
        self._confirm = confirm

    async def run(
        self,
        reference: str,
        args: Any,
        client: CallingClient,
        timeout: float | None = None,  # noqa: ASYNC109 - the tool's, as for a view
    ) -> RunResult:
        """Run the tool that a reference means.

        Raises:
            PolicyDeniedError: the person declined, or gave no answer; or the arguments are too long to show.
            InputNeeded: the client has to make the request again, with the answer.
            ToolError: as `View.run` has it.
        """
        context = self.context(client)
        if client.can_ask:
            approval = replace(context.approval, ask=partial(self._ask_about_call, client))
            context = replace(context, approval=approval)
        return await self._view.run(
            reference,
            args,
            timeout=timeout,
            progress=progress_sender(client),
            frame_progress=False,
            context=context,
        )

    def context(self, client: CallingClient, granted: Iterable[Tool] = ()) -> CallContext:
        """Return the context of calls for a client, whose user has agreed to some tools.

        Further destructive tools need consent, where the client could have asked for it.
        """
        ids = frozenset(str(tool.id) for tool in granted)
        return client.context(Approval(granted=ids, confirm_destructive=self._confirm and client.can_ask))

    async def obtain_consent(
        self, client: CallingClient, tools: Sequence[Tool], given: Any, what: str, places: Sequence[str] = ()
    ) -> None:
        """Have a person agree to tools that something runs, all at once, before it begins.

        Args:
            client: who is asked.
            tools: where there are none nobody is asked.
            given: what a person should see of how they run: steps or code.
            what: what runs them, a `chain` or a `program`.
            places: what a person should see of it first, where it is long: the calls of these tools.

        Raises:
            PolicyDeniedError: the person did not agree, or it is too long to be shown to one; observers have
                seen a refused call of each tool.
            InputNeeded: the client has to make the request again, with the answer.
        """
        if not tools:
            return
        risky = [tool for tool in tools if self._needs_consent(client, tool)]
        why = _Why(_RISK, is_risk=True) if risky else _Why(_RULED, is_risk=False)
        try:
            await self._ask(client, tools, given, why, what, places)
        except PolicyDeniedError as refusal:
            refused = client.context(Approval(refusal=refusal))
            for tool in tools:
                with suppress(ToolcribError):  # it is the refusal, which is raised below for all of them
                    await self._view.run(str(tool.id), context=refused)
            raise

    def filter_needing_consent(self, client: CallingClient, tools: Iterable[Tool]) -> list[Tool]:
        """Return those tools that a person is asked about before they run with some arguments."""
        rules = self._view.rules
        grants = None if rules is None else rules.grants(client.principal)
        return [
            tool
            for tool in tools
            if self._needs_consent(client, tool) or (grants is not None and grants.may_ask(tool))
        ]

    def _needs_consent(self, client: CallingClient, tool: Tool) -> bool:
        """Return whether a tool is destructive, and may run with arguments that no rule consents to."""
        if not (self._confirm and is_destructive(tool.annotations)):
            return False
        rules = self._view.rules
        return rules is None or not rules.grants(client.principal).always_consents(tool)

    async def _ask_about_call(self, client: CallingClient, request: Request, decision: Decision) -> None:
        """Ask whether one call may run.

        Raises:
            PolicyDeniedError: the person did not agree.
            InputNeeded: the client has to make the request again, with the answer.
        """
        if decision.is_risky or decision.rule is None:
            why = _Why(_RISK, is_risk=True)
        else:
            rule = decision.rule
            why = _Why(rule.reason or _RULED, is_risk=False, rule=rule.name)
        await self._ask(client, [request.tool], request.args, why)

    async def _ask(
        self,
        client: CallingClient,
        tools: Sequence[Tool],
        given: Any,
        why: _Why,
        what: str = "",
        places: Sequence[str] = (),
    ) -> None:
        """Ask whether tools may run; `what` runs them, unless one runs by itself.

        Raises:
            PolicyDeniedError: the person did not agree.
            InputNeeded: the client has to make the request again, with the answer.
        """
        names = [str(tool.id) for tool in tools]
        bound = self._binding(client, tools)
        result = await client.confirm(_question(names, given, what, places, why.text, bound))
        if result not in _REFUSALS:
            return
        answer, reason = _REFUSALS[result]
        if answer != "declined":
            reason = f"{reason}; {why.remedy(names, has_rules=self._view.rules is not None)}"
        raise PolicyDeniedError(tool_id=", ".join(names), reason=reason, rule=why.rule, answer=answer)

    def _binding(self, client: CallingClient, tools: Iterable[Tool]) -> str:
        """Return what an answer holds for, beside the arguments: who asks, these very tools, these rules."""
        rules = self._view.rules
        version = "" if rules is None else rules.version
        who = client.principal
        parts = [who.issuer, who.subject, who.client, version, *(tool.to_json() for tool in tools)]
        return json.dumps(parts, default=str)


def progress_sender(client: CallingClient) -> Progress | None:
    """Return a callback that sends a client progress; None where it did not ask for any.

    Where it cannot be sent, that is logged, and the call goes on.
    """
    return partial(notify, client.progress, work_done=True) if client.wants_progress else None


def _question(
    tools: Sequence[str], given: Any, what: str, places: Sequence[str], reason: str, bound: str
) -> Confirmation:
    """Return the question, the same each time it is about the same tools and arguments.

    Raises:
        PolicyDeniedError: it would be too long to be shown as a whole.
    """
    written = given if isinstance(given, str) else _json(given)
    # The whole digest, and of each character: whoever writes the calls must not find two of one key.
    content = json.dumps([what, *tools, written, bound])
    key = hashlib.sha256(content.encode()).hexdigest()
    text = ""
    if len(written) <= MAX_QUESTION:
        text = visible(_question_text(tools, given, what, places, reason))
    if not 0 < len(text) <= MAX_QUESTION:
        raise PolicyDeniedError(
            tool_id=", ".join(tools[:_MAX_NAMED]),
            reason=f"a person has to agree to all of it, and it takes {max(len(text), len(written)):,} "
            f"characters to show, of at most {MAX_QUESTION:,}; split it into smaller calls",
        )
    return Confirmation(key=f"run-{key}", text=text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _question_text(tools: Sequence[str], given: Any, what: str, places: Sequence[str], reason: str) -> str:
    """Return the question with the whole of what is decided on; what is short, or destroys, stands first.

    Nothing is cut or redacted, whatever its name looks like: it may be the target. These are the words of the
    client that asks, and no secrets of this machine.
    """
    written = given if isinstance(given, str) and what else _json(given)
    is_short = len(written) <= _SHORT and "\n" not in written
    if not what:
        if is_short or not isinstance(given, dict):
            return f"Run {tools[0]} with {written}? {reason}"
        arguments = sorted(((_json(value), name) for name, value in given.items()), key=lambda it: len(it[0]))
        listed = "\n".join(f"- {_json(name)}: {value}" for value, name in arguments)
        return f"Run {tools[0]}? {reason} All its arguments, the shortest first:\n{listed}"
    say = "They say that they" if len(tools) > 1 else "It says that it"
    risk = f"{say} may destroy or overwrite something." if reason == _RISK else reason
    begin = f"Run a {what} that uses {', '.join(tools)}? {risk}"
    if is_short:
        return f"{begin} The {what}: {written}"
    called = ["It uses them here:", *(f"- {each}" for each in places)] if places else []
    # Numbers, so that no line of it can pass for a line of the question.
    parts = given.split("\n") if isinstance(given, str) else [_json(step) for step in given]
    first = 1 if isinstance(given, str) else 0
    return "\n".join(
        (begin, *called, f"The whole {what}:", *(f"{at}| {it}" for at, it in enumerate(parts, first)))
    )

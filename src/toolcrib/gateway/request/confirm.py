"""Runs tools for clients; destructive ones only with the consent of a person."""

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
from toolcrib.execution.kept import mark_handles, may_have_handles
from toolcrib.execution.policy.rule import declares_destructive
from toolcrib.execution.progress import Progress, notify
from toolcrib.gateway.frontends.shared.frontend import CallingClient, Confirmation, ConfirmationResult
from toolcrib.gateway.results import PREFIX, KeptResults
from toolcrib.model import RunResult, Tool
from toolcrib.model.display import visible
from toolcrib.model.shape import original_of

MAX_QUESTION = 32_000
"""Longest question, in characters; a longer one is refused, since no part of it may be left out."""
_SHORT = 400
"""Longest arguments, steps or code, in characters, that are shown on one line."""
_MAX_NAMED = 10
"""Tools that an error names, at most."""
_REFUSALS: dict[ConfirmationResult, tuple[Unconfirmed, str]] = {
    ConfirmationResult.DECLINED: (
        "declined",
        "the user declined; do not try again unless the user asks for it",
    ),
    ConfirmationResult.DISMISSED: (
        "dismissed",
        "the question of whether it may run was dismissed without an answer, as by a client without a user",
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
    """The reason why a person is asked: a destructive tool, or a rule."""

    text: str
    """The text for the person."""
    is_risk: bool
    """Whether `gateway.confirm` is the reason."""
    rule: str | None = None
    """Name of the rule, if one is the reason."""

    def remedy(self, tools: Sequence[str], *, has_rules: bool) -> str:
        """Return how the operator of the gateway can let these tools run without a question."""
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
    """Runs single tools of a view for clients, and obtains the consent of their users."""

    def __init__(self, view: View, *, confirm: bool, kept: KeptResults | None = None) -> None:
        """Run tools of a view; arguments may stand for results that are kept in `kept`."""
        self._view = view
        self._confirm = confirm
        self._kept = kept

    async def run(
        self,
        reference: str,
        args: Any,
        client: CallingClient,
        timeout: float | None = None,  # noqa: ASYNC109 - the tool's, as for a view
    ) -> RunResult:
        """Run the tool that a reference means.

        Raises:
            PolicyDeniedError: the person did not agree, or the arguments are too long to show.
            InputNeeded: the client has to repeat the request with the answer.
            ToolError: as for `View.run`.
        """
        can_ask = client.can_ask
        ask = partial(self._ask_about_call, client) if can_ask else None
        context = client.context(Approval(ask=ask, confirm_destructive=self._confirm and can_ask))
        if self._kept is not None and may_have_handles(args):
            args, context = mark_handles(args), self._reading_kept(client, context)
        return await self._view.run(
            reference,
            args,
            timeout=timeout,
            progress=progress_sender(client) if client.wants_progress else None,
            frame_progress=False,
            context=context,
        )

    def _reading_kept(self, client: CallingClient, context: CallContext) -> CallContext:
        """Return a context that reads the kept results of a client."""
        kept = self._kept
        if kept is None:
            return context

        async def read(name: str) -> tuple[str | bytes, str] | None:
            found = await kept.find(name if name.startswith(PREFIX) else f"{PREFIX}{name}", client.principal)
            return None if found is None else (found.data, found.mime_type)

        return replace(context, read_kept=read)

    def context(self, client: CallingClient, granted: Iterable[Tool] = ()) -> CallContext:
        """Return the context of calls for a client whose user has agreed to the granted tools.

        Other destructive tools need consent still, if the client can ask its user.
        """
        ids = frozenset(str(original_of(tool).id) for tool in granted)
        context = client.context(Approval(granted=ids, confirm_destructive=self._confirm and client.can_ask))
        return self._reading_kept(client, context)

    async def obtain_consent(
        self, client: CallingClient, tools: Sequence[Tool], given: Any, what: str, places: Sequence[str] = ()
    ) -> None:
        """Ask a person once about all tools of a chain or a program, before it begins.

        Args:
            client: whose user is asked.
            tools: the tools that need consent; without any, no question is asked.
            given: the steps or the code.
            what: `chain` or `program`.
            places: the calls of these tools, which a long question shows first.

        Raises:
            PolicyDeniedError: the person did not agree, or the question is too long; observers have seen a
                refused call of each tool.
            InputNeeded: the client has to repeat the request with the answer.
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
        """Return the tools that need the consent of a person with some arguments."""
        rules = self._view.rules
        grants = None if rules is None else rules.grants(client.principal)
        return [
            tool
            for tool in tools
            if self._needs_consent(client, tool) or (grants is not None and grants.may_ask(original_of(tool)))
        ]

    def _needs_consent(self, client: CallingClient, tool: Tool) -> bool:
        """Return whether a tool is destructive, and can be called without the consent of a rule."""
        if not (self._confirm and declares_destructive(tool.annotations)):
            return False
        rules = self._view.rules
        return rules is None or not rules.grants(client.principal).always_consents(original_of(tool))

    async def _ask_about_call(self, client: CallingClient, request: Request, decision: Decision) -> None:
        """Ask a person about one call.

        Raises:
            PolicyDeniedError: the person did not agree.
            InputNeeded: the client has to repeat the request with the answer.
        """
        if decision.is_risky or decision.rule is None:
            why = _Why(_RISK, is_risk=True)
        else:
            rule = decision.rule
            why = _Why(rule.reason or _RULED, is_risk=False, rule=rule.name)
        shaped = request.shaped
        if shaped is None:
            await self._ask(client, [request.tool], request.args, why)
        else:
            await self._ask(client, [shaped], shaped.seen_args(request.args), why)

    async def _ask(
        self,
        client: CallingClient,
        tools: Sequence[Tool],
        given: Any,
        why: _Why,
        what: str = "",
        places: Sequence[str] = (),
    ) -> None:
        """Ask a person about tools, which `what` runs; it is empty for a single call.

        Raises:
            PolicyDeniedError: the person did not agree.
            InputNeeded: the client has to repeat the request with the answer.
        """
        names = [str(tool.id) for tool in tools]
        bound = self._binding(client, tools)
        result = await client.confirm(_make_question(names, given, what, places, why.text, bound))
        if result not in _REFUSALS:
            return
        answer, reason = _REFUSALS[result]
        if answer != "declined":
            reason = f"{reason}; {why.remedy(names, has_rules=self._view.rules is not None)}"
        raise PolicyDeniedError(tool_id=", ".join(names), reason=reason, rule=why.rule, answer=answer)

    def _binding(self, client: CallingClient, tools: Iterable[Tool]) -> str:
        """Return what an answer is bound to besides the arguments: the caller, the definitions, the rules."""
        rules = self._view.rules
        version = "" if rules is None else rules.version
        who = client.principal
        parts = [who.issuer, who.subject, who.client, version, *(tool.to_json() for tool in tools)]
        return json.dumps(parts, default=str)


def progress_sender(client: CallingClient) -> Progress:
    """Return a callback that sends progress to a client.

    A failure to send is logged, and does not fail the call.
    """
    return partial(notify, client.progress, work_done=True)


def _make_question(
    tools: Sequence[str], given: Any, what: str, places: Sequence[str], reason: str, bound: str
) -> Confirmation:
    """Return the question; its key is equal for equal tools, arguments and bindings.

    Raises:
        PolicyDeniedError: the question would be too long.
    """
    written = given if isinstance(given, str) else _write_json(given)
    # A whole digest of all characters: a model that writes the calls must not find two with the same key.
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


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _question_text(tools: Sequence[str], given: Any, what: str, places: Sequence[str], reason: str) -> str:
    """Return the text of a question with all arguments; short and destructive parts come first.

    Nothing is cut or redacted, even if it looks like a secret: it may be the target of the call. The text
    comes from the client that is asked, and has no secrets of this machine.
    """
    written = given if isinstance(given, str) and what else _write_json(given)
    is_short = len(written) <= _SHORT and "\n" not in written
    if not what:
        if is_short or not isinstance(given, dict):
            return f"Run {tools[0]} with {written}? {reason}"
        arguments = sorted(
            ((_write_json(value), name) for name, value in given.items()), key=lambda it: len(it[0])
        )
        listed = "\n".join(f"- {_write_json(name)}: {value}" for value, name in arguments)
        return f"Run {tools[0]}? {reason} All its arguments, the shortest first:\n{listed}"
    say = "They say that they" if len(tools) > 1 else "It says that it"
    risk = f"{say} may destroy or overwrite something." if reason == _RISK else reason
    begin = f"Run a {what} that uses {', '.join(tools)}? {risk}"
    if is_short:
        return f"{begin} The {what}: {written}"
    called = ["It uses them here:", *(f"- {each}" for each in places)] if places else []
    # Line numbers, so that no line of the code can pass for one of the question.
    parts = given.split("\n") if isinstance(given, str) else [_write_json(step) for step in given]
    first = 1 if isinstance(given, str) else 0
    return "\n".join(
        (begin, *called, f"The whole {what}:", *(f"{at}| {it}" for at, it in enumerate(parts, first)))
    )

"""Running tools for clients: a destructive one only when a person has agreed to it."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from toolcrib.crib import View
from toolcrib.errors import (
    BackendUnavailableError,
    InputValidationError,
    PolicyDeniedError,
    ToolcribError,
    ToolNotFoundError,
    Unconfirmed,
    ValidationError,
)
from toolcrib.execution import Request
from toolcrib.execution.pipeline import declined, read_arguments
from toolcrib.execution.policy import Rules, approving
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


@dataclass(frozen=True, slots=True)
class _Agreed:
    """What may run in the request at hand though it is destructive."""

    tools: frozenset[str]
    """What a person has agreed to."""
    rules: Rules | None
    """What else is consented to."""


_AGREED: ContextVar[_Agreed | None] = ContextVar("toolcrib_agreed", default=None)
"""None where no request of a client that can ask is active: then nobody is to be asked."""


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
        named: list[Tool] = []
        refusal: PolicyDeniedError | None = None
        tool = await self._resolved(reference, timeout) if client.can_ask else None
        why = None if tool is None else self._why_ask(tool, args, client)
        if tool is not None and why is not None:
            self._check(tool, args)
            named = [tool]
            try:
                await self._ask(client, named, args, why)
            except PolicyDeniedError as error:
                refusal = error
        with declined(refusal), self.agreed(client, named):
            return await self._view.run(
                reference,
                args,
                timeout=timeout,
                progress=progress_sender(client),
                frame_progress=False,
                principal=client.principal,
            )

    async def agree(
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
            with declined(refusal):
                for tool in tools:
                    with suppress(ToolcribError):  # it is the refusal, which is raised below for all of them
                        await self._view.run(str(tool.id), principal=client.principal)
            raise

    @contextmanager
    def agreed(self, client: CallingClient, tools: Iterable[Tool]) -> Iterator[None]:
        """Let a request run these tools, which a person agreed to, and what the rules consent to.

        Other destructive tools are refused, where its client could have asked about them.
        """
        agreed_on = frozenset(str(tool.id) for tool in tools)
        with approving(lambda request, _: request.tool_id in agreed_on):
            if not (self._confirm and client.can_ask):
                yield
                return
            token = _AGREED.set(_Agreed(agreed_on, self._view.rules))
            try:
                yield
            finally:
                _AGREED.reset(token)

    def asked_about(self, client: CallingClient, tools: Iterable[Tool]) -> list[Tool]:
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

    def _why_ask(self, tool: Tool, args: Any, client: CallingClient) -> _Why | None:
        """Return why a person is asked about a call; None where nobody is, as where a rule refuses it."""
        risk = _Why(_RISK, is_risk=True) if self._confirm and is_destructive(tool.annotations) else None
        rules = self._view.rules
        if rules is None:
            return risk
        read, _ = read_arguments(args, str(tool.id))
        decision = rules.decide(Request(tool=tool, args=read, principal=client.principal))
        if decision.rule is None or decision.effect == "deny":
            return None
        if decision.rule.consents_to(str(tool.id)):
            return None
        if risk is not None or decision.effect == "allow":
            return risk
        return _Why(decision.rule.reason or _RULED, is_risk=False, rule=decision.rule.name)

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
        bound = self._bound(client, tools)
        result = await client.confirm(_question(names, given, what, places, why.text, bound))
        if result not in _REFUSALS:
            return
        answer, reason = _REFUSALS[result]
        if answer != "declined":
            reason = f"{reason}; {why.remedy(names, has_rules=self._view.rules is not None)}"
        raise PolicyDeniedError(tool_id=", ".join(names), reason=reason, rule=why.rule, answer=answer)

    def _bound(self, client: CallingClient, tools: Iterable[Tool]) -> str:
        """Return what an answer holds for, beside the arguments: who asks, these very tools, these rules."""
        rules = self._view.rules
        version = "" if rules is None else rules.version
        who = client.principal
        parts = [who.issuer, who.subject, who.client, version, *(tool.to_json() for tool in tools)]
        return json.dumps(parts, default=str)

    async def _resolved(self, reference: str, limit: float | None) -> Tool | None:
        """Return the tool that a reference means, once its server has listed its tools; None where none is.

        Raises:
            BackendUnavailableError: its server does not answer, or not within so many seconds.
        """
        try:
            return self._view.index.resolve(reference)
        except ToolcribError:  # it may be one of a server that has not; problems are reported below
            with anyio.move_on_after(limit):
                try:
                    await self._view.describe(reference, "summary")
                    return self._view.index.resolve(reference)
                except ToolNotFoundError:  # the run says why
                    return None
        reason = f"it was not ready within {limit or 0.0:g} s"
        raise BackendUnavailableError(tool_id=reference, op="resolve", reason=reason, sent=False)

    def _check(self, tool: Tool, args: Any) -> None:
        """Refuse arguments that do not fit: nobody is to be asked about a call that cannot be.

        Raises:
            InputValidationError: they do not.
        """
        try:
            self._view.validator.validate_input(tool, args)
        except ValidationError as error:
            raise InputValidationError(error.problems, error.text, tool_id=str(tool.id)) from error


def policy(request: Request) -> str | None:
    """Refuse a destructive tool that nobody was asked about, in a request whose client could have asked.

    It is the `policy` of the crib behind a gateway; where no such request is active it allows everything.
    """
    agreed_on = _AGREED.get()
    if agreed_on is None or not is_destructive(request.tool.annotations):
        return None
    if request.tool_id in agreed_on.tools:
        return None
    if agreed_on.rules is not None and agreed_on.rules.consents(request):
        return None
    return (
        "it may destroy something, and the user has to agree before the code begins; "
        f"write its id {request.tool_id!r} in the code, or run it with run_tool"
    )


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
        text = visible(_text(tools, given, what, places, reason))
    if not 0 < len(text) <= MAX_QUESTION:
        raise PolicyDeniedError(
            tool_id=", ".join(tools[:_MAX_NAMED]),
            reason=f"a person has to agree to all of it, and it takes {max(len(text), len(written)):,} "
            f"characters to show, of at most {MAX_QUESTION:,}; split it into smaller calls",
        )
    return Confirmation(key=f"run-{key}", text=text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _text(tools: Sequence[str], given: Any, what: str, places: Sequence[str], reason: str) -> str:
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

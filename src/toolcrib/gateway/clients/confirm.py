"""Running tools for clients: a destructive one only when a person has agreed to it."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
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
    ValidationError,
)
from toolcrib.execution import Request
from toolcrib.execution.pipeline import declined
from toolcrib.execution.policy import approving
from toolcrib.execution.progress import Progress, notify
from toolcrib.gateway.frontend import CallingClient, Confirmation, ConfirmationResult
from toolcrib.model import RunResult, Tool
from toolcrib.model.tool import ToolAnnotations
from toolcrib.redaction import HIDDEN, hide_secrets

__all__ = ["RULED", "ConfirmedCalls", "agreed", "ask", "is_destructive", "policy", "progress_sender"]

_MAX_SHOWN = 400
"""How many characters of what somebody else wrote a person has to read."""
_MAX_NAMED = 10
"""How many tools, and places in code, are named."""
_REFUSALS = {
    ConfirmationResult.DECLINED: "the user declined; do not try again unless the user asks for it",
    ConfirmationResult.UNANSWERED: "the user was asked, and gave no answer; ask whether to try again",
}


_RISK = "It says that it may destroy or overwrite something."
RULED = "The rules here ask for your consent."
"""Why a person is asked where a rule says so, and nothing else."""


@dataclass(frozen=True, slots=True)
class _Agreed:
    """What a person was asked about in the request at hand."""

    tools: frozenset[str]


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
            PolicyDeniedError: the person declined, or gave no answer.
            InputNeeded: the client has to make the request again, with the answer.
            ToolError: as `View.run` has it.
        """
        named: list[str] = []
        refusal = ""
        tool = await self._resolved(reference, timeout) if client.can_ask else None
        reason = "" if tool is None else self._why_ask(tool, args, client)
        if tool is not None and reason:
            self._check(tool, args)
            named = [str(tool.id)]
            try:
                await ask(client, named, args, reason=reason, bound=self.bound(client, [tool]))
            except PolicyDeniedError as error:
                refusal = error.reason
        with declined(refusal), agreed(client, named, confirm=self._confirm):
            return await self._view.run(
                reference,
                args,
                timeout=timeout,
                progress=progress_sender(client),
                frame_progress=False,
                principal=client.principal,
            )

    def _why_ask(self, tool: Tool, args: Any, client: CallingClient) -> str:
        """Return why a person is asked: the tool may destroy something, or a rule says so; else nothing."""
        if self._confirm and is_destructive(tool.annotations):
            return _RISK
        rules = self._view.rules
        if rules is None:
            return ""
        decision = rules.decide(Request(tool=tool, args=args, principal=client.principal))
        if decision.effect != "ask" or decision.rule is None:
            return ""
        return decision.rule.reason or RULED

    def may_ask(self, client: CallingClient, tool_id: str, annotations: ToolAnnotations | None) -> bool:
        """Return whether a person is asked before a tool runs with some arguments."""
        if self._confirm and is_destructive(annotations):
            return True
        rules = self._view.rules
        return rules is not None and rules.grants(client.principal).may_ask(self._view.index.resolve(tool_id))

    def bound(self, client: CallingClient, tools: Iterable[Tool]) -> str:
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


def is_destructive(annotations: ToolAnnotations | None) -> bool:
    """Return whether a tool says of itself that it may destroy something; one that says nothing does not.

    >>> is_destructive(ToolAnnotations(destructive_hint=True)), is_destructive(None)
    (True, False)
    """
    if annotations is None:
        return False
    return annotations.destructive_hint is True and annotations.read_only_hint is not True


def policy(request: Request) -> str | None:
    """Refuse a destructive tool that nobody was asked about, in a request whose client could have asked.

    It is the `policy` of the crib behind a gateway; where no such request is active it allows everything.
    """
    agreed_on = _AGREED.get()
    if agreed_on is None or not is_destructive(request.tool.annotations):
        return None
    if request.tool_id in agreed_on.tools:
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


@contextmanager
def agreed(client: CallingClient, tools: Iterable[str], *, confirm: bool) -> Iterator[None]:
    """Let a request run these destructive tools and no others, where its client can ask."""
    agreed_on = frozenset(tools)
    with approving(lambda request, _: request.tool_id in agreed_on):
        if not (confirm and client.can_ask):
            yield
            return
        token = _AGREED.set(_Agreed(agreed_on))
        try:
            yield
        finally:
            _AGREED.reset(token)


async def ask(  # noqa: PLR0913 - each is a part of one question
    client: CallingClient,
    tools: Sequence[str],
    given: Any,
    *,
    what: str = "",
    places: Sequence[str] = (),
    reason: str = "",
    bound: str = "",
) -> None:
    """Ask whether tools may run, all at once.

    Args:
        client: who is asked.
        tools: their ids; where there are none nobody is asked.
        given: what a person should see of how they run: arguments, steps or code.
        what: what runs them, a `chain` or a `program`; nothing where one tool runs by itself.
        places: what a person should see of it in any case, where it is too long to be shown.
        reason: why they are asked; else because the tools may destroy something.
        bound: what else the answer holds for alone.

    Raises:
        PolicyDeniedError: the person declined, or gave no answer.
        InputNeeded: the client has to make the request again, with the answer.
    """
    if not tools:
        return
    verdict = await client.confirm(_question(tools, given, what, places, reason, bound))
    if verdict in _REFUSALS:
        raise PolicyDeniedError(tool_id=", ".join(tools), reason=_REFUSALS[verdict])


def _question(
    tools: Sequence[str], given: Any, what: str, places: Sequence[str], reason: str, bound: str
) -> Confirmation:
    """Return the question, the same each time it is about the same tools and arguments."""
    written = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    content = "\0".join((what, *tools, written, bound))
    key = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
    return Confirmation(key=f"run-{key}", text=_text(tools, written, what, places, reason or _RISK))


def _text(tools: Sequence[str], written: str, what: str, places: Sequence[str], reason: str) -> str:
    if not what:
        return f"Run {tools[0]} with {_shown(written)}? {_shown(reason)}"
    names = ", ".join(tools[:_MAX_NAMED])
    more = f" and {len(tools) - _MAX_NAMED} more" if len(tools) > _MAX_NAMED else ""
    say = "They say" if len(tools) > 1 else "It says"
    risk = f"{say} that {'they' if len(tools) > 1 else 'it'} may destroy or overwrite something."
    risk = risk if reason == _RISK else _shown(reason)
    where = _where(places) if places and len(written) > _MAX_SHOWN else ""
    return f"Run a {what} that uses {names}{more}? {risk}{where} The {what}: {_shown(written)}"


def _where(places: Sequence[str]) -> str:
    """Return where tools are named, each place on a line of its own."""
    if len(places) > _MAX_NAMED:
        some = _MAX_NAMED // 2
        places = [*places[:some], f"({len(places) - 2 * some} more places)", *places[-some:]]
    return "\n".join((" They are named here:", *map(_shown, places), ""))


def _shown(text: str) -> str:
    """Return a text as a person may see it: without secrets, without what hides, and not all if it is long.

    What is long is shown with its end: what counts may stand there.
    """
    if len(text) > _MAX_SHOWN * 4:
        text = f"{text[: _MAX_SHOWN * 2]}\n{text[-_MAX_SHOWN * 2 :]}"
    clean = hide_secrets(HIDDEN.sub("", text))
    if len(clean) <= _MAX_SHOWN:
        return clean
    return f"{clean[: _MAX_SHOWN * 2 // 3]} […] {clean[-_MAX_SHOWN // 3 :]}"

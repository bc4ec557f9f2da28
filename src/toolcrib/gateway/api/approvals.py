"""Calls that wait for an operator of the console."""

import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from toolcrib.errors import PolicyDeniedError
from toolcrib.execution import Request, Rule
from toolcrib.execution.audit.records import json_text
from toolcrib.execution.call import Decision
from toolcrib.execution.principal import Principal, slot_owner
from toolcrib.gateway.api.webhook import ApprovalWebhook, make_link_token

_MOST = 1_000
"""Calls that may wait at once."""
_SHARE = 100
"""Calls of one caller that may wait at once."""
_UNSTAFFED = (
    "its client cannot ask its user, and no operator has the console open to be asked instead; "
    "`toolcrib console` opens it"
)
_RISK = "It may destroy or overwrite something."


@dataclass(frozen=True)
class Question:
    """What a person is asked about a call; plain data, which another worker can be sent."""

    facts: dict[str, Any]
    """The tool with all that is sent to it, the caller, the rule."""
    owner: str
    """Whose share of the calls that may wait it takes."""
    patience: float
    """Seconds to wait for an answer."""
    must_wait: bool
    """Whether to wait although nobody has the console open."""


@dataclass(eq=False)
class Waiting:
    """A call that waits for the answer of a person."""

    question: Question
    asked: float
    """Seconds since 1970."""
    ends: float
    """When it is refused, where nobody has answered."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    answer: bool | None = None
    by: str = ""
    """Who answered."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    link_token: str = field(default_factory=make_link_token, repr=False)
    """Lets the holder of a link see and answer it."""

    def to_json(self) -> dict[str, Any]:
        """Return the facts for a decision."""
        return {"id": self.id, **self.question.facts, "asked": self.asked, "ends": self.ends}


def describe_call(request: Request, rule: str | None, reason: str) -> dict[str, Any]:
    """Return what a person has to know of a call that a rule asks about.

    `seenAs` is the tool as its caller knows it, where a toolset gives it another shape.
    """
    who, shaped = request.principal or Principal(), request.shaped
    seen = {}
    if shaped is not None:
        args = _written(shaped.seen_args(request.args))
        seen = {"seenAs": {"toolId": str(shaped.id), "args": args}}
    return {
        "toolId": request.tool_id,
        "args": _written(request.args),
        **seen,
        "issuer": who.issuer,
        "subject": who.subject,
        "client": who.client,
        "rule": rule,
        "reason": reason,
        "destructive": request.destructive,
    }


def _written(args: dict[str, Any]) -> str:
    return (json_text(args) or b"{}").decode()


class Approvals:
    """Asks the operators of the console about calls; implements the `approve` hook of a crib."""

    def __init__(
        self,
        patience: Callable[[], float],
        is_staffed: Callable[[], bool | None],
        webhook: ApprovalWebhook,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Wait `patience` seconds for an answer.

        `is_staffed` returns whether an operator has the console open; None where there is no console.
        """
        self._patience, self._is_staffed, self._clock = patience, is_staffed, clock
        self.webhook = webhook
        self._waiting: dict[str, Waiting] = {}
        self.version = 0
        """Counts the changes of what waits."""
        self.ask_elsewhere: Callable[[Question], Awaitable[bool | str]] | None = None
        """Asks in the worker that has the console; None where that is this process."""

    async def __call__(self, request: Request, rule: Rule) -> bool | str:
        """Return whether an operator agrees to a call that a rule asks about, or why nobody does.

        A call waits only while somebody is there to answer, or the webhook reaches somebody.
        """
        return await self._ask(request, rule.name, rule.reason, must_wait=False)

    async def ask(self, request: Request, decision: Decision) -> None:
        """Ask about a call, whether or not an operator has the console open; for `Approval.ask`.

        Raises:
            PolicyDeniedError: no operator agreed.
        """
        rule = decision.rule if not decision.is_risky else None
        name, reason = (None, _RISK) if rule is None else (rule.name, rule.reason)
        verdict = await self._ask(request, name, reason, must_wait=True)
        if isinstance(verdict, str):
            raise PolicyDeniedError(tool_id=request.tool_id, reason=verdict, rule=name)

    async def _ask(self, request: Request, rule: str | None, reason: str, *, must_wait: bool) -> bool | str:
        facts, owner = describe_call(request, rule, reason), repr(slot_owner(request.principal))
        question = Question(facts, owner, self._patience(), must_wait)
        return await (self.ask_here if self.ask_elsewhere is None else self.ask_elsewhere)(question)

    async def ask_here(self, question: Question) -> bool | str:
        """Return whether an operator of this process's console agrees, or why nobody does."""
        is_staffed = self._is_staffed()
        if is_staffed is None and not question.must_wait:
            return False
        if not (question.must_wait or is_staffed or self.webhook.is_set):
            return _UNSTAFFED
        own = sum(question.owner == each.question.owner for each in self._waiting.values())
        if own >= _SHARE or len(self._waiting) >= _MOST:
            return f"{len(self._waiting)} calls wait for an operator, {own} of them yours; try again later"
        now, patience = self._clock(), question.patience
        call = Waiting(question, now, now + patience)
        self._waiting[call.id] = call
        self.version += 1
        try:
            async with anyio.create_task_group() as tasks:
                if self.webhook.is_set:
                    tasks.start_soon(self._post, call)
                with anyio.move_on_after(patience):
                    await call.answered.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._waiting.pop(call.id, None)
            self.version += 1
        if call.answer is None:
            return call.by or f"no operator of the console answered within {patience:g} s"
        if call.answer:
            return True
        return f"{call.by} declined at the console; do not try again unless the user asks for it"

    async def _post(self, call: Waiting) -> None:
        """Post a call to the webhook; where that fails and nobody has the console open, it is refused."""
        failure = await self.webhook.post(call.to_json(), call.link_token)
        if failure is not None and not self._is_staffed() and call.answer is None:
            call.by = f"{_UNSTAFFED}; and the webhook failed: {failure}"
            call.answered.set()

    def find_by_link(self, call_id: str, token: str) -> Waiting | None:
        """Return the call of a link; None if it does not wait any more, or the link is another's."""
        call = self._waiting.get(call_id)
        is_its_own = call is not None and hmac.compare_digest(call.link_token.encode(), token.encode())
        return call if is_its_own else None

    def waiting(self) -> list[Waiting]:
        """Return the calls that wait, the oldest first."""
        return list(self._waiting.values())

    def answer(self, call_id: str, *, approve: bool, by: str) -> bool:
        """Answer for a call; return False if it does not wait any more."""
        call = self._waiting.get(call_id)
        if call is None or call.answer is not None:
            return False
        call.answer, call.by = approve, by
        call.answered.set()
        return True

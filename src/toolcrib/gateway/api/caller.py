"""The request of one caller of the API: who it is, what was sent, and its consent to a call."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from toolcrib.crib import View
from toolcrib.execution import CallContext, Principal
from toolcrib.execution.call import Approval, CallSuspendedError
from toolcrib.execution.principal import SubjectToken
from toolcrib.gateway.app.asgi import Headers, HttpRequest, Receive, Scope
from toolcrib.gateway.frontends.shared.frontend import Confirmation, ConfirmationResult
from toolcrib.model.record import Record

Report = Callable[[dict[str, Any]], Awaitable[None]]
SendEvent = Callable[[str, Any], Awaitable[None]]
"""Sends an event of a kind, with its data."""
Produce = Callable[[SendEvent], Awaitable[None]]


@dataclass(slots=True)
class ApiCaller:
    """A caller of the API and its request; what an operation is given."""

    principal: Principal
    is_operator: bool
    sees_all: bool
    """Whether it sees the calls of everybody: operators and auditors."""
    view: View
    """The tools that the principal may find."""
    open: HttpRequest
    scope: Scope = field(repr=False)
    receive: Receive = field(repr=False)
    path: dict[str, str] = field(default_factory=dict)
    """The parameters in the path."""
    query: Any = None
    body: Any = None
    is_valid: Callable[[], Awaitable[bool]] | None = None
    """Returns whether its login still holds, for streams."""
    headers: Headers = field(default_factory=list)
    """Headers to answer with."""

    @property
    def viewer(self) -> Principal | None:
        """The account whose calls it may see; None for all."""
        return None if self.sees_all else self.principal


class QuestionForPersonError(CallSuspendedError):
    """A call that goes on when its caller makes it again, with the key of the question it agrees to."""

    def __init__(self, question: Confirmation) -> None:
        super().__init__("the person is asked, and the request made again")
        self.question = question


class ConsoleClient:
    """The person at a console as the client of a call; implements `CallingClient`."""

    can_ask = True

    def __init__(
        self,
        principal: Principal,
        subject_token: SubjectToken | None,
        confirmed: str | None,
        report: Report | None,
    ) -> None:
        """Take the key of the question that the person has agreed to, and what takes progress."""
        self.principal = principal
        self.wants_progress = report is not None
        self._subject_token, self._confirmed, self._report = subject_token, confirmed, report

    def context(self, approval: Approval = Approval()) -> CallContext:  # noqa: B008 - it is frozen
        """Return the context of its call."""
        return CallContext(principal=self.principal, approval=approval, subject_token=self._subject_token)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress."""
        if self._report is not None:
            facts = {"progress": progress, "total": total, "message": message}
            await self._report({name: value for name, value in facts.items() if value is not None})

    async def confirm(self, question: Confirmation) -> ConfirmationResult:
        """Return whether the person has agreed.

        Raises:
            QuestionForPersonError: they have not been asked yet, or it was another question.
        """
        if self._confirmed != question.key:
            raise QuestionForPersonError(question)
        return ConfirmationResult.ACCEPTED


class ApiFile:
    """A file that answers a request."""

    def __init__(self, body: bytes, content_type: str, file_name: str | None = None) -> None:
        self.body, self.content_type, self.file_name = body, content_type, file_name


class ApiStream:
    """Events that answer a request: a function that is given what sends one, and returns at the end."""

    def __init__(self, produce: Produce, *, is_endless: bool = False) -> None:
        """Take the function; an endless stream ends when the gateway is asked to stop."""
        self.produce, self.is_endless = produce, is_endless


def to_json(answer: Any) -> Any:
    """Return an answer as JSON."""
    return answer.to_json() if isinstance(answer, Record) else answer

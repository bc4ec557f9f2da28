"""The guard of results: checks what comes back from backends before anybody sees it.

It is the outermost middleware, so that all ways of calling pass it, and answers from the cache too. Beside
the result it checks progress, log messages, questions of servers and errors, in which the same may stand.
What one piece of a stream lacks the next may complete, so pieces wait for the end where something may have
to be removed; where it is only reported, they do not.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.concurrency.loop import in_thread
from toolcrib.errors import (
    Problem,
    ResultBlockedError,
    ToolcribError,
    ToolError,
    ToolExecutionError,
    ValidationError,
)
from toolcrib.execution.call import Answer, Call, Update
from toolcrib.execution.protocols import Next
from toolcrib.model.backend import label
from toolcrib.model.findings import (
    CheckedResult,
    ResultCheck,
    ResultFinding,
    describe_findings,
    describe_removed,
)
from toolcrib.model.plain import count_size, is_large

WITHHELD = "[withheld]"
"""The text in place of a withheld message."""
_MAX_HELD = 16 * 2**20
"""Characters of a stream that are held back."""
_MAX_SEEN = 256 * 1024
"""Characters of a stream that are checked together, where none is held back."""
_TAIL = 300
"""Characters of earlier messages that are read with the next."""


_REASON = "/reason"
_RESULT = "/result"


class ResultGuard:
    """Checks each result with the check configured for its backend."""

    def __init__(self, checks: Mapping[str, ResultCheck | None], default: ResultCheck | None = None) -> None:
        """Take checks by backend label, such as `mcp:github`; others use `default`. None means no check."""
        self._checks, self._default = checks, default

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Return the answer as it may be passed on.

        Raises:
            ResultBlockedError: it has to be withheld.
        """
        check = self._checks.get(label(call.backend), self._default)
        if check is None:
            return await go_on(call)
        guarded = _GuardedCall(call, check)
        try:
            answer = await go_on(guarded.call)
        except ToolError as error:
            await guarded.pass_error(error)
            raise
        return await guarded.pass_answer(answer)


class MessageGuard:
    """Checks the messages of a server for one request, and collects findings; a `MessageCheck`."""

    def __init__(
        self, check: ResultCheck, blocked: Callable[[tuple[ResultFinding, ...]], ToolcribError]
    ) -> None:
        """Check by `check`; `blocked` makes the error for findings that have to be withheld."""
        self._check, self._blocked = check, blocked
        self._findings: dict[ResultFinding, None] = {}
        self._tail = ""

    @property
    def findings(self) -> tuple[ResultFinding, ...]:
        """The findings so far."""
        return tuple(self._findings)

    def note(self, findings: Iterable[ResultFinding]) -> None:
        """Add to the findings."""
        self._findings |= dict.fromkeys(findings)

    async def read(self, value: Any) -> CheckedResult:
        """Return a value checked, by a thread if it is large."""
        if is_large(value):
            return await in_thread(self._check, value)
        return self._check(value)

    async def check_message(self, message: Any) -> Any:
        """Return progress or a log message as it may be passed on; a placeholder if it has to be withheld."""
        checked = await self.read(message)
        self.note(checked.findings)
        if checked.is_blocked:
            return _placeholder(message)
        value = checked.value
        text = value.get("message", value.get("data")) if isinstance(value, dict) else value
        if not isinstance(text, str):
            return value
        # What is split between this message and those before it is in the two together.
        tail, self._tail = self._tail, (self._tail + text)[-_TAIL:]
        across = await self.read([tail, text])
        if across.findings and across.findings != (await self.read([text])).findings:
            self.note(across.findings)
            if across.is_blocked or across.value[1] != text:
                return _placeholder(value)
        return value

    async def check_answer(self, answer: Any) -> Any:
        """Return a question, the handle of a task or an answer as it may be passed on.

        Raises:
            ToolcribError: it has to be withheld.
        """
        checked = await self.read(answer)
        self.note(checked.findings)
        self.raise_if_blocked()
        return checked.value

    def raise_if_blocked(self) -> None:
        """Raise if anything was found that has to be withheld."""
        if any(each.action == "block" for each in self._findings):
            raise self._blocked(self.findings) from None


def _placeholder(message: Any) -> Any:
    """Return the message that is sent in place of one that is withheld."""
    if not isinstance(message, dict):
        return WITHHELD
    texts = {key: WITHHELD for key in ("message", "data") if key in message}
    kept = {key: message[key] for key in ("level", "progress", "total") if key in message}
    return kept | (texts or {"message": WITHHELD})


class _GuardedCall:
    """The check of one call."""

    def __init__(self, call: Call, check: ResultCheck) -> None:
        self._guard = MessageGuard(check, self._blocked)
        self._emit = call.emit
        self._pieces: list[Update] = []
        self._size = 0
        self._is_holding = check.may_remove
        self.call = replace(call, check=self._guard, emit=None if call.emit is None else self._pass_update)

    def _blocked(self, findings: tuple[ResultFinding, ...]) -> ResultBlockedError:
        return ResultBlockedError(
            tool_id=self.call.tool_id,
            backend=label(self.call.backend),
            reason=describe_findings(findings, "block"),
            findings=findings,
        )

    async def _pass_update(self, update: Update) -> None:
        assert self._emit is not None  # noqa: S101 - set where this is
        if update.kind != "chunk":
            await self._emit(replace(update, data=await self._guard.check_message(update.data)))
            return
        self._pieces.append(update)
        self._size += count_size(update.data)[1]
        if self._is_holding:
            if self._size > _MAX_HELD:
                reason = f"its stream is longer than the {_MAX_HELD:,} characters that can be checked"
                raise ToolExecutionError(
                    tool_id=self.call.tool_id, backend=label(self.call.backend), reason=reason
                )
            return
        await self._emit(update)
        if self._size > _MAX_SEEN:
            last = self._pieces[-1]
            await self._read_pieces()
            self._pieces, self._size = [last], count_size(last.data)[1]

    async def pass_answer(self, answer: Answer) -> Answer:
        """Return an answer as it may be passed on, after the pieces that were held back."""
        pieces = await self._read_pieces()
        value, raw = answer.structured, answer.mcp_result
        is_clean = answer.is_task  # its handle was checked when the server sent it
        if raw is not None and not is_clean:
            checked = await self._guard.read(raw)
            is_clean = not checked.findings
            self._guard.note(checked.findings)
            raw = checked.value
        if not is_clean:  # else neither has the value, which is read out of it
            if isinstance(raw, dict) and raw.get("structuredContent") is not None:
                value = _replace_alike(value, answer.mcp_result, raw)
            checked = await self._guard.read(value)
            if answer.mcp_result is None:
                self._guard.note(checked.findings)
            value = checked.value
        self._guard.raise_if_blocked()
        if self._is_holding and self._emit is not None:
            for update, data in zip(self._pieces, pieces, strict=True):
                await self._emit(replace(update, data=data))
        findings = self._guard.findings
        notes = describe_removed(findings)
        return replace(
            answer, structured=value, mcp_result=raw, notes=(*answer.notes, *notes), findings=findings
        )

    async def _read_pieces(self) -> list[Any]:
        """Check the pieces of a stream together, and return them."""
        if not self._pieces:
            return []
        checked = await self._guard.read([update.data for update in self._pieces])
        self._guard.note(checked.findings)
        pieces: list[Any] = checked.value
        return pieces

    async def pass_error(self, error: ToolError) -> None:
        """Note what was found before an error and in it; raise another one where it may not be passed on."""
        await self._read_pieces()
        cause = error.__cause__
        problems = error.problems if isinstance(error, ValidationError) else ()
        facts = {
            "reason": error.reason,
            "result": getattr(error, "result", None),
            "text": getattr(error, "text", ""),
            "problems": [each.message for each in problems],
            "cause": [str(cause), getattr(cause, "data", None)] if cause is not None else None,
        }
        checked = await self._guard.read(facts)
        # The reason is read out of the result, so what is in both is one thing.
        inside = {(each.kind, each.rule) for each in checked.findings if each.path.startswith(_RESULT)}
        self._guard.note(
            each.replace(path=each.path.removeprefix(_RESULT))
            for each in checked.findings
            if each.path != _REASON or (each.kind, each.rule) not in inside
        )
        self._guard.raise_if_blocked()
        error.findings = self._guard.findings
        if checked.value is facts:
            return
        clean = copy.copy(error)
        clean.reason = checked.value["reason"]
        if hasattr(clean, "result"):
            clean.result = checked.value["result"]
        if isinstance(clean, ValidationError):
            messages = checked.value["problems"]
            clean.text = checked.value["text"]
            clean.problems = tuple(
                Problem(each.path, each.keyword, message)
                for each, message in zip(problems, messages, strict=True)
            )
        raise clean from None


def _replace_alike(value: Any, before: Any, after: Any) -> Any:
    """Return the structured part of a checked result where a value is that of the result before.

    By itself it may hold a piece of something that only the whole result shows.
    """
    return after["structuredContent"] if value == before.get("structuredContent") else value

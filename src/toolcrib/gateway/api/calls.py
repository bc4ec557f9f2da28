"""The latest calls of a gateway, in memory: a row for each, and the payloads of the newest."""

import pickle
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import anyio

from toolcrib.execution.audit.records import (
    AuditRecord,
    args_of,
    json_text,
    make_record,
    remove_secrets,
    result_of,
)
from toolcrib.execution.call import Answer, Outcome, Stage
from toolcrib.execution.middleware.cache import FROM_CACHE
from toolcrib.execution.principal import Principal
from toolcrib.model.backend import ToolBackend
from toolcrib.model.findings import ResultFinding
from toolcrib.redaction import error_text, hide_secrets

_NAMES = tuple((name, field.alias or name) for name, field in AuditRecord.model_fields.items())
_PAYLOAD = 16 * 1024
"""Bytes that are kept of the arguments of a call, and of its result."""
_PAYLOADS = 32 * 2**20
"""Bytes of all payloads together; those of the oldest calls are dropped first."""
_OVERHEAD = 500
"""Bytes of a payload beside its texts."""
_PAUSE = 0.5
"""Seconds for which ended calls may wait for their rows."""
_MAX_ENDED = 500
"""Ended calls that wait at most."""
_SCANNED = 2_000
"""Running calls that are listed at most."""
_TRACE_BITS = 40
"""Traces and running calls of other workers begin with the number of the worker, above so many bits."""
_TRACED = 200
"""Calls of one request that are shown at most."""


class Running(NamedTuple):
    """A call that has not ended yet."""

    id: int
    tool_id: str
    principal: Principal
    began: float


class CallRow(NamedTuple):
    """A call that has ended: what its audit record is made of, when somebody looks at it."""

    id: int
    """Later calls have higher ids."""
    began: float
    """Seconds since 1970."""
    principal: Principal
    tool_id: str
    duration: float
    """Seconds."""
    trace: int
    """Equal for the calls of one request, such as those of a chain."""
    args_bytes: int | None
    result_bytes: int | None
    backend: ToolBackend | None
    rule: str | None
    is_cached: bool
    findings: tuple[ResultFinding, ...]
    failure: AuditRecord | None
    """The record of a call that failed; its error is not kept, which would keep all that it refers to."""

    @property
    def outcome(self) -> str:
        """`ok`, or the code of its error."""
        return "ok" if self.failure is None else self.failure.error or "ok"

    def to_json(self) -> dict[str, Any]:
        """Return its audit record as `toolcrib audit show --json` does, with its id."""
        record = (self._make_record() if self.failure is None else self.failure).__dict__
        known = {alias: value for name, alias in _NAMES if (value := record[name]) is not None}
        if record["findings"]:
            known["toolcrib.result.findings"] = [each.to_json() for each in record["findings"]]
        return {"id": self.id, **known, "trace": self.trace}

    def _make_record(self) -> AuditRecord:
        ended = Outcome(
            tool_id=self.tool_id,
            request=None,
            backend=self.backend,
            answer=Answer(notes=(FROM_CACHE,) if self.is_cached else (), findings=self.findings),
            error=None,
            duration=self.duration,
            principal=self.principal,
            is_allowed=True,
            rule=self.rule,
        )
        return make_record(ended, self.began, args_bytes=self.args_bytes, result_bytes=self.result_bytes)


class Payload(NamedTuple):
    """The arguments and the result of a call as JSON that may be cut, its error's message, and its stages."""

    args: bytes
    """Without the members that are secret."""
    result: bytes
    """Secrets are hidden when it is shown, which most results never are."""
    message: str
    sizes: tuple[int, int]
    """The bytes of the arguments and of the result before they were cut."""
    stages: tuple[Stage, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the texts without secrets, whether they are cut, and the stages."""
        found: dict[str, Any] = {}
        for name, text, size in zip(("args", "result"), self[:2], self.sizes, strict=True):
            if text:
                shown = hide_secrets(text.decode(errors="ignore"))
                found[name] = {"text": shown, "bytes": size, "cut": size > len(text)}
        stages = [{"name": each.name, "began": each.began, "ended": each.ended} for each in self.stages]
        return found | {"stages": stages} | ({"message": self.message} if self.message else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Conditions on calls; those that are None admit all."""

    viewer: Principal | None = None
    """The account whose calls are shown."""
    tool: str | None = None
    """The id of a tool, or the beginning of one that ends with `*`."""
    who: str | None = None
    """A subject, or a client."""
    outcome: str | None = None
    """`ok`, `failed`, or the code of an error."""
    since: float | None = None
    until: float | None = None
    text: str | None = None
    """A part of the tool's id, the caller's name or the error's code."""

    def admits(self, row: CallRow) -> bool:
        """Return whether a call meets all conditions."""
        who = row.principal
        return (
            (self.viewer is None or is_same_account(self.viewer, who))
            and (self.tool is None or _is_tool(self.tool, row.tool_id))
            and (self.who is None or self.who in {who.subject, who.client})
            and (self.outcome is None or _is_outcome(self.outcome, row.outcome))
            and (self.since is None or row.began >= self.since)
            and (self.until is None or row.began < self.until)
            and (self.text is None or self._is_in(row))
        )

    def _is_in(self, row: CallRow) -> bool:
        who, text = row.principal, (self.text or "").lower()
        return any(text in each.lower() for each in (row.tool_id, who.subject, who.client, row.outcome))


def is_same_account(viewer: Principal, caller: Principal) -> bool:
    """Return whether an issuer vouches that two principals are the same subject."""
    return bool(viewer.issuer) and (viewer.issuer, viewer.subject) == (caller.issuer, caller.subject)


def _is_tool(wanted: str, tool_id: str) -> bool:
    return tool_id.startswith(wanted[:-1]) if wanted.endswith("*") else tool_id == wanted


def _is_outcome(wanted: str, outcome: str) -> bool:
    return outcome != "ok" if wanted == "failed" else outcome == wanted


class CallLog:
    """Observes calls and keeps the latest; it does nothing until it is opened.

    A call does not wait for its row: `run` writes it shortly afterwards, and so does whoever reads the rows.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._rows: deque[CallRow] = deque(maxlen=0)
        self._payloads: OrderedDict[int, Payload] = OrderedDict()
        self._payload_bytes = 0
        self._running: dict[int, Running] = {}
        self._ended: list[tuple[Running, Outcome]] = []
        """Calls without a row, in the order in which they ended."""
        self._has_ended = anyio.Event()
        self._last = 0
        self._is_open = False
        self.send_rows: Callable[[bytes], Awaitable[None]] | None = None
        """Sends rows to the worker that has the console and keeps them; None where that is this one."""
        self._unsent: deque[tuple[CallRow, Payload]] = deque(maxlen=0)

    def open(self, most: int) -> None:
        """Keep so many calls from now on; those that are kept already stay, as far as they fit."""
        self._is_open = True
        if self._rows.maxlen != most:
            self._rows = deque(self._rows, maxlen=most)
            self._unsent = deque(self._unsent, maxlen=most)

    async def run(self) -> None:
        """Write the rows of calls soon after their end, until cancelled."""
        while True:
            await self._has_ended.wait()
            await anyio.sleep(_PAUSE)
            self._has_ended = anyio.Event()
            self._add_rows()
            if self._unsent and self.send_rows is not None:
                sent = pickle.dumps(list(self._unsent))
                self._unsent.clear()
                await self.send_rows(sent)

    def take_rows(self, sent: bytes, worker: int) -> None:
        """Keep rows that another worker has sent."""
        for row, payload in pickle.loads(sent):  # noqa: S301 - the socket is of this user's own processes
            self._keep(row._replace(trace=(worker << _TRACE_BITS) + row.trace), payload)

    def __len__(self) -> int:
        self._add_rows()
        return len(self._rows)

    @property
    def last_id(self) -> int:
        """The id of the call that ended last; 0 before the first."""
        self._add_rows()
        return self._rows[-1].id if self._rows else 0

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None] | None:
        """Note that a call runs, and return what notes its end."""
        if not self._is_open:
            return None
        self._last += 1
        running = Running(self._last, tool_id, principal or Principal(), self._clock())
        self._running[running.id] = running
        return partial(self._end, running)

    def _end(self, running: Running, outcome: Outcome) -> None:
        self._running.pop(running.id, None)
        if outcome.is_suspended:
            return
        self._ended.append((running, outcome))
        self._has_ended.set()
        if len(self._ended) == _MAX_ENDED:
            self._add_rows()

    def _add_rows(self) -> None:
        ended, self._ended = self._ended, []
        for running, outcome in ended:
            made = _make_row(running, outcome)
            if self.send_rows is None:
                self._keep(*made)
            else:
                self._unsent.append(made)

    def _keep(self, row: CallRow, payload: Payload) -> None:
        """Keep the row of a call, with the next id: rows are in the order in which calls end."""
        self._last += 1
        self._rows.append(row._replace(id=self._last))
        self._payloads[self._last] = payload
        self._payload_bytes += _size(payload)
        while self._payload_bytes > _PAYLOADS or len(self._payloads) > (self._rows.maxlen or 0):
            _, dropped = self._payloads.popitem(last=False)
            self._payload_bytes -= _size(dropped)

    def newest(self, conditions: CallFilter, *, before: int | None = None) -> Iterator[CallRow]:
        """Yield the calls that meet conditions, the newest first, from the one before an id on."""
        self._add_rows()
        for row in reversed(self._rows):
            if before is not None and row.id >= before:
                continue
            if conditions.since is not None and row.began + row.duration < conditions.since:
                break
            if conditions.admits(row):
                yield row

    def count(self, conditions: CallFilter) -> int:
        """Return how many calls meet conditions."""
        self._add_rows()
        return sum(conditions.admits(row) for row in self._rows)

    def since(self, row_id: int) -> list[CallRow]:
        """Return the calls that have ended after another, in their order."""
        self._add_rows()
        found = list(self._take_while_after(row_id))
        found.reverse()
        return found

    def _take_while_after(self, row_id: int) -> Iterator[CallRow]:
        for row in reversed(self._rows):
            if row.id <= row_id:
                return
            yield row

    def find(self, row_id: int) -> tuple[CallRow, Payload | None] | None:
        """Return a call by its id, with its payload while that is kept."""
        self._add_rows()
        for row in reversed(self._rows):
            if row.id == row_id:
                return row, self._payloads.get(row_id)
            if row.id < row_id:
                break
        return None

    def of_trace(self, trace: int) -> list[CallRow]:
        """Return the latest calls of a request, in the order in which they began."""
        self._add_rows()
        found = (row for row in reversed(self._rows) if row.trace == trace)
        return sorted(islice(found, _TRACED), key=lambda row: row.began)

    def running(self) -> list[Running]:
        """Return the calls that have not ended, the oldest first."""
        return list(islice(self._running.values(), _SCANNED))


def pack_running(running: Iterable[Running], worker: int) -> list[Any]:
    """Return running calls of a worker as JSON, with ids that are those of no other worker."""
    return [
        [(worker << _TRACE_BITS) + each.id, each.tool_id, pack_account(each.principal), each.began]
        for each in running
    ]


def unpack_running(rows: Iterable[Any]) -> Iterator[Running]:
    """Yield the running calls of another worker; of their principals, the names alone."""
    for number, tool_id, facts, began in rows:
        yield Running(number, tool_id, Principal(**facts), began)


def pack_account(principal: Principal) -> dict[str, str]:
    """Return the names of a principal."""
    return {name: getattr(principal, name) for name in ("issuer", "subject", "client")}


def _make_row(running: Running, outcome: Outcome) -> tuple[CallRow, Payload]:
    """Return the row of a call that has ended, without an id, and its payload."""
    args, result = json_text(args_of(outcome)) or b"", json_text(result_of(outcome)) or b""
    sizes = len(args), len(result)
    failure = None
    if outcome.error is not None:
        failure = make_record(
            outcome, running.began, args_bytes=sizes[0] or None, result_bytes=sizes[1] or None
        )
    row = CallRow(
        0,
        running.began,
        outcome.principal or running.principal,
        outcome.tool_id,
        outcome.duration,
        outcome.trace,
        sizes[0] or None,
        sizes[1] or None,
        outcome.backend,
        outcome.rule,
        outcome.answer is not None and FROM_CACHE in outcome.answer.notes,
        () if outcome.answer is None else outcome.answer.findings,
        failure,
    )
    if args:
        schema = {} if outcome.request is None else outcome.request.tool.shared("input_schema")
        given = args_of(outcome)
        shown = remove_secrets(given, schema)
        args = args if shown == given else json_text(shown) or b""
    message = "" if outcome.error is None else error_text(outcome.error)[:_PAYLOAD]
    return row, Payload(args[:_PAYLOAD], result[:_PAYLOAD], message, sizes, outcome.stages)


def _size(payload: Payload) -> int:
    return _OVERHEAD + len(payload.args) + len(payload.result) + len(payload.message)

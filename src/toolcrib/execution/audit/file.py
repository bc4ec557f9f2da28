"""Writes an audit file in a thread, and reports every record that could not be written."""

import atexit
import logging
import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from os import PathLike
from threading import Condition, Thread

from toolcrib.errors import PolicyDeniedError
from toolcrib.execution.audit.hash_chain import ChainedLines, Sign
from toolcrib.execution.call import Answer, Call
from toolcrib.execution.protocols import Next
from toolcrib.model.record import Record

_LOG = logging.getLogger("toolcrib.audit")
_MAX_WAITING = 10_000
_IDLE_SECONDS = 5.0
"""The thread ends after so long without a record, so that an unused audit costs nothing."""
_WRITE_TIMEOUT = 5.0
"""Seconds for which a pipe may be full, or a write may take, before that counts as a fault."""
_RETRY_SECONDS = 1.0
_EXIT_FLUSH_SECONDS = 2.0
_POLL_SECONDS = 0.01


class AuditStatus(Record):
    """The state of an audit file."""

    lost: int = 0
    """The number of records that could not be written."""
    waiting: int = 0
    """The number of records still to be written."""
    fault: str | None = None
    """The reason why records cannot be written now; None if they can."""


class LostRecords(Record):
    """A line for records that could not be written."""

    time: str
    lost: int


class AuditFile:
    """Appends records to a file in its own thread, from a bounded queue; see `ChainedLines`.

    Records that cannot be written are counted; a line in the file gives their number, and the reason is
    logged once. With `required`, writing is retried instead, and the file, used as middleware, refuses calls
    until it succeeds. Safe to use from many threads.

    Raises:
        StoreError: the file cannot be opened for appending.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        required: bool = False,
        sign: Sign | None = None,
        max_bytes: int | None = None,
        capacity: int = _MAX_WAITING,
        patience: float = _WRITE_TIMEOUT,
    ) -> None:
        self._lines = ChainedLines(path, sign=sign, max_bytes=max_bytes)
        self._path, self.required = path, required
        self._capacity, self._patience = capacity, patience
        self._waiting: deque[Record] = deque()
        self._changed = Condition()
        self._thread: Thread | None = None
        self._writing_since: float | None = None
        self._lost = self._reported = 0
        self._fault: str | None = None

    @property
    def status(self) -> AuditStatus:
        """Its state."""
        with self._changed:
            return AuditStatus.from_valid(
                lost=self._lost, waiting=len(self._waiting), fault=self._current_fault()
            )

    def write(self, record: Record) -> None:
        """Queue a record, without waiting."""
        with self._changed:
            if len(self._waiting) >= self._capacity:
                self._count_lost("more records come than can be written")
                return
            self._waiting.append(record)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="toolcrib-audit", daemon=True)
                self._thread.start()
                atexit.register(self.flush, _EXIT_FLUSH_SECONDS)
            self._changed.notify_all()

    def flush(self, within: float) -> bool:
        """Wait until all records are written; return False if that takes more than `within` seconds."""
        with self._changed:
            if self._changed.wait_for(lambda: not self._waiting, within):
                self._sign_written()
                return True
            _LOG.error("%d records were not written to %s", len(self._waiting), self._path)
            return False

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Make a call, unless the audit is required and cannot be written.

        Raises:
            PolicyDeniedError: it cannot be written.
        """
        fault = self._current_fault()
        # Refused at half of the queue: calls in progress still have to be recorded.
        if fault is None and len(self._waiting) > self._capacity // 2:
            fault = "more records come than can be written"
        if self.required and fault is not None:
            reason = f"the audit cannot be written ({fault}), and audit.required is set"
            raise PolicyDeniedError(tool_id=call.tool_id, reason=reason)
        return await go_on(call)

    def _current_fault(self) -> str | None:
        since = self._writing_since
        if self._fault is None and since is not None and time.monotonic() - since > self._patience:
            return "writing a record does not come to an end"
        return self._fault

    def _run(self) -> None:
        """Write queued records, until none has come for a while."""
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._waiting, _IDLE_SECONDS):
                    self._sign_written()
                    self._thread = None
                    atexit.unregister(self.flush)
                    return
                record, missing = self._waiting[0], self._lost - self._reported
                self._writing_since = time.monotonic()
            fault = self._write_lost(missing) if missing else None
            lasting, fault = (True, fault) if fault else self._try_write(record)
            with self._changed:
                self._writing_since = None
                self._record_result(fault, keep=self.required and lasting)

    def _sign_written(self) -> None:
        """Sign the written lines before a pause; if that fails, the next record reports it."""
        with suppress(OSError):
            self._lines.checkpoint()

    def _record_result(self, fault: str | None, *, keep: bool) -> None:
        """Record the result of writing the first record; with `keep` a failed write is retried."""
        if fault is None:
            self._clear_fault()
        elif keep:
            self._set_fault(fault)
            self._changed.wait_for(lambda: False, _RETRY_SECONDS)
            return
        else:
            self._count_lost(fault)
        self._waiting.popleft()
        self._changed.notify_all()

    def _try_write(self, record: Record) -> tuple[bool, str | None]:
        """Write a record; return whether a retry could help, and the reason of a failure."""
        until = time.monotonic() + self._patience
        while True:
            try:
                self._lines.write(record)
            except BlockingIOError as error:  # a pipe whose reader is slow
                if time.monotonic() > until:
                    return True, str(error.strerror)
                time.sleep(_POLL_SECONDS)
            except OSError as error:
                return True, error.strerror or str(error)
            except (ValueError, TypeError) as error:  # not JSON
                return False, str(error)
            else:
                return True, None

    def _write_lost(self, count: int) -> str | None:
        """Write the number of missing records; return the reason if that failed."""
        moment = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
        _, fault = self._try_write(LostRecords(time=f"{moment}Z", lost=count))
        if fault is None:
            with self._changed:
                self._reported += count
        return fault

    def _count_lost(self, fault: str) -> None:
        self._lost += 1
        self._set_fault(fault)

    def _set_fault(self, fault: str) -> None:
        if self._fault is None:
            what = "calls are refused until they can be" if self.required else "they are lost"
            _LOG.error("records of calls cannot be written to %s, %s: %s", self._path, what, fault)
        self._fault = fault

    def _clear_fault(self) -> None:
        if self._fault is not None:
            _LOG.warning("records are written to %s again; %d were lost so far", self._path, self._lost)
        self._fault = None

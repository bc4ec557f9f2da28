"""An audit file that is written off the event loop, and that never loses a record in silence."""

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
_CAPACITY = 10_000
"""How many records may wait to be written."""
_IDLE = 5.0
"""After how many seconds without a record the thread ends."""
_PATIENCE = 5.0
"""For how many seconds a pipe may be full, or a write may take, before that is a fault."""
_RETRY = 1.0
_AT_EXIT = 2.0
"""For how many seconds a process that ends writes what waits."""
_POLL = 0.01


class AuditStatus(Record):
    """How an audit file is doing."""

    lost: int = 0
    """How many records could not be written."""
    waiting: int = 0
    """How many records are yet to be written."""
    fault: str | None = None
    """Why records cannot be written at this moment; None while they can."""


class LostRecords(Record):
    """A line in the place of records that could not be written."""

    time: str
    lost: int


class AuditFile:
    """Appends records to a file in a thread of its own, from a bounded queue; see `ChainedLines`.

    A record that cannot be written is counted, a line in the file says how many are missing there, and the
    log says once why. With `required` it is kept and tried again instead, and as a middleware this refuses
    calls meanwhile. Safe to use from many threads.

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
        capacity: int = _CAPACITY,
        patience: float = _PATIENCE,
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
        """How it is doing."""
        with self._changed:
            return AuditStatus.of_checked(
                lost=self._lost, waiting=len(self._waiting), fault=self._current_fault()
            )

    def write(self, record: Record) -> None:
        """Have a record written soon; it returns at once."""
        with self._changed:
            if len(self._waiting) >= self._capacity:
                self._lose("more records come than can be written")
                return
            self._waiting.append(record)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="toolcrib-audit", daemon=True)
                self._thread.start()
                atexit.register(self.flush, _AT_EXIT)
            self._changed.notify_all()

    def flush(self, within: float) -> bool:
        """Wait until everything is written, and return whether it is; what is not may be lost."""
        with self._changed:
            if self._changed.wait_for(lambda: not self._waiting, within):
                self._sign_off()
                return True
            _LOG.error("%d records were not written to %s", len(self._waiting), self._path)
            return False

    async def __call__(self, call: Call, go_on: Next, /) -> Answer:
        """Answer a call, unless it must be written down and cannot be.

        Raises:
            PolicyDeniedError: it cannot.
        """
        fault = self._current_fault()
        if fault is None and len(self._waiting) > self._capacity // 2:
            fault = "more records come than can be written"
        if self.required and fault is not None:
            reason = f"the audit cannot be written ({fault}), and audit.required is set"
            raise PolicyDeniedError(tool_id=call.tool_id, reason=reason)
        return await go_on(call)

    def _current_fault(self) -> str | None:
        since = self._writing_since
        if self._fault is None and since is not None and time.monotonic() - since > self._patience:
            return "a record is being written and does not come to an end"
        return self._fault

    def _run(self) -> None:
        """Write what waits, until nothing has come for a while."""
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._waiting, _IDLE):
                    self._sign_off()
                    self._thread = None
                    atexit.unregister(self.flush)
                    return
                record, missing = self._waiting[0], self._lost - self._reported
                self._writing_since = time.monotonic()
            fault = self._tell_lost(missing) if missing else None
            lasting, fault = (True, fault) if fault else self._tried(record)
            with self._changed:
                self._writing_since = None
                self._settle(fault, keep=self.required and lasting)

    def _sign_off(self) -> None:
        """Sign what was written before a silence; where that fails, the next record shows it."""
        with suppress(OSError):
            self._lines.checkpoint()

    def _settle(self, fault: str | None, *, keep: bool) -> None:
        """Note what became of the first record that waits; one to keep is tried again in a moment."""
        if fault is None:
            self._recover()
        elif keep:
            self._note(fault)
            self._changed.wait_for(lambda: False, _RETRY)
            return
        else:
            self._lose(fault)
        self._waiting.popleft()
        self._changed.notify_all()

    def _tried(self, record: Record) -> tuple[bool, str | None]:
        """Write a record; return whether trying again could help, and why it failed, if it did."""
        until = time.monotonic() + self._patience
        while True:
            try:
                self._lines.write(record)
            except BlockingIOError as error:  # a pipe whose reader is slow
                if time.monotonic() > until:
                    return True, str(error.strerror)
                time.sleep(_POLL)
            except OSError as error:
                return True, error.strerror or str(error)
            except (ValueError, TypeError) as error:  # what JSON cannot say
                return False, str(error)
            else:
                return True, None

    def _tell_lost(self, count: int) -> str | None:
        """Write how many records are missing; return why that failed, if it did."""
        moment = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
        _, fault = self._tried(LostRecords(time=f"{moment}Z", lost=count))
        if fault is None:
            with self._changed:
                self._reported += count
        return fault

    def _lose(self, fault: str) -> None:
        self._lost += 1
        self._note(fault)

    def _note(self, fault: str) -> None:
        if self._fault is None:
            what = "calls are refused until they can be" if self.required else "they are lost"
            _LOG.error("records of calls cannot be written to %s, %s: %s", self._path, what, fault)
        self._fault = fault

    def _recover(self) -> None:
        if self._fault is not None:
            _LOG.warning("records are written to %s again; %d were lost so far", self._path, self._lost)
        self._fault = None

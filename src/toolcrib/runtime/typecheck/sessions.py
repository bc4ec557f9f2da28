"""Warm sessions of the type checker: a session that has checked before is about ten times faster.

Each stub is a module that the checked code imports. A session reads the modules again at each check, so any
session can check against any stub. Checked code never runs, because its first line uses an undefined name,
which the checker reports.
"""

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from toolcrib.runtime.stubs.guest import FUNCTIONS, GUEST
from toolcrib.runtime.typecheck.diagnostics import Diagnostic

_UNDEFINED_NAME = "__toolcrib_checked__"
_GUEST_MODULE = "toolcrib_guest"
_ANY_MODULE = "toolcrib_anything"
_ANY_STUB = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"
_MAX_STUBS = 64
_MAX_CHECKS = 200
_MAX_RESIDENT = 200 << 20
"""A session with more memory is replaced; a new one takes a tenth of it."""
_MAX_OUTPUT = 8 << 20
_MAX_PROCESSES = 16


class CheckSkipped(Exception):  # noqa: N818 - not an error: the code runs unchecked
    """Code could not be checked; the message is the reason."""


class CheckerSessions:
    """Sessions for one kind of engine; each is used for one check at a time, in the thread of the caller.

    The synchronous client of the engine is used in threads, because its asynchronous client can abort the
    interpreter when that exits soon after a check.
    """

    def __init__(self, pool: Any, module: Callable[..., Any], others: Sequence[str]) -> None:
        """Make sessions in a pool of the engine; the modules in `others` have any attribute."""
        self._pool = pool
        self._module = module
        self._lock = Lock()
        self._stubs: OrderedDict[str, None] = OrderedDict()
        """The modules of stubs, the least used first."""
        self._modules: dict[str, Any] = {
            _GUEST_MODULE: module({}, stubs=GUEST),
            _ANY_MODULE: module({}, stubs=_ANY_STUB),
            **{name: module({}, stubs=_ANY_STUB) for name in others},
        }
        self._free: list[_Session] = []

    def close(self) -> None:
        """End all sessions that are not in use."""
        while self._free:
            self._free.pop().close()

    def check(self, code: str, stub: str, names: Sequence[str], shadowed: Sequence[str]) -> list[Diagnostic]:
        """Return the diagnostics for code that uses these names of a stub and of the guest.

        `shadowed` are names that the code binds itself; they have the type Any.

        Raises:
            CheckSkipped: the type checker failed.
        """
        own = [name for name in FUNCTIONS if name in names]
        ours = [name for name in names if name not in FUNCTIONS]
        sources = ((self._add_stub(stub), ours), (_ANY_MODULE, shadowed), (_GUEST_MODULE, own))
        first = [f"from {module} import {', '.join(wanted)}" for module, wanted in sources if wanted]
        try:
            session = self._free.pop()
        except IndexError:
            session = _Session(self._pool, self._modules)
        output = session.check("; ".join([*first, _UNDEFINED_NAME]) + "\n" + code)
        if session.usable:
            self._free.append(session)
        return _read_diagnostics(output)

    def _add_stub(self, stub: str) -> str:
        """Return the name of the module for a stub; add it if it is new."""
        name = f"toolcrib_{sha256(stub.encode('utf-8', 'replace')).hexdigest()[:24]}"
        with self._lock:
            if name not in self._modules:
                self._modules[name] = self._module({}, stubs=stub)
            self._stubs[name] = None
            self._stubs.move_to_end(name)
            while len(self._stubs) > _MAX_STUBS:
                del self._modules[self._stubs.popitem(last=False)[0]]
        return name


class _Session:
    """One session, started at its first use."""

    def __init__(self, pool: Any, modules: dict[str, Any]) -> None:
        self._made = pool.checkout(type_check=True, type_check_format="json", external_modules=modules)
        self._session: Any = None
        self._checks = 0
        self.usable = False
        """Whether it can be used again after the last check."""

    def close(self) -> None:
        """End the session."""
        self._made.__exit__(None, None, None)

    def check(self, text: str) -> str:
        """Return the type checker's diagnostics as JSON; afterwards the session is usable, or closed."""
        from pydantic_monty import CollectString, MontyError, MontyTypingError  # noqa: PLC0415 - an extra

        self.usable = False
        self._checks += 1
        try:
            if self._session is None:
                self._session = self._made.__enter__()
            self._session.feed_run(text, print_callback=CollectString(1_024))
        except MontyTypingError as error:
            grown = measure_memory(self._session.worker_pid) > _MAX_RESIDENT
            self.usable = self._checks < _MAX_CHECKS and not grown
            return str(error)
        except MontyError as error:
            late = getattr(error, "timed_out", False)
            raise CheckSkipped("it takes too long" if late else _explain(error)) from error
        finally:
            if not self.usable and self._session is not None:
                self.close()
        raise CheckSkipped("the type checker did not look at the code")


def _explain(error: Exception) -> str:
    return f"the type checker ended: {type(error).__name__}: {str(error)[:200]}"


def _read_diagnostics(text: str) -> list[Diagnostic]:
    if len(text) > _MAX_OUTPUT:
        raise CheckSkipped(f"the answer of the type checker has {len(text):,} characters")
    found = json.loads(text)
    return [
        Diagnostic(item["code"], item["message"], item["location"]["row"] - 1, item["location"]["column"])
        for item in found
        if item["location"]["row"] > 1
    ]


def measure_memory(pid: int | None) -> int:
    """Return the resident memory of a process and its descendants in bytes; 0 if unknown.

    >>> measure_memory(None)
    0
    """
    pages, pending, left = 0, [pid] if pid else [], _MAX_PROCESSES
    while pending and left:
        process, left = pending.pop(), left - 1
        folder = Path(f"/proc/{process}")
        with suppress(OSError, ValueError, IndexError):  # it has ended, or this system has no such files
            pages += int((folder / "statm").read_text("ascii").split()[1])
            children = (folder / f"task/{process}/children").read_text("ascii")
            pending += map(int, children.split())
    return pages * os.sysconf("SC_PAGE_SIZE")

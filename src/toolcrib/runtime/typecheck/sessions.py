"""Warm sessions of the type checker: a session that has checked before answers ten times faster.

Each stub is a module that the checked code imports. A session reads the modules anew at each check, so every
session serves every stub. Checked code never runs: its first line uses a name that does not exist, which the
checker reports.
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

_SENTINEL = "__toolcrib_checked__"
_GUEST = "toolcrib_guest"
_ANYTHING = "toolcrib_anything"
_ANY = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"
_MAX_STUBS = 64
_MAX_CHECKS = 200
_MAX_RESIDENT = 200 << 20
"""Bytes of memory from which on a session ends; one that has just begun takes a tenth of it."""
_MAX_ANSWER = 8 << 20
_MAX_PROCESSES = 16


class CheckSkipped(Exception):  # noqa: N818 - it is no error: the code runs unchecked
    """Code could not be checked; the message is the reason."""


class CheckerSessions:
    """Sessions for one kind of engine; each serves one check at a time, in the thread that asks for it.

    The engine's own asynchronous client can abort the interpreter when that ends soon after; its plain one
    does not, so it is used.
    """

    def __init__(self, pool: Any, module: Callable[..., Any], others: Sequence[str]) -> None:
        """Make sessions in a pool of the engine; modules called `others` may have any attribute."""
        self._pool = pool
        self._module = module
        self._lock = Lock()
        self._stubs: OrderedDict[str, None] = OrderedDict()
        """The modules of stubs, the least used first."""
        self._modules: dict[str, Any] = {
            _GUEST: module({}, stubs=GUEST),
            _ANYTHING: module({}, stubs=_ANY),
            **{name: module({}, stubs=_ANY) for name in others},
        }
        self._free: list[_Session] = []

    def close(self) -> None:
        """End all sessions that are not in use."""
        while self._free:
            self._free.pop().close()

    def check(self, code: str, stub: str, names: Sequence[str], shadowed: Sequence[str]) -> list[Diagnostic]:
        """Return the diagnostics for code that uses these names of a stub and of the guest.

        `shadowed` are names that may mean anything.

        Raises:
            CheckSkipped: the type checker gave no answer.
        """
        own = [name for name in FUNCTIONS if name in names]
        ours = [name for name in names if name not in FUNCTIONS]
        sources = ((self._add_stub(stub), ours), (_ANYTHING, shadowed), (_GUEST, own))
        first = [f"from {module} import {', '.join(wanted)}" for module, wanted in sources if wanted]
        try:
            session = self._free.pop()
        except IndexError:
            session = _Session(self._pool, self._modules)
        output = session.check("; ".join([*first, _SENTINEL]) + "\n" + code)
        if session.usable:
            self._free.append(session)
        return _read_diagnostics(output)

    def _add_stub(self, stub: str) -> str:
        """Return the name of the module that holds a stub, which is added if it is new."""
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
    """One session; it starts when it is first used, and lives in whatever thread uses it."""

    def __init__(self, pool: Any, modules: dict[str, Any]) -> None:
        self._made = pool.checkout(type_check=True, type_check_format="json", external_modules=modules)
        self._session: Any = None
        self._checks = 0
        self.usable = False
        """Whether the last check went well, and more may follow."""

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
            grown = resident(self._session.worker_pid) > _MAX_RESIDENT
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
    if len(text) > _MAX_ANSWER:
        raise CheckSkipped(f"the answer of the type checker has {len(text):,} characters")
    found = json.loads(text)
    return [
        Diagnostic(item["code"], item["message"], item["location"]["row"] - 1, item["location"]["column"])
        for item in found
        if item["location"]["row"] > 1
    ]


def resident(pid: int | None) -> int:
    """Return the bytes of memory that a process and its descendants occupy; 0 where that is unknown.

    >>> resident(None)
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

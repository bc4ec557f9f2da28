"""The check of code against the signatures of its tools, before any of it runs.

The only type checker at hand is the one inside `pydantic_monty`. Where it is not installed, gives no answer
in time or breaks, code is not checked: a check is a service to whoever writes the code, never a wall.
"""

import logging
import re
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self, get_args

import anyio

from toolcrib.errors import CodeError, ToolcribError
from toolcrib.runtime.check.context import Context, Engine, Problem
from toolcrib.runtime.check.rules import judge
from toolcrib.runtime.check.sessions import OWN, Sessions, Skipped
from toolcrib.runtime.check.threads import Threads
from toolcrib.runtime.check.vocabulary import read_stub

__all__ = ["Checker"]

_LOG = logging.getLogger("toolcrib.runtime")
_DEADLINE = 3.0
_MAX_PARALLEL = 2
_MAX_CODE = 200_000
_MAX_PROBLEMS = 10
_MAX_FINDINGS = 100
_BINDS = re.compile(r"^[ \t]*+([\w \t,*\[\]]++)(?::[^=\n]*+)?[-+*/|&^%@<>]{0,3}=(?!=)", re.MULTILINE)
_NAMES = re.compile(
    r"\bfor[ \t(]++([^\n:]{1,100}?)\bin\b|\b(?:as|def|class|global)[ \t]++(\w++)|(?<!\w)(\w++)[ \t]*+:="
)
_WORD = re.compile(r"\w+")


class Checker:
    """Tells what is wrong with code before it runs.

    Entering starts nothing: the type checker starts with the first check, as a process of its own. Checks
    may come from many tasks at once.
    """

    def __init__(self, *, deadline: float = _DEADLINE) -> None:
        self._deadline = deadline
        self._stack = ExitStack()
        self._pool: Any = None
        self._sessions: dict[Engine, Sessions] = {}
        self._opening = anyio.Lock()
        self._threads = Threads(_MAX_PARALLEL)
        self._available = _is_installed("pydantic_monty")

    @property
    def available(self) -> bool:
        """Whether there is a type checker here; where there is none, every check passes."""
        return self._available

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sessions.clear()
        await self._threads.close(self._stack.close)

    async def check(self, code: str, stubs: str, *, engine: Engine) -> None:
        """Return, if nothing is known to be wrong with the code.

        Raises:
            CodeError: with everything that is, up to ten things; `unsupported` where all that is wrong is
                that this engine lacks something that a full Python has.
        """
        if not self._available or len(code) > _MAX_CODE:
            return
        try:
            with anyio.fail_after(self._deadline):
                sessions = await self._open(engine)
                problems = await self._threads.run(_problems, sessions, code, stubs, engine)
        except (Skipped, ToolcribError, TimeoutError, OSError, ValueError) as error:
            _LOG.warning("code runs unchecked: %s", str(error) or type(error).__name__)
            return
        if problems:
            raise _error(problems)

    async def _open(self, engine: Engine) -> Sessions:
        async with self._opening:
            if engine not in self._sessions:
                with anyio.CancelScope(shield=True):  # a start given up halfway would leave its worker behind
                    self._sessions[engine] = await self._threads.run(self._start, engine)
            return self._sessions[engine]

    def _start(self, engine: Engine) -> Sessions:
        from pydantic_monty import ExternalModule, Monty  # noqa: PLC0415 - an extra

        from toolcrib.runtime.monty.wall import Wall, wall_here  # noqa: PLC0415 - needs the extra

        if self._pool is None:
            wall = self._stack.enter_context(Wall(wall_here()))
            pool = Monty(
                binary_path=wall.script,
                min_processes=0,
                max_processes=_MAX_PARALLEL * len(get_args(Engine)),  # each keeps its sessions
                checkout_timeout=self._deadline,
                request_timeout=self._deadline,
            )
            self._pool = self._stack.enter_context(pool)
        others = sorted(sys.stdlib_module_names) if engine == "python" else ()
        sessions = Sessions(self._pool, ExternalModule, others)
        self._stack.callback(sessions.close)
        return sessions


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # what is marked as missing has no spec
        return False


def _problems(sessions: Sessions, code: str, stubs: str, engine: Engine) -> list[Problem]:
    words = read_stub(stubs)
    shadowed = _bound(code, {*words.names, *OWN})
    names = [name for name in words.names if name not in shadowed]
    found = sessions.check(code, stubs, names, shadowed)
    return judge(Context(code, words.with_guest(), engine, found[:_MAX_FINDINGS]))


def _bound(code: str, names: Iterable[str]) -> list[str]:
    """Return which of the names the code gives a meaning of its own; it may use them for anything then."""
    wanted = set(names)
    found: set[str] = set()
    for head in _BINDS.findall(code):
        found.update(wanted.intersection(_WORD.findall(head)))
    for groups in _NAMES.findall(code):
        found.update(wanted.intersection(_WORD.findall(" ".join(groups))))
    return sorted(found)


def _error(problems: list[Problem]) -> CodeError:
    first = problems[0]
    more = [f"line {problem.line}: {problem.said}" for problem in problems[1:_MAX_PROBLEMS]]
    rest = [f"and {len(problems) - _MAX_PROBLEMS} more"] if len(problems) > _MAX_PROBLEMS else []
    return CodeError(
        "\n".join([first.said, *more, *rest]),
        first.line,
        first.column,
        unsupported=all(problem.unsupported for problem in problems),
    )

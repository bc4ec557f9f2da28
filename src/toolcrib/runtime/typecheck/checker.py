"""Checks code against the signatures of its tools, before any of it runs.

The type checker is the one inside `pydantic_monty`. If it is not installed, does not answer in time or fails,
the code runs unchecked: the check helps the author of the code, and is no security boundary.
"""

import logging
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self, get_args

import anyio

from toolcrib.concurrency.threads import Busy, OwnedThreads
from toolcrib.errors import CodeError
from toolcrib.runtime.typecheck.diagnostics import CheckContext, CodeProblem, Engine, GuestSource
from toolcrib.runtime.typecheck.refusals import list_problems
from toolcrib.runtime.typecheck.sessions import CheckerSessions, CheckSkipped
from toolcrib.runtime.typecheck.vocabulary import read_stub

_ENGINES: tuple[Engine, ...] = get_args(Engine)
_LOG = logging.getLogger("toolcrib.runtime")
_CHECK_TIMEOUT = 5.0
"""Seconds for one check, which usually takes milliseconds; the rest is for a busy machine."""
_WORKER_TIMEOUT = 1.0
"""Seconds to wait for a free worker."""
_MAX_PARALLEL = 4
_ADDRESS_SPACE_KILOBYTES = 1 << 20
"""Limit of a worker, five times what it needs at its start."""
_MAX_CODE = 200_000
_MAX_PROBLEMS = 10
_MAX_FINDINGS = 100
_ASSIGNMENT = re.compile(r"^[ \t]*+([\w \t,*\[\]]++)(?::[^=\n]*+)?[-+*/|&^%@<>]{0,3}=(?!=)", re.MULTILINE)
_OTHER_BINDING = re.compile(
    r"\bfor[ \t(]++([^\n:]{1,100}?)\bin\b|\b(?:as|def|class|global)[ \t]++(\w++)|(?<!\w)(\w++)[ \t]*+:="
)
_WORD = re.compile(r"\w+")


class Checker:
    """Finds problems in code before it runs.

    Entering starts nothing: the type checker starts with the first check, in its own process. Many tasks may
    use it at once.

    Args:
        deadline: Seconds for a check; after that its worker is killed, and the code runs unchecked.
        patience: Seconds to wait for a free worker; after that the code runs unchecked.
    """

    def __init__(self, *, deadline: float = _CHECK_TIMEOUT, patience: float = _WORKER_TIMEOUT) -> None:
        self._deadline, self._patience = deadline, patience
        self._stack = ExitStack()
        self._pool: Any = None
        self._sessions: dict[Engine, CheckerSessions] = {}
        self._opening = anyio.Lock()
        self._threads = {engine: OwnedThreads(_MAX_PARALLEL, "toolcrib-check") for engine in _ENGINES}
        self._available = _is_installed("pydantic_monty")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sessions.clear()
        with anyio.CancelScope(shield=True):
            for threads in self._threads.values():
                await threads.wait_until_idle()
            await self._threads[_ENGINES[0]].run(self._stack.close)
        for threads in self._threads.values():
            threads.end()

    async def check(
        self, code: str, stubs: str, *, engine: Engine, members: Mapping[str, Sequence[str]] | None = None
    ) -> str | None:
        """Check code; return None, or the reason why it could not be checked.

        Args:
            code: The code to check.
            stubs: The tools that it mentions, as `render` writes them.
            engine: The kind of interpreter that is to run it.
            members: The names of all tools of namespaces, for suggestions.

        Raises:
            CodeError: with all problems found, up to ten; `unsupported` if each of them is something that
                this engine lacks and a full Python has.
        """
        try:
            problems = await self._find_problems(code, stubs, engine, members or {})
        except Exception as error:  # noqa: BLE001 - a bug of the checker must not keep code from running
            note = f"the code was not checked before it ran: {str(error) or type(error).__name__}"
            _LOG.log(logging.WARNING if self._available else logging.DEBUG, "%s", note)
            return note
        if problems:
            raise _make_error(problems)
        return None

    async def _find_problems(
        self, code: str, stubs: str, engine: Engine, members: Mapping[str, Sequence[str]]
    ) -> list[CodeProblem]:
        """Return the problems of code, found in a thread.

        Raises:
            CheckSkipped: the code cannot be checked.
        """
        if not self._available:
            raise CheckSkipped("there is no type checker here; pip install 'toolcrib[code]'")
        if len(code) > _MAX_CODE:
            raise CheckSkipped(f"it has {len(code):,} characters, more than {_MAX_CODE:,}")
        sessions = self._sessions.get(engine) or await self._open_sessions(engine)
        try:
            with anyio.fail_after(self._patience + self._deadline):
                return await self._threads[engine].run(
                    _check_in_thread, sessions, code, stubs, engine, members, patience=self._patience
                )
        except Busy as error:
            raise CheckSkipped("too much else is being checked") from error
        except TimeoutError as error:
            raise CheckSkipped("it takes too long") from error

    async def _open_sessions(self, engine: Engine) -> CheckerSessions:
        async with self._opening:
            if engine not in self._sessions:
                with anyio.CancelScope(shield=True):  # a cancelled start would leave its worker behind
                    self._sessions[engine] = await self._threads[engine].run(self._start, engine)
            return self._sessions[engine]

    def _start(self, engine: Engine) -> CheckerSessions:
        from pydantic_monty import ExternalModule, Monty  # noqa: PLC0415 - an extra

        from toolcrib.runtime.sandboxes.monty.wall import find_isolation, worker_script  # noqa: PLC0415 - needs the extra

        if self._pool is None:
            script = self._stack.enter_context(
                worker_script(find_isolation(), address_space=_ADDRESS_SPACE_KILOBYTES)
            )
            pool = Monty(
                binary_path=script,
                min_processes=0,
                max_processes=_MAX_PARALLEL * len(_ENGINES),  # each keeps its sessions
                checkout_timeout=self._deadline,
                request_timeout=self._deadline,
                max_checkouts_per_worker=1,  # a session ends when its worker is too large to be used again
            )
            self._pool = self._stack.enter_context(pool)
        others = sorted(sys.stdlib_module_names) if engine == "python" else ()
        sessions = CheckerSessions(self._pool, ExternalModule, others)
        self._stack.callback(sessions.close)
        return sessions


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # `sys.modules[name]` is None
        return False


def _check_in_thread(
    sessions: CheckerSessions, code: str, stubs: str, engine: Engine, members: Mapping[str, Sequence[str]]
) -> list[CodeProblem]:
    """Run the type checker in this thread, and return the findings that refuse the code."""
    words = read_stub(stubs)
    shadowed = _find_rebound(code, words.names)
    names = [name for name in words.names if name not in shadowed]
    found = sessions.check(code, stubs, names, shadowed)
    return list_problems(
        CheckContext(GuestSource(code), words, engine, found[:_MAX_FINDINGS], shadowed, members)
    )


def _find_rebound(code: str, names: Iterable[str]) -> list[str]:
    """Return the names of tools that the code binds itself, and may then use for anything."""
    wanted = set(names)
    found: set[str] = set()
    for head in _ASSIGNMENT.findall(code):
        found.update(wanted.intersection(_WORD.findall(head)))
    for groups in _OTHER_BINDING.findall(code):
        found.update(wanted.intersection(_WORD.findall(" ".join(groups))))
    return sorted(found)


def _make_error(problems: list[CodeProblem]) -> CodeError:
    first = problems[0]
    more = [f"line {problem.line}: {problem.message}" for problem in problems[1:_MAX_PROBLEMS]]
    rest = [f"and {len(problems) - _MAX_PROBLEMS} more"] if len(problems) > _MAX_PROBLEMS else []
    return CodeError(
        "\n".join([first.message, *more, *rest]),
        first.line,
        first.column,
        unsupported=all(problem.unsupported for problem in problems),
    )

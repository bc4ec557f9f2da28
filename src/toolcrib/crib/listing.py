"""Ask every server and API for its tools at the same time, and know who has answered."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field

import anyio
from anyio import to_thread

from toolcrib.errors import ConfigError, ServerUnavailableError, ToolcribError
from toolcrib.model import Tool

__all__ = ["Listing", "Origin"]

_LOG = logging.getLogger("toolcrib.crib")
_GRACE = 1.0
"""For how many seconds longer its answer is waited for: one that is late says so itself, and why."""
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
"""After how many seconds one that failed is asked again: doubled each time, up to the second."""

Tools = tuple[Tool, ...]


@dataclass(slots=True)
class Origin:
    """Where tools come from: a server, or an API."""

    name: str
    """The namespace of its tools."""
    key: str
    """What the catalogue and errors call it, such as `mcp:github`."""
    identity: str
    """What it is started or reached by; stored tools are served only where that is the same."""
    list_tools: Callable[[], Awaitable[Tools]]
    """Asks it; raises a `ToolcribError`, or tells `Listing.note` too."""
    patience: float = 30.0
    """For how many seconds after the start anybody waits for its first answer."""
    required: bool = False
    prefix: str = ""
    """What stands before an error of it in the log, where that does not name it."""
    kept: bool = False
    """Whether the catalogue has its tools from an earlier run."""
    missed: bool = False
    """Whether it did not answer in an earlier run that the catalogue has others from."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    """Set when its first answer is in the catalogue, or has failed to come."""
    taken: anyio.Event = field(default_factory=anyio.Event)
    """Set when its latest answer is in the catalogue."""
    error: ToolcribError | None = None
    """Why it did not answer the last time; None once it does."""


class Listing:
    """Keeps the catalogue as the origins say; one that fails or is slow holds up nobody else.

    Answers are put into the catalogue by a worker thread, one after the other. Of several answers of one
    origin that wait for their turn, the last counts.
    """

    def __init__(
        self,
        origins: Iterable[Origin],
        take: Callable[[Origin, Tools], object],
        miss: Callable[[Origin], object] = lambda _: None,
    ) -> None:
        """Prepare to ask origins; `take` puts an answer into the catalogue, `miss` notes that none came."""
        self.origins = {origin.name: origin for origin in origins}
        self._take = take
        self._miss = miss
        self._answers: dict[str, Tools] = {}
        self._arrived = anyio.Event()
        self._started = anyio.current_time()

    def note(self, name: str, tools: Tools) -> None:
        """Note what an origin has, at its first answer or because that has changed."""
        origin = self.origins.get(name)
        if origin is not None:
            if origin.taken.is_set():
                origin.taken = anyio.Event()
            self._answers[name] = tools
            self._arrived.set()

    async def run(self) -> None:
        """Ask all origins, and again those that failed, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._take_answers)
            for origin in self.origins.values():
                tasks.start_soon(self._ask_until_answered, origin)

    async def wait(self, names: Collection[str]) -> None:
        """Wait for the first answers of origins that nothing is known of, each for as long as it may take."""
        for name in names:
            origin = self.origins[name]
            if not origin.kept and not origin.answered.is_set():
                with anyio.move_on_at(self._started + origin.patience + _GRACE):
                    await origin.answered.wait()

    async def wait_again(self, name: str) -> None:
        """Wait for an origin whose tools are needed and not all there: for its answer, or for another."""
        origin = self.origins[name]
        if not origin.answered.is_set():
            with anyio.move_on_at(self._started + origin.patience + _GRACE):
                await origin.answered.wait()
        elif origin.error is not None:
            with anyio.move_on_after(origin.patience + _GRACE):
                await self._ask(origin)
                if origin.name in self._answers:
                    await origin.taken.wait()

    async def wait_all(self, timeout: float | None) -> None:  # noqa: ASYNC109 - what is missing then is told
        """Wait until every origin has answered or failed.

        Raises:
            ServerUnavailableError: one that is required has not answered.
        """
        with anyio.move_on_after(timeout):
            for origin in self.origins.values():
                await origin.answered.wait()
        for origin in self.origins.values():
            if origin.required and (origin.error is not None or not origin.answered.is_set()):
                raise self.failure(origin)

    def failure(self, origin: Origin) -> ServerUnavailableError:
        """Return why the tools of an origin are not known."""
        match origin.error:
            case ServerUnavailableError() as error:
                return ServerUnavailableError(error.server, error.reason, error.stderr)
            case None:
                waited = anyio.current_time() - self._started
                return ServerUnavailableError(
                    origin.name, f"it has not listed its tools within {waited:.3g} s"
                )
            case error:
                return ServerUnavailableError(origin.name, str(error))

    async def _ask_until_answered(self, origin: Origin) -> None:
        pause = _FIRST_PAUSE
        while not await self._ask(origin):
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _ask(self, origin: Origin) -> bool:
        """Ask an origin once, and return whether it is of no use to ask again."""
        try:
            tools = await origin.list_tools()
        except ConfigError as error:
            self._fail(origin, error)
            return True
        except ToolcribError as error:
            await self._note_miss(origin)
            self._fail(origin, error)
            return False
        except Exception as error:  # noqa: BLE001 - a server is foreign code, and must not take others along
            _LOG.exception("listing the tools of %r failed", origin.name)
            reason = f"listing its tools failed: {type(error).__name__}"
            await self._note_miss(origin)
            self._fail(origin, ServerUnavailableError(origin.name, reason))
            return False
        if origin.name not in self._answers and (origin.error or not origin.answered.is_set()):
            self.note(origin.name, tools)
        return True

    async def _note_miss(self, origin: Origin) -> None:
        try:
            await to_thread.run_sync(self._miss, origin)
        except ToolcribError as error:
            _LOG.warning("that %r did not answer is not kept: %s", origin.name, error)

    def _fail(self, origin: Origin, error: ToolcribError) -> None:
        is_known = origin.error is not None and str(origin.error) == str(error)
        _LOG.log(logging.DEBUG if is_known else logging.WARNING, "%s%s", origin.prefix, error)
        origin.error = error
        origin.answered.set()

    async def _take_answers(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            for name in list(self._answers):
                await self._take_answer(self.origins[name])

    async def _take_answer(self, origin: Origin) -> None:
        tools = self._answers[origin.name]
        try:
            await to_thread.run_sync(self._take, origin, tools)
            origin.error = None
        except ToolcribError as error:
            self._fail(origin, error)
        except Exception as error:  # noqa: BLE001 - one answer must not take the others along
            _LOG.exception("the tools of %r cannot be kept", origin.name)
            reason = f"its tools cannot be kept: {type(error).__name__}"
            self._fail(origin, ServerUnavailableError(origin.name, reason))
        if self._answers.get(origin.name) is tools:
            del self._answers[origin.name]
            origin.taken.set()
        origin.answered.set()

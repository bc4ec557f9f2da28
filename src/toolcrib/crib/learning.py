"""Learns from calls: use counts of tools, shapes of their results, and the questions before them.

A question is learned for a tool where the same caller, in the same session and within `_WINDOW` seconds, ran
a tool that the answer to the question had shown. Searches and calls only append to `events`; `flush` reads
them, in a thread, and writes what they teach.
"""

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock
from time import monotonic
from typing import Any

import anyio
from anyio import to_thread

from toolcrib.concurrency.fair_slots import Member
from toolcrib.crib.config.settings import SearchSettings
from toolcrib.crib.shaped import ShapedScope
from toolcrib.crib.shapes import ShapeLearning
from toolcrib.crib.visible import VisibleTools
from toolcrib.discovery import Discovery, Page, Result, Scope, load_embedder
from toolcrib.discovery.learned import UNNAMED, LearnedQuestion, LearnedQuestions, learnable
from toolcrib.discovery.search.text import words
from toolcrib.errors import InputValidationError, ToolcribError, ToolNotFoundError
from toolcrib.execution import Outcome
from toolcrib.execution.principal import Principal, slot_owner
from toolcrib.model import Tool
from toolcrib.model.toolid import without_version

_LOG = logging.getLogger("toolcrib.crib")
_PAUSE = 5.0
"""Seconds between two writes of learned data."""
_WINDOW = 600.0
"""Seconds after a question in which a call can answer it."""
_MAX_EVENTS = 10_000
"""Searches and calls that wait to be read; of more, the oldest are not learned from."""
_MAX_SESSIONS = 1_000
_MAX_ASKED = 8
"""The number of questions of a session that a call may answer."""


def owner_of(principal: Principal | None) -> str:
    """Return the owner of a caller's learned questions, as a digest; empty for the program and its user."""
    owner = slot_owner(principal)
    if owner is None:
        return ""
    digest = blake2b(repr(owner).encode(errors="replace"), digest_size=8).hexdigest()
    return f"{UNNAMED}{digest}" if isinstance(owner, Member) else digest


@dataclass(frozen=True, slots=True)
class Asked:
    """A search, as it is noted for learning."""

    at: float
    """The time, by `monotonic`."""
    principal: Principal | None
    session: object | None
    """The session of the caller; None where it has none."""
    question: str
    page: Page[Result]
    scope: Scope | None
    """The scope of the view that was searched."""
    is_later_page: bool


@dataclass(frozen=True, slots=True)
class _Ran:
    """A call that followed a question."""

    at: float
    principal: Principal | None
    session: object | None
    tool: Tool
    succeeded: bool


@dataclass(slots=True)
class _Episode:
    """A question, and the calls after it."""

    question: str
    key: str
    """The words of the question, which are the same for the same question."""
    at: float
    shown: set[str]
    """The tools that were shown, by their ids without a version."""
    used: dict[str, Tool] = field(default_factory=dict)
    failed: dict[str, Tool] = field(default_factory=dict)
    """The tools that failed on their arguments, and have not been used since."""


class Learning:
    """Observer that counts uses, and learns shapes and questions for the whole catalogue.

    While `run` is running, it writes what was learned periodically; `flush` writes it at once. Without `run`,
    each use is counted at once.
    """

    def __init__(self, discovery: Discovery, settings: Callable[[], SearchSettings]) -> None:
        self._discovery, self._settings = discovery, settings
        self._shapes = ShapeLearning(discovery.docs)
        self._is_periodic = discovery.index.store is not None
        self._uses: Counter[str] = Counter()
        self._lock = Lock()
        encode = None if settings().searcher == "bm25" else load_embedder().encode
        self.questions = LearnedQuestions(discovery.index.store, encode=encode)
        self.events: deque[Asked | _Ran] = deque(maxlen=_MAX_EVENTS)
        """Searches and the calls after them, that are not read yet."""
        self._episodes: OrderedDict[tuple[str, object], deque[_Episode]] = OrderedDict()
        """The latest questions, by owner and session."""
        self._reading = Lock()

    def begin(self, tool_id: str, principal: Principal | None) -> Callable[[Outcome], None]:  # noqa: ARG002 - the outcome says both
        """Return the callback for the end of the call."""
        return self._learn

    def _learn(self, outcome: Outcome) -> None:
        if self.events or self._episodes:  # else no question was asked that the call may answer
            self._note_run(outcome)
        if outcome.answer is None or outcome.request is None:
            return
        with self._lock:
            self._uses[outcome.tool_id] += 1
        if not self._is_periodic:
            self.flush()
        if outcome.request.tool.shared("output_schema") is None:
            self._shapes.learn(outcome.request.tool, outcome.answer.structured)
            tools = outcome.request.context.tools
            if isinstance(tools, VisibleTools) and tools.shapes is not None:
                tools.shapes.learn(outcome.request.tool, outcome.answer.structured)

    def _note_run(self, outcome: Outcome) -> None:
        """Store a call that succeeded, or failed on its arguments; other failures carry no information."""
        request = outcome.request
        succeeded = outcome.answer is not None
        if request is None or not (succeeded or isinstance(outcome.error, InputValidationError)):
            return
        client = request.context.client
        session = None if client is None else client.session
        self.events.append(_Ran(monotonic(), outcome.principal, session, request.tool, succeeded))

    def flush(self) -> None:
        """Add the counts to the index, and learn from the searches and calls that were noted."""
        with self._lock:
            uses, self._uses = self._uses, Counter()
        for tool_id, times in uses.items():
            try:
                self._discovery.index.count_use(tool_id, times)
            except ToolNotFoundError:
                _LOG.debug("%s was removed after it was used", tool_id)
            except ToolcribError as error:
                _LOG.warning("the uses of %s are not counted: %s", tool_id, error)
        if self.events or self._episodes:
            self._learn_questions()

    def _learn_questions(self) -> None:
        with self._reading:
            learned = list(self._read_events())
            if self._settings().learn == "off" or not learned:
                return
            try:
                self.questions.learn(learned)
            except ToolcribError as error:
                _LOG.warning("%d uses are not learned from: %s", len(learned), error)

    def _read_events(self) -> Iterator[LearnedQuestion]:
        """Read the events, and yield the questions learned from them."""
        while self.events:
            event = self.events.popleft()
            owner = owner_of(event.principal)
            key = owner, event.session
            if isinstance(event, Asked):
                yield from self._begin_episode(self._episodes.setdefault(key, deque()), event, owner)
                self._episodes.move_to_end(key)
            elif key in self._episodes:
                yield from _read_run(self._episodes[key], event, owner)
        now = monotonic()
        for key in [*self._episodes]:
            episodes = self._episodes[key]
            while episodes and (episodes[0].at < now - _WINDOW or len(episodes) > _MAX_ASKED):
                yield from _misses(episodes.popleft(), key[0])
            if not episodes:
                del self._episodes[key]
        while len(self._episodes) > _MAX_SESSIONS:
            self._episodes.popitem(last=False)

    def _begin_episode(
        self, episodes: deque[_Episode], asked: Asked, owner: str
    ) -> Iterator[LearnedQuestion]:
        scope = asked.scope
        ids = (result.summary.id for result in asked.page.items)
        own = map(scope.original, ids) if isinstance(scope, ShapedScope) else ids
        shown = {without_version(tool_id) for tool_id in own}
        key = " ".join(words(asked.question, with_identifiers=False))
        if asked.is_later_page and episodes and episodes[-1].key == key:
            episodes[-1].shown |= shown
            return
        if episodes:  # what failed before it was given up
            yield from _misses(episodes[-1], owner)
        episodes.append(_Episode(asked.question, key, asked.at, shown))

    async def run(self) -> None:
        """Write learned data periodically, until cancelled."""
        self._is_periodic = True
        while True:
            await anyio.sleep(_PAUSE)
            if self._uses or self.events or self._episodes:
                await to_thread.run_sync(self.flush)


def _read_run(episodes: deque[_Episode], ran: _Ran, owner: str) -> Iterator[LearnedQuestion]:
    """Yield the learned question of a call: the latest that showed its tool."""
    tool_id = without_version(str(ran.tool.id))
    for episode in reversed(episodes):
        if tool_id in episode.shown and ran.at - _WINDOW <= episode.at <= ran.at:
            break
    else:
        return
    if not ran.succeeded:
        if tool_id not in episode.used:
            episode.failed[tool_id] = ran.tool
        return
    episode.failed.pop(tool_id, None)
    if tool_id in episode.used:  # one question speaks for a tool once, however often it is run
        return
    episode.used[tool_id] = ran.tool
    yield from _evidence(tool_id, ran.tool, episode.question, owner, uses=1)
    for earlier in episodes:
        if earlier is not episode and earlier.key == episode.key:
            # The same question was asked again, and answered by another tool.
            for other in [one for one in earlier.used if one != tool_id]:
                yield from _evidence(other, earlier.used.pop(other), episode.question, owner, misses=1)


def _misses(episode: _Episode, owner: str) -> Iterator[LearnedQuestion]:
    """Yield the misses of the tools that failed on their arguments, once each."""
    while episode.failed:
        tool_id, tool = episode.failed.popitem()
        yield from _evidence(tool_id, tool, episode.question, owner, misses=1)


def _evidence(
    tool_id: str, tool: Tool, question: str, owner: str, **counts: Any
) -> Iterator[LearnedQuestion]:
    """Yield a use or a miss of a question, unless the question is not to be learned."""
    known = words(f"{tool.name} {tool.namespace or ''} {tool.title or ''} {tool.description or ''}")
    text = learnable(question, known)
    if text is not None and _is_clean(text):
        yield LearnedQuestion(tool_id=tool_id, question=text, owner=owner, **counts)


def _is_clean(text: str) -> bool:
    """Return whether the scan finds nothing in a text, which models may read as an example."""
    from toolcrib.trust.scanning import scan_text  # noqa: PLC0415 - loaded with the first question that is learned

    return scan_text(text).verdict == "clean"

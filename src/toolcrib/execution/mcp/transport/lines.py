"""JSON-RPC messages out of the lines that a server writes; the useless ones are counted."""

import json
import logging
import re
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

MAX_LEVELS = 180
"""The maximum nesting of a definition: the SDK does not read messages of more than 200 levels."""
TOO_DEEP = "toolcrib.too_deep"
"""The key of the placeholder for a definition that is deeper, beside its name."""
_USELESS_BURST = 100
"""Useless messages that are read without a pause; a server that sends more is read more slowly."""
_USELESS_BURST_SECONDS = 0.1
_UNIT = 1024
"""A useless message counts once more for each so many bytes that it has."""
_USUAL = 8
"""So many lines that carry nothing may stand between two messages: blank ones, comments, names of events."""
_MAX_BATCH_MESSAGES = 1_000
_MAX_BATCH_BYTES = 128 * 2**10
"""Bytes of a batch that is read: it is parsed in one step."""
_DETAIL = 80
_log = logging.getLogger(__name__)
_SHOWN = 200
_PLAIN = {"jsonrpc", "id", "result"}
"""The members of a response, which no other message has."""
_VERSION = r'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
_ID = r'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,200}")'
_ANSWER = r'"(?:result|error)"\s*:'
_ID_FIRST = re.compile(rf"\s*\{{\s*{_VERSION}{_ID}\s*,\s*{_VERSION}{_ANSWER}")
_ID_LAST = re.compile(rf'{_ID}\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}}\s*$')
_ANSWER_FIRST = re.compile(rf"\s*\{{\s*{_VERSION}{_ANSWER}")
_MARGIN = 500
"""Characters at either end of a response that are searched for its id."""
LONG_LINE = 2**20
"""From how many bytes on a line is read in slices."""
_SLICE = 128 * 2**10
"""Characters that are parsed before other tasks get a turn."""
_OUTER_LEVELS = 3
"""Levels that are parsed in slices: the message, its result, and the list in it."""
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r]*")
_LONE_SURROGATE = re.compile(
    r"\\u[dD](?:(?<=\\\\u[dD])|[89abAB]..(?!\\u[dD][c-fC-F])|[c-fC-F](?<!\\u[dD][89abAB]..\\u[dD][c-fC-F]))"
)
"""Candidates for lone surrogates; a backslash before one leaves that open."""


class LineTooLongError(ValueError):
    """A line that is longer than a message may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it sent a message of more than {limit} bytes")


class Lines:
    r"""Puts lines together from pieces, in time that grows with their length and not with its square.

    >>> lines = Lines(max_bytes=100)
    >>> [*lines.feed(b"on"), *lines.feed(b"e\ntwo\nthr"), *lines.feed(b"ee\n")]
    [b'one', b'two', b'three']
    """

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that a piece completes.

        Raises:
            LineTooLongError: a line is longer than the limit, whether complete or not.
        """
        for line in self.feed_skipping(piece):
            if line is None:
                raise LineTooLongError(self._max_bytes)
            yield line

    def feed_skipping(self, piece: bytes) -> Iterator[bytes | None]:
        """Yield the lines that a piece completes, and None once for each skipped one that is too long."""
        *ends, rest = piece.split(b"\n")
        for end in ends:
            if self._overflows(end):
                yield None
            is_whole = self._size <= self._max_bytes
            line = b"".join(self._pieces)
            self._pieces, self._size = [], 0
            if is_whole:
                yield line
        if self._overflows(rest):
            yield None

    def _overflows(self, piece: bytes) -> bool:
        """Add a piece to the line; return whether the line becomes too long by it."""
        was_whole = self._size <= self._max_bytes
        self._size += len(piece)
        if self._size <= self._max_bytes:
            self._pieces.append(piece)
            return False
        self._pieces = []
        return was_whole


def read_line(line: bytes) -> tuple[JSONRPCMessage, ...]:
    """Return the messages of a line: one, those of a batch, or none if it is something else.

    Bytes that are no UTF-8 and halves of surrogate pairs become a replacement character, since a call whose
    answer was thrown away would wait for ever. An answer that is none becomes an error, for the same reason.

    >>> read_line(b"Listening on stdio ...")
    ()
    >>> read_line(b'{"jsonrpc": "2.0", "id": 1, "result": null}')[0].error.message
    'it gave an answer that is not JSON-RPC: {"jsonrpc": "2.0", "id": 1, "result": null}'
    """
    if len(line) > _MAX_BATCH_BYTES and line.lstrip().startswith(b"["):
        return ()
    try:
        value = from_json(line)
        if _is_answer(value):
            return (JSONRPCResponse.model_validate(value, by_name=False),)
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        return tuple(_mended(line))
    if isinstance(message, JSONRPCRequest) and b'"result"' in line:  # perhaps it is an answer as well
        return tuple(_mended(line))
    return (message,)


async def read_long_line(line: bytes) -> tuple[JSONRPCMessage, ...]:
    """Return the messages of a line as `read_line` does; others have their turns on the way.

    What is no plain answer, or is odd in any way, is read at once.
    """
    try:
        reader = _SlicedAnswer(line.decode())
        rested = 0
        for place in reader.slices():
            if place - rested >= _SLICE:
                rested = place
                await checkpoint()
        return (JSONRPCResponse.model_validate(reader.value, by_name=False),)
    except (ValueError, RecursionError):
        return read_line(line)


def _is_answer(value: Any) -> bool:
    """Return whether a message is a plain answer with a result."""
    return isinstance(value, dict) and value.keys() == _PLAIN


def is_readable(line: bytes) -> bool:
    """Return whether the SDK can read a line as JSON."""
    try:
        from_json(line)
    except ValueError:
        return False
    return True


def with_shallow_tools(line: bytes) -> bytes:
    """Return a message, without the tools nested too deep in it if they keep it from being read."""
    messages = () if is_readable(line) else read_line(line)
    if len(messages) != 1:
        return line
    return messages[0].model_dump_json(by_alias=True, exclude_unset=True).encode()


def answered_id(text: str) -> int | str | None:
    """Return the id of the response with which a text begins, without parsing it.

    >>> answered_id('{"jsonrpc": "2.0", "id": 7, "result": {"content": [')
    7
    """
    found = _ID_FIRST.match(text[:_MARGIN])
    return None if found is None else json.loads(found.group(1))


def _mended(line: bytes) -> Iterator[JSONRPCMessage]:
    """Yield the messages that can be recovered from an invalid line."""
    text = line.decode("utf-8-sig", errors="replace").strip()
    if not text.startswith(("{", "[")):
        return
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        yield from _failed(answered_id(text), text)
        return
    except (ValueError, RecursionError):  # a number that is too long, or too many brackets
        last = _ID_LAST.search(text[-_MARGIN:]) if _ANSWER_FIRST.match(text[:_MARGIN]) else None
        yield from _failed(answered_id(text) if last is None else json.loads(last.group(1)), text)
        return
    for member in value[:_MAX_BATCH_MESSAGES] if isinstance(value, list) else [value]:
        yield from _messages(_without_deep_tools(member), text)


def _without_deep_tools(value: Any) -> Any:
    """Return a message in which only the names are left of tools that are nested too deep."""
    result = value.get("result") if isinstance(value, dict) else None
    if not isinstance(result, dict) or not isinstance(tools := result.get("tools"), list):
        return value
    kept = [{"name": each.get("name"), TOO_DEEP: True} if _is_deep(each) else each for each in tools]
    return {**value, "result": {**result, "tools": kept}}


def _is_deep(definition: Any) -> bool:
    """Return whether an object has more levels than there may be."""
    level: list[Any] = [definition] if isinstance(definition, dict) else []
    for _ in range(MAX_LEVELS):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [member for members in inner for member in members if isinstance(member, dict | list)]
        if not level:
            return False
    return True


def _messages(value: Any, line: str) -> Iterator[JSONRPCMessage]:
    is_answer = isinstance(value, dict) and ("method" not in value or "result" in value)
    text = line
    try:
        text = json.dumps(value, ensure_ascii=False)
        if not is_answer or "method" not in value:
            yield jsonrpc_message_adapter.validate_json(text.encode(errors="replace"), by_name=False)
            return
    except (ValidationError, RecursionError):
        pass
    yield from _failed(value.get("id") if is_answer else None, text)


def _failed(number: Any, text: str) -> Iterator[JSONRPCMessage]:
    """Yield the error for the pending request, if its id is known."""
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, int | str) and not isinstance(number, bool):
        reason = f"it gave an answer that is not JSON-RPC: {text[:_SHOWN]}"
        yield JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=INTERNAL_ERROR, message=reason))


class _SlicedAnswer:
    """Reads the outer levels of a JSON text member by member."""

    def __init__(self, text: str) -> None:
        """Take a text.

        Raises:
            ValueError: halves of characters may be in it, which need mending.
        """
        if _LONE_SURROGATE.search(text):
            raise ValueError("it may hold lone surrogates")
        self._text = text
        self.value: Any = None
        """The value, once all slices were taken."""

    def slices(self) -> Generator[int, None, None]:
        """Read on, and yield how far each time a member was read.

        Raises:
            ValueError: it is no JSON, no plain answer, or nested too deep.
        """
        self.value, end = yield from self._read(self._skip(0), _OUTER_LEVELS)
        if self._skip(end) != len(self._text) or not _is_answer(self.value):
            raise ValueError("it is not a plain answer")

    def _read(self, at: int, levels: int) -> Generator[int, None, tuple[Any, int]]:
        opening = self._text[at : at + 1]
        if levels and opening == "{":
            return (yield from self._object(self._skip(at + 1), levels))
        if levels and opening == "[":
            return (yield from self._list(self._skip(at + 1), levels))
        value, at = self._member(at)
        yield at
        return value, at

    def _member(self, at: int) -> tuple[Any, int]:
        """Return the value parsed in one step, and its end."""
        value, end = _DECODER.raw_decode(self._text, at)
        brackets = self._text.count("{", at, end) + self._text.count("[", at, end)
        if brackets >= MAX_LEVELS and _is_deep({"": value}):
            raise ValueError("it is nested too deep")
        return value, end

    def _object(self, at: int, levels: int) -> Generator[int, None, tuple[dict[str, Any], int]]:
        found: dict[str, Any] = {}
        while not self._is_closed("}", at, first=not found):
            if found:
                at = self._skip(at + 1)
            name, at = _DECODER.raw_decode(self._text, at)
            at = self._skip(at)
            if type(name) is not str or name in found or self._text[at : at + 1] != ":":
                raise ValueError("it is not an object")
            found[name], at = yield from self._read(self._skip(at + 1), levels - 1)
            at = self._skip(at)
        return found, at + 1

    def _list(self, at: int, levels: int) -> Generator[int, None, tuple[list[Any], int]]:
        found: list[Any] = []
        while not self._is_closed("]", at, first=not found):
            if found:
                at = self._skip(at + 1)
            if levels == 1:  # most members of a long answer are such
                value, at = self._member(at)
                yield at
            else:
                value, at = yield from self._read(at, levels - 1)
            found.append(value)
            at = self._skip(at)
        return found, at + 1

    def _is_closed(self, closing: str, at: int, *, first: bool) -> bool:
        """Return whether a container ends here; otherwise there is a comma, unless nothing stands before."""
        mark = self._text[at : at + 1]
        if not first and mark not in {closing, ","}:
            raise ValueError("a comma is missing")
        return mark == closing

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return at if found is None else found.end()


class DroppedMessages:
    """Counts the dropped messages of one server, by kind, across all its connections.

    The first of a kind is logged, and then the tenth, the hundredth and so on, since a server can send
    thousands a second. Kinds are ours, so that a server cannot make up new ones.

    >>> dropped = DroppedMessages("files")
    >>> dropped.note("unknown notification", "notifications/x", level=logging.DEBUG)
    >>> dropped.counts
    {'unknown notification': 1}
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._empty = 0
        """How many lines without anything there were since the last message."""
        self._rested = 0
        self._since = float("-inf")

    @property
    def counts(self) -> dict[str, int]:
        """Return how many there were of each kind."""
        return dict(self._counts)

    def note(
        self, kind: str, detail: str = "", *, level: int = logging.WARNING, count: int = 1, size: int = 0
    ) -> None:
        """Count one more message of a kind, or several, of so many bytes in all."""
        self._total += count + size // _UNIT
        before = self._counts[kind]
        self._counts[kind] += count
        count = self._counts[kind]
        if before < 10 ** (len(str(count)) - 1):
            times = f" ({count:,} times by now)" if count > 1 else ""
            shown = f": {detail[:_DETAIL]!r}" if detail else ""
            _log.log(level, "server %r sent an unusable message%s: %s%s", self._server, times, kind, shown)

    def note_lines(self, count: int, messages: int) -> None:
        """Count lines, and the messages among them; those that carry nothing are useless beyond a few."""
        if messages:
            self._empty = 0
        before = self._empty
        self._empty += max(0, count - messages * _USUAL)
        useless = max(0, self._empty - _USUAL) - max(0, before - _USUAL)
        if useless:
            self.note("a line without content", level=logging.DEBUG, count=useless)

    async def pace(self) -> None:
        """Wait for a moment where many were dropped since; to be called before the next message is read."""
        useless = self._total - self._rested
        if useless < _USELESS_BURST:
            return
        self._rested = self._total
        rest = self._since + useless / _USELESS_BURST * _USELESS_BURST_SECONDS - anyio.current_time()
        if rest > 0:
            await anyio.sleep(rest)
        self._since = anyio.current_time()

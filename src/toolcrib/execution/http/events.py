"""Answers that come in parts: server-sent events, lines of JSON, and running text."""

import codecs
import json
import re
from collections.abc import Iterator
from math import isinf
from typing import Any, NoReturn, Protocol

from toolcrib.model.plain import walk

_LINES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines",
     "application/json-lines", "application/jsonlines", "application/json-seq", "application/stream+json"}
)  # fmt: skip
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE = re.compile("[\ud800-\udfff]")


class StreamDecoder(Protocol):
    """Turns bytes as they come into the parts of an answer."""

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the parts that are complete with these bytes."""
        ...

    def finish(self) -> Iterator[Any]:
        """Yield what is left at the end."""
        ...

    def whole(self, parts: list[Any]) -> Any:
        """Return the value that all parts are together."""
        ...


def parts_of(media_type: str, charset: str, *, chunked: bool) -> StreamDecoder | None:
    """Return what takes an answer of this type apart; None where it comes as one."""
    if media_type == "text/event-stream":
        return EventParts()
    if media_type in _LINES:
        return LineParts()
    return TextParts(charset) if chunked and media_type == "text/plain" else None


def parse_json_value(text: str | bytes) -> Any:
    """Return the value of a JSON text, which holds nothing that JSON cannot carry on.

    Raises:
        ValueError: it is not JSON, or holds a number too large or a lone surrogate.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text))
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if _SURROGATE.search(text) and any(map(_holds_surrogate, walk(value))):
        raise ValueError("it holds a lone surrogate, which is no text")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text[:40]} is too large for a JSON number")
    return value


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def _holds_surrogate(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_surrogate, value))
    return isinstance(value, str) and _LONE.search(value) is not None


class _Lines:
    """Cuts bytes into lines, each once and only once; a line break may be split between two feeds."""

    def __init__(self, *, lone_cr: bool) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._held: list[str] = []
        self._after_cr = False
        self._lone_cr = lone_cr

    def feed(self, data: bytes, *, final: bool = False) -> Iterator[str]:
        text = self._decoder.decode(data, final)
        if self._after_cr and text:
            text, self._after_cr = text.removeprefix("\n"), False
        if self._lone_cr:
            self._after_cr = text.endswith("\r") or (self._after_cr and not text)
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        first, *rest = text.split("\n")
        self._held.append(first)
        for line in rest:
            yield "".join(self._held).removesuffix("\r")
            self._held = [line]

    def finish(self) -> Iterator[str]:
        yield from self.feed(b"", final=True)
        last = "".join(self._held).removesuffix("\r")
        self._held = []
        if last:
            yield last


class EventParts:
    """Server-sent events; the data is read as JSON where it is JSON.

    An event of another type than `message` is `{"event": type, "data": data}`. What is not ended by an empty
    line is dropped, as browsers do.
    """

    def __init__(self) -> None:
        self._lines = _Lines(lone_cr=True)
        self._event = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the events that are complete."""
        for line in self._lines.feed(data):
            yield from self._take(line)

    def finish(self) -> Iterator[Any]:
        """Yield nothing but an event that lacks only its last line break."""
        for line in self._lines.finish():
            yield from self._take(line)

    def whole(self, parts: list[Any]) -> Any:
        """Return the list of the events."""
        return parts

    def _take(self, line: str) -> Iterator[Any]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if self._data:
                yield self._dispatch()
            self._event, self._data = "", []
        elif name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value

    def _dispatch(self) -> Any:
        text = "\n".join(self._data)
        try:
            data = parse_json_value(text)
        except ValueError:
            data = text
        return data if self._event in {"", "message"} else {"event": self._event, "data": data}


class LineParts:
    """One JSON value on each line; a line that is none is its text."""

    def __init__(self) -> None:
        self._lines = _Lines(lone_cr=False)

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the values of the lines that are complete."""
        for line in self._lines.feed(data):
            yield from self._read(line)

    def finish(self) -> Iterator[Any]:
        """Yield the value of the last line."""
        for line in self._lines.finish():
            yield from self._read(line)

    def whole(self, parts: list[Any]) -> Any:
        """Return the list of the values."""
        return parts

    def _read(self, line: str) -> Iterator[Any]:
        text = line.strip(" \t\r\x1e")
        if text:
            try:
                yield parse_json_value(text)
            except ValueError:
                yield text


class TextParts:
    """Text as it comes, never cut inside a character."""

    def __init__(self, charset: str) -> None:
        self._decoder = codecs.getincrementaldecoder(charset)("replace")

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the text of these bytes."""
        if text := self._decoder.decode(data):
            yield text

    def finish(self) -> Iterator[str]:
        """Yield what the last, broken character becomes."""
        if text := self._decoder.decode(b"", final=True):
            yield text

    def whole(self, parts: list[Any]) -> Any:
        """Return the text as one."""
        return "".join(parts)

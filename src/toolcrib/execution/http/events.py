"""Decoders of streamed responses: server-sent events, lines of JSON, and plain text."""

import codecs
import json
import re
from collections.abc import Iterator
from math import isinf
from typing import Any, NoReturn, Protocol

from toolcrib.model.plain import walk

_JSON_LINES_TYPES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines",
     "application/json-lines", "application/jsonlines", "application/json-seq", "application/stream+json"}
)  # fmt: skip
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class StreamDecoder(Protocol):
    """Incremental decoder of the parts of a response."""

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the parts that these bytes complete."""
        ...

    def finish(self) -> Iterator[Any]:
        """Yield the last part, if it is unfinished."""
        ...

    def join(self, parts: list[Any]) -> Any:
        """Return the value of all parts together."""
        ...


def choose_decoder(media_type: str, charset: str, *, chunked: bool) -> StreamDecoder | None:
    """Return the decoder for a media type; None if such a response is no stream."""
    if media_type == "text/event-stream":
        return EventDecoder()
    if media_type in _JSON_LINES_TYPES:
        return JsonLinesDecoder()
    return TextDecoder(charset) if chunked and media_type == "text/plain" else None


def parse_json_value(text: str | bytes) -> Any:
    """Parse JSON strictly, so that the value can be written as JSON again.

    Raises:
        ValueError: it is not JSON, or holds a number too large or a lone surrogate.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text))
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if _SURROGATE_ESCAPE.search(text) and any(map(_holds_surrogate, walk(value))):
        raise ValueError("it holds a lone surrogate, which is not text")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _parse_finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text[:40]} is too large for a JSON number")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_finite)


def _holds_surrogate(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_surrogate, value))
    return isinstance(value, str) and _LONE_SURROGATE.search(value) is not None


class _LineDecoder:
    """Incremental decoder of lines; a line break may be split between two chunks."""

    def __init__(self, *, lone_cr: bool) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._unfinished: list[str] = []
        """Pieces of the current line, joined at its end: a long line costs linear time."""
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
        self._unfinished.append(first)
        for line in rest:
            yield "".join(self._unfinished).removesuffix("\r")
            self._unfinished = [line]

    def finish(self) -> Iterator[str]:
        yield from self.feed(b"", final=True)
        last = "".join(self._unfinished).removesuffix("\r")
        self._unfinished = []
        if last:
            yield last


class EventDecoder:
    """Server-sent events; data that is JSON is parsed.

    An event of another type than `message` becomes `{"event": type, "data": data}`. An event without the
    empty line at its end is dropped, as the standard demands.
    """

    def __init__(self) -> None:
        self._lines = _LineDecoder(lone_cr=True)
        self._event = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the completed events."""
        for line in self._lines.feed(data):
            yield from self._read_line(line)

    def finish(self) -> Iterator[Any]:
        """Yield the last event if only its final line break is missing."""
        for line in self._lines.finish():
            yield from self._read_line(line)

    def join(self, parts: list[Any]) -> Any:
        """Return the list of events."""
        return parts

    def _read_line(self, line: str) -> Iterator[Any]:
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


class JsonLinesDecoder:
    """One JSON value per line; any other line is text."""

    def __init__(self) -> None:
        self._lines = _LineDecoder(lone_cr=False)

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the values of the completed lines."""
        for line in self._lines.feed(data):
            yield from self._parse_line(line)

    def finish(self) -> Iterator[Any]:
        """Yield the value of the last line."""
        for line in self._lines.finish():
            yield from self._parse_line(line)

    def join(self, parts: list[Any]) -> Any:
        """Return the list of values."""
        return parts

    def _parse_line(self, line: str) -> Iterator[Any]:
        text = line.strip(" \t\r\x1e")  # json-seq begins each value with a record separator
        if text:
            try:
                yield parse_json_value(text)
            except ValueError:
                yield text


class TextDecoder:
    """Plain text in parts that never split a character."""

    def __init__(self, charset: str) -> None:
        self._decoder = codecs.getincrementaldecoder(charset)("replace")

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the text of these bytes."""
        if text := self._decoder.decode(data):
            yield text

    def finish(self) -> Iterator[str]:
        """Yield the replacement of an incomplete last character."""
        if text := self._decoder.decode(b"", final=True):
            yield text

    def join(self, parts: list[Any]) -> Any:
        """Return the whole text."""
        return "".join(parts)

"""Definitions of tools in a temporary file, from which those that are shown are read.

100,000 tools have 50 MB of definitions, of which a search reads the few that it shows. The file is not the
store, whose definitions other processes replace and delete, and which may be closed or out of reach: a tool
in the catalogue can always be shown. Nothing is left of the file when the process ends.
"""

import logging
from collections.abc import Sequence
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO
from weakref import finalize

from toolcrib.concurrency.lru import LruCache
from toolcrib.discovery.facts import summarize
from toolcrib.discovery.records import Summary
from toolcrib.model import Tool

_LOG = logging.getLogger("toolcrib.discovery")
_SIZE_BITS = 32
"""The bits of a place that hold the size of a definition; those above them hold its offset."""
_SIZE_MASK = (1 << _SIZE_BITS) - 1
_MAX_TOOLS = 512
_MAX_TOOL_BYTES = 4 << 20
"""The limits of the cache of parsed definitions: their number, and the length of their texts together."""
_MAX_SUMMARIES = 4_096
_MIN_UNUSED = 32 << 20
"""Bytes of replaced definitions that are always left in the file."""


class Definitions:
    """Texts of definitions, each at a place, with the tools and summaries that were parsed last; thread-safe.

    Texts that the file cannot take, for example because the disk is full, are kept in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Begin without definitions; the file is in a folder, by default that of temporary files."""
        self._folder = folder
        self._lock = Lock()
        self._file: IO[bytes] = BytesIO()
        """Nothing is in it until the first definition is added: then it is a temporary file."""
        self._is_open = False
        self._end = 0
        self._unused = 0
        self._in_memory: list[str] = []
        """The texts that are not in the file; their places are negative."""
        self._tools: LruCache[int, Tool] = LruCache(_MAX_TOOLS, max_weight=_MAX_TOOL_BYTES)
        self._summaries: LruCache[int, Summary] = LruCache(_MAX_SUMMARIES)

    @property
    def is_wasteful(self) -> bool:
        """Whether most of the file is definitions that were replaced, so that it should be made anew."""
        return self._unused > max(_MIN_UNUSED, self._end - self._unused)

    def empty_copy(self) -> "Definitions":
        """Return another file in the same folder, without definitions."""
        return Definitions(self._folder)

    def append(self, texts: Sequence[str]) -> list[int]:
        """Add definitions, and return their places."""
        parts = [text.encode(errors="surrogatepass") for text in texts]
        with self._lock:
            try:
                return self._write(parts)
            except OSError as error:
                _LOG.warning("definitions of tools stay in memory, since no file takes them: %s", error)
                first = len(self._in_memory)
                self._in_memory += texts
                return [~number for number in range(first, len(self._in_memory))]

    def release(self, place: int) -> None:
        """Note that a definition is not needed any more."""
        with self._lock:
            if place >= 0:
                self._unused += place & _SIZE_MASK
        self._tools.pop(place)
        self._summaries.pop(place)

    def text(self, place: int) -> str:
        """Return the definition at a place."""
        if place < 0:
            return self._in_memory[~place]
        with self._lock:
            self._file.seek(place >> _SIZE_BITS)
            return self._file.read(place & _SIZE_MASK).decode(errors="surrogatepass")

    def tool(self, place: int) -> Tool:
        """Return the tool at a place.

        Raises:
            InvalidToolError: the definition cannot be parsed.
        """
        tool = self._tools.get(place)
        if tool is None:
            text = self.text(place)
            tool = Tool.from_json(text)
            self._tools.put(place, tool, len(text))
        return tool

    def summary(self, place: int) -> Summary:
        """Return the summary of the tool at a place.

        Raises:
            InvalidToolError: the definition cannot be parsed.
        """
        summary = self._summaries.get(place)
        if summary is None:
            summary = summarize(self.tool(place))
            self._summaries.put(place, summary)
        return summary

    def _write(self, parts: Sequence[bytes]) -> list[int]:
        """Write texts behind the others, and return their places."""
        if not self._is_open:
            self._file = TemporaryFile(buffering=0, dir=self._folder)  # noqa: SIM115 - open as long as this
            finalize(self, self._file.close)
            self._is_open = True
        self._file.seek(self._end)
        left = memoryview(b"".join(parts))
        size = len(left)
        while left:
            left = left[self._file.write(left) :]
        ends = accumulate(map(len, parts), initial=self._end)
        self._end += size
        return [start << _SIZE_BITS | len(part) for start, part in zip(ends, parts, strict=False)]

"""The pages of the console, as files, with what sends them in few bytes."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["ConsolePage", "ConsolePages"]

_TYPES = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
"""The kinds of files that browsers are sent, by suffix."""


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One file."""

    content: bytes
    compressed: bytes
    content_type: bytes
    mark: bytes
    """Its entity tag."""


class ConsolePages:
    """The files of the console by their paths; read when they are first wanted."""

    def find(self, path: str) -> ConsolePage | None:
        """Return a file; None if there is none of this path for browsers."""
        return _all_pages().get(path)

    def all(self) -> dict[str, ConsolePage]:
        """Return all files by their paths."""
        return dict(_all_pages())


@cache
def _all_pages() -> dict[str, ConsolePage]:
    found: dict[str, ConsolePage] = {}
    _collect(files("toolcrib.console") / "pages", "", found)
    return found


def _collect(folder: Any, path: str, found: dict[str, ConsolePage]) -> None:
    for each in folder.iterdir():
        name = f"{path}{each.name}"
        if each.is_dir():
            _collect(each, f"{name}/", found)
        elif (kind := _TYPES.get(name.rpartition(".")[2])) is not None:
            content = each.read_bytes()
            mark = f'"{hashlib.sha256(content).hexdigest()[:32]}"'.encode()
            found[name] = ConsolePage(content, gzip.compress(content, 9, mtime=0), kind, mark)

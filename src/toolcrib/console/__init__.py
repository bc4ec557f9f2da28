"""The files of the console, each also compressed.

All files but `index.html` are below a folder whose name is their digest, so that browsers keep them for good
and ask for `index.html` alone. Imports between modules are relative, and stay within the folder.
"""

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
_INDEX = "index.html"


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One file."""

    content: bytes
    compressed: bytes
    content_type: bytes
    mark: bytes
    """Its entity tag."""
    is_fixed: bool
    """Whether the file of this path will never be another one."""


class ConsolePages:
    """The files of the console by their paths; read when they are first wanted."""

    def find(self, path: str) -> ConsolePage | None:
        """Return a file; None if there is none of this path for browsers."""
        return _read_pages().get(path)

    def all(self) -> dict[str, ConsolePage]:
        """Return all files by their paths."""
        return dict(_read_pages())


@cache
def _read_pages() -> dict[str, ConsolePage]:
    contents: dict[str, bytes] = {}
    _collect(files("toolcrib.console") / "pages", "", contents)
    index = contents.pop(_INDEX)
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(f"{name} {len(contents[name])} ".encode() + contents[name])
    folder = digest.hexdigest()[:16]
    found = {f"{folder}/{name}": _make_page(name, each) for name, each in contents.items()}
    linked = index.replace(b'="./', f'="{folder}/'.encode())
    return found | {_INDEX: _make_page(_INDEX, linked)}


def _collect(folder: Any, path: str, contents: dict[str, bytes]) -> None:
    for each in folder.iterdir():
        name = f"{path}{each.name}"
        if each.is_dir():
            _collect(each, f"{name}/", contents)
        elif _suffix(name) in _TYPES:
            contents[name] = each.read_bytes()


def _make_page(name: str, content: bytes) -> ConsolePage:
    mark = f'"{hashlib.sha256(content).hexdigest()[:32]}"'.encode()
    compressed = gzip.compress(content, 9, mtime=0)
    return ConsolePage(content, compressed, _TYPES[_suffix(name)], mark, is_fixed=name != _INDEX)


def _suffix(name: str) -> str:
    return name.rpartition(".")[2]

"""What is told of somebody else's exception: what happened, and nothing about the machine it happened on."""

import re
from typing import Any

from toolcrib.model.plain import walk

__all__ = ["said_by", "scrub"]

_MAX_LENGTH = 2000
_PATH = re.compile(
    r"""(?<![\w:/.\\~-])(?:
        ~?(?:/[^\s/'"<>|:;,()\[\]{}*?]+){2,}/?     # /home/anna/notes.txt, ~/x/y
        | [A-Za-z]:\\[^\s'"<>|*?]+                 # C:\Users\anna
        | \\\\[^\s'"<>|*?]+                        # \\server\share
    )""",
    re.VERBOSE,
)
_SITE = re.compile(r'\s*File "[^"]*", line \d+(?:, in \S+)?')


def said_by(error: BaseException, args: Any = None) -> str:
    """Return what an exception says in words that may be shown to a model.

    >>> said_by(FileNotFoundError(2, "No such file or directory", "/home/anna/.config/key"))
    "FileNotFoundError: [Errno 2] No such file or directory: '<path>'"
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the __str__ of somebody else's exception may raise anything
        text = ""
    kind = type(error).__name__
    return scrub(f"{kind}: {text}" if text else kind, args)


def scrub(text: str, args: Any = None) -> str:
    """Return text without the paths of this machine, except those that the caller named in the arguments."""
    named = [value for value in walk(args) if isinstance(value, str) and len(value) > 1] if args else []
    clean = _PATH.sub(lambda found: _kept(found.group(), named), _SITE.sub("", text[: _MAX_LENGTH * 2]))
    return clean if len(clean) <= _MAX_LENGTH else f"{clean[:_MAX_LENGTH]}…"


def _kept(path: str, named: list[str]) -> str:
    return path if any(path in value or path.startswith(value) for value in named) else "<path>"

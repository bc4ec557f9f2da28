"""Reads and parses configuration files, without validation."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from toolcrib.errors import ConfigError, Problem
from toolcrib.model.plain import parse_json
from toolcrib.paths import read_file

MAX_BYTES = 4 * 2**20
"""Size limit of a configuration file."""
_MAX_DOTS = 10**7
"""The sum of the squares of the dots of each line, which is what tomllib takes for a dotted key."""
BOM = "\ufeff"
"""The byte order mark."""
_STRING = r'"(?:\\.|[^"\\])*+"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)
_VISIBLE = re.compile(r"[^\n]")


def is_toml(path: Path) -> bool:
    """Return whether a file is written in TOML; all others are JSON."""
    return path.suffix == ".toml"


def read_text(path: Path) -> str | None:
    """Return the text of a file with its line ends unchanged; None if it does not exist.

    Raises:
        ConfigError: it cannot be read, is no file but a pipe or a device, is too large, or is not UTF-8.
    """
    try:
        return read_file(path, MAX_BYTES).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        message = f"it is not UTF-8 text: {error.reason} at byte {error.start}"
        raise file_refusal(path, message, "encoding") from error
    except OSError as error:
        raise file_refusal(path, f"it cannot be read: {error.strerror or error}") from error


def parse(path: Path, text: str) -> dict[str, Any]:
    """Parse the text of a file as TOML or JSON, by the name of the file.

    >>> parse(Path("toolcrib.toml"), "timeout = 5"), parse(Path("mcp.json"), '{"a": 1,}')
    ({'timeout': 5}, {'a': 1})

    Raises:
        ConfigError: it is not JSON, or in a `.toml` file not TOML.
    """
    kind, read = ("TOML", _parse_toml) if is_toml(path) else ("JSON", parse_jsonc)
    plain = text.removeprefix(BOM)
    try:
        document = read(plain)
    except (ValueError, RecursionError) as error:
        message = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise file_refusal(path, f"it is not {kind}: {message}"[:500], kind.lower()) from error
    if not isinstance(document, dict):
        message = f"it must be a JSON object, not {type(document).__name__}"
        raise file_refusal(path, message, "type")
    return document


def _parse_toml(text: str) -> dict[str, Any]:
    if sum(line.count(".") ** 2 for line in text.splitlines()) > _MAX_DOTS:
        raise ValueError("a line has too many dots")
    return tomllib.loads(text)


def file_refusal(path: Path, reason: str, keyword: str = "file") -> ConfigError:
    """Return the ConfigError for a file as a whole."""
    return ConfigError(str(path), (Problem("", keyword, reason),))


def parse_jsonc(text: str) -> Any:
    """Parse a JSON text that may have comments and trailing commas.

    >>> parse_jsonc('{"url": "http://127.0.0.1", /* ours */ "args": [1, 2,],} // done')
    {'url': 'http://127.0.0.1', 'args': [1, 2]}

    Raises:
        ValueError: it is no such text, the line and the column being those of the text; or a key stands twice
            in one object.
    """
    plain = _COMMA.sub(_blank_out, _COMMENT.sub(_blank_out, text))
    parse_json(plain)
    return json.loads(plain, object_pairs_hook=_reject_duplicates)


def _blank_out(found: re.Match[str]) -> str:
    """Replace a comment or trailing comma by blanks, so that positions in error messages stay correct."""
    if found[0].startswith('"'):
        return found[0]
    if found[0].startswith("/*") and not found[0].endswith("*/", 2):
        raise ValueError(f"a comment begins at character {found.start()} and does not end")
    return _VISIBLE.sub(" ", found[0])


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise ValueError(f"the key {twice[:80]!r} appears twice in one object; one of them would be lost")
    return made

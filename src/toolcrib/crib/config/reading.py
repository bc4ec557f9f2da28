"""Read the text of a configuration file, and what it says before anybody judges that."""

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from toolcrib.crib.config.jsonc import parse_jsonc
from toolcrib.errors import ConfigError, Problem

__all__ = ["BOM", "MAX_BYTES", "file_refusal", "is_toml", "parse", "read_text"]

MAX_BYTES = 4 * 2**20
"""How large a configuration file may be."""
BOM = "\ufeff"
"""What some programs begin a text with."""


def is_toml(path: Path) -> bool:
    """Return whether a file is written in TOML; all others are JSON."""
    return path.suffix == ".toml"


def read_text(path: Path) -> str | None:
    """Return what a file says, with the ends of its lines as they are; None where there is none.

    Raises:
        ConfigError: it cannot be read, is no file but a pipe or a device, is too large, or is not UTF-8.
    """
    try:
        return _bytes(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        said = f"it is not UTF-8 text: {error.reason} at byte {error.start}"
        raise file_refusal(path, said, "encoding") from error
    except OSError as error:
        raise file_refusal(path, f"it cannot be read: {error.strerror or error}") from error


def parse(path: Path, text: str) -> dict[str, Any]:
    """Return what the text of a file says; the name of the file tells how it is written.

    >>> parse(Path("toolcrib.toml"), "timeout = 5"), parse(Path("mcp.json"), '{"a": 1,}')
    ({'timeout': 5}, {'a': 1})

    Raises:
        ConfigError: it is not JSON, or in a `.toml` file not TOML.
    """
    kind, read = ("TOML", tomllib.loads) if is_toml(path) else ("JSON", parse_jsonc)
    plain = text.removeprefix(BOM)
    try:
        document = read(plain)
    except (ValueError, RecursionError) as error:
        said = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise file_refusal(path, f"it is not {kind}: {said}"[:500], kind.lower()) from error
    if not isinstance(document, dict):
        said = f"it must be a JSON object, not {type(document).__name__}"
        raise file_refusal(path, said, "type")
    return document


def file_refusal(path: Path, reason: str, keyword: str = "file") -> ConfigError:
    """Return the error of a file as a whole."""
    return ConfigError(str(path), (Problem("", keyword, reason),))


def _bytes(path: Path) -> bytes:
    # A pipe that nobody writes to would be waited for: it is opened without waiting, and then looked at.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise OSError("it is a folder")
        if not stat.S_ISREG(mode):
            raise OSError("it is a pipe or a device, and no file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    finally:
        os.close(handle)
    if len(content) > MAX_BYTES:
        raise OSError(f"it is larger than {MAX_BYTES // 2**20} MiB")
    return content

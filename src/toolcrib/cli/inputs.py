"""Arguments of a tool from the command line: JSON, a file, standard input, or pairs."""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.resident.terminal import REMOTE

_STDIN = "-"


def read_file(path: str) -> str:
    """Return the text of a file; of standard input where the path is `-`."""
    try:
        terminal = REMOTE.get()
        if terminal is not None:
            return terminal.read(path).decode("utf-8-sig")
        if path == _STDIN:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path} is not UTF-8 text") from error
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a path that none can be
        raise click.UsageError(f"{path!r} cannot be read: {error}") from error


def read_args(text: str | None) -> Any:
    """Return arguments that are given as JSON, as `@file`, or as `-` for standard input."""
    if text is None:
        return {}
    source = "--args"
    if text == _STDIN or text.startswith("@"):
        source = "standard input" if text == _STDIN else text[1:]
        text = read_file(text.removeprefix("@"))
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{source} is not JSON: {error}") from error


def read_pairs(pairs: Sequence[str], types: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """Return the arguments that `key=value` pairs give.

    A value is JSON where it can be read as such, else text; where the tool asks for text, it is text.
    `key=@file` is the text of a file, read as JSON only where the tool does not ask for text.

    >>> read_pairs(["count=3", "tags=[1]", "title=hello", "phone=0151"], {"phone": ["string"]})
    {'count': 3, 'tags': [1], 'title': 'hello', 'phone': '0151'}
    """
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{pair!r} is not an argument; write key=value, or --args with JSON")
        wanted = types.get(name, ())
        if value.startswith("@"):
            text = _read_source(value[1:])
            found[name] = text if not wanted or "string" in wanted else parse_value(text, wanted)
        else:
            found[name] = parse_value(value, wanted)
    return found


def _read_source(path: str) -> str:
    try:
        return read_file(path)
    except click.UsageError as error:
        advice = f"for the text itself write it as JSON: '\"@{path}\"'"
        raise click.UsageError(f"{error.message}; {advice}") from error


def parse_value(text: str, wanted: Collection[str]) -> Any:
    """Return a value that is JSON where it can be read as such, else text; text where text is wanted."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return (
        text
        if "string" in wanted and not isinstance(value, str) and not _matches_type(value, wanted)
        else value
    )


def _matches_type(value: Any, wanted: Collection[str]) -> bool:
    kinds = {dict: "object", list: "array", bool: "boolean", float: "number", int: "integer"}
    kind = kinds.get(type(value), "null")
    return kind in wanted or (kind == "integer" and "number" in wanted)


def read_document(path: str) -> Any:
    """Parse a file of JSON, TOML or YAML, chosen by its name; JSON is the default."""
    text = read_file(path)
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".toml":
            import tomllib  # noqa: PLC0415 - for files of that kind alone

            return tomllib.loads(text)
        if suffix in {".yaml", ".yml"}:
            return _parse_yaml(text)
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = suffix.removeprefix(".").upper() if suffix in {".toml", ".yaml", ".yml"} else "JSON"
        raise click.UsageError(f"{path} is not {kind}: {error}") from error


def _parse_yaml(text: str) -> Any:
    import yaml  # noqa: PLC0415 - for files of that kind alone

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error

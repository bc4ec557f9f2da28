"""Reads an OpenAPI document from JSON or YAML, as plain JSON of limited size.

YAML is read by the rules of version 1.2: `no` is text, `2024-01-01` is text, `010` is ten. Aliases are
expanded, and their expansion counts towards the limits. Merge keys are refused, because a few lines of them
expand to billions of values while they are loaded.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

from toolcrib.errors import InvalidToolError, MissingExtraError, Problem
from toolcrib.model.plain import parse_json

MAX_DOCUMENT_BYTES = 16 * 2**20
"""Size limit of a document."""
MAX_DOCUMENT_NODES = 1_000_000
"""Limit on the number of values in a document, containers included, with aliases expanded."""
MAX_DOCUMENT_DEPTH = 100
"""Limit on the nesting of a document."""
_SLOW_YAML_BYTES = 2 * 2**20
"""Size limit of YAML without libyaml: the loader in Python needs seconds for each megabyte."""
_SCALARS = (str, int, float, bool, type(None))
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_INT = re.compile(r"^[-+]?[0-9]+$")
_FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_FILE_NAME = re.compile(r"[^\n{}]{1,1000}\.(?:json|ya?ml)", re.IGNORECASE)
_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_TAG = "tag:yaml.org,2002:"
_TAGS = {None, "!", *(f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq"))}


def read_document(source: dict[str, Any] | str | bytes | Path) -> dict[str, Any]:
    """Return a document as plain JSON, without parts shared with the source.

    Text that begins with a brace is JSON, any other YAML; a `Path` is the file to read.

    Raises:
        InvalidToolError: it cannot be read, is no object, or too large or deep.
        MissingExtraError: it is YAML, and PyYAML is not installed.
    """
    value: Any = source
    if isinstance(source, Path):
        value = _read_file(source)
    if isinstance(value, bytes | bytearray):
        try:
            value = bytes(value).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise document_error("", "it is not UTF-8 text") from error
    if isinstance(value, str):
        value = _parse_text(value)
    if not isinstance(value, dict):
        raise document_error("", f"it must be an object, not {type(value).__name__}")
    plain: dict[str, Any] = _to_plain(value)
    return plain


def document_error(path: str, reason: str) -> InvalidToolError:
    """Return the error for an invalid document."""
    return InvalidToolError((Problem(path[:500], "openapi", reason[:500]),), record="OpenAPI document")


def _read_file(path: Path) -> bytes:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe may wait for ever
            raise document_error("", f"the file {str(path)!r} is a pipe or a device, not a document")
        with path.open("rb") as file:
            content = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise document_error("", f"the file {str(path)!r} cannot be read: {error.strerror}") from error
    return content


def _parse_text(text: str) -> Any:
    if len(text) > MAX_DOCUMENT_BYTES:
        raise document_error("", f"it is larger than {MAX_DOCUMENT_BYTES:,} bytes")
    _check_is_text(text)
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return _parse_yaml(text)
    try:
        return parse_json(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise document_error("", f"it is not JSON: {error}") from error


def _check_is_text(text: str) -> None:
    """Refuse a URL or a file name in place of a document."""
    if _URL.fullmatch(text.strip()):
        raise document_error("", "it is a URL; a document is a file or its text; download it first")
    if _FILE_NAME.fullmatch(text) and ": " not in text:
        raise document_error("", f"it is the name of a file; to read a file, pass Path({text!r})")


def _parse_yaml(text: str) -> Any:
    try:
        import yaml  # noqa: PLC0415 - behind an extra
    except ImportError as error:
        raise MissingExtraError("reading YAML", "openapi") from error
    fast = getattr(yaml, "CSafeLoader", None)
    if fast is None and len(text) > _SLOW_YAML_BYTES:
        raise document_error("", "it is too much YAML for the reader installed here; convert it to JSON")
    loader = _make_json_loader(fast or yaml.SafeLoader)
    try:
        _check_events(yaml, yaml.parse(text, Loader=loader))
        return yaml.load(text, Loader=loader)  # noqa: S506 - a subclass of SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidToolError):
            raise
        raise document_error("", f"it is not YAML: {' '.join(str(error).split())}") from error


def _make_json_loader(base: Any) -> Any:
    """Return a safe loader that reads only the scalars of JSON."""
    constructors = {
        f"{_TAG}str": base.construct_yaml_str,
        f"{_TAG}map": base.construct_yaml_map,
        f"{_TAG}seq": base.construct_yaml_seq,
        None: base.construct_undefined,
    }
    # `_check_events` refuses merge keys; without `flatten_mapping` the loader could not merge them anyway.
    members = {
        "yaml_implicit_resolvers": {},
        "yaml_constructors": constructors,
        "flatten_mapping": lambda _reader, _node: None,
    }
    loader: Any = type("_Loader", (base,), members)
    for name, pattern, first, make in (
        ("bool", _BOOL, "tTfF", lambda text: text.lower() == "true"),
        ("int", _INT, "-+0123456789", int),
        ("float", _FLOAT, "-+.0123456789", float),
        ("null", _NULL, ["~", "n", "N", ""], lambda _: None),
    ):
        loader.add_implicit_resolver(f"{_TAG}{name}", pattern, list(first))
        loader.add_constructor(f"{_TAG}{name}", partial(_construct_scalar, name, pattern, make))
    return loader


def _construct_scalar(name: str, pattern: re.Pattern[str], make: Any, reader: Any, node: Any) -> Any:
    """Return the value of a scalar, whose type may come from an explicit tag."""
    text = reader.construct_scalar(node)
    if not pattern.fullmatch(text):
        raise document_error("", f"{text!r:.80} is not of the type {name} that its tag says")
    return make(text)


def _check_events(yaml: Any, events: Any) -> None:
    """Refuse YAML that is too deep or large before it is loaded, since the loader is recursive."""
    depth = 0
    for count, event in enumerate(events):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        _check_tag(event, is_scalar=isinstance(event, yaml.ScalarEvent))
        if depth > MAX_DOCUMENT_DEPTH:
            raise document_error("", f"it is nested more than {MAX_DOCUMENT_DEPTH} levels deep")
        if count > 2 * MAX_DOCUMENT_NODES:
            raise document_error("", f"it holds more than {MAX_DOCUMENT_NODES:,} values")


def _check_tag(event: Any, *, is_scalar: bool) -> None:
    """Refuse merge keys, in every spelling, and values that JSON does not have."""
    tag = getattr(event, "tag", None)
    if tag == f"{_TAG}merge" or (is_scalar and event.value == "<<" and event.implicit[0]):
        raise document_error("", "merge keys ('<<') are not supported; write the members out")
    if tag not in _TAGS:
        raise document_error("", f"the tag {tag!r:.80} is not supported; only those of JSON values are")


def _count_values(value: Any, known: dict[int, int], depth: int = 0) -> int:
    """Return the number of values with aliases expanded; visits each shared value once."""
    if not isinstance(value, dict | list | tuple):
        return 1
    if depth > MAX_DOCUMENT_DEPTH:
        raise document_error("", f"it is nested more than {MAX_DOCUMENT_DEPTH} levels deep")
    if id(value) not in known:
        members = value.values() if isinstance(value, dict) else value
        nodes = 1 + sum(_count_values(member, known, depth + 1) for member in members)
        if nodes > MAX_DOCUMENT_NODES:
            raise document_error("", f"it holds more than {MAX_DOCUMENT_NODES:,} values")
        known[id(value)] = nodes
    return known[id(value)]


def _to_plain(root: Any) -> Any:
    """Return a copy with aliases expanded and text keys, made level by level without recursion."""
    _count_values(root, {})
    holder: list[Any] = [root]
    level: list[Any] = [holder]
    for _ in range(MAX_DOCUMENT_DEPTH + 2):
        deeper: list[Any] = []
        for container in level:
            for key, member in list(
                container.items() if isinstance(container, dict) else enumerate(container)
            ):
                copied = container[key] = _copy_value(member)
                if isinstance(copied, dict | list):
                    deeper.append(copied)
        level = deeper
        if not level:
            return holder[0]
    raise document_error("", f"it is nested more than {MAX_DOCUMENT_DEPTH} levels deep")


def _copy_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key_to_text(key): member for key, member in value.items()}
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, _SCALARS):
        raise document_error("", f"it holds a {type(value).__name__}, which is not JSON")
    return value


def _key_to_text(key: Any) -> str:
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise document_error("", f"it has the key {key!r:.80}, but keys must be strings")
    return str(key)

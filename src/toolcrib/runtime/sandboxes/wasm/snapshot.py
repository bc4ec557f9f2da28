"""Snapshots of a WebAssembly program: a module that starts with the memory of one that has stopped.

A program in WebAssembly that ends in the middle of a call leaves its memory as it was. CPython is told to end
itself once it has started and loaded what it needs; the module that is made here has that memory, and its
`_start` has CPython run one more text, as if the call that ended it had come back to it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolcrib.errors import RuntimeUnavailableError

STACK = "stack"
"""The name by which `with_stack_export` exports the stack pointer."""
_WRONG = "the module is no CPython 3.12 for WASI"
_HEADER = 8
_TYPES = 1
_IMPORTS = 2
_FUNCTIONS = 3
_MEMORIES = 5
_GLOBALS = 6
_EXPORTS = 7
_CODE = 10
_DATA = 11
_FUNCTION = 0
_MEMORY = 2
_GLOBAL = 3
_CALL = b"\x10"
_I32_CONST = b"\x41"
_DROP = b"\x1a"
_END = b"\x0b"
_PAGE = 1 << 16
_I32 = b"\x7f"
_RUNS_TEXT = (_I32 * 2, _I32)
"""What `PyRun_SimpleStringFlags` takes and returns."""
_COMPILES_TEXT = (_I32 * 5, _I32)
"""What the function that it calls takes and returns."""
_NOTHING = (b"", b"")


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The state in which a program ended."""

    printed: bytes
    memory: bytes
    stack: int
    """The stack pointer."""
    functions: list[int]
    """Those that were under way, innermost first."""


def with_stack_export(content: bytes) -> bytes:
    """Return a module that exports its stack pointer as well."""
    sections = _list_sections(content)
    sections[_EXPORTS] = _add_entry(sections[_EXPORTS], _encode_export(STACK, _GLOBAL, 0))
    return _join_sections(content, sections)


def functions_of(message: str) -> list[int]:
    """Return the functions on the stack where a program ended, innermost first, from wasmtime's message.

    >>> functions_of("0: 0x5d - <unknown>!<wasm function 14> 1: 0x8 - <unknown>!<wasm function 3>")
    [14, 3]
    """
    return [int(found) for found in re.findall(r"<wasm function (\d+)>", message)]


def with_snapshot(content: bytes, snapshot: MemorySnapshot) -> bytes:
    """Return a module that starts from a snapshot, and runs the text at the address that it printed.

    Raises:
        RuntimeUnavailableError: it is no CPython of the kind that is known.
    """
    sections = _list_sections(content)
    types, functions = list(_list_types(sections[_TYPES])), list(_list_function_types(sections))
    kinds = [types[functions[number]] for number in snapshot.functions]
    callers = zip(snapshot.functions[1:], kinds[1:], kinds, strict=False)
    runs = [number for number, *both in callers if both == [_RUNS_TEXT, _COMPILES_TEXT]]
    if not runs or _read_count(sections[_GLOBALS])[0] != 1 or _NOTHING not in types:
        raise RuntimeUnavailableError("wasm", _WRONG)
    body = (
        b"\0"
        + _encode_i32_const(int(snapshot.printed))
        + _encode_i32_const(0)
        + _CALL
        + _encode_leb128(runs[-1])
        + _DROP
        + _END
    )
    sections[_FUNCTIONS] = _add_entry(sections[_FUNCTIONS], _encode_leb128(types.index(_NOTHING)))
    sections[_CODE] = _add_entry(sections[_CODE], _encode_leb128(len(body)) + body)
    sections[_MEMORIES] = b"\1\0" + _encode_leb128(len(snapshot.memory) // _PAGE)
    sections[_GLOBALS] = b"\1" + _I32 + b"\1" + _encode_i32_const(snapshot.stack) + _END
    start = _encode_export("_start", _FUNCTION, len(functions))
    sections[_EXPORTS] = b"\2" + _encode_export("memory", _MEMORY, 0) + start
    kept = snapshot.memory.rstrip(b"\0")
    sections[_DATA] = b"\1\0" + _encode_i32_const(0) + _END + _encode_leb128(len(kept)) + kept
    return _join_sections(content, sections)


def _list_sections(content: bytes) -> dict[int, bytes]:
    """Return the sections of a module by kind, in order, without the custom ones.

    Raises:
        RuntimeUnavailableError: it lacks some that CPython has.
    """
    found, at = {}, _HEADER
    while at < len(content):
        size, begin = _read_leb128(content, at + 1)
        if content[at]:
            found[content[at]] = content[begin : begin + size]
        at = begin + size
    if not found.keys() >= {_TYPES, _IMPORTS, _FUNCTIONS, _MEMORIES, _GLOBALS, _EXPORTS, _CODE, _DATA}:
        raise RuntimeUnavailableError("wasm", _WRONG)
    return found


def _join_sections(content: bytes, sections: dict[int, bytes]) -> bytes:
    parts = [bytes([kind]) + _encode_leb128(len(part)) + part for kind, part in sections.items()]
    return content[:_HEADER] + b"".join(parts)


def _list_types(part: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the parameters and the results of each function type."""
    count, at = _read_leb128(part, 0)
    for _ in range(count):
        taken, at = _read_sized(part, at + 1)
        given, at = _read_sized(part, at)
        yield taken, given


def _list_function_types(sections: dict[int, bytes]) -> Iterator[int]:
    """Yield the type of each function: first those that are imported, of which there must be no others."""
    part = sections[_IMPORTS]
    count, at = _read_leb128(part, 0)
    for _ in range(count):
        _, at = _read_sized(part, _read_sized(part, at)[1])
        kind, at = _read_leb128(part, at + 1)
        yield kind
    part = sections[_FUNCTIONS]
    count, at = _read_leb128(part, 0)
    for _ in range(count):
        kind, at = _read_leb128(part, at)
        yield kind


def _read_count(part: bytes) -> tuple[int, bytes]:
    count, begin = _read_leb128(part, 0)
    return count, part[begin:]


def _add_entry(part: bytes, member: bytes) -> bytes:
    count, members = _read_count(part)
    return _encode_leb128(count + 1) + members + member


def _read_sized(part: bytes, at: int) -> tuple[bytes, int]:
    size, begin = _read_leb128(part, at)
    return part[begin : begin + size], begin + size


def _read_leb128(part: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned LEB128 number at a place, and the place after it."""
    number = shift = 0
    while True:
        byte = part[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:  # noqa: PLR2004 - the high bit says that more bytes follow
            return number, at


def _encode_leb128(value: int) -> bytes:
    """Return a number as unsigned LEB128, which is how modules write it.

    >>> _encode_leb128(624485).hex()
    'e58e26'
    """
    found = bytearray()
    while value > 127:  # noqa: PLR2004 - as above
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _encode_i32_const(value: int) -> bytes:
    """Return the `i32.const` of a number from 0 on, as signed LEB128: the highest of its bits is its sign.

    >>> _encode_i32_const(64).hex()
    '41c000'
    """
    found = bytearray()
    while value > 63:  # noqa: PLR2004 - the most that seven bits with a sign hold
        found.append(value & 127 | 128)
        value >>= 7
    return _I32_CONST + bytes([*found, value])


def _encode_export(name: str, kind: int, index: int) -> bytes:
    return _encode_leb128(len(name)) + name.encode() + bytes([kind]) + _encode_leb128(index)

"""Snapshots of a WebAssembly program: a new module that starts with the memory of a stopped one.

A WebAssembly program that exits in the middle of a call leaves its memory as it was, and all state of CPython
is in its memory and its stack pointer. So CPython exits once it has started and loaded its modules. The new
module has that memory as its data and that stack pointer as its initial value. Its `_start` calls
`PyRun_SimpleStringFlags` with the address of the text to run next, as if the call that exited had returned.

That function has no exported name. It is found on the stack of the exit: CPython ran its program by the same
function, which is recognized by its type and the type of the function that it calls.

A module is a list of sections, each a number, a length and content; integers are LEB128. Only the sections
that change are decoded: types, functions and code (for the new `_start`), memory, globals, exports and data.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolcrib.errors import RuntimeUnavailableError

STACK_EXPORT = "stack"
"""The name under which `with_stack_export` exports the stack pointer."""
_WRONG_MODULE = "the module is not CPython 3.12 for WASI"
# Magic number and version, then the ids of the sections that are used here.
_HEADER_BYTES = 8
_TYPES = 1
_IMPORTS = 2
_FUNCTIONS = 3
_MEMORIES = 5
_GLOBALS = 6
_EXPORTS = 7
_CODE = 10
_DATA = 11
# Kinds of exports.
_FUNCTION = 0
_MEMORY = 2
_GLOBAL = 3
# Instructions.
_CALL = b"\x10"
_I32_CONST = b"\x41"
_DROP = b"\x1a"
_END = b"\x0b"
_PAGE = 1 << 16
_I32 = b"\x7f"
_RUN_STRING_TYPE = (_I32 * 2, _I32)
"""Parameters and results of `PyRun_SimpleStringFlags`."""
_INNER_RUN_TYPE = (_I32 * 5, _I32)
"""Parameters and results of the function that it calls."""
_START_TYPE = (b"", b"")


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The state of a program at its exit."""

    printed: bytes
    memory: bytes
    stack: int
    """The stack pointer."""
    functions: list[int]
    """The functions on its stack, innermost first."""


def with_stack_export(content: bytes) -> bytes:
    """Return a module that exports its stack pointer as well."""
    sections = _list_sections(content)
    sections[_EXPORTS] = _add_entry(sections[_EXPORTS], _encode_export(STACK_EXPORT, _GLOBAL, 0))
    return _join_sections(content, sections)


def functions_on_stack(message: str) -> list[int]:
    """Read the functions on the stack of an exit, innermost first, from the message of wasmtime.

    >>> functions_on_stack("0: 0x5d - <unknown>!<wasm function 14> 1: 0x8 - <unknown>!<wasm function 3>")
    [14, 3]
    """
    return [int(found) for found in re.findall(r"<wasm function (\d+)>", message)]


def with_snapshot(content: bytes, snapshot: MemorySnapshot) -> bytes:
    """Return a module that starts from a snapshot, and runs the text at the address in its output.

    Raises:
        RuntimeUnavailableError: it is not the known build of CPython.
    """
    sections = _list_sections(content)
    types, functions = list(_list_types(sections[_TYPES])), list(_list_function_types(sections))
    kinds = [types[functions[number]] for number in snapshot.functions]
    callers = zip(snapshot.functions[1:], kinds[1:], kinds, strict=False)
    runs = [number for number, *both in callers if both == [_RUN_STRING_TYPE, _INNER_RUN_TYPE]]
    if not runs or _read_count(sections[_GLOBALS])[0] != 1 or _START_TYPE not in types:
        raise RuntimeUnavailableError("wasm", _WRONG_MODULE)
    # No locals; then PyRun_SimpleStringFlags(address, NULL), whose result is dropped.
    body = (
        b"\0"
        + _encode_i32_const(int(snapshot.printed))
        + _encode_i32_const(0)
        + _CALL
        + _encode_leb128(runs[-1])
        + _DROP
        + _END
    )
    sections[_FUNCTIONS] = _add_entry(sections[_FUNCTIONS], _encode_leb128(types.index(_START_TYPE)))
    sections[_CODE] = _add_entry(sections[_CODE], _encode_leb128(len(body)) + body)
    # Memory without a maximum: the engine sets one for each guest.
    sections[_MEMORIES] = b"\1\0" + _encode_leb128(len(snapshot.memory) // _PAGE)
    sections[_GLOBALS] = b"\1" + _I32 + b"\1" + _encode_i32_const(snapshot.stack) + _END
    start = _encode_export("_start", _FUNCTION, len(functions))
    sections[_EXPORTS] = b"\2" + _encode_export("memory", _MEMORY, 0) + start
    kept = snapshot.memory.rstrip(b"\0")  # memory is zero where no data is written
    sections[_DATA] = b"\1\0" + _encode_i32_const(0) + _END + _encode_leb128(len(kept)) + kept
    return _join_sections(content, sections)


def _list_sections(content: bytes) -> dict[int, bytes]:
    """Return the sections of a module by kind, in order, without the custom ones.

    Raises:
        RuntimeUnavailableError: it lacks sections that CPython has.
    """
    found, at = {}, _HEADER_BYTES
    while at < len(content):
        size, begin = _read_leb128(content, at + 1)
        if content[at]:
            found[content[at]] = content[begin : begin + size]
        at = begin + size
    if not found.keys() >= {_TYPES, _IMPORTS, _FUNCTIONS, _MEMORIES, _GLOBALS, _EXPORTS, _CODE, _DATA}:
        raise RuntimeUnavailableError("wasm", _WRONG_MODULE)
    return found


def _join_sections(content: bytes, sections: dict[int, bytes]) -> bytes:
    parts = [bytes([kind]) + _encode_leb128(len(part)) + part for kind, part in sections.items()]
    return content[:_HEADER_BYTES] + b"".join(parts)


def _list_types(part: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the parameters and the results of each function type."""
    count, at = _read_leb128(part, 0)
    for _ in range(count):
        taken, at = _read_sized(part, at + 1)
        given, at = _read_sized(part, at)
        yield taken, given


def _list_function_types(sections: dict[int, bytes]) -> Iterator[int]:
    """Yield the type of each function: imported functions first, then those of the module.

    All imports are read as functions, because WASI modules import nothing else.
    """
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
    """Return the unsigned LEB128 number at an offset, and the offset after it."""
    number = shift = 0
    while True:
        byte = part[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:  # noqa: PLR2004 - the high bit says that more bytes follow
            return number, at


def _encode_leb128(value: int) -> bytes:
    """Return a number as unsigned LEB128: seven bits in each byte, the lowest first.

    >>> _encode_leb128(624485).hex()
    'e58e26'
    """
    found = bytearray()
    while value > 127:  # noqa: PLR2004 - as above
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _encode_i32_const(value: int) -> bytes:
    """Return `i32.const` of a number of at least 0, as signed LEB128: bit 6 of the last byte is the sign.

    >>> _encode_i32_const(64).hex()
    '41c000'
    """
    found = bytearray()
    while value > 63:  # noqa: PLR2004 - the largest number in seven bits with a sign
        found.append(value & 127 | 128)
        value >>= 7
    return _I32_CONST + bytes([*found, value])


def _encode_export(name: str, kind: int, index: int) -> bytes:
    return _encode_leb128(len(name)) + name.encode() + bytes([kind]) + _encode_leb128(index)

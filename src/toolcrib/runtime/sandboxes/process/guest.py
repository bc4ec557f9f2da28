"""The program inside a sandbox: it receives one job, runs its code, and sends the calls of tools to the host.

It uses the standard library alone, and the interpreter gets it as text (`python -c`), so that no file of this
package is visible inside. In WebAssembly the same text runs without `guest_system.py`, which needs an
operating system.

The code runs in this same interpreter, and may replace any module, builtin or class. That is no danger to the
host, which trusts no message. But a mistake in the code should still be reported as such: so this program
keeps its own references to what it needs, and reports errors in several fallbacks.
"""

import ast
import asyncio  # noqa: TID251 - the event loop of the code
import builtins
import dataclasses
import datetime as dt
import decimal
import errno
import importlib
import json
import linecache
import os
import pathlib
import sys
import traceback
import uuid
from asyncio import all_tasks, gather, get_running_loop  # noqa: TID251 - references of its own
from collections.abc import Callable, Coroutine
from contextlib import suppress
from os import _exit, read
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # at run time these files come before this one in the same text
    from toolcrib.runtime.sandboxes.process.guest_line import _Line, _to_json  # noqa: TC004 - as above
    from toolcrib.runtime.sandboxes.process.guest_system import (  # noqa: TC004 - as above
        _drop_privileges,
        _set_rlimits,
    )

_CHANNEL_FD = 3
"""The descriptor of the channel in every guest, whatever its number was in the host."""
_MAX_DEPTH = 64
_MAX_VALUES = 50_000
_MAX_INTEGER = 10**4300 - 1
"""Larger ones cannot be written as text: CPython limits `str` of integers to 4,300 digits."""
_MAX_FLOAT = sys.float_info.max
_CODE_FILE = "<code>"
_MAX_TEXT = 2_000
_MAX_TRACEBACK = 6_000
_MAX_FRAMES = 12
_MAX_NAME = 150
_PRELOADED_MODULES = (
    *("bisect", "collections", "copy", "csv", "enum", "hashlib", "heapq", "html", "itertools", "operator"),
    *("random", "re", "statistics", "string", "textwrap", "time", "typing", "urllib.parse", "zoneinfo"),
)
"""Modules that code often imports: loaded while the guest boots, which nobody waits for."""
_WRITTEN_AS_TEXT = (decimal.Decimal, uuid.UUID, pathlib.PurePath, dt.timedelta)
_LIMIT_OF_ERRNO = {errno.ENOSPC: "disk_bytes", errno.EFBIG: "disk_bytes", errno.EDQUOT: "disk_bytes"}


class _Client:
    """Makes calls of tools; each waits for the answer with its number."""

    def __init__(self, line: "_Line") -> None:
        self._line = line
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._cancelled: set[int] = set()
        """Cancelled calls whose answer has not come yet."""

    async def call(self, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        plain_args = [_to_plain(value, f"argument {at + 1}") for at, value in enumerate(args)]
        plain_kwargs = {name: _to_plain(value, f"argument {name!r}") for name, value in kwargs.items()}
        if _count_values(plain_args) + _count_values(plain_kwargs) > _MAX_VALUES:
            raise ValueError(f"arguments hold more than {_MAX_VALUES:,} values; pass fewer")
        loop = self._attach()
        self._last += 1
        number = self._last
        self._line.send({"call": number, "path": path, "args": plain_args, "kwargs": plain_kwargs})
        future = self._waiting[number] = loop.create_future()
        try:
            return await future
        finally:  # if the task was cancelled, or its coroutine closed, no answer has come
            self._cancel(number)

    def cancel_pending(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel pending calls, and wait until the host has answered each: it accepts no result before."""
        with suppress(BaseException):  # the code may have broken the loop or its tasks
            others = all_tasks(loop)
            for task in others:
                task.cancel()
            if others:
                loop.run_until_complete(gather(*others, return_exceptions=True))
        for number in list(self._waiting):
            self._cancel(number)
        while self._cancelled:
            self._cancelled.difference_update(message["answer"] for message in self._line.receive_messages())

    def _cancel(self, number: int) -> None:
        if self._waiting.pop(number, None) is not None:
            self._cancelled.add(number)
            self._line.send({"cancel": number})

    def _attach(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, and have it read the answers: code may run several loops, one by one."""
        loop = get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            loop.add_reader(self._line.descriptor, self._read_answers)
        return loop

    def _read_answers(self) -> None:
        for message in self._line.receive_messages():
            number = message["answer"]
            self._cancelled.discard(number)
            future = self._waiting.pop(number, None)
            if future is None or future.done():
                continue
            if error := message.get("error"):
                future.set_exception(_make_exception(error["kind"], error["message"]))
            else:
                future.set_result(message["value"])


def _make_exception(kind: str, message: str) -> Exception:
    made = getattr(builtins, kind, RuntimeError)
    if isinstance(made, type) and issubclass(made, Exception):
        with suppress(TypeError):  # its constructor needs more than a message
            return made(message)
    return RuntimeError(message)


class _Namespace:
    """A namespace of tools in the code; its attributes are asynchronous functions."""

    def __init__(self, client: _Client, name: str) -> None:
        self.__client = client
        self.__name = name

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        # dunder names are looked up by copy, pickle and debuggers, and must not look like tools
        if name.startswith("__") or len(name) > _MAX_NAME:
            raise AttributeError(f"{name:.{_MAX_NAME}}")
        return _make_function(self.__client, f"{self.__name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{self.__name!r} is a namespace: call one of its tools")


def _make_function(client: _Client, path: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await client.call(path, args, kwargs)

    call.__name__ = call.__qualname__ = path
    return call


def _to_plain(value: Any, at: str, depth: int = 0) -> Any:  # noqa: C901, PLR0911 - one line for each kind of value
    """Return a value as JSON; raise TypeError with the place of the part that is not JSON."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _check_text(value, at)
    if isinstance(value, int | float):
        number, most = (int(value), _MAX_INTEGER) if isinstance(value, int) else (float(value), _MAX_FLOAT)
        if not -most <= number <= most:
            text = repr(number) if most is _MAX_FLOAT else "an integer of more than 4,300 digits"
            raise TypeError(f"{at} is {text}, which is not JSON")
        return number
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, _WRITTEN_AS_TEXT):
        return _check_text(str(value), at)
    if depth >= _MAX_DEPTH:
        raise TypeError(f"{at[:200]}... is nested more than {_MAX_DEPTH} levels deep, or contains itself")
    if isinstance(value, dict):
        return {_to_key(name, at): _to_plain(value[name], f"{at}[{name!r:.80}]", depth + 1) for name in value}
    if isinstance(value, list | tuple):
        return [_to_plain(member, f"{at}[{place}]", depth + 1) for place, member in enumerate(value)]
    if isinstance(value, set | frozenset):
        members = list(value)
        with suppress(TypeError):  # members of several types cannot be compared
            members.sort()
        return [_to_plain(member, f"a member of {at}", depth + 1) for member in members]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: _to_plain(getattr(value, name), f"{at}.{name}", depth + 1) for name in names}
    raise TypeError(f"{at} is a {type(value).__name__}, which is not JSON")


def _count_values(value: Any) -> int:
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count_values, members))


def _check_text(value: str, at: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise TypeError(f"{at} has a lone surrogate in its text, which is not JSON") from None
    return str.__str__(value)  # a plain str, also of a subclass


def _to_key(name: Any, at: str) -> str:
    """Return a key of a dict as `json.dumps` writes it, so that numbers and None become texts."""
    if isinstance(name, str):
        return _check_text(name, f"a key of {at}")
    if name is None or isinstance(name, bool | int | float):
        return json.dumps(_to_plain(name, f"a key of {at}") if isinstance(name, int) else name)
    raise TypeError(f"a key of {at} is a {type(name).__name__}, which is not JSON")


def _report_safely(error: BaseException) -> dict[str, Any]:
    """Return the report of an exception for the host, even if making one fails."""
    try:
        return _report_exception(error)
    except BaseException:  # noqa: BLE001 - the code may have replaced `traceback`, `str` or the class of the error
        # the one way to a name that the class itself cannot override
        return {"reason": type.__dict__["__name__"].__get__(type(error))}


def _report_exception(error: BaseException) -> dict[str, Any]:
    """Return the report of an exception that the code did not catch."""
    if isinstance(error, MemoryError):
        return {"reason": "MemoryError", "limit": "memory_bytes", "line": _line_of(error)}
    payload = {"reason": _describe(error), "line": _line_of(error), **_format_traceback(error)}
    if isinstance(error, SyntaxError) and error.filename == _CODE_FILE:
        payload |= {"line": error.lineno, "column": error.offset}
    if isinstance(error, OSError) and error.errno in _LIMIT_OF_ERRNO:
        payload["limit"] = _LIMIT_OF_ERRNO[error.errno]
    elif isinstance(error, RuntimeError) and "can't start new thread" in str(error)[:100]:
        payload["limit"] = "pids"
    return payload


def _describe(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except BaseException:  # noqa: BLE001 - `__str__` may be defined by the code
        text = "(its text cannot be made)"
    cut = f"... ({len(text):,} characters)" if len(text) > _MAX_TEXT else ""
    text = (text[:_MAX_TEXT] + cut).encode("utf-8", "replace").decode()
    return f"{name}: {text}" if text else name


def _line_of(error: BaseException) -> int | None:
    walked = list(traceback.walk_tb(error.__traceback__))[::-1]
    return next((line for frame, line in walked if frame.f_code.co_filename == _CODE_FILE), None)


def _format_traceback(error: BaseException) -> dict[str, Any]:
    """Return the traceback with the frames of the code alone, and the column of the last one."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _CODE_FILE]
    if not frames:
        return {}
    kept = (
        frames if len(frames) <= _MAX_FRAMES else [*frames[: _MAX_FRAMES // 2], *frames[-_MAX_FRAMES // 2 :]]
    )
    lines = traceback.format_list(kept)
    if len(kept) < len(frames):
        lines.insert(_MAX_FRAMES // 2, f"  ... {len(frames) - len(kept)} more\n")
    lines = ["Traceback (most recent call last):\n", *(line[:500] for line in lines), _describe(error)]
    text, last = "".join(lines)[:_MAX_TRACEBACK].encode("utf-8", "replace").decode(), frames[-1]
    before = linecache.getline(_CODE_FILE, last.lineno or 0).encode()[: last.colno]
    return {"traceback": text, "column": None if last.colno is None else len(before.decode()) + 1}


def _make_result(value: Any, most: int) -> dict[str, Any]:
    """Return the last message: the value, or the reason why it cannot be sent."""
    try:
        plain = _to_plain(value, "__out")
    except TypeError as error:
        return {"error": {"reason": str(error)[:_MAX_TEXT].encode("utf-8", "replace").decode()}}
    if (size := len(_to_json(plain).encode())) > most:
        return {"error": {"reason": f"__out is {size:,} bytes of JSON", "limit": "output_bytes"}}
    return {"done": plain}


def _run_job(job: dict[str, Any], line: "_Line", loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """Run the code and return the last message."""
    client = _Client(line)
    module = type(sys)("__main__")
    spaces = {name: _Namespace(client, name) for name in job["names"]}
    functions = {name: _make_function(client, name) for name in job["functions"]}
    module.__dict__.update({"__builtins__": builtins, **spaces, **functions})
    sys.modules["__main__"] = module  # or `import __main__` and pickle would find this program
    source = job["code"].removeprefix("\ufeff")
    # tracebacks can then show the lines of the code, which is in no file
    linecache.cache[_CODE_FILE] = (len(source), None, source.splitlines(keepends=True), _CODE_FILE)
    try:
        code = compile(source, _CODE_FILE, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        awaited = eval(code, module.__dict__)  # noqa: S307 - this is what the sandbox is for
        if isinstance(awaited, Coroutine):
            loop.run_until_complete(awaited)
        last = _make_result(getattr(module, "__out", None), job["output_bytes"])
    except BaseException as error:  # noqa: BLE001 - whatever the code raised is reported to the host
        last = {"error": _report_safely(error)}
    client.cancel_pending(loop)
    return last


def _preload_modules() -> None:
    """Import modules that code often needs, and remove variables that only start an interpreter."""
    for name in _PRELOADED_MODULES:
        with suppress(ImportError):  # some interpreters are built without it
            importlib.import_module(name)
    for name in os.environ.keys() - {"HOME", "PATH"}:
        del os.environ[name]


def _ignore_rlimits(_: Any) -> None:
    pass


def _serve(
    line: "_Line",
    loop: asyncio.AbstractEventLoop,
    set_rlimits: Callable[[dict[str, int]], None] = _ignore_rlimits,
) -> NoReturn:
    """Receive the one job, set its limits, run it, and exit."""
    line.send({"ready": True})
    job = line.receive_message()["job"]
    line.max_call_bytes = job["call_bytes"]
    set_rlimits(job["rlimits"])
    try:
        last = _run_job(job, line, loop)
        for name in ("stdout", "stderr"):
            with suppress(BaseException):  # the code may have replaced them
                getattr(sys, name).flush()
        line.send(last)
        read(line.descriptor, 1)  # waits until the host kills it, which sends nothing more
    finally:
        _exit(1)  # without the hooks of the code, such as `atexit`


def _main() -> NoReturn:
    given = int(sys.argv.pop())
    if given != _CHANNEL_FD:
        os.dup2(given, _CHANNEL_FD, inheritable=False)
        os.close(given)
    line = _Line(_CHANNEL_FD)
    payload = line.receive_message()
    _preload_modules()
    _drop_privileges(payload)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    _serve(line, loop, _set_rlimits)

"""The program inside: it takes one job, runs its code, and asks the host for the rest.

It stands on the standard library alone and is handed to the interpreter as text, so that nothing of this
package has to be visible inside. The host trusts none of its messages. What needs more
of a system than an interpreter in WebAssembly has is in a file of its own.
"""

import ast
import asyncio  # noqa: TID251 - the event loop of the guest's code
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
from asyncio import all_tasks, gather, get_running_loop  # noqa: TID251 - the guest's own loop
from collections.abc import Callable, Coroutine
from contextlib import suppress
from os import _exit, read
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # in the text they stand above
    from toolcrib.runtime.sandboxes.process.guest_line import _Line, _to_json  # noqa: TC004 - as above
    from toolcrib.runtime.sandboxes.process.guest_system import _boot, _limit  # noqa: TC004 - as above

_LINE = 3
_DEPTH = 64
_VALUES = 50_000
_INTEGERS = 10**4300 - 1
_FLOATS = sys.float_info.max
_FILE = "<code>"
_TEXT = 2_000
_TRACE = 6_000
_FRAMES = 12
_NAME = 150
_PREPARED = (
    *("bisect", "collections", "copy", "csv", "enum", "hashlib", "heapq", "html", "itertools", "operator"),
    *("random", "re", "statistics", "string", "textwrap", "time", "typing", "urllib.parse", "zoneinfo"),
)
"""Modules that code often needs: they are loaded before it comes."""
_TEXTUAL = (decimal.Decimal, uuid.UUID, pathlib.PurePath, dt.timedelta)
_LIMITS = {errno.ENOSPC: "disk_bytes", errno.EFBIG: "disk_bytes", errno.EDQUOT: "disk_bytes"}


class _Client:
    """Calls of tools: each waits for the answer that carries its number."""

    def __init__(self, line: "_Line") -> None:
        self._line = line
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._dropped: set[int] = set()

    async def call(self, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        plain_args = [_plain(value, f"argument {at + 1}") for at, value in enumerate(args)]
        plain_kwargs = {name: _plain(value, f"argument {name!r}") for name, value in kwargs.items()}
        if _size(plain_args) + _size(plain_kwargs) > _VALUES:
            raise ValueError(f"arguments hold more than {_VALUES:,} values; pass fewer")
        loop = self._attach()
        self._last += 1
        number = self._last
        self._line.send({"call": number, "path": path, "args": plain_args, "kwargs": plain_kwargs})
        future = self._waiting[number] = loop.create_future()
        try:
            return await future
        finally:  # where it was cancelled, or closed
            self._drop(number)

    def settle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up what is still under way, and wait until the host has confirmed it."""
        with suppress(BaseException):  # the code may have done anything to the loop and its tasks
            others = all_tasks(loop)
            for task in others:
                task.cancel()
            if others:
                loop.run_until_complete(gather(*others, return_exceptions=True))
        for number in list(self._waiting):
            self._drop(number)
        while self._dropped:
            self._dropped.difference_update(message["answer"] for message in self._line.received())

    def _drop(self, number: int) -> None:
        if self._waiting.pop(number, None) is not None:
            self._dropped.add(number)
            self._line.send({"cancel": number})

    def _attach(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, which reads answers from here on: code may make loops of its own."""
        loop = get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            loop.add_reader(self._line.descriptor, self._read)
        return loop

    def _read(self) -> None:
        for message in self._line.received():
            number = message["answer"]
            self._dropped.discard(number)
            future = self._waiting.pop(number, None)
            if future is None or future.done():
                continue
            if error := message.get("error"):
                future.set_exception(_exception(error["kind"], error["message"]))
            else:
                future.set_result(message["value"])


def _exception(kind: str, message: str) -> Exception:
    made = getattr(builtins, kind, RuntimeError)
    if isinstance(made, type) and issubclass(made, Exception):
        with suppress(TypeError):  # it takes more than a text
            return made(message)
    return RuntimeError(message)


class _Namespace:
    """Stands for a namespace of tools: its attributes are asynchronous functions."""

    def __init__(self, client: _Client, name: str) -> None:
        self.__client = client
        self.__name = name

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        if name.startswith("__") or len(name) > _NAME:
            raise AttributeError(f"{name:.{_NAME}}")
        return _function(self.__client, f"{self.__name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{self.__name!r} is a namespace: call one of its tools")


def _function(client: _Client, path: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await client.call(path, args, kwargs)

    call.__name__ = call.__qualname__ = path
    return call


def _plain(value: Any, at: str, depth: int = 0) -> Any:  # noqa: C901, PLR0911 - one line for each kind of value
    """Return a value as JSON, or raise with the part of it that is not."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, at)
    if isinstance(value, int | float):
        number, most = (int(value), _INTEGERS) if isinstance(value, int) else (float(value), _FLOATS)
        if not -most <= number <= most:
            text = repr(number) if most is _FLOATS else "an integer of more than 4,300 digits"
            raise TypeError(f"{at} is {text}, which is not JSON")
        return number
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, _TEXTUAL):
        return _text(str(value), at)
    if depth >= _DEPTH:
        raise TypeError(f"{at[:200]}... is nested more than {_DEPTH} levels deep, or contains itself")
    if isinstance(value, dict):
        return {_key(name, at): _plain(value[name], f"{at}[{name!r:.80}]", depth + 1) for name in value}
    if isinstance(value, list | tuple):
        return [_plain(member, f"{at}[{place}]", depth + 1) for place, member in enumerate(value)]
    if isinstance(value, set | frozenset):
        members = list(value)
        with suppress(TypeError):  # they have no order
            members.sort()
        return [_plain(member, f"a member of {at}", depth + 1) for member in members]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: _plain(getattr(value, name), f"{at}.{name}", depth + 1) for name in names}
    raise TypeError(f"{at} is a {type(value).__name__}, which is not JSON")


def _size(value: Any) -> int:
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, members))


def _text(value: str, at: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise TypeError(f"{at} has a lone surrogate in its text, which is not JSON") from None
    return str.__str__(value)


def _key(name: Any, at: str) -> str:
    if isinstance(name, str):
        return _text(name, f"a key of {at}")
    if name is None or isinstance(name, bool | int | float):
        return json.dumps(_plain(name, f"a key of {at}") if isinstance(name, int) else name)
    raise TypeError(f"a key of {at} is a {type(name).__name__}, which is not JSON")


def _report(error: BaseException) -> dict[str, Any]:
    """Return the report of an exception for the host, even where the code broke what describes exceptions."""
    try:
        return _failure(error)
    except BaseException:  # noqa: BLE001 - the code may have changed whatever describes exceptions
        return {"reason": type.__dict__["__name__"].__get__(type(error))}


def _failure(error: BaseException) -> dict[str, Any]:
    """Return the report of an exception that nobody caught."""
    if isinstance(error, MemoryError):
        return {"reason": "MemoryError", "limit": "memory_bytes", "line": _line_of(error)}
    payload = {"reason": _described(error), "line": _line_of(error), **_where(error)}
    if isinstance(error, SyntaxError) and error.filename == _FILE:
        payload |= {"line": error.lineno, "column": error.offset}
    if isinstance(error, OSError) and error.errno in _LIMITS:
        payload["limit"] = _LIMITS[error.errno]
    elif isinstance(error, RuntimeError) and "can't start new thread" in str(error)[:100]:
        payload["limit"] = "pids"
    return payload


def _described(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except BaseException:  # noqa: BLE001 - the text is made by the guest's own code
        text = "(its text cannot be made)"
    cut = f"... ({len(text):,} characters)" if len(text) > _TEXT else ""
    text = (text[:_TEXT] + cut).encode("utf-8", "replace").decode()
    return f"{name}: {text}" if text else name


def _line_of(error: BaseException) -> int | None:
    walked = list(traceback.walk_tb(error.__traceback__))[::-1]
    return next((line for frame, line in walked if frame.f_code.co_filename == _FILE), None)


def _where(error: BaseException) -> dict[str, Any]:
    """Return the frames of the code itself, and nothing of what lies around them."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _FILE]
    if not frames:
        return {}
    kept = frames if len(frames) <= _FRAMES else [*frames[: _FRAMES // 2], *frames[-_FRAMES // 2 :]]
    lines = traceback.format_list(kept)
    if len(kept) < len(frames):
        lines.insert(_FRAMES // 2, f"  ... {len(frames) - len(kept)} more\n")
    lines = ["Traceback (most recent call last):\n", *(line[:500] for line in lines), _described(error)]
    text, last = "".join(lines)[:_TRACE].encode("utf-8", "replace").decode(), frames[-1]
    before = linecache.getline(_FILE, last.lineno or 0).encode()[: last.colno]
    return {"traceback": text, "column": None if last.colno is None else len(before.decode()) + 1}


def _done(value: Any, most: int) -> dict[str, Any]:
    """Return the message that carries a value, or the reason why it cannot be sent."""
    try:
        plain = _plain(value, "__out")
    except TypeError as error:
        return {"error": {"reason": str(error)[:_TEXT].encode("utf-8", "replace").decode()}}
    if (size := len(_to_json(plain).encode())) > most:
        return {"error": {"reason": f"__out is {size:,} bytes of JSON", "limit": "output_bytes"}}
    return {"done": plain}


def _run(job: dict[str, Any], line: "_Line", loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """Run the code and return the last message."""
    client = _Client(line)
    module = type(sys)("__main__")
    spaces = {name: _Namespace(client, name) for name in job["names"]}
    functions = {name: _function(client, name) for name in job["functions"]}
    module.__dict__.update({"__builtins__": builtins, **spaces, **functions})
    sys.modules["__main__"] = module
    source = job["code"].removeprefix("\ufeff")
    linecache.cache[_FILE] = (len(source), None, source.splitlines(keepends=True), _FILE)
    try:
        code = compile(source, _FILE, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        awaited = eval(code, module.__dict__)  # noqa: S307 - this is what the sandbox is for
        if isinstance(awaited, Coroutine):
            loop.run_until_complete(awaited)
        last = _done(getattr(module, "__out", None), job["output_bytes"])
    except BaseException as error:  # noqa: BLE001 - whatever the code raised is reported to the host
        last = {"error": _report(error)}
    client.settle(loop)
    return last


def _prepare() -> None:
    """Load what code often needs, and forget the variables that only start an interpreter."""
    for name in _PREPARED:
        with suppress(ImportError):  # an interpreter may be built without some
            importlib.import_module(name)
    for name in os.environ.keys() - {"HOME", "PATH"}:
        del os.environ[name]


def _nothing(_: Any) -> None:
    pass


def _serve(
    line: "_Line",
    loop: asyncio.AbstractEventLoop,
    limit: Callable[[dict[str, int]], None] = _nothing,
) -> NoReturn:
    """Take the one job, within limits that are set when it comes, and end."""
    line.send({"ready": True})
    job = line.wait()["job"]
    line.most = job["call_bytes"]
    limit(job["rlimits"])
    try:
        last = _run(job, line, loop)
        for name in ("stdout", "stderr"):
            with suppress(BaseException):  # the code may have put anything in their place
                getattr(sys, name).flush()
        line.send(last)
        read(line.descriptor, 1)  # the host ends it, and sends nothing more
    finally:
        _exit(1)  # what the code has broken is not reported


def _main() -> NoReturn:
    given = int(sys.argv.pop())
    if given != _LINE:
        os.dup2(given, _LINE, inheritable=False)
        os.close(given)
    line = _Line(_LINE)
    payload = line.wait()
    _prepare()
    _boot(payload)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    _serve(line, loop, _limit)

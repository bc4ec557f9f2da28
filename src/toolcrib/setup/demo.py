"""A small catalogue of local tools, for trying everything out before anything is configured."""

import ast
import difflib
import json
import operator
import re
import statistics
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from toolcrib.crib.config.settings import MEMORY
from toolcrib.crib.crib import Crib
from toolcrib.errors import ToolcribError
from toolcrib.execution import CallContext, Principal, Request
from toolcrib.execution.call import Approval, Decision
from toolcrib.execution.principal import local_user
from toolcrib.model import LocalTool, ToolExample, tool
from toolcrib.model.tool import ToolAnnotations

__all__ = ["DEMO", "open_with_demo", "play_demo", "write_demo_config"]

DEMO: dict[str, Any] = {"console": {"approval_timeout": 86_400.0}, "runs": {"store": MEMORY}, "store": MEMORY}
"""The default configuration of a demonstration: a call waits a day for its approval."""
_SERVERS = {"library": {"command": sys.executable, "args": ["-m", "toolcrib.setup.demo_server"]}}
"""Its servers over HTTP, where the console shows them."""

_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_DESTROYS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
_MAX_POWER = 1000
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_METRES = {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0, "in": 0.0254, "ft": 0.3048, "mi": 1609.344}
Unit = Literal["mm", "cm", "m", "km", "in", "ft", "mi"]
Numbers = Annotated[list[float], Field(min_length=1, max_length=10_000)]


def evaluate(expression: Annotated[str, Field(max_length=500)]) -> float:
    """Work out an arithmetic expression, such as a sum, a product or a percentage.

    Args:
        expression: numbers with + - * / // % ** and brackets.
    """
    try:
        return float(_value(ast.parse(expression.strip(), mode="eval").body))
    except (SyntaxError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(f"cannot work out {expression!r}: {error}") from error


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _OPERATORS:
            return float(_OPERATORS[type(sign)](_value(operand)))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, power = _value(left), _value(right)
            if abs(power) > _MAX_POWER:
                raise OverflowError(f"the power {power:g} is beyond {_MAX_POWER}")
            return float(pow(float(base), power))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return float(_OPERATORS[type(sign)](_value(left), _value(right)))
    raise SyntaxError("only numbers, + - * / // % ** and brackets are known")


@dataclass(frozen=True, slots=True)
class Statistics:
    """What describes some numbers."""

    count: int
    mean: float
    median: float
    smallest: float
    largest: float
    deviation: float


def describe_numbers(numbers: Numbers) -> Statistics:
    """Return mean, median, extremes and standard deviation of some numbers.

    Args:
        numbers: one of them at least.
    """
    return Statistics(
        count=len(numbers),
        mean=statistics.fmean(numbers),
        median=statistics.median(numbers),
        smallest=min(numbers),
        largest=max(numbers),
        deviation=statistics.pstdev(numbers),
    )


def convert_length(value: float, unit: Unit, to: Unit) -> float:
    """Convert a length between metric and imperial units, such as miles to kilometres.

    Args:
        value: the length.
        unit: what it is in.
        to: what it is wanted in.
    """
    return value * _METRES[unit] / _METRES[to]


@dataclass(frozen=True, slots=True)
class TextStats:
    """What a text is made of."""

    characters: int
    words: int
    lines: int
    frequent: list[str]


def count_words(text: str, top: Annotated[int, Field(ge=0, le=100)] = 5) -> TextStats:
    """Count the characters, words and lines of a text, and name its frequent words.

    Args:
        text: what to look at.
        top: how many of the frequent words to name.
    """
    words = re.findall(r"\w+", text.lower())
    frequent = [word for word, _ in Counter(words).most_common(top)]
    return TextStats(len(text), len(words), len(text.splitlines()), frequent)


def make_slug(title: str) -> str:
    """Turn a title into the part of a web address that stands for it.

    Args:
        title: any text.
    """
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


def compare(before: str, after: str) -> str:
    """Show line by line what differs between two texts, as a unified diff.

    Args:
        before: the older text.
        after: the newer one.
    """
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    return "\n".join(lines)


def current_time(timezone: str = "UTC") -> str:
    """Tell the date and the time of day in a time zone, such as Europe/Berlin.

    Args:
        timezone: a name of the IANA database.
    """
    if timezone == "UTC":
        return datetime.now(UTC).isoformat(timespec="seconds")
    try:
        return datetime.now(ZoneInfo(timezone)).isoformat(timespec="seconds")
    except (KeyError, OSError, ValueError) as error:  # no name, a folder of names, or a path out of it
        raise ValueError(f"there is no time zone {timezone!r}; try 'Europe/Berlin'") from error


def days_between(start: date, end: date) -> int:
    """Count the days from one date to another, negative where that is earlier.

    Args:
        start: the first day, as 2026-12-24.
        end: the last day, likewise.
    """
    return (end - start).days


def add_days(day: date, days: Annotated[int, Field(ge=-100_000, le=100_000)]) -> str:
    """Return the date that is some days after another, and its day of the week.

    Args:
        day: where to start, as 2026-12-24.
        days: how many days later, or earlier where negative.
    """
    try:
        return (day + timedelta(days=days)).strftime("%Y-%m-%d, %A")
    except OverflowError as error:
        raise ValueError(f"{days} days from {day} is not a date in the calendar") from error


@dataclass(frozen=True, slots=True)
class Note:
    """One note."""

    number: int
    text: str


def _notebook() -> list[tuple[Callable[..., Any], ToolAnnotations]]:
    """Return the tools of a notebook that lives as long as they do."""
    notes: list[Note] = []

    def add(text: Annotated[str, Field(min_length=1, max_length=10_000)]) -> Note:
        """Write a note, a reminder or a task to do.

        Args:
            text: what to remember.
        """
        note = Note(len(notes) + 1, text)
        notes.append(note)
        return note

    def show(containing: str = "") -> list[Note]:
        """Show the notes, all of them or those that contain some text.

        Args:
            containing: what to look for, in any case of letters.
        """
        return [note for note in notes if containing.lower() in note.text.lower()]

    def delete_all() -> int:
        """Delete every note for good, and tell how many there were."""
        count = len(notes)
        notes.clear()
        return count

    return [(add, _WRITES), (show, _READS), (delete_all, _DESTROYS)]


_EXAMPLES: dict[str, tuple[str, dict[str, Any], str]] = {
    "math:evaluate": ("What is six times seven?", {"expression": "6 * 7"}, "42.0"),
    "math:describe_numbers": (
        "What is the average?",
        {"numbers": [3, 1, 4, 1, 5]},
        "count, mean, median, ...",
    ),
    "math:convert_length": ("How long is a marathon?", {"value": 26.2, "unit": "mi", "to": "km"}, "42.16..."),
    "text:count_words": ("How long is this text?", {"text": "to be or not to be", "top": 2}, "6 words, ..."),
    "text:make_slug": ("Name a page after its title", {"title": "Tools, kept & found!"}, "tools-kept-found"),
    "text:compare": ("What has changed?", {"before": "one\ntwo", "after": "one\n2"}, "a unified diff"),
    "time:current_time": ("What time is it in Berlin?", {"timezone": "Europe/Berlin"}, "a date and a time"),
    "time:days_between": (
        "How many days until Christmas?",
        {"start": "2026-01-01", "end": "2026-12-24"},
        "357",
    ),
    "time:add_days": ("What day is in 30 days?", {"day": "2026-02-28", "days": 30}, "2026-03-30, Monday"),
    "notes:add": ("Remember something", {"text": "return the drill"}, "the note with its number"),
    "notes:show": ("Find a reminder", {"containing": "drill"}, "the notes that contain it"),
    "notes:delete_all": ("Forget everything", {}, "how many there were"),
}
"""An example call of each tool, and its result."""
_ROUNDS = 3
_PATIENCE = 86_400.0
_NOTES = {
    "notes:add": "Notes last as long as the process that keeps them.",
    "notes:delete_all": "There is no way back; ask before you use it.",
}


def write_demo_config(folder: Path) -> Path:
    """Write the configuration of the demonstration into a folder, which may also hold its `tools.lock`."""
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": _SERVERS, "toolcrib": DEMO}), encoding="utf-8")
    return path


@asynccontextmanager
async def open_with_demo(
    crib: Crib, door: AbstractAsyncContextManager[object] | None = None
) -> AsyncIterator[None]:
    """Open a crib that has the tools from the start, each with an example and notes.

    Args:
        crib: a crib that is not open yet.
        door: the context that opens it, such as a gateway; None: the crib itself.
    """
    for each in _tools():
        crib.add(each)
    async with crib if door is None else door:
        for tool_id, (title, args, gives) in _EXAMPLES.items():
            example = ToolExample(title=title, args=args, result_hint=gives)
            crib.discovery.register_doc(tool_id, examples=[example], notes=_NOTES.get(tool_id))
        yield


_CALLERS = (
    Principal(issuer="demo", subject="anna", client="claude-code"),
    Principal(issuer="demo", subject="ben", client="cursor"),
    Principal(issuer="demo", subject="nightly", client="ci"),
)
"""Principals of the demonstration's calls."""
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((tool_id, args) for tool_id, (_, args, _) in _EXAMPLES.items() if tool_id != "notes:delete_all"),
    ("math:evaluate", {"expression": "12 / 0"}),
    ("time:current_time", {"timezone": "Mars/Olympus"}),
    ("notes:add", {}),
)
_LENDING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("library:find", {"text": "the"}),
    ("library:lend", {"title": "Invisible Cities"}),
)
"""Calls of the server of the demonstration, which runs out of copies."""
_CHAIN = [
    {"id": "length", "toolId": "math:convert_length", "args": {"value": 26.2, "unit": "mi", "to": "km"}},
    {"id": "name", "toolId": "text:make_slug", "args": {"title": "A marathon"}},
    {"id": "note", "toolId": "notes:add", "args": {"text": {"$ref": "steps.name"}}},
]
_WAITS = "notes:delete_all"


async def play_demo(crib: Crib, ask: Callable[[Request, Decision], Awaitable[None]]) -> None:
    """Make some calls as several callers; a few calls fail, and one waits for approval.

    Returns when that call is answered.

    Args:
        crib: an open crib with the tools.
        ask: asks a person about a call.
    """
    lending = _LENDING if "library" in crib.status() else ()
    for turn in range(_ROUNDS):
        for place, (tool_id, args) in enumerate((*_CALLS, *lending)):
            with suppress(ToolcribError):  # some are meant to fail
                await crib.run(tool_id, args, principal=_CALLERS[(turn + place) % len(_CALLERS)])
    with suppress(ToolcribError):
        await crib.run_chain(_CHAIN, durable=True, principal=local_user("console"))
    context = CallContext(principal=_CALLERS[0], approval=Approval(ask=ask, confirm_destructive=True))
    with suppress(ToolcribError):
        await crib.run(_WAITS, {}, context=context, timeout=_PATIENCE)


def _tools() -> tuple[LocalTool[..., Any], ...]:
    """Return the tools; those of the notebook share one that is empty."""
    made: list[tuple[str, Callable[..., Any], ToolAnnotations]] = [
        *(("math", each, _READS) for each in (evaluate, describe_numbers, convert_length)),
        *(("text", each, _READS) for each in (count_words, make_slug, compare)),
        *(("time", each, _READS) for each in (current_time, days_between, add_days)),
        *(("notes", each, hints) for each, hints in _notebook()),
    ]
    return tuple(
        tool(namespace=namespace, tags=("demo",), annotations=hints)(function)
        for namespace, function, hints in made
    )

"""What the pages count: calls by minute, tools by use, and tokens."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import ceil

from toolcrib.gateway.api.calls import CallRow
from toolcrib.gateway.api.records import Series, ToolUse

_MINUTE = 60.0
_CHARACTERS_PER_TOKEN = 4
_TOP = 8


def count_by_minute(rows: Iterable[CallRow], minutes: int, now: float | None = None) -> Series:
    """Count calls by the minute in which they began, in the last minutes."""
    now = time.time() if now is None else now
    start = (now // _MINUTE - minutes + 1) * _MINUTE
    durations: list[list[float]] = [[] for _ in range(minutes)]
    failed = [0] * minutes
    for row in rows:
        place = int((row.began - start) // _MINUTE)
        if 0 <= place < minutes:
            durations[place].append(row.duration)
            failed[place] += row.outcome != "ok"
    return Series(
        start=start,
        calls=tuple(map(len, durations)),
        failed=tuple(failed),
        p50=tuple(quantile(each, 0.5) for each in durations),
        p95=tuple(quantile(each, 0.95) for each in durations),
    )


def quantile(values: Sequence[float], part: float) -> float | None:
    """Return the smallest value that a part of all values do not exceed; None without values.

    >>> quantile([3.0, 1.0, 2.0], 0.5), quantile([], 0.5)
    (2.0, None)
    """
    return sorted(values)[max(0, ceil(part * len(values)) - 1)] if values else None


def count_by_tool(rows: Iterable[CallRow]) -> tuple[ToolUse, ...]:
    """Return the tools with the most calls."""
    calls, failed = Counter[str](), Counter[str]()
    tokens, seconds = Counter[str](), defaultdict[str, float](float)
    for row in rows:
        tool_id = row.tool_id
        calls[tool_id] += 1
        failed[tool_id] += row.outcome != "ok"
        seconds[tool_id] += row.duration
        tokens[tool_id] += (row.result_bytes or 0) // _CHARACTERS_PER_TOKEN
    return tuple(
        ToolUse(tool_id=name, calls=count, failed=failed[name], seconds=seconds[name], tokens=tokens[name])
        for name, count in calls.most_common(_TOP)
    )

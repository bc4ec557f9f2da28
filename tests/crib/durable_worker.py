"""A process that runs six calls durably and may kill itself on the way, or that takes such a run up."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import anyio

from toolcrib import Crib
from toolcrib.errors import ToolcribError
from toolcrib.runs import sqlite
from toolcrib.runs.journal import RunJournal, _to_json_bytes

CODE = {
    "loop": "total = 0\nfor n in range(1, 7):\n    total += await ledger.add(n=n)\n__out = total",
    "clock": (
        "import time, random\ntotal = 0\nnow = time.time() + random.random()\nfor n in range(1, 7):\n"
        "    total += await ledger.add(n=n, note=str(now + n))\n    print(n)\n__out = total"
    ),
    "gather": (
        "import asyncio\nasync def both(n):\n    first = await ledger.add(n=n)\n"
        "    return first + await ledger.add(n=n + 3)\n"
        "__out = sum(await asyncio.gather(both(1), both(2), both(3)))"
    ),
}
STEPS: dict[str, Any] = {
    "chain": [{"toolId": "ledger:add", "args": {"n": n}} for n in range(1, 7)],
    "items": [
        {"toolId": "ledger:add", "args": {"n": 1}},
        {
            "toolId": "ledger:add",
            "forEach": [2, 3, 4, 5, 6],
            "args": {"n": {"$ref": "item"}},
            "maxConcurrency": 1,
        },
    ],
}


def die() -> NoReturn:
    """End as by a power switch."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def arm(point: str) -> None:
    """Have this process killed once the fourth call is written down, or before or after an answer is."""
    intend, keep = sqlite._write_intent, RunJournal._schedule_answer
    counts = {"intend": 0, "keep": 0}

    def intending(*args: Any) -> bool:
        counts["intend"] += 1
        is_written = intend(*args)
        if point == "intent" and counts["intend"] == 4:
            die()
        return is_written

    def keeping(self: RunJournal, *args: Any) -> None:
        counts["keep"] += 1
        if point == "answer" and counts["keep"] == 4:
            die()
        keep(self, *args)
        if point == "result" and counts["keep"] == 3:
            for key, outcome in self._unwritten.items():
                self._store.answer(self.lease, key, self._seal(f"answer:{key}", _to_json_bytes(outcome)))
            die()

    sqlite._write_intent, RunJournal._schedule_answer = intending, keeping  # type: ignore[method-assign,assignment]


def make_crib(ledger: Path, point: str, *, idempotent: bool) -> Crib:
    """Return a crib with one tool, which adds a line to a file each time that it runs."""
    crib = Crib()
    hints = {"idempotentHint": True} if idempotent else {}

    @crib.add(namespace="ledger", annotations=hints)
    async def add(n: int, note: str = "") -> int:
        """Write a number down, and return it."""
        if point == "call" and n == 4:
            die()
        with ledger.open("a", encoding="utf-8") as file:
            file.write(f"{n} {note}\n")
        return n

    return crib


async def main() -> None:
    """Run the task that the command line describes, and print its result as JSON."""
    options = json.loads(sys.argv[1])
    point, kind = options.get("point", ""), options["kind"]
    arm(point)
    crib = make_crib(Path(options["ledger"]), point, idempotent=options.get("idempotent", False))
    async with crib:
        try:
            if options.get("resume"):
                [run] = [run for run in await crib.runs() if run.state == "suspended"]
                result: Any = await crib.resume(run.id, **options["resume"])
            elif kind in CODE:
                result = await crib.execute(CODE[kind], durable=True)
            else:
                result = await crib.run_chain(STEPS[kind], durable=True)
        except ToolcribError as error:
            calls = dict(getattr(error, "calls", {}))
            sys.stdout.write(
                json.dumps({"error": type(error).__name__, "message": str(error), "calls": calls})
            )
            return
    sys.stdout.write(json.dumps(result.to_json()))


if __name__ == "__main__":
    anyio.run(main)

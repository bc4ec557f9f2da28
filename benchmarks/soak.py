"""A gateway under half an hour of calls, floods, kills, reloads and cancellations, measured from outside.

`--minutes N` says for how long; `--write` puts the picture and the table into the documentation. The status
is 1 where a call failed that should not have, or where memory, descriptors or children grew in the last half.
"""

import argparse
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass, fields
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event, Thread
from typing import Any

import matplotlib as mpl
from gateway_targets import LAUNCH, ROOT, SUPPORT
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from search_plot import OURS, SETTINGS, THEIRS, save

TRAFFIC = Path(__file__).with_name("soak_traffic.py")
SCRIPTED = ROOT / "tests" / "execution" / "mcp" / "scripted.py"
PAGE = ROOT / "docs" / "testing.md"
PICTURE = ROOT / "docs" / "images" / "soak.svg"
BEGIN = "<!-- made by make soak -->\n"
END = "<!-- the end of it -->"
DICE = random.Random()  # noqa: S311 - nothing is secret
EVERY = 2.0
"""Seconds between two samples."""
PROBE = 0.1
"""Seconds between two questions for its health."""
MALFORMED = {"notify": "notifications/message", "params": {"level": 7}}
ANSWER = {"result": {"content": [{"type": "text", "text": "done"}]}}
BOUNDS = {"memory": (1.1, 20), "descriptors": (1.1, 20), "children": (1.0, 3), "threads": (1.0, 10)}
"""Allowed growth between the first and the last third of the last half: a factor, and a number."""
SETTINGS_OF_GATEWAY = {
    "gateway": {"sessions": 64, "session_timeout": 60},
    "timeout": 600,  # nothing that is well may fail on a machine that is busy
    "code": {"timeout": 600},
}
STEADY = ["calm_stdio", "calm_stdio_old", "calm_http", "calm_http_old", "calm_sse"]
"""The servers of a toolset that is always there."""


@dataclass(frozen=True)
class Sample:
    """Measurements of the gateway's process at one moment."""

    at: float
    """Minutes since the start."""
    memory: float
    """MB."""
    descriptors: int
    children: int
    zombies: int
    threads: int
    pause: float
    """Milliseconds that the slowest question for its health took since the sample before."""


@dataclass(frozen=True)
class Result:
    """Everything that is known of a run."""

    samples: tuple[Sample, ...]
    outcomes: dict[str, int]
    """Counts of the clients' actions by outcome."""
    disturbances: dict[str, int]
    failed: int
    """Calls that should have succeeded, or have failed otherwise."""
    shown: tuple[str, ...]
    """The first of them."""
    log: str
    exit_code: int
    survivors: int
    """Processes that it had started and that ran on after its end."""
    is_ready: bool

    def ends(self, name: str) -> tuple[float, float]:
        """Return the medians of something in the first and in the last third of the last half."""
        values = [getattr(each, name) for each in self.samples[len(self.samples) // 2 :]]
        third = max(1, len(values) // 3)
        return statistics.median(values[:third]), statistics.median(values[-third:])


def faults(result: Result) -> list[str]:
    """Return the faults of a run; none depends on the speed of the machine."""
    found = []
    for name, (factor, more) in BOUNDS.items():
        first, last = result.ends(name)
        if last > factor * first + more:
            found.append(f"{name} grew from {first:.0f} to {last:.0f} in the last half")
    if min(result.ends("zombies")):
        found.append("children are left as zombies")
    if result.failed:
        found.append(f"{result.failed} calls did not end as they should: " + "\n  ".join(result.shown))
    if "Traceback" in result.log:
        found.append("the log has a traceback: " + result.log[result.log.index("Traceback") :][:3000])
    if not result.is_ready:
        found.append("it is not ready at the end")
    if result.exit_code or result.survivors:
        found.append(f"it ended with {result.exit_code}, and {result.survivors} processes ran on")
    return found


class Probe(Thread):
    """Asks a gateway for its health all the time, and keeps how long the slowest answer took."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port, self._slowest, self.over = port, 0.0, Event()
        self._asked: float | None = None

    def run(self) -> None:
        """Ask until it is over."""
        while not self.over.wait(PROBE):
            connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
            self._asked = time.perf_counter()
            with suppress(OSError, HTTPException):
                connection.request("GET", "/health")
                connection.getresponse().read()
            self._slowest = max(self._slowest, time.perf_counter() - self._asked)
            self._asked = None
            connection.close()

    def take(self) -> float:
        """Return the milliseconds of the slowest since the last time, or of the one that is under way."""
        asked, slowest = self._asked, self._slowest
        self._slowest = 0.0
        return 1000 * max(slowest, 0.0 if asked is None else time.perf_counter() - asked)


class Administrator(Thread):
    """Kills servers and rewrites the configuration, until it is over."""

    def __init__(self, served: Any, servers: dict[str, Any], web: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self._served, self._servers, self._web = served, servers, web
        self.over, self.counts = Event(), {"kills": 0, "reloads": 0}

    def run(self) -> None:
        """Do something every second."""
        turn = 0
        while not self.over.wait(1.0):
            turn += 1
            if turn % 2:
                self._reload(turn)
            if not turn % 7:
                self._kill_child()
            if not turn % 11:
                self._kill_web()
        configure(self._served.place, self._servers)

    def _reload(self, turn: int) -> None:
        extra = {"passing": LAUNCH["tiny"]()} if turn & 8 else {}
        sets = {f"set_{turn % 3}": {"namespaces": ["calm_stdio", f"hit_{turn % 5}"]}}
        configure(self._served.place, self._servers | extra, sets, broken=turn % 15 == 0)
        self.counts["reloads"] += 1

    def _kill_child(self) -> None:
        for pid in LAUNCH["children"](self._served.pid):
            with suppress(OSError):
                if "--pages" in Path(f"/proc/{pid}/cmdline").read_text():
                    os.kill(pid, signal.SIGKILL)
                    self.counts["kills"] += 1

    def _kill_web(self) -> None:
        server = DICE.choice(list(self._web.values()))
        server.kill()
        self.over.wait(DICE.uniform(0, 2))
        server.start()
        self.counts["kills"] += 1


def configure(
    place: Any, servers: dict[str, Any], toolsets: dict[str, Any] | None = None, *, broken: bool = False
) -> None:
    """Replace the configuration, as editors do."""
    sets = {"steady": {"namespaces": STEADY}, **(toolsets or {})}
    final = place.config
    place.config = final.with_suffix(".new")
    place.configure(servers, toolsets=sets, **SETTINGS_OF_GATEWAY)
    if broken:
        place.config.write_text("[toolsets")
    place.config.replace(final)
    place.config = final


def sample(pid: int, minutes: float, pause: float) -> Sample:
    """Look at a process from outside."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    children = LAUNCH["children"](pid)
    alive = sum(map(LAUNCH["alive"], children))
    return Sample(
        at=minutes,
        memory=int(status["VmRSS"].split()[0]) / 1024,
        descriptors=sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
        children=alive,
        zombies=len(children) - alive,
        threads=int(status["Threads"]),
        pause=pause,
    )


def soak(folder: Path, minutes: float) -> Result:
    """Run a gateway under load for so many minutes."""
    with ExitStack() as stack:
        flags = {
            "calm_http": (),
            "calm_http_old": ("--handshake",),
            "hit_http": (),
            "hit_http_old": ("--handshake",),
        }
        web = {name: stack.enter_context(LAUNCH["HttpServer"](*each)) for name, each in flags.items()}
        web["calm_sse"] = stack.enter_context(LAUNCH["HttpServer"](transport="sse"))
        web["storm_http"] = stack.enter_context(LAUNCH["HttpServer"]())
        faulty = LAUNCH["faulty"]
        script = {"calls": {"flood": [*[MALFORMED] * 300, ANSWER]}}
        args = ["-S", "-I", str(SCRIPTED), json.dumps(script)]
        servers = {name: server.config for name, server in web.items()} | {
            "calm_stdio": faulty(),
            "calm_stdio_old": faulty("--handshake"),
            "hit_stdio": faulty("--pages", "20"),
            "hit_stdio_old": faulty("--handshake", "--pages", "20"),
            "storm_stdio": faulty("--handshake"),
            "flood": {"command": sys.executable, "args": args},
        }
        place = SUPPORT["Place"](folder, servers)
        configure(place, servers)
        served = SUPPORT["Served"](place)
        with served:
            hit = {name: server for name, server in web.items() if name.startswith("hit")}
            return measure(served, Administrator(served, servers, hit), minutes)


def measure(served: Any, administrator: Administrator, minutes: float) -> Result:
    """Look at a gateway while clients keep it busy, then stop it."""
    command = [sys.executable, str(TRAFFIC), served.url, str(60 * minutes)]
    probe, samples = Probe(served.port), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as traffic:
        assert traffic.stdout is not None
        traffic.stdout.readline()
        begun = time.monotonic()
        probe.start()
        administrator.start()
        while (gone := (time.monotonic() - begun) / 60) < minutes and traffic.poll() is None:
            try:
                samples.append(sample(served.pid, gone, probe.take()))
            except (OSError, KeyError):  # a zombie has no memory
                traffic.kill()
                raise SystemExit(f"the gateway died: {served.log.read_text()[-3000:]}") from None
            show(samples[-1])
            time.sleep(EVERY)
        for thread in (administrator, probe):
            thread.over.set()
            thread.join()
        text = traffic.stdout.read()
    found = json.loads(text) if text else {"outcomes": {}, "failed": 1, "shown": ["the clients broke off"]}
    is_ready = served.get("/ready") is not None
    children = LAUNCH["children"](served.pid)
    exit_code = served.stop()
    return Result(
        samples=tuple(samples),
        outcomes=dict(sorted(found["outcomes"].items())),
        disturbances=administrator.counts,
        failed=found["failed"],
        shown=tuple(found["shown"]),
        log=served.log.read_text(errors="replace"),
        exit_code=exit_code,
        survivors=sum(map(LAUNCH["alive"], children)),
        is_ready=is_ready,
    )


def show(each: Sample) -> None:
    """Print a sample as progress."""
    names = [field.name for field in fields(Sample)]
    print(
        " ".join(f"{name} {value:.1f}" for name, value in zip(names, astuple(each), strict=True)),
        file=sys.stderr,
    )


def table(result: Result) -> str:
    """Return the table of a run for the documentation."""
    minutes = round(result.samples[-1].at)
    rows = [("", "start of the second half", "end", "highest"), ("---", "--:", "--:", "--:")]
    for name in ("memory", "descriptors", "children", "threads", "zombies"):
        values = (*result.ends(name), max(getattr(each, name) for each in result.samples))
        rows.append((name, *(f"{value:.0f}{' MB' * (name == 'memory')}" for value in values)))
    pauses = [each.pause for each in result.samples]
    done, (kills, reloads) = sum(result.outcomes.values()), result.disturbances.values()
    machine = f"{os.cpu_count()} cores ({platform.machine()}), load {os.getloadavg()[0]:.0f}"
    sentences = (
        f"{minutes} minutes: {done:,} client actions, {kills} servers killed, {reloads} reloads.",
        f"Calls that did not end as they should: {result.failed}.",
        f"The slowest response from `/health`, polled ten times a second, took {max(pauses):.0f} ms;",
        f"the slowest in each {EVERY:g} s took a median of {statistics.median(pauses):.0f} ms.",
        f"The log is {len(result.log) / 1024:.0f} KiB long.",
        f"Python {platform.python_version()}, {machine}.",
    )
    text = textwrap.fill(" ".join(sentences), 120)
    picture = "![Memory, descriptors, children, threads and pauses over time](images/soak.svg)"
    return "\n".join([picture, "", text, "", *(f"| {' | '.join(row)} |" for row in rows), ""])


def draw(samples: tuple[Sample, ...], file: Path) -> None:
    """Write the picture of a run."""
    times = [each.at for each in samples]
    panels = (("memory, MB", ("memory",)), ("descriptors", ("descriptors",)))
    panels += (("children, threads", ("children", "threads")), ("longest pause, ms", ("pause",)))
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(8, 6), layout="constrained")
        FigureCanvasSVG(figure)
        for place, (title, names) in enumerate(panels):
            axes = figure.add_subplot(len(panels), 1, place + 1)
            for name, colour in zip(names, (OURS, THEIRS), strict=False):
                axes.plot(times, [getattr(each, name) for each in samples], color=colour, linewidth=1)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(title)
            axes.grid(visible=True, color="#88888844", linewidth=0.6)
            axes.patch.set_alpha(0)
        axes.set_xlabel("minutes")
        save(figure, file)


def main() -> int:
    """Run, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="for how long")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = soak(Path(folder), wanted.minutes)
    text = table(result)
    print(json.dumps(result.outcomes, indent=1), text, sep="\n")
    if wanted.write:
        draw(result.samples, PICTURE)
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")
    found = faults(result)
    for each in found:
        print(f"wrong: {each}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

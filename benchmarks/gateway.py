"""Measures the overhead of a gateway: ours beside fastmcp's proxy, npm's mcp-proxy and supergateway.

Everything runs in processes of its own on this machine, and takes turns. `--quick` measures less, `--faults`
adds the times of tests/gateway/test_gateway_faults.py, and `--write` puts the tables into
docs/gateway-measurements.md.
"""

import argparse
import logging
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import warnings
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree as ET

import anyio
from gateway_load import CROWDS, Measured, contest, say
from gateway_start import Started, starts
from gateway_targets import ROOT, RULES, targets

PAGE = ROOT / "docs" / "gateway-measurements.md"
FAULTS = ROOT / "tests" / "gateway" / "test_gateway_faults.py"
ERAS = {
    "handshake": "Clients of the handshake era (2025-11-25)",
    "stateless": "Clients of the stateless era (2026-07-28)",
}
BARS = {
    f"toolcrib {face} → {kind}": bar
    for face in ("all", "meta")
    for kind, bar in (("http", 2.0), ("stdio", 1.3))
}
GUARDED_BAR = 1.1
"""The allowed ratio of a call with a login, rules and an audit to one without."""
CPU_BAR = 3.0
"""Milliseconds of CPU that a call may take in our own process."""
FIRST_LIST = 0.1
SERVERS = 50

INTRO = """\
# Gateway measurements

<!-- Made by `.venv/bin/python benchmarks/gateway.py --faults --write`; do not edit it by hand. -->
"""
MEANING = """\
One tool, `add`, on a server made with the MCP SDK. `direct` calls it over HTTP; the others call it through a
gateway that reaches it over HTTP or stdio: ours with `expose = "all"` as the tool itself,
and with `expose = "meta"` through `run_tool`. The client is the SDK's, over HTTP.
The contenders take turns call by call, in random order, and a ratio is relative to the direct
calls of the same round: the median of {rounds} rounds of {calls} calls each, with the
interquartile range. A gateway to an HTTP server means two hops; one to a stdio server avoids the
server's HTTP, which is most of the cost of a direct call. CPU and memory are those of the gateway's own
process, and in the row `direct` the server's. CPU is given for back-to-back calls and for interleaved
calls, with cold caches and background work between them; for the latter the target is {cpu_bar:g} ms for
each of our gateways. Calls per second are limited by the single process that runs all clients.
"""
GUARDS = """\
The same gateway with the JWT of a login, {rules} rules, of which the last allows the call, and an audit log
whose lines are chained and signed. Latencies with and without them are from the same rounds.
"""


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    rule = ("---", *["--:"] * (len(head) - 1))
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def load_table(title: str, found: list[Measured], *, crowds: bool) -> str:
    """Return the table of the cost of calls."""
    head = ("", "p50 ms", "p95 ms", "ratio to direct", "target", "CPU ms interleaved", "back to back", "MB")
    if crowds:
        head = (*head, *(f"calls/s, {crowd} client{'s' * (crowd > 1)}" for crowd in CROWDS))
    rows = [row(each, found[0], crowds=crowds) for each in found]
    return f"## {title}\n\n{table(head, rows)}"


def row(each: Measured, direct: Measured, *, crowds: bool) -> tuple[str, ...]:
    """Return the row of one contender."""
    low, middle, high = statistics.quantiles(each.ratios(direct), n=4)
    bar = BARS.get(each.target.name)
    cells = (
        each.target.name,
        f"{each.percentile(50):.1f}",
        f"{each.percentile(95):.1f}",
        "1" if each is direct else f"{middle:.2f} ({low:.2f}-{high:.2f})",
        f"at most {bar}" if bar else "",
        f"{1000 * each.cpu:.2f}",
        f"{1000 * statistics.median(each.back_to_back):.2f}",
        f"{each.rss:.0f}",
    )
    speeds = (f"{statistics.median(each.speeds[crowd]):.0f}" for crowd in CROWDS) if crowds else ()
    return (*cells, *speeds)


def protection_table(found: dict[str, list[Measured]]) -> str:
    """Return the table of the cost of logins, rules and an audit."""
    head = ("", "p50 ms without", "p50 ms with", "ratio", "target", "CPU ms back to back, without", "with")
    rows = []
    for era, contenders in found.items():
        for each, base in protected_pairs(contenders):
            low, middle, high = statistics.quantiles(each.ratios(base), n=4)
            cells = (f"{base.percentile(50):.1f}", f"{each.percentile(50):.1f}")
            costs = (f"{1000 * statistics.median(one.back_to_back):.2f}" for one in (base, each))
            ratio = f"{middle:.2f} ({low:.2f}-{high:.2f})"
            rows.append((f"{era} clients", *cells, ratio, f"at most {GUARDED_BAR}", *costs))
    return f"## Login, rules and audit log\n\n{GUARDS.format(rules=RULES)}\n{table(head, rows)}"


def protected_pairs(contenders: list[Measured]) -> list[tuple[Measured, Measured]]:
    """Return the contenders that are compared with another of ours, and those."""
    named = {each.target.name: each for each in contenders}
    return [(each, named[each.target.base]) for each in contenders if each.target.base]


def start_table(found: list[Started], count: int) -> str:
    """Return the table of first answers."""
    asked = list(found[0].answers)
    head = ("", "listens after", *(f"first {name}" for name in asked), "servers running by then", "MB")
    rows = []
    for each in found:
        times = (show_time(each.answers[name]) if name in each.answers else "" for name in asked)
        rows.append((each.name, show_time(each.up), *times, str(each.started), f"{each.rss:.0f}"))
    said = (
        "Times since the process was started, with a catalogue stored by an earlier process. The target is "
        f"a first list within {show_time(FIRST_LIST)} of the request. fastmcp has to start every server to "
        "list tools."
    )
    return f"## {count} stdio servers\n\n{said}\n\n{table(head, rows)}"


def show_time(seconds: float) -> str:
    """Return a time for people."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def fault_table() -> str:
    """Return the table of the fault tests' measurements."""
    say("faults")
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:randomly",
            "-ojunit_family=xunit1",
            f"--junitxml={report.name}",
        ]
        run = subprocess.run([*command, str(FAULTS)], cwd=ROOT, capture_output=True, text=True, check=False)
        cases = ET.parse(report.name).iter("testcase")  # noqa: S314 - pytest wrote it
        rows = [
            (str(each.get("name")), str(each.get("value")))
            for case in cases
            for each in case.iter("property")
        ]
    if run.returncode:
        raise SystemExit(run.stdout[-3000:])
    return f"## Faults\n\n{table(('fault, and what clients see', 'measured'), sorted(set(rows)))}"


def verdicts(found: dict[str, list[Measured]], first: Started) -> list[str]:
    """Return the bars that were missed."""
    missed = []
    for era, contenders in found.items():
        for each in contenders:
            bar = BARS.get(each.target.name)
            ratio = statistics.median(each.ratios(contenders[0]))
            if bar is not None and ratio > bar:
                missed.append(f"{each.target.name}, {era} era: {ratio:.2f}, at most {bar}")
            cpu = 1000 * each.cpu
            if bar is not None and cpu > CPU_BAR:
                missed.append(f"{each.target.name}, {era} era: {cpu:.2f} ms of CPU, at most {CPU_BAR:g}")
        for each, base in protected_pairs(contenders):
            ratio = statistics.median(each.ratios(base))
            if ratio > GUARDED_BAR:
                missed.append(f"{each.target.name}, {era} era: {ratio:.2f}, at most {GUARDED_BAR}")
    slow = first.answers["all tools listed"]
    return missed + ([f"first list: {slow:.3f} s, at most {FIRST_LIST}"] if slow > FIRST_LIST else [])


def main() -> None:
    """Print the tables, and write them into the page if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls, one client at a time, ten servers")
    parser.add_argument("--faults", action="store_true", help="measure faults as well, as --write does")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    wanted = parser.parse_args()
    logging.disable(logging.WARNING)  # the peers would print every request
    warnings.simplefilter("ignore")
    rounds, calls, count = (5, 10, 10) if wanted.quick else (12, 15, SERVERS)
    crowds = not wanted.quick
    found: dict[str, list[Measured]] = {}
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        contenders = targets(stack, Path(folder))
        for era in ERAS:
            run = partial(contest, contenders, era, rounds=rounds, calls=calls, crowds=crowds)
            found[era] = anyio.run(run)
    with tempfile.TemporaryDirectory() as folder:
        started = starts(Path(folder), count)
    parts = [INTRO.rstrip(), MEANING.format(rounds=rounds, calls=calls, cpu_bar=CPU_BAR).rstrip(), machine()]
    parts += [load_table(ERAS[era], each, crowds=crowds) for era, each in found.items()]
    parts.append(protection_table(found))
    parts.append(start_table(started, count))
    parts += [fault_table()] if wanted.faults or wanted.write else []
    page = "\n\n".join(parts) + "\n"
    print(page)
    for missed in verdicts(found, started[0]):
        say(f"missed: {missed}")
    if wanted.write:
        PAGE.write_text(page, encoding="utf-8")
        say(f"wrote {PAGE}")


def machine() -> str:
    """Return the machine and the versions of the measurement."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("mcp", "fastmcp", "anyio", "uvicorn"))
    cores = f"{os.cpu_count()} cores ({platform.machine()})"
    return f"Python {platform.python_version()}, {cores}, load {os.getloadavg()[0]:.1f}, {versions}."


if __name__ == "__main__":
    main()

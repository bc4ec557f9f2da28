"""A gateway without calls."""

import time
from http.client import HTTPConnection
from pathlib import Path

from gateway.support import Place, Served
from waiting import wait_until

SECONDS = 2.0
WAKES = 5


def wakes(pid: int) -> float:
    """Return how often a second the main thread of a process is woken."""

    def counted() -> int:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    before, begun = counted(), time.monotonic()
    time.sleep(SECONDS)
    return (counted() - before) / (time.monotonic() - begun)


def date(port: int) -> str | None:
    connection = HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().getheader("date")
    finally:
        connection.close()


def test_idle_gateway_sleeps_and_responses_have_the_date(tmp_path: Path) -> None:
    with Served(Place(tmp_path, {})) as gateway:
        first = date(gateway.port)
        wait_until(lambda: wakes(gateway.pid) < WAKES, "it is woken less than five times a second")
        wait_until(lambda: date(gateway.port) != first, "its answers have another date")

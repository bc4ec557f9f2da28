"""Every attack on every backend: it ends as it must, the host does not notice, and the next run works."""

import gc
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import anyio
import pytest
from ears import Ears
from runtime.attacks import ATTACKS, Attack, unsupported
from runtime.backends import BACKENDS, HEAVY, NEEDS, Benches, is_tried
from runtime.workbench import SMALL, Bench, Ran, descendants, descriptors, resident
from servers.launch import python
from waiting import PATIENCE, until

from toolcrib.errors import CodeError, LimitExceededError, SandboxViolationError, ToolcribError

CANARY = "canary-9c1f7e55"
pytestmark = pytest.mark.filterwarnings("ignore:code runs without a sandbox")
COMPUTING = 0.5
"""Seconds that code may compute for which must be stopped for that, or may be."""
CASES = [(kind, attack) for attack in ATTACKS for kind in attack.expected]
SAMPLE = {(kind, attack.group): attack for kind, attack in reversed(CASES)}
"""On each backend, the first attack of each group: the others are proofs."""
GROWTH = 96 << 20
"""Bytes by which all guests together may grow beyond their limit."""
HOST_GROWTH = 192 << 20
"""Bytes by which the host may grow: unread answers, up to half of a guest's memory, and the results of 64 calls
in flight."""
SPARES = 96 << 20
"""Bytes of fresh interpreters that begin meanwhile, for the runs to come."""
KERNELS = {"gvisor": 320 << 20, "wasm": 128 << 20}
"""Bytes that kernels or engines of their own take, that of the guest and that of the next one."""


@dataclass
class Watch:
    """Samples how much memory the guests and the host take while an attack runs."""

    guests: int = 0
    host: int = 0

    async def __call__(self) -> None:
        while True:
            self.guests = max(self.guests, resident(*guest_pids()))
            self.host = max(self.host, resident(os.getpid()))
            await anyio.sleep(0.15)


def guest_pids() -> list[int]:
    """Return the descendants, without children between fork and exec: those still share this process's memory."""
    own = Path("/proc/self/cmdline").read_bytes()
    found = []
    for pid in descendants():
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes() != own:
                found.append(pid)
    return found


@pytest.fixture(scope="module")
def ears(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ears]:
    found = Ears(tmp_path_factory.mktemp("ears"))
    found.open()
    yield found
    found.close()


@pytest.fixture(scope="module")
def places(ears: Ears, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the values of the placeholders in the code of attacks."""
    hidden = tmp_path_factory.mktemp("hidden") / "file"
    hidden.write_text(CANARY)
    hidden.chmod(0o644)
    checkout = Path(__file__).parent.parent.parent
    facts = {"CHECKOUT": checkout, "HIDDEN": hidden, "PORT": ears.port, "ABSTRACT": ears.abstract}
    return {**facts, "SOCKET": ears.path, "CANARY": CANARY}


@pytest.fixture(scope="module")
async def benches() -> AsyncIterator[Benches]:
    os.environ["TOOLCRIB_CANARY"] = CANARY
    async with AsyncExitStack() as stack:
        yield Benches(stack)
    del os.environ["TOOLCRIB_CANARY"]


async def ended(bench: Bench, kind: str, attack: Attack, places: dict[str, Any]) -> Ran | ToolcribError:
    """Return how an attack ended; it may take long unless it is to be stopped for that."""
    code = Template(attack.code).safe_substitute(places)

    def may_reach(limit: str) -> bool:
        return attack.expected[kind].fits(LimitExceededError(limit, "it may"))

    limits = {"cpu": COMPUTING if may_reach("cpu") else PATIENCE, **attack.limits}
    timeout = attack.timeout if may_reach("timeout") else PATIENCE
    since = None if attack.hangs is None else lambda _: attack.hangs in bench.shelf.begun
    try:
        return await bench.run(code, timeout=timeout, since=since, **limits)
    except (CodeError, LimitExceededError, SandboxViolationError) as error:
        return error


def told(end: Ran | ToolcribError) -> str:
    """Return everything that came out."""
    ran = end if isinstance(end, Ran) else getattr(end, "result", None)
    return f"{end!r} {end} {getattr(end, 'traceback', '')} {ran!r}"


def case(kind: str, attack: Attack) -> Any:
    sampled = kind not in HEAVY and SAMPLE[kind, attack.group] is attack
    name = f"{kind}-{attack.group}-{attack.name}"
    return pytest.param(kind, attack, marks=() if sampled else pytest.mark.proof, id=name)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "attack"), [case(*each) for each in CASES if is_tried(each[0], each[1].name)]
)
async def test_attack_has_its_expected_end_and_the_next_run_works(
    benches: Benches,
    kind: str,
    attack: Attack,
    ears: Ears,
    places: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    bench = await benches.get(kind, request)
    bench.shelf.meetings.clear()
    bench.shelf.begun.clear()
    watch = Watch()
    await benches.settle()
    if attack.group in {"memory", "output", "tools", "frames"}:
        gc.collect()
    host, guests = resident(os.getpid()), resident(*guest_pids())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        end = await ended(bench, kind, attack, places)
        tasks.cancel_scope.cancel()
    said = told(end)
    assert attack.expected[kind].fits(end), f"{attack.expected[kind].said} expected, not {said[:3000]}"
    assert CANARY not in said
    assert isinstance(end, Ran) or len(str(end)) < 20_000
    assert ears.heard() == []
    if attack.calls is not None and attack.expected[kind] is not unsupported:
        seen = len((end if isinstance(end, Ran) else end.result).tool_calls)  # type: ignore[attr-defined]
        assert seen == attack.calls or (isinstance(end, CodeError) and seen < attack.calls)
    assert (await bench.run("__out = await calc.add(a=40, b=2)")).value == 42
    if kind != "unsafe":  # which keeps no limit of memory
        assert watch.guests - guests < SMALL["memory_bytes"] + GROWTH + SPARES + KERNELS.get(kind, 0)
    assert watch.host - host < (HOST_GROWTH if "bomb" not in attack.name else 3 * HOST_GROWTH)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.proof if kind in HEAVY else ()) for kind in BACKENDS]
)
async def test_attacks_leave_nothing_behind(
    benches: Benches, kind: str, places: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(NEEDS.get(kind, "needs_bubblewrap"))
    await benches.close()  # else guests of theirs would begin meanwhile, for runs to come
    async with BACKENDS[kind]() as sandbox:
        await Bench(sandbox).run("__out = 1")  # what a host has once for all is there then
    before, files = set(descendants()), descriptors()

    async with BACKENDS[kind]() as sandbox:
        for (on, group), attack in SAMPLE.items():
            if on == kind and group in {"time", "processes"}:
                await ended(Bench(sandbox), kind, attack, places)
    await until(lambda: set(descendants()) <= before, "no process is left")
    await until(lambda: descriptors() <= files, "no descriptor is left")


@pytest.mark.proof
def test_security_page_lists_the_attacks(root: Path) -> None:
    subprocess.run(python(str(root / "scripts" / "wall_tables.py"), "--check"), check=True)


def test_attack_names_are_unique() -> None:
    names = [(attack.group, attack.name) for attack in ATTACKS]
    assert len(names) == len(set(names))

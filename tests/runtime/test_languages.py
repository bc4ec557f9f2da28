"""Programs as models write them: the backends that run each, and the features that some lack."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from runtime.backends import BACKENDS, HEAVY, Benches, is_tried
from runtime.languages import PROGRAMS, SAMPLE, Program
from runtime.workbench import Shelf
from waiting import PATIENCE

from toolcrib import Crib
from toolcrib.errors import CodeError, SandboxViolationError
from toolcrib.runtime import Limits

pytestmark = pytest.mark.filterwarnings("ignore:code runs without a sandbox")


@pytest.fixture(scope="module")
async def benches() -> AsyncIterator[Benches]:
    async with AsyncExitStack() as stack:
        yield Benches(stack)


def case(program: Program, *kind: str) -> Any:
    """Return a row: Monty, whose language is its own, runs every program; the others, which are Python, in proofs."""
    proof = kind != ("monty",) and (program not in SAMPLE or bool({*HEAVY, "process"}.intersection(kind)))
    name = "-".join((*kind, program.name))
    return pytest.param(*kind, program, marks=pytest.mark.proof if proof else (), id=name)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "program"),
    [case(program, kind) for program in PROGRAMS for kind in BACKENDS if is_tried(kind, program.name)],
)
async def test_program_runs_or_is_refused_with_a_reason(
    benches: Benches, kind: str, program: Program, request: pytest.FixtureRequest
) -> None:
    verdict, bench = program.verdict(kind), await benches.get(kind, request)
    if verdict == "runs":
        assert (await bench.run(program.code)).value == program.value
        return
    if verdict == "crashes":
        with pytest.raises(SandboxViolationError):
            await bench.run(program.code)
        return
    with pytest.raises(CodeError) as caught:
        await bench.run(program.code)
    assert caught.value.unsupported
    assert caught.value.reason


@pytest.fixture(scope="module")
async def crib(needs_bubblewrap: None) -> AsyncIterator[Crib]:  # noqa: ARG001 - not without
    async with Shelf().crib as crib:
        yield crib


@pytest.mark.anyio
@pytest.mark.parametrize("program", [case(program) for program in PROGRAMS])
async def test_language_fallback_runs_every_program(crib: Crib, program: Program) -> None:
    limits = Limits(cpu=PATIENCE)
    result = await crib.execute(program.code, language_fallback=True, timeout=PATIENCE, limits=limits)
    assert result.value == program.value
    assert result.backend.kind == ("monty" if program.monty == "runs" else "process")
    assert bool(result.notes) is (program.monty != "runs")


def test_program_names_are_unique() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) >= 60

"""Programs as models write them: which run where, and that what one backend lacks another has."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from runtime.backends import BACKENDS
from runtime.languages import PROGRAMS, Program
from runtime.workbench import Bench, Shelf

from toolcrib import Crib
from toolcrib.errors import CodeError

pytestmark = [pytest.mark.filterwarnings("ignore:code runs without a sandbox"), pytest.mark.untraced]
CASES = [(kind, program) for program in PROGRAMS for kind in BACKENDS]


@pytest.fixture(scope="module")
async def benches(needs_bubblewrap: None) -> AsyncIterator[dict[str, Bench]]:  # noqa: ARG001 - not without
    async with AsyncExitStack() as stack:
        yield {kind: Bench(await stack.enter_async_context(make())) for kind, make in BACKENDS.items()}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "program"), CASES, ids=[f"{kind}-{program.name}" for kind, program in CASES]
)
async def test_a_program_runs_or_is_refused_with_a_reason(
    benches: dict[str, Bench], kind: str, program: Program
) -> None:
    verdict = program.verdict(kind)
    if verdict == "runs":
        assert (await benches[kind].run(program.code)).value == program.value
        return
    with pytest.raises(CodeError) as caught:
        await benches[kind].run(program.code)
    assert caught.value.unsupported
    assert caught.value.reason


@pytest.fixture(scope="module")
async def crib(needs_bubblewrap: None) -> AsyncIterator[Crib]:  # noqa: ARG001 - not without
    async with Shelf().crib as crib:
        yield crib


@pytest.mark.anyio
@pytest.mark.parametrize("program", PROGRAMS, ids=[program.name for program in PROGRAMS])
async def test_with_the_fallback_a_program_runs_somewhere(crib: Crib, program: Program) -> None:
    result = await crib.execute(program.code, language_fallback=True)
    assert result.value == program.value
    assert result.backend.kind == ("monty" if program.monty == "runs" else "process")
    assert bool(result.notes) is (program.monty != "runs")


def test_every_program_has_a_name_of_its_own() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) >= 60

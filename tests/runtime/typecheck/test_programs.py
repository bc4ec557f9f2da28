"""Code that works is not refused: each program runs here, and passes the check."""

from collections.abc import AsyncIterator

import pytest
from runtime.typecheck.programs import FULL, PROGRAMS
from runtime.typecheck.shop import ANSWERS, PURCHASES, SHOP_STUBS
from runtime.typecheck.workshop import STUBS, run
from waiting import PATIENCE

from toolcrib.errors import CodeError
from toolcrib.runtime.typecheck import Checker
from toolcrib.runtime.typecheck.diagnostics import Engine

pytestmark = pytest.mark.anyio
ALL = [(name, code, "python") for name, code in (PROGRAMS | FULL).items()]
ALL += [(name, code, "monty") for name, code in PROGRAMS.items()]


@pytest.fixture(scope="module")
async def checker() -> AsyncIterator[Checker]:
    async with Checker(deadline=PATIENCE, patience=PATIENCE) as checker:
        yield checker


@pytest.mark.parametrize(
    ("code", "engine"),
    [pytest.param(code, engine, id=f"{name} ({engine})") for name, code, engine in ALL],
)
async def test_working_program_passes(checker: Checker, code: str, engine: Engine) -> None:
    ran = await run(code)
    assert ran.out is not None or "__out = None" in code or "__out" not in code
    assert await checker.check(code, STUBS, engine=engine) is None


@pytest.mark.parametrize("engine", ["monty", "python"])
@pytest.mark.parametrize("name", PURCHASES)
async def test_program_with_nested_objects_passes(checker: Checker, name: str, engine: Engine) -> None:
    await run(PURCHASES[name], ANSWERS)
    assert await checker.check(PURCHASES[name], SHOP_STUBS, engine=engine) is None


@pytest.mark.parametrize(
    "name", ["enum", "statistics", "create_task", "semaphore", "standard library", "classes"]
)
async def test_missing_monty_feature_is_unsupported(checker: Checker, name: str) -> None:
    with pytest.raises(CodeError) as caught:
        await checker.check(FULL[name], STUBS, engine="monty")
    assert caught.value.unsupported
    assert "the 'monty' sandbox does not support" in caught.value.reason

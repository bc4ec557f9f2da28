"""Errors in code are reported before it runs, with the place and the correction."""

from collections.abc import AsyncIterator

import pytest
from runtime.typecheck.mistakes import MISTAKES
from runtime.typecheck.workshop import STUBS
from waiting import PATIENCE

from toolcrib.errors import CodeError
from toolcrib.runtime.stubs import render
from toolcrib.runtime.typecheck import Checker
from toolcrib.runtime.typecheck.diagnostics import Engine

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def checker() -> AsyncIterator[Checker]:
    async with Checker(deadline=PATIENCE, patience=PATIENCE) as checker:
        yield checker


async def refusal(checker: Checker, code: str, stubs: str = STUBS, engine: Engine = "monty") -> CodeError:
    with pytest.raises(CodeError) as caught:
        await checker.check(code, stubs, engine=engine)
    return caught.value


@pytest.mark.parametrize("engine", ["monty", "python"])
@pytest.mark.parametrize(("code", "said"), MISTAKES, ids=[code for code, _ in MISTAKES])
async def test_mistake_is_reported(checker: Checker, code: str, said: str, engine: Engine) -> None:
    error = await refusal(checker, code, engine=engine)
    assert str(error) == said
    assert not error.unsupported


async def test_all_mistakes_are_reported_with_the_position_of_the_first(checker: Checker) -> None:
    error = await refusal(checker, "x = 1\nawait add(1)\nawait github.fly()\n  \nfoo()")
    assert (
        str(error)
        == "line 2: add needs 'b'\nline 3: 'github' has no tool 'fly'\nline 5: name 'foo' is not defined"
    )
    assert (error.line, error.column) == (2, 7)


async def test_unknown_tool_lists_the_namespace_if_it_is_complete(checker: Checker) -> None:
    members = {"github": ["close", "merge"], "files": [f"tool_{n}" for n in range(28)]}
    with pytest.raises(CodeError) as caught:
        await checker.check(
            "await github.fly()\nawait github.merg()\nawait files.x()", STUBS, engine="monty", members=members
        )
    first, second, third = str(caught.value).split("\n")
    assert first == "line 1: 'github' has no tool 'fly'; there are close, merge"
    assert second == "line 2: 'github' has no tool 'merg'; did you mean 'merge'?"
    assert third.endswith("tool_19 and 8 more")


async def test_at_most_ten_mistakes_are_reported(checker: Checker) -> None:
    error = await refusal(checker, "\n".join(f"nothing_{n}" for n in range(25)))
    assert error.reason.count("\n") == 10
    assert error.reason.endswith("line 10: name 'nothing_9' is not defined\nand 15 more")


async def test_mistake_column_counts_characters(checker: Checker) -> None:
    assert (await refusal(checker, "x = 'äöü€😀'; foo()")).column == 14


async def test_third_party_module_is_missing_without_a_fallback_hint(
    checker: Checker,
) -> None:
    error = await refusal(checker, "import requests")
    assert error.reason == "there is no module 'requests': code has Python's own, and no installed packages"
    assert not error.unsupported


async def test_mistake_beside_a_missing_feature_has_no_fallback_hint(checker: Checker) -> None:
    assert not (await refusal(checker, "import enum\nawait add(1)")).unsupported


async def test_wrong_call_is_found_beside_an_unknown_module(checker: Checker) -> None:
    code = "from enum import Enum\nclass A(Enum):\n    X = 1\nprint(A.X.value)\nawait add(1)"
    assert str(await refusal(checker, code, engine="python")) == "line 5: add needs 'b'"


async def test_except_may_name_exceptions_that_monty_lacks(checker: Checker) -> None:
    code = (
        "import asyncio\ntry:\n    await add(1, 2)\nexcept (ConnectionError, asyncio.TimeoutError):\n    pass"
    )
    await checker.check(code, STUBS, engine="monty")


async def test_annotations_need_no_import_of_typing(checker: Checker) -> None:
    code = "def f(x: List[int]) -> Optional[int]:\n    return None\nf([1])"
    await checker.check(code, STUBS, engine="monty")
    assert (
        str(await refusal(checker, code, engine="python"))
        == "line 1: name 'List' is not defined\nline 1: name 'Optional' is not defined"
    )


async def test_decorated_function_may_take_other_arguments(checker: Checker) -> None:
    code = "import functools\ndef g(f):\n    return functools.partial(f, 1)\n@g\ndef f(a, b):\n    return a\nf(2)"
    await checker.check(code, STUBS, engine="monty")


async def test_untyped_namespace_is_not_checked(checker: Checker) -> None:
    stubs = render({}, names=["github"])
    await checker.check("gh = github\nawait gh.anything(1)\nawait github.other()", stubs, engine="monty")


async def test_code_without_tools_is_checked(checker: Checker) -> None:
    await checker.check("__out = 1", "", engine="monty")
    assert str(await refusal(checker, "__out = one", "")) == "line 1: name 'one' is not defined"


async def test_invalid_stub_does_not_hide_other_mistakes(checker: Checker) -> None:
    await checker.check("__out = 1", "def f(:", engine="monty")
    assert str(await refusal(checker, "f()", "def f(:")) == "line 1: name 'f' is not defined"

"""The engine's wording, one test for each sentence that we rely on."""

import pytest
from runtime.sandboxes.monty.guests import Guests
from waiting import PATIENCE

from toolcrib.errors import CodeError, LimitExceededError

pytestmark = pytest.mark.anyio

LIMITS = {
    "computing": ("while True:\n    pass", "cpu"),
    "computing, caught": ("try:\n    while True:\n        pass\nexcept BaseException:\n    __out = 1", "cpu"),
    "an allocation": ("x = 'a' * 10**9", "memory_bytes"),
    "an allocation, caught": (
        "try:\n    x = 'a' * 10**9\nexcept BaseException:\n    __out = 1",
        "memory_bytes",
    ),
    "a value that does not fit when it is sent": ("await box.echo('x' * 45_000_000)", "memory_bytes"),
    "sleeping": ("import time\ntime.sleep(900)", "timeout"),
    "sleeping asynchronously": ("import asyncio\nawait asyncio.sleep(900)", "timeout"),
    "calling out": (
        "import os\nwhile True:\n    os.getenv('HOME')",
        "max_tool_calls",
    ),
    "what the engine does not interrupt": ("str(7**10**7)", "cpu"),
}

SAID = {
    "cpu": "for more than 0.3 s",
    "memory_bytes": "more than 64 MB",
    "timeout": f"longer than the {PATIENCE:g} s",
    "max_tool_calls": "more than 10,400 times",
}


@pytest.mark.parametrize("name", LIMITS)
async def test_engine_limit_is_reported_as_a_limit_of_the_request(bare: Guests, name: str) -> None:
    code, limit = LIMITS[name]
    with pytest.raises(LimitExceededError) as caught:
        await bare.run(code, cpu=0.3 if limit == "cpu" else PATIENCE)
    assert caught.value.limit == limit
    assert SAID[limit] in str(caught.value)
    assert await bare.run("__out = 'next'") == "next"


@pytest.mark.parametrize(
    ("code", "line", "column", "said"),
    [
        ("__out = (\n", 1, 10, "unexpected EOF while parsing"),
        ("x = 1\n__out = [x,\n2\n\n", 4, 1, "unexpected EOF while parsing"),
        ("if True:\n", 1, 9, "Expected an indented block after `if` statement"),
        ("x = 1\ndef f(:\n    pass", 2, 7, "Expected a parameter or the end of the parameter list"),
        ("class A", 1, 8, "Expected `:`, found newline"),
    ],
    ids=["a bracket", "a list", "a block", "in the middle", "at the end"],
)
async def test_syntax_error_quotes_the_code_as_written(
    bare: Guests, code: str, line: int, column: int, said: str
) -> None:
    with pytest.raises(CodeError) as caught:
        await bare.run(f"print('never')\n{code}" if line > 1 else code)
    error = caught.value
    assert error.reason == f"SyntaxError: {said}"
    assert (error.line, error.column) == (line + (line > 1), column)
    assert f'File "<code>", line {error.line}, in <module>' in error.traceback
    assert bare.output.text("stdout") == ""


@pytest.mark.parametrize(
    "raised",
    [
        "TimeoutError('feed time limit exceeded: 1s > 500ms')",
        "MemoryError('memory limit exceeded: 2 bytes > 1 bytes')",
        "TimeoutError('sleep limit exceeded: 3s > 1s')",
        "RuntimeError('suspension limit 30 exceeded')",
        "NotImplementedError('The monty syntax parser does not yet support love')",
        "NotImplementedError('not yet supported')",
        "NameError(\"name 'compile' is not defined\")",
    ],
)
async def test_exception_of_the_code_is_not_taken_for_a_limit(bare: Guests, raised: str) -> None:
    for code in (f"raise {raised}", f"def f():\n    error = {raised}\n    raise error\nf()"):
        with pytest.raises(CodeError) as caught:
            await bare.run(code)
        assert caught.value.reason.startswith(raised.partition("(")[0])
        assert not caught.value.unsupported


UNSUPPORTED = {
    "inheritance": ("class A:\n    pass\nclass B(A):\n    pass", "class inheritance", 3),
    "generators": ("def f():\n    yield 1", "yield", 2),
    "a module": ("x = 1\nimport statistics", "the module 'statistics'", 2),
    "a module of a package": ("import urllib.parse", "the module 'urllib'", 1),
    "a name of a module": ("from collections import ChainMap", "collections.ChainMap", 1),
    "an attribute of a module": ("import asyncio\nasyncio.create_task", "asyncio.create_task", 2),
    "a builtin": ("bytearray()", "the builtin 'bytearray'", 1),
    "a method": ("'a'.__class__", "str.__class__", 1),
    "a method of an output": ("import sys\nsys.stdout.write('x')", "_io.TextIOWrapper.write", 2),
    "an option": ("import asyncio\nawait asyncio.gather(box.echo(1), return_exceptions=True)", "`return_exceptions`", 2),
    "a method that it would not call": ("class A:\n    def __bool__(self): return False\n__out = bool(A())", "`__bool__`", 2),
    "the first of a generator": ("x = 1\n__out = next((n for n in [1]), None)", "`next` of a generator", 2),
    "a generator that is kept": ("g = (n for n in [1, 2])\n__out = [list(g), list(g)]", "generators that are kept", 1),
    "an iterator": ("it = map(str, [1])\n__out = next(it)", "iterators of this kind", 2),
    "all names of a module": ("from math import *", "Wildcard imports", 1),
    "a callback": ("import re\nre.sub('a', lambda m: 'b', 'a')", "callable replacement", 2),
    "something unfinished": ("raise SystemExit(3)", "Internal error", None),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
async def test_missing_feature_is_named_with_another_sandbox(bare: Guests, name: str) -> None:
    code, what, line = UNSUPPORTED[name]
    with pytest.raises(CodeError) as caught:
        await bare.run(code)
    assert caught.value.unsupported
    assert what in caught.value.reason
    assert "'process' does" in caught.value.reason
    assert caught.value.line == line


@pytest.mark.parametrize(
    "code",
    [
        "import numpy",
        "from collections import Nope",
        "import math\nmath.nope",
        "nope",
        "'a'.nope",
        "class A:\n    pass\nA().nope",
        "eval('del x')",
    ],
)
async def test_name_unknown_to_python_is_a_plain_mistake(bare: Guests, code: str) -> None:
    with pytest.raises(CodeError) as caught:
        await bare.run(code)
    assert not caught.value.unsupported


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("x = 1 + \\", (1, 9)),
        ("y = 1\nx = 'abc", (2, 5)),
        ("if True:", (1, 9)),
        ("x = (1,", (1, 8)),
        ("x = '''abc", (1, 5)),
        ("@foo", (1, 5)),
        ("def f(:", (1, 7)),
        ("  x = 1", (1, 1)),
    ],
)
async def test_incomplete_code_fails_at_its_last_line(
    bare: Guests, code: str, place: tuple[int, int]
) -> None:
    with pytest.raises(CodeError) as caught:
        await bare.run(code)
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.reason.startswith("SyntaxError: ")
    assert "__out" not in str(caught.value) + caught.value.traceback
    assert not caught.value.unsupported


@pytest.mark.parametrize(
    "code", ["", "# nothing", "x = 1 # that", "pass\n\n", "if True:\n    pass\n    # end", "x = 1;"]
)
async def test_code_without_out_has_no_value_however_it_ends(bare: Guests, code: str) -> None:
    assert await bare.run(code) is None


async def test_traceback_shows_only_the_code(bare: Guests) -> None:
    with pytest.raises(CodeError) as caught:
        await bare.run("def f(x):\n    return 1 / x\n\nf(0)")
    assert caught.value.reason == "ZeroDivisionError: division by zero"
    assert (caught.value.line, caught.value.column) == (2, 12)
    assert caught.value.traceback.splitlines() == [
        "Traceback (most recent call last):",
        '  File "<code>", line 4, in <module>',
        "    f(0)",
        '  File "<code>", line 2, in f',
        "    return 1 / x",
        "ZeroDivisionError: division by zero",
    ]


async def test_long_traceback_and_message_are_truncated(bare: Guests) -> None:
    with pytest.raises(CodeError) as deep:
        await bare.run("def f():\n    f()\nf()")
    assert deep.value.reason.startswith("RecursionError")
    assert deep.value.traceback.count("<code>") == 20
    assert " more]" in deep.value.traceback
    with pytest.raises(CodeError) as long:
        await bare.run("raise ValueError('x' * 5_000_000)")
    assert len(long.value.reason) + len(long.value.traceback) < 5000
    assert "characters]" in long.value.reason


async def test_value_that_cannot_be_converted_is_reported(bare: Guests) -> None:
    with pytest.raises(CodeError, match="no luck"):
        await bare.run("def isinstance(*args):\n    raise RuntimeError('no luck')\n__out = {1}")


async def test_tool_with_a_computed_name_has_a_hint(bare: Guests) -> None:
    with pytest.raises(CodeError) as caught:
        await bare.run("x = 1\ngetattr(box, 'or' + 'ders')")
    assert caught.value.reason == (
        "AttributeError: 'ToolNamespace' object has no attribute 'orders'"
        "; write `.orders` after its name, or call run_tool"
    )
    assert caught.value.line == 2
    assert await bare.run("f = getattr(box, 'echo')\n__out = await f(3)") == 3

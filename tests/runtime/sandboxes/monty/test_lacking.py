"""Missing features of the engine, recognised by its messages."""

import sys

import pytest
from effort import at_most
from pydantic_monty import NOT_HANDLED, Monty, MontyConversionError
from runtime.sandboxes.monty.guests import Guests, job_of

from toolcrib.errors import CodeError
from toolcrib.runtime.sandboxes.monty.failures import (
    find_missing_feature,
    find_unsupported,
    is_valid_python,
    read_failure,
)
from toolcrib.runtime.sandboxes.monty.pool import environment


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("AttributeError: module 'math' has no attribute 'tau'", "math.tau"),
        ("AttributeError: module 'os.path' has no attribute 'join'", "os.path.join"),
        ("AttributeError: module 'mine' has no attribute 'x'", None),
        ("ImportError: cannot import name 'x' from 'json.nowhere' (unknown location)", None),
        ("AttributeError: module 'unittest.__main__' has no attribute 'x'", None),
        ("AttributeError: module 'antigravity' has no attribute 'webbrowser'", None),
        ("AttributeError: module 'os.path.' has no attribute 'join'", None),
        ("AttributeError: 'type' object has no attribute '__abstractmethods__'", "type.__abstractmethods__"),
        ("AttributeError: 'str' object has no attribute '__class__'", "str.__class__"),
        ("AttributeError: '_io.TextIOWrapper' object has no attribute 'write'", "_io.TextIOWrapper.write"),
        ("AttributeError: 'Mine' object has no attribute 'x'", None),
        ("AttributeError: 'print' object has no attribute '__name__'", None),
        ("ValueError: something else", None),
    ],
)
def test_missing_feature_is_a_known_name_of_python(said: str, what: str | None) -> None:
    assert find_missing_feature(said) == what


MODULES = [
    "unittest.__main__",
    "antigravity",
    "this",
    "idlelib.idle",
    "turtledemo.__main__",
    "lib2to3.pgen2.driver",
]


@pytest.mark.anyio
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(
    "raised",
    [
        "AttributeError(\"module '{}' has no attribute 'zzz'\")",
        "ImportError(\"cannot import name 'zzz' from '{}' (unknown location)\")",
        "ModuleNotFoundError(\"No module named '{}'\")",
    ],
)
async def test_message_of_the_code_imports_no_module(bare: Guests, module: str, raised: str) -> None:
    before = set(sys.modules)
    for code in (
        "raise (\n {}\n)",
        "x = [{}]\ndef f():\n    raise x[\n0]\nf()",
        "error = {}\nif 1: raise \\\n error",
    ):
        with pytest.raises(CodeError):
            await bare.run(code.format(raised.format(module)))
    assert module not in set(sys.modules) - before


STARTS = (
    "ModuleNotFoundError: No module named '",
    "AttributeError: module '",
    "AttributeError: '",
    "NameError: name '",
    "NotImplementedError: ",
    "x: not yet ",
    "ImportError: cannot import name 'a' from '",
)


def test_long_message_is_compared_in_linear_time() -> None:
    size = 300_000
    with at_most(2.0):
        for start in STARTS:
            for rest in ("a", "not yet ", " ", "."):
                assert find_missing_feature(start + rest * (size // len(rest))) is None
        for part in (" ", "return_exceptions ", "    def ", "    async ", "\n", "def __len__ ", "raise "):
            find_unsupported(part * (size // len(part)))


FINE = {
    "text": "x = 'return_exceptions=True'",
    "a docstring": 'def f():\n    """Gather.\n\n    return_exceptions=True is not to be had.\n    def __len__(self): ...\n    """',
    "a comment": "x = 1  # return_exceptions=True\n    # def __len__(self): 3",
    "a function": "def f():\n    def __len__(self): return 3",
    "a variable": "return_exceptions = 1",
    "wrong code": "gather(return_exceptions=True",
}


@pytest.mark.parametrize("name", FINE)
def test_feature_in_a_string_or_comment_is_not_refused(name: str) -> None:
    assert find_unsupported(FINE[name]) is None


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x = 1 # return_exceptions=\ng(\n  return_exceptions = True)", (3, "`return_exceptions`")),
        ("class A:\n    x = 'def __len__('\n    async def __bool__(self): 3", (3, "classes with `__bool__`")),
        ("class A:\n  def __iadd__(s): 1\nclass B:\n  def __len__(s): 1", (2, "classes with `__iadd__`")),
        ("\n" * 70_000 + "    def __len__(self)", (70_001, "classes with `__len__`")),
    ],
    ids=range(4),
)
def test_unsupported_feature_is_found_before_the_run(code: str, found: tuple[int, str]) -> None:
    assert find_unsupported(code) == found


def test_valid_python_is_recognized() -> None:
    assert is_valid_python("async with a as b:\n    await b")
    assert not is_valid_python("x = (1,")
    assert not is_valid_python("x = '\0'")
    assert not is_valid_python("(" * 5000)
    assert not is_valid_python("#" * 100_000)


def test_other_engine_failures_are_reported_unchanged() -> None:
    with Monty() as engine, engine.checkout() as session, pytest.raises(MontyConversionError) as caught:
        session.feed_run("x", inputs={"x": object()})
    told = read_failure(caught.value, job_of("x"))
    assert isinstance(told, CodeError)
    assert told.line is None


def test_environment_is_empty_and_other_requests_are_not_handled() -> None:
    assert environment(name="os.environ", args=(), kwargs={}, is_async=True) == {}
    assert environment(name="os.getenv", args=("A",)) is None
    assert environment(name="os.getenv", args=("A", "b")) == "b"
    assert environment(name="open", args=("/etc/passwd",)) is NOT_HANDLED

"""What the engine lacks, told from its messages."""

import sys

import pytest
from effort import at_most
from pydantic_monty import NOT_HANDLED, Monty, MontyConversionError
from runtime.sandboxes.monty.guests import Guests, job_of

from toolcrib.errors import CodeError
from toolcrib.runtime import Output
from toolcrib.runtime.sandboxes.monty.failures import failure, foreseen, lacking, lacking_syntax
from toolcrib.runtime.sandboxes.monty.pool import Printed, environment


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
def test_a_message_is_compared_with_what_python_has(said: str, what: str | None) -> None:
    assert lacking(said) == what


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
async def test_nothing_is_loaded_by_the_word_of_the_code(bare: Guests, module: str, raised: str) -> None:
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


def test_a_message_as_long_as_the_code_likes_is_read_in_no_time() -> None:
    size = 300_000
    with at_most(2.0):
        for start in STARTS:
            for rest in ("a", "not yet ", " ", "."):
                assert lacking(start + rest * (size // len(rest))) is None
        for part in (" ", "return_exceptions ", "    def ", "    async ", "\n", "def __len__ ", "raise "):
            foreseen(part * (size // len(part)))


FINE = {
    "text": "x = 'return_exceptions=True'",
    "a docstring": 'def f():\n    """Gather.\n\n    return_exceptions=True is not to be had.\n    def __len__(self): ...\n    """',
    "a comment": "x = 1  # return_exceptions=True\n    # def __len__(self): 3",
    "a function": "def f():\n    def __len__(self): return 3",
    "a variable": "return_exceptions = 1",
    "wrong code": "gather(return_exceptions=True",
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_only_spoken_of_is_not_refused(name: str) -> None:
    assert foreseen(FINE[name]) is None


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
def test_what_the_engine_gets_wrong_is_found_first(code: str, found: tuple[int, str]) -> None:
    assert foreseen(code) == found


def test_code_that_python_reads_is_not_wrong() -> None:
    assert lacking_syntax("async with a as b:\n    await b")
    assert not lacking_syntax("x = (1,")
    assert not lacking_syntax("x = '\0'")
    assert not lacking_syntax("(" * 5000)
    assert not lacking_syntax("#" * 100_000)


def test_other_failures_of_the_engine_are_told_as_they_are() -> None:
    with Monty() as engine, engine.checkout() as session, pytest.raises(MontyConversionError) as caught:
        session.feed_run("x", inputs={"x": object()})
    told = failure(caught.value, job_of("x"))
    assert isinstance(told, CodeError)
    assert told.line is None


def test_the_environment_is_empty_and_nothing_else_is_answered() -> None:
    assert environment(name="os.environ", args=(), kwargs={}, is_async=True) == {}
    assert environment(name="os.getenv", args=("A",)) is None
    assert environment(name="os.getenv", args=("A", "b")) == "b"
    assert environment(name="open", args=("/etc/passwd",)) is NOT_HANDLED


def test_what_is_printed_after_the_end_is_not_kept() -> None:
    output = Output(limit=10)
    printed = Printed(output)
    printed.write("stdout", "a")
    printed.close()
    printed.write("stdout", "b")
    assert output.text("stdout") == "a"

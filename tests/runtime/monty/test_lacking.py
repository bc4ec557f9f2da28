"""What the engine lacks, told from its messages."""

import pytest
from pydantic_monty import NOT_HANDLED, Monty, MontyConversionError

from toolcrib.errors import CodeError
from toolcrib.runtime.monty.failures import failure
from toolcrib.runtime.monty.lacking import lacking, lacking_syntax
from toolcrib.runtime.monty.surroundings import Printed, environment
from toolcrib.runtime.output import Output


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("AttributeError: module 'math' has no attribute 'tau'", "math.tau"),
        ("AttributeError: module 'os.path' has no attribute 'join'", "os.path.join"),
        ("AttributeError: module 'mine' has no attribute 'x'", None),
        ("ImportError: cannot import name 'x' from 'json.nowhere' (unknown location)", None),
        ("AttributeError: 'Mine' object has no attribute 'x'", None),
        ("AttributeError: 'print' object has no attribute '__name__'", None),
        ("ValueError: something else", None),
    ],
)
def test_a_message_is_compared_with_what_python_has(said: str, what: str | None) -> None:
    assert lacking(said) == what


def test_code_that_python_reads_is_not_wrong() -> None:
    assert lacking_syntax("async with a as b:\n    await b")
    assert not lacking_syntax("x = (1,")
    assert not lacking_syntax("x = '\0'")
    assert not lacking_syntax("(" * 5000)
    assert not lacking_syntax("#" * 100_000)


def test_other_failures_of_the_engine_are_told_as_they_are() -> None:
    with Monty() as engine, engine.checkout() as session, pytest.raises(MontyConversionError) as caught:
        session.feed_run("x", inputs={"x": object()})
    told = failure(caught.value, "x")
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

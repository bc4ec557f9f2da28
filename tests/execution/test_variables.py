import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.execution.variables import Expansion, has_variables

ENVIRON = {"A": "1", "EMPTY": "", "_x9": "u", "DOLLAR": "${A}"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${A}", "1"),
        ("x${A}y${A}z", "x1y1z"),
        ("${_x9}", "u"),
        ("${env:A}", "1"),
        ("${env:MISSING:-d}", "d"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("${A:-d}", "1"),
        ("${MISSING:-d}", "d"),
        ("${MISSING:-}", ""),
        ("${MISSING:-a:-b c}", "a:-b c"),
        ("${MISSING:-two\nlines}", "two\nlines"),
        ("$A", "$A"),
        ("$$", "$$"),
        ("$$A", "$$A"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$${open", "${open"),
        ("${DOLLAR}", "${A}"),
        ("a } b", "a } b"),
        ("", ""),
    ],
)
def test_a_text_is_filled_in(text: str, expected: str) -> None:
    fill = Expansion(ENVIRON)
    assert fill.text(text, path="/x") == expected
    assert fill.problems == []


@pytest.mark.parametrize(
    "text", ["${", "${A", "${}", "${1A}", "${A-d}", "${A:=d}", "${input:token}", "${A:-${B}}", "${a b}"]
)
def test_malformed_variable_is_refused(text: str) -> None:
    fill = Expansion(ENVIRON)
    fill.text(text, path="/args/0")
    assert fill.problems[0].path == "/args/0"
    assert "is not a variable; write ${NAME} or ${NAME:-default}" in fill.problems[0].message


def test_every_missing_variable_is_named() -> None:
    fill = Expansion({})
    fill.text("${A}${B}", path="/url")
    fill.text("${C}", path="/env/C")
    assert [(problem.path, problem.message.split("'")[1]) for problem in fill.problems] == [
        ("/url", "A"),
        ("/url", "B"),
        ("/env/C", "C"),
    ]


@given(st.text(alphabet="ab$ {}:-"))
def test_filling_in_never_fails_and_texts_without_variables_stay(text: str) -> None:
    filled = Expansion({"a": "1"}).text(text, path="")
    assert has_variables(text) or filled == text

"""Output on a terminal, for people, and in a pipe, for programs."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import pytest

from toolcrib.cli import screen


class Terminal(io.StringIO):
    """A terminal that records its output."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@contextmanager
def terminal() -> Iterator[Terminal]:
    shown = Terminal()
    with redirect_stdout(shown), redirect_stderr(shown):
        yield shown


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")


ROWS = [
    ("math:evaluate", "Work out an arithmetic expression, such as a sum, a product or a percentage."),
    ("a", "b"),
]


def test_a_table_on_a_terminal_is_as_wide_as_it_is() -> None:
    with terminal() as seen:
        screen.show_table(("id", "description"), ROWS, styles=("cyan",))
    shown = seen.getvalue()
    assert "\x1b[" in shown
    assert all(len(line) <= 60 + 40 for line in shown.splitlines())
    assert len(shown.splitlines()) == 4


def test_a_table_has_no_colours_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal() as seen:
        screen.show_table(("id", "description"), ROWS, styles=("cyan",))
    assert "\x1b[3" not in seen.getvalue()


def test_a_table_in_a_pipe_has_a_row_to_a_line(capsys: Any) -> None:
    screen.show_table(("id", "what"), [("a\tb", "one\ntwo"), ("c", "")])
    assert capsys.readouterr().out == "ID   WHAT\na b  one two\nc\n"


def test_output_for_a_terminal_has_no_control_characters() -> None:
    with terminal() as seen:
        screen.show_text("\x1b[2Jgone")
    assert seen.getvalue() == "\ufffd[2Jgone\n"


def test_output_into_a_pipe_is_unchanged(capsys: Any) -> None:
    screen.show_text("\x1b[2Jkept\n")
    assert capsys.readouterr().out == "\x1b[2Jkept\n"


def test_json_says_the_same_and_cannot_steer_anything(capsys: Any) -> None:
    value = {"a": "é \x1b\x9b\u202e\U000e0041"}
    screen.show_json(value)
    shown = capsys.readouterr().out
    assert "é" in shown
    assert not set("\x1b\x9b\u202e\U000e0041") & set(shown)
    assert json.loads(shown) == value


def test_json_is_written_where_there_is_only_ascii() -> None:
    written = io.BytesIO()
    with io.TextIOWrapper(written, encoding="ascii") as stream:
        with redirect_stdout(stream):
            screen.show_json(["é"])
        stream.flush()
        assert json.loads(written.getvalue()) == ["é"]


def test_progress_is_shown_on_a_terminal() -> None:
    with terminal() as seen:
        with screen.progress("copying") as advance:
            advance(1, 2, "half")
            advance(2, None, None)
        with screen.waiting("thinking"):
            pass
    assert "copying" in seen.getvalue()
    assert "thinking" in seen.getvalue()


def test_progress_is_not_shown_in_a_pipe(capsys: Any) -> None:
    with screen.progress("copying") as advance:
        advance(1, 2, "half")
    with screen.waiting("thinking"):
        pass
    assert capsys.readouterr() == ("", "")

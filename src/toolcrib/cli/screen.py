"""Terminal output: tables and text for a terminal, a pipe or a program."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.resident.terminal import REMOTE
from toolcrib.errors.text import truncate

if TYPE_CHECKING:
    from rich.console import Console

_BAR = 10
_ECHOED = 80
Advance = Callable[[float, float | None, str | None], None]


def is_terminal() -> bool:
    """Return whether standard output goes to a person."""
    return sys.stdout.isatty()


def clean(text: str) -> str:
    r"""Return text with replacements for the characters that control a terminal.

    >>> clean("red \x1b[31malert")
    'red �[31malert'
    """
    return _replace_hidden(text, lambda _: "\ufffd")


def _replace_hidden(text: str, instead: Callable[[re.Match[str]], str]) -> str:
    """Replace the hidden characters of a text, which a foreign tool may contain."""
    if text.isascii() and text.isprintable():
        return text
    from toolcrib.model.display import HIDDEN  # noqa: PLC0415 - not needed to ask for help

    return HIDDEN.sub(instead, text)


def shorten_input(text: str) -> str:
    """Return the beginning of user input that a message repeats."""
    return truncate(text, _ECHOED, "...")


def note(text: str) -> None:
    """Print a note on standard error, beside the result."""
    click.echo(f"{click.style('note:', fg='yellow', bold=True)} {clean(text)}", err=True)


def show_json(value: Any) -> None:
    """Write one JSON document to standard output."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    click.echo(_replace_hidden(text, lambda found: _escape_hidden(found.group())))


def _escape_hidden(character: str) -> str:
    return character if character in "\r\n" else json.dumps(character)[1:-1]


def heading(text: str, *, before: int = 0) -> None:
    """Write a heading, after some empty lines."""
    click.echo("\n" * before + click.style(clean(text), bold=True))


def show_text(text: str) -> None:
    """Write foreign text to standard output: unchanged to a file or a pipe, harmless to a terminal."""
    shown = clean(text) if is_terminal() else text
    sys.stdout.write(shown if shown.endswith("\n") else f"{shown}\n")


def console(*, stderr: bool = False) -> "Console":
    """Return the rich console for colours and tables."""
    from rich.console import Console  # noqa: PLC0415 - a tenth of a second that pipes can do without

    settings: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    terminal = REMOTE.get()
    if terminal is None:
        return Console(stderr=stderr, **settings)
    width, height = (terminal.size if "COLUMNS" not in terminal.environ else None) or (None, None)
    file = terminal.err if stderr else terminal.out
    return Console(file=file, width=width, height=height, _environ=terminal.environ, **settings)


def bar(share: float) -> str:
    """Return a share of one as a bar of characters.

    >>> bar(0.62)
    '██████░░░░ 0.62'
    """
    full = round(share * _BAR)
    return f"{'█' * full}{'░' * (_BAR - full)} {share:.2f}"


def show_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, styles: Sequence[str] = ()) -> None:
    """Write a table: as wide as the terminal, or as plain aligned text with one line for each row.

    `styles` are how each column looks on a terminal; the last is cut rather than the others.
    """
    cells = [[_indent(row[0]) + _plain_row(row[0]), *map(_plain_row, row[1:])] for row in rows]
    if is_terminal():
        _rich_table(headers, cells, styles)
        return
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    for row in [[header.upper() for header in headers], *cells]:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join(padded).rstrip())


def _indent(cell: str) -> str:
    """Return the spaces that put a row under the one before it."""
    return cell[: len(cell) - len(cell.lstrip(" "))]


def _plain_row(cell: str) -> str:
    return " ".join(clean(cell).split())


def _rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    from rich.table import Table  # noqa: PLC0415 - as for the console
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold dim")
    for place, header in enumerate(headers):
        is_last = place == len(headers) - 1
        style = styles[place] if place < len(styles) else ""
        table.add_column(header, style=style, overflow="fold" if is_last else "ellipsis", no_wrap=not is_last)
    for row in rows:
        table.add_row(*map(Text, row))
    console().print(table)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a spinner if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(clean(text)):
        yield


@contextmanager
def progress(text: str) -> Iterator[Advance]:
    """Yield a callback for how far the work is, of how much, and a word; it draws a bar on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total, _word: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    shown = Progress(
        *columns,
        console=console(stderr=True),
        transient=True,
        redirect_stdout=False,  # which may go elsewhere
        redirect_stderr=False,
    )
    with shown:
        named = clean(text)
        task = shown.add_task(named, total=None)

        def advance(done: float, total: float | None, word: str | None) -> None:
            line = named if word is None else f"{named}: {clean(word)[:60]}"
            shown.update(task, completed=done, total=total, description=line)

        yield advance

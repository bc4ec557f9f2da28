"""Docstrings in three styles, and prose that only looks like one of them."""

import pytest
from effort import at_most

from toolcrib.model.docstring import Docstring, read_docstring

GOOGLE = """Copy a file.

    It keeps the dates.

    Args:
        source (str, optional): Where from.
        target: Where to,
            such as: here.
        mode (Callable[[int], str]):
            On the next line.
        *rest: More files.
        **options: The rest.

    Returns:
        bool: Not a parameter.

    Raises:
        OSError: Nor this.
    """

NUMPY = """Copy a file.

    Parameters
    ----------
    source : str
        Where from.

        In two paragraphs.
    target, backup : str, optional
        Where to.
    mode
        Bare.
    kind : {'x', 'y'}
        One of: two.
    silent : bool

    Other Parameters
    ----------------
    **options
        The rest.

    Returns
    -------
    done : bool
        Not a parameter.
    """

SPHINX = """Copy a file.

    :param source: Where from.
    :param str target: Where to,
        such as: here.
    :type source: str
    :param str | None mode: How.
    :keyword options: The rest.
    :param silent:
    :returns: Not a parameter.
    :rtype: bool
    :raises OSError: Nor this.
    """


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        (
            GOOGLE,
            {
                "source": "Where from.",
                "target": "Where to, such as: here.",
                "mode": "On the next line.",
                "rest": "More files.",
                "options": "The rest.",
            },
        ),
        (
            NUMPY,
            {
                "source": "Where from. In two paragraphs.",
                "target": "Where to.",
                "backup": "Where to.",
                "mode": "Bare.",
                "kind": "One of: two.",
                "options": "The rest.",
            },
        ),
        (
            SPHINX,
            {
                "source": "Where from.",
                "target": "Where to, such as: here.",
                "mode": "How.",
                "options": "The rest.",
            },
        ),
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_parameters_are_read_in_three_styles(text: str, parameters: dict[str, str]) -> None:
    assert read_docstring(text).parameters == parameters


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (None, ""),
        ("", ""),
        ("   \n\n  ", ""),
        ("One line.", "One line."),
        (GOOGLE, "Copy a file.\n\nIt keeps the dates."),
        (NUMPY, "Copy a file."),
        (SPHINX, "Copy a file."),
        ("Copy.\n\n    - one\n      - two\n", "Copy.\n\n- one\n  - two"),
        ("Copy.\n\nExample:\n    >>> copy()", "Copy."),
        ("Copy.\n\nExamples\n--------\n>>> copy()", "Copy."),
        ("Copy.\r\n\r\nArgs:\r\n    a: x\r\n", "Copy."),
    ],
    ids=[
        "none",
        "empty",
        "blank",
        "line",
        "google",
        "numpy",
        "sphinx",
        "indented",
        "example",
        "examples",
        "crlf",
    ],
)
def test_the_description_is_what_stands_before_the_first_section(text: str | None, description: str) -> None:
    assert read_docstring(text).description == description


@pytest.mark.parametrize(
    "text",
    [
        "Steps:\n    a: not a parameter\n\nDone.",
        "Note: this is prose.",
        "See http://x.test:80/a for more.",
        ":class:`Tool` is what it returns.",
        ":func:`run`: starts it.",
        "A title\n-------\n\nText under it.",
        "The args:\nare these:\n    a: x",
        ":not a field",
        "a: b\nc: d",
    ],
)
def test_prose_that_looks_like_a_section_stays_in_the_description(text: str) -> None:
    assert read_docstring(text) == Docstring(text)


def test_prose_after_a_section_belongs_to_no_parameter() -> None:
    read = read_docstring("Copy.\n\nArgs:\n    a: First.\n    b: Second.\n\nMind the gap.\n    And this.")
    assert read == Docstring("Copy.", {"a": "First.", "b": "Second."})


def test_line_that_is_not_an_entry_is_skipped() -> None:
    google = read_docstring(
        "Copy.\n\nArgs:\n    a: First.\n    See below for the rest\n        of it.\n    b: Second."
    )
    numpy = read_docstring("Copy.\n\nParameters\n----------\nsee below, really:\n    x\nb\n    Second.")
    assert google.parameters == {"a": "First.", "b": "Second."}
    assert numpy.parameters == {"b": "Second."}


@pytest.mark.parametrize(
    "text",
    [
        "D.\n\nArgs:\n" + "    a: x\n" * 20_000,
        "D.\n\nArgs:\n    a: x\n" + "        more\n" * 20_000,
        "D.\n\nParameters\n---\n" + "a, " * 30_000 + "!",
        ":param " + " " * 50_000 + "x",
        ":param " + "a " * 20_000,
        ":p" + " *" * 20_000,
        "-" * 100_000,
        "A" + " " * 100_000 + ":",
    ],
    ids=["entries", "lines", "names", "spaces", "words", "stars", "dashes", "header"],
)
def test_a_long_docstring_is_read_in_a_moment(text: str) -> None:
    with at_most(1):
        read_docstring(text)

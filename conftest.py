"""Run the examples of the README and of the documentation, each page from top to bottom."""

import os
import shutil
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from typing import Any

import pytest
from consoles import ConsoleParser, open_folder
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_plugins = ("promises",)


def _name_what_is_missing(names: dict[str, Any]) -> None:
    """Let a page skip examples that need a program which is not here; in CI nothing is skipped."""
    names["no_walls"] = shutil.which("bwrap") is None and not os.environ.get("CI")
    open_folder(names)


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        ConsoleParser(),
        SkipParser(),
    ],
    patterns=["README.md", "docs/*.md"],
    setup=_name_what_is_missing,
).pytest()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the examples of a page back in order, after the tests were shuffled."""
    items.sort(key=lambda item: (item.path.name, item.location[1]) if item.path.suffix == ".md" else ("", 0))

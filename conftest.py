"""Run the examples of the README, of the documentation and of docstrings, each file from top to bottom."""

import os
import shutil
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from pathlib import Path
from typing import Any

import pytest
from consoles import ConsoleParser, open_folder
from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.integration.pytest import SybilItem
from sybil.parsers.doctest import DocTestParser
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_plugins = ("laws", "promises")
SOURCES = Path(__file__).parent / "src"
OPTIONS = ELLIPSIS | NORMALIZE_WHITESPACE


def _name_what_is_missing(names: dict[str, Any]) -> None:
    """Let a page skip examples that need a program which is not here; in CI nothing is skipped."""
    names["no_walls"] = shutil.which("bwrap") is None and not os.environ.get("CI")
    open_folder(names)


pages = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=OPTIONS), ConsoleParser(), SkipParser()],
    patterns=["README.md", "docs/*.md"],
    setup=_name_what_is_missing,
)
modules = Sybil(
    parsers=[DocTestParser()],
    path="src",
    patterns=["*.py"],
    document_types={".py": PythonDocStringDocument},
)
pytest_collect_file = (pages + modules).pytest()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the modules without an example: to parse them all takes seconds."""
    is_module = collection_path.suffix == ".py" and collection_path.is_relative_to(SOURCES)
    return True if is_module and b">>>" not in collection_path.read_bytes() else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the examples of a file back in order, after the tests were shuffled."""
    items.sort(key=lambda item: (item.path, item.location[1]) if isinstance(item, SybilItem) else (Path(), 0))

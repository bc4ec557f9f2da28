"""Run the examples of the README and of the documentation, each page from top to bottom."""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE)],
    patterns=["README.md", "docs/*.md"],
).pytest()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the examples of a page back in order, after the tests were shuffled."""
    items.sort(key=lambda item: (item.path.name, item.location[1]) if item.path.suffix == ".md" else ("", 0))

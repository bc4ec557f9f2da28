"""The API reference, which is written from the code."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.adapter.rewrite.walk import MAX_SUBSCHEMAS
from toolcrib.crib.config.reading import MAX_BYTES
from toolcrib.discovery import MAX_SHORT_DESCRIPTION_LEN
from toolcrib.discovery.docs.entry import (
    MAX_ARGS_DEPTH,
    MAX_ARGS_SIZE,
    MAX_EXAMPLE_DESCRIPTION,
    MAX_NOTES,
    MAX_RESULT_HINT,
    MAX_SUMMARY,
)
from toolcrib.errors.base import MAX_MESSAGE, MAX_PROBLEMS
from toolcrib.execution import ChainLimits
from toolcrib.execution.mcp.transport.lines import LONG_LINE
from toolcrib.execution.mcp.transport.outbox import MAX_ANSWERS
from toolcrib.execution.mcp.transport.stdio import MAX_MESSAGE_BYTES
from toolcrib.gateway import stdio
from toolcrib.model import plain
from toolcrib.model.argschema import check as arguments
from toolcrib.model.argschema import parse as schemas
from toolcrib.model.argschema import records
from toolcrib.model.plain import MAX_DEPTH, MAX_NODES
from toolcrib.model.schema.graph import MAX_SCHEMA_NODES
from toolcrib.model.tool import MAX_TAG_LENGTH, MAX_TAGS
from toolcrib.model.toolid import MAX_NAME_LENGTH
from toolcrib.runtime import bridge, scheduler
from toolcrib.runtime.request import MAX_CODE
from toolcrib.setup.lint.tools import MAX_FIRST_SENTENCE
from toolcrib.version.constraint import MAX_CONSTRAINT_LENGTH
from toolcrib.version.semver import MAX_VERSION_LENGTH


def check(root: Path) -> subprocess.CompletedProcess[str]:
    """Check the pages of a tree against the code of that tree, as `make docs` does with this one."""
    return subprocess.run(
        [sys.executable, "scripts/reference_pages.py", "--check"],
        cwd=root,
        env={"PYTHONPATH": "src", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A copy of the tree, as far as the reference is made from it."""
    without = shutil.ignore_patterns("*.npy", "vocab.txt")
    for part in ("src", "scripts", "docs/reference"):
        shutil.copytree(root / part, tmp_path / part, ignore=without)
    shutil.copy(root / "mkdocs.yml", tmp_path)
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.mark.proof
def test_what_is_missing_in_the_reference_is_found(copy: Path) -> None:
    package = copy / "src" / "toolcrib"
    replace(
        package / "model/tool.py",
        '    """The default backend; never sent to a provider or a client."""\n',
        "",
    )
    replace(package / "model/tool.py", "MAX_TAGS = 20\n", "MAX_TAGS = 21\n")
    replace(package / "version/__init__.py", '"Version", "compare"]', '"Version", "as_version", "compare"]')
    replace(package / "version/__init__.py", "import Version, compare", "import Version, as_version, compare")
    (copy / "docs/reference/gateway.md").unlink()
    replace(copy / "mkdocs.yml", "          - reference/crib.md\n", "")
    made = check(copy)
    assert made.returncode == 1
    assert set(made.stderr.splitlines()) >= {
        "toolcrib.model.Tool.backend has no text below it",
        "docs/reference/version.md does not describe toolcrib.version.as_version",
        "docs/reference/gateway.md does not describe toolcrib.gateway.Gateway",
        "docs/reference/caps.md is out of date",
        "docs/reference/crib.md is not in the nav of mkdocs.yml",
    }


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("reference/model.md", f"| `name` | `str` |  | `MAX_NAME_LENGTH` = {MAX_NAME_LENGTH:,} |"),
        ("reference/model.md", f"`MAX_TAGS` = {MAX_TAGS:,}; `MAX_TAG_LENGTH` = {MAX_TAG_LENGTH:,}"),
        ("reference/model.md", f"`MAX_SUMMARY` = {MAX_SUMMARY:,}"),
        ("reference/model.md", f"`MAX_NOTES` = {MAX_NOTES:,}"),
        ("reference/model.md", f"`MAX_EXAMPLE_DESCRIPTION` = {MAX_EXAMPLE_DESCRIPTION:,}"),
        ("reference/model.md", f"`MAX_RESULT_HINT` = {MAX_RESULT_HINT:,}"),
        ("reference/model.md", f"`MAX_ARGS_DEPTH` = {MAX_ARGS_DEPTH:,}; `MAX_ARGS_SIZE` = {MAX_ARGS_SIZE:,}"),
        ("reference/discovery.md", f"`MAX_SHORT_DESCRIPTION_LEN` = {MAX_SHORT_DESCRIPTION_LEN:,}"),
        ("reference/errors.md", f"`MAX_PROBLEMS` = {MAX_PROBLEMS:,}"),
        ("reference/runtime.md", f"`MAX_CODE` = {MAX_CODE:,}"),
        ("tools-and-schemas.md", f"| 1 to {MAX_NAME_LENGTH:,} letters, digits"),
        ("tools-and-schemas.md", f"at most {MAX_TAGS:,}, each of up to {MAX_TAG_LENGTH:,} characters |"),
        (
            "versions.md",
            f"{MAX_VERSION_LENGTH:,} characters, and a constraint and its canonical form up to {MAX_CONSTRAINT_LENGTH:,}",
        ),
        ("argument-schema.md", f"a first sentence of at most {MAX_FIRST_SENTENCE:,} characters"),
        ("argument-schema.md", f"in schema order, up to {MAX_PROBLEMS:,}, each"),
        ("argument-schema.md", f"| arguments | {MAX_NODES:,} values, {MAX_DEPTH:,} levels deep"),
        (
            "argument-schema.md",
            f"| a schema | {schemas._MAX_VALUES:,} values, {schemas._MAX_DEPTH:,} levels deep",
        ),
        ("argument-schema.md", f"arrays and objects of {records._MAX_FORM:,} characters"),
        ("argument-schema.md", f"| {arguments._MAX_STEPS:,} steps in one check"),
        (
            "chains.md",
            f"{ChainLimits().max_steps:,} steps and makes at most {ChainLimits().max_calls:,} calls",
        ),
        (
            "running-tools.md",
            f"results of more than {plain._LARGE_NODES:,} values or {plain._LARGE_CHARS:,} characters",
        ),
        ("limits.md", f"{MAX_ANSWERS >> 20} MiB of responses is queued"),
        ("limits.md", f"sends a message of more than {MAX_MESSAGE_BYTES >> 20} MiB"),
        ("limits.md", f"responses of more than {LONG_LINE >> 20} MiB over stdio"),
        ("limits.md", f"| a line over stdio | until it is read | {stdio._LONGEST >> 20} MiB;"),
        (
            "limits.md",
            f"| {ChainLimits().max_bytes >> 20} MiB of JSON and {ChainLimits().max_values:,} values |",
        ),
        (
            "limits.md",
            f"| {scheduler._MAX_WAITING_PER_CALLER} runs for each client, {scheduler._MAX_WAITING} in all, in each sandbox |",
        ),
        ("code-mode.md", f"runs up to {bridge._MAX_PARALLEL_CALLS:,} calls concurrently"),
        ("code-mode.md", f"are limited too, to {bridge._MAX_LOOKUPS:,} per run"),
        ("errors.md", f"carry `problems`: up to {MAX_PROBLEMS:,}, each"),
        ("errors.md", f"a sentence of at most {MAX_MESSAGE:,} characters"),
        ("providers.md", f"expand to more than {MAX_SUBSCHEMAS:,} subschemas are"),
        ("configuration.md", f"at most {MAX_BYTES >> 20} MiB"),
        (
            "coming-from.md",
            f"{MAX_SHORT_DESCRIPTION_LEN:,}, {MAX_SUMMARY:,}, {MAX_NOTES:,} and {MAX_EXAMPLE_DESCRIPTION:,}",
        ),
    ],
)
def test_the_numbers_on_the_pages_are_those_of_the_code(root: Path, page: str, text: str) -> None:
    assert text in (root / "docs" / page).read_text()


def test_no_docstring_of_the_reference_types_the_number_of_a_cap(root: Path) -> None:
    typed = re.compile(
        rf"\b({MAX_SHORT_DESCRIPTION_LEN}|{MAX_NAME_LENGTH}|2,?000|{MAX_SCHEMA_NODES:,}) (?:characters|values)"
    )
    pages = [page.read_text() for page in (root / "docs" / "reference").glob("*.md")]
    assert [found[0] for page in pages for found in typed.finditer(page)] == []


def test_the_charts_are_those_of_the_tables(root: Path) -> None:
    command = [sys.executable, str(root / "scripts" / "charts.py"), "--check"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


def test_the_index_for_language_models_is_that_of_the_pages(root: Path) -> None:
    command = [sys.executable, str(root / "scripts" / "llms_page.py"), "--check"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""

"""A JSON Schema test suite, in proofs the official one, run through our validator, guard included."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import ExternalRefError, ToolcribError, ValidationError
from toolcrib.model import DefaultValidator

DIALECTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}
REMOTES_URI = "http://localhost:1234/"
REQUIRED = {
    "tests": {"draft2020-12": 98, "draft7": 86},
    "shared": {"draft2020-12": 1299, "draft7": 927},
}
"""Tests that must pass, by the folder that holds the suite, and by draft."""
OPTIONAL = {
    "tests": {"draft2020-12": 11, "draft7": 11},
    "shared": {"draft2020-12": 160, "draft7": 114},
}
"""Tests that need not pass and do."""


@pytest.fixture(scope="session")
def suite(data: Path) -> Path:
    return data / "json-schema-suite"


@pytest.fixture(scope="session")
def remotes(suite: Path) -> dict[str, Any]:
    folder = suite / "remotes"
    documents = {}
    for file in sorted(folder.rglob("*.json")):
        name = file.relative_to(folder).as_posix()
        documents[REMOTES_URI + name] = json.loads(file.read_text())
    return documents


def cases(suite: Path, draft: str, pattern: str = "*.json") -> Iterator[tuple[str, Any, Any, bool]]:
    """Yield each test of the suite: where it stands, schema, data, verdict."""
    for file in sorted((suite / "tests" / draft).glob(pattern)):
        for group in json.loads(file.read_text()):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": DIALECTS[draft], **schema}
            for test in group["tests"]:
                where = f"{file.stem}: {group['description']}: {test['description']}"
                yield where, schema, test["data"], test["valid"]


def verdict(validator: DefaultValidator, schema: Any, data: Any) -> bool | ToolcribError:
    try:
        validator.validate(schema, data)
        valid = True
    except ValidationError:
        valid = False
    except ToolcribError as error:
        return error
    assert validator.compile(schema).is_valid(data) is valid
    return valid


@pytest.mark.parametrize("draft", list(DIALECTS))
def test_every_required_test_passes_with_the_remotes_preloaded(
    data: Path, suite: Path, remotes: dict[str, Any], draft: str
) -> None:
    validator = DefaultValidator(remotes)
    run = list(cases(suite, draft))
    wrong = [
        (where, result)
        for where, schema, data, valid in run
        if (result := verdict(validator, schema, data)) is not valid
    ]
    assert wrong == []
    assert len(run) == REQUIRED[data.parent.name][draft]


@pytest.mark.parametrize("draft", list(DIALECTS))
def test_without_the_remotes_every_miss_is_an_external_reference(suite: Path, draft: str) -> None:
    validator = DefaultValidator()
    misses = [
        (where, result)
        for where, schema, data, valid in cases(suite, draft)
        if (result := verdict(validator, schema, data)) is not valid
    ]
    assert misses
    assert [miss for miss in misses if not isinstance(miss[1], ExternalRefError)] == []


ASSERTIONS = ("format-assertion: ", "content: ")  # they ask for assertions of what is an annotation here


@pytest.mark.parametrize("draft", list(DIALECTS))
def test_every_optional_test_but_those_that_assert_annotations_passes(
    data: Path, suite: Path, remotes: dict[str, Any], draft: str
) -> None:
    validator = DefaultValidator(remotes)
    run = list(cases(suite, draft, "optional/*.json"))
    wrong = [
        (where, result)
        for where, schema, data, valid in run
        if (result := verdict(validator, schema, data)) is not valid
    ]
    assert [miss for miss in wrong if not miss[0].startswith(ASSERTIONS)] == []
    assert len(run) - len(wrong) == OPTIONAL[data.parent.name][draft]


@pytest.mark.parametrize("draft", list(DIALECTS))
def test_format_is_an_annotation(suite: Path, draft: str) -> None:
    validator = DefaultValidator()
    run = list(cases(suite, draft, "optional/format/*.json"))
    assert run
    assert [where for where, schema, data, _ in run if verdict(validator, schema, data) is not True] == []

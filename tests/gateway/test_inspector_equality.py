"""The official inspector gets the same lists from a real server directly and through a transparent gateway."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway.inspector import Inspector
from gateway.support import Place, Served
from servers.launch import npm

pytestmark = pytest.mark.proof

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
SIZES = {
    "everything": {"tools": 14, "resources": 7, "resourceTemplates": 2, "prompts": 4},
    "filesystem": {"tools": 14, "resources": 0, "resourceTemplates": 0, "prompts": 0},
    "memory": {"tools": 9, "resources": 1, "resourceTemplates": 0, "prompts": 0},
}
"""The least number of each kind, so that the comparison is never one of empty lists."""


OURS = {
    "everything": {
        "tools": {"trigger-elicitation-request", "trigger-sampling-request", "trigger-url-elicitation"}
    },
}
"""Tools that only a gateway lists: this server shows them only to clients that it can ask."""
RESULTS = "toolcrib://results/{id}"
"""The address at which a gateway keeps results that are too large."""


@pytest.fixture(scope="module", params=SIZES)
def name(request: pytest.FixtureRequest) -> str:
    """A server of the npm lock."""
    asked: str = request.param
    return asked


@pytest.fixture(scope="module")
def server(name: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The settings of the server."""
    folder = str(tmp_path_factory.mktemp("files"))
    return npm(
        name, *([folder] if name == "filesystem" else []), env={"MEMORY_FILE_PATH": f"{folder}/memory"}
    )


@pytest.fixture(scope="module")
def direct(server: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Inspector:
    """The inspector, which starts the server itself."""
    return Inspector.of_command(tmp_path_factory.mktemp("direct"), server)


@pytest.fixture(scope="module")
def through(
    name: str, server: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Inspector]:
    """The inspector at a gateway that has this one server."""
    folder: Path = tmp_path_factory.mktemp("through")
    with Served(Place(folder, {name: server}, gateway={"expose": "all"})) as gateway:
        yield Inspector(folder, gateway.url, "--transport", "http")


@pytest.mark.parametrize("method", LISTS)
def test_a_list_is_equal_to_that_of_the_server(
    direct: Inspector, through: Inspector, name: str, method: str
) -> None:
    kind = LISTS[method]
    expected, found = by_name(direct.ask(method)[kind]), by_name(through.ask(method)[kind])
    assert len(expected) >= SIZES[name][kind]
    assert found.keys() - expected.keys() == OURS.get(name, {}).get(kind, set())
    assert {each: found[each] for each in expected} == expected


def by_name(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a list's items by name, but for those of the gateway itself."""
    return {each["name"]: each for each in items if each.get("uriTemplate") != RESULTS}

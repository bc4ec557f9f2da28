"""Tools of a crib by id and by function: `crib[...]`, `in`, and every verb that takes a tool."""

from collections.abc import Callable
from typing import Any

import pytest

from toolcrib import Crib, SyncCrib, Tool, ToolId, tool
from toolcrib.discovery import Scope
from toolcrib.errors import CribStateError, InvalidToolIdError, ToolNotFoundError


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def advance(self, by: int) -> int:
        """Advance the counter."""
        self.count += by
        return self.count


@pytest.mark.anyio
async def test_ids_are_looked_up_as_references() -> None:
    crib = Crib()
    crib.add(double, namespace="maths", version="1.0.0")
    crib.add(double, namespace="maths", version="1.2.0")
    assert crib["maths:double"] == crib["maths:double:^1.0"] == crib["maths:double:1.2.0"]
    assert crib["maths:double:1.0.0"].version == "1.0.0"
    assert crib[crib["maths:double"]] is crib["maths:double"]
    assert "maths:double" in crib
    assert "maths:double:1.0.0" in crib
    assert "maths:double:2.0.0" not in crib
    assert "a:b:c:d" not in crib
    assert "a:b:^" not in crib
    assert 3 not in crib
    with pytest.raises(ToolNotFoundError, match="did you mean 'maths:double"):
        crib["maths:doubel"]
    with pytest.raises(InvalidToolIdError):
        crib["a:b:c:d"]
    with pytest.raises(TypeError, match="not iterable"):
        list(crib)  # type: ignore[call-overload]


@pytest.mark.anyio
async def test_call_runs_the_tool_that_its_reference_means_after_each_change() -> None:
    crib = Crib()
    crib.add(double, namespace="maths", version="1.0.0")
    assert str((await crib.run("maths:double", {"number": 1})).tool.id) == "maths:double:1.0.0"
    crib.add(double, namespace="maths", version="1.2.0")
    assert str((await crib.run("maths:double", {"number": 1})).tool.id) == "maths:double:1.2.0"
    crib.discovery.unregister("maths:double:1.2.0")
    assert str((await crib.run("maths:double", {"number": 1})).tool.id) == "maths:double:1.0.0"
    crib.discovery.unregister("maths:double:1.0.0")
    with pytest.raises(ToolNotFoundError):
        await crib.run("maths:double", {"number": 1})


@pytest.mark.anyio
async def test_views_know_only_the_tools_of_their_scope() -> None:
    crib = Crib()
    crib.add(double, namespace="maths")
    crib.add(Counter().advance, namespace="counters")
    view = crib.view(Scope(namespaces=["maths"]))
    assert "maths:double" in view
    assert double in view
    assert "counters:advance" not in view
    with pytest.raises(ToolNotFoundError):
        view["counters:advance"]


@pytest.mark.anyio
async def test_tools_of_servers_are_known_once_they_are_listed(little: Any) -> None:
    crib = Crib({"mcpServers": {"text": little()}})
    assert "text:shout" not in crib
    async with crib:
        await crib.describe("text:shout")
        assert crib["text:shout"].namespace == "text"
    with pytest.raises(CribStateError):
        crib["text:shout"]


def test_the_sync_crib_waits_for_the_server_of_an_id(little: Any) -> None:
    crib = SyncCrib({"mcpServers": {"text": little()}})
    assert crib["text:shout"].namespace == "text"
    assert "text:shout" in crib
    assert "text:nobody" not in crib
    assert "a:b:c:d" not in crib
    crib.close()
    with pytest.raises(CribStateError):
        "text:shout" in crib  # noqa: B015 - asking is what fails
    with pytest.raises(TypeError, match="not iterable"):
        list(crib)  # type: ignore[call-overload]


VERBS: dict[str, Callable[[SyncCrib, Any], Any]] = {
    "[]": lambda crib, tool_id: crib[tool_id],
    "convert": lambda crib, tool_id: crib.convert("openai", tools=[tool_id]),
    "delete_saved_tool": lambda crib, tool_id: crib.delete_saved_tool(tool_id),
    "describe": lambda crib, tool_id: crib.describe(tool_id),
    "examples": lambda crib, tool_id: crib.examples(tool_id),
    "register_doc": lambda crib, tool_id: crib.discovery.register_doc(tool_id, {"notes": "Rarely."}),
    "resolve": lambda crib, tool_id: crib.discovery.index.resolve(tool_id),
    "run": lambda crib, tool_id: crib.run(tool_id),
    "session": lambda crib, tool_id: crib.session("openai", tools=[tool_id]),
    "stubs": lambda crib, tool_id: crib.stubs([tool_id]),
    "unregister": lambda crib, tool_id: crib.discovery.unregister(tool_id),
}
"""Every way in for the text of an id; a stream gives the error as its last event, a chain lists it with others."""


@pytest.mark.parametrize(
    "bad", ["a:b:c:d", "maths:double:1.0.0:2", "maths:double:^1:2", "a:", "a b", "", 3, None]
)
@pytest.mark.parametrize("verb", VERBS)
def test_texts_that_are_no_id_are_refused_by_every_verb(verb: str, bad: Any) -> None:
    crib = SyncCrib()
    crib.add(double, namespace="maths", version="1.0.0")
    with pytest.raises(InvalidToolIdError):
        ToolId.parse(bad)
    with pytest.raises(InvalidToolIdError):
        VERBS[verb](crib, bad)
    last = [*crib.stream(bad)][-1]
    assert isinstance(last.error, InvalidToolIdError)


def test_functions_stand_for_their_tools() -> None:
    crib = SyncCrib()
    crib.add(double, namespace="maths")
    assert crib.run(double, {"number": 2}).structured == 4
    assert crib.describe(double).summary == "Double a number."
    assert [event.data for event in crib.stream(double, {"number": 2})][-1] == 4
    assert crib[double].namespace == "maths"
    assert crib.convert("openai", tools=[double])[0].tool_id == "maths:double"
    assert "double" in crib.stubs([double])
    assert len(crib.session("openai", tools=[double]).tools) == 1
    assert crib.examples(double) == ()


def test_methods_and_tools_that_were_renamed_stand_for_their_tools() -> None:
    crib, counter = SyncCrib(), Counter()
    crib.add(counter.advance)
    assert crib.run(counter.advance, {"by": 3}).structured == 3
    with pytest.raises(ToolNotFoundError, match="was not added"):
        crib.run(Counter().advance, {"by": 3})
    made = tool(double)
    crib.add(made, name="twice")
    assert crib.run(made, {"number": 2}).tool.name == "twice"
    assert crib.run(double, {"number": 2}).tool.name == "twice"


def test_functions_that_are_not_one_tool_are_refused() -> None:
    crib = SyncCrib()
    with pytest.raises(ToolNotFoundError, match=r"no tool named 'double'; this function was not added"):
        crib.run(double, {"number": 2})
    crib.add(double, version="1.0.0", namespace="maths")
    made = crib.add(double, name="twice")
    with pytest.raises(
        InvalidToolIdError, match=r"added as 'maths:double:1.0.0' or 'twice'; name one of them"
    ):
        crib.run(double, {"number": 2})
    assert crib.run(made, {"number": 2}).tool.name == "twice"


def test_results_of_searches_can_be_converted() -> None:
    crib = SyncCrib()
    crib.add(double)
    assert crib.convert("openai", tools=crib.search("double a number"))[0].tool_id == "double"
    given = Tool(name="elsewhere", input_schema={})
    assert crib.convert("openai", tools=[given])[0].tool_id == "elsewhere"

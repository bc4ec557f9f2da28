import time
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.execution.mcp.own_names import mend_name, own_name
from toolcrib.execution.mcp.tool_watcher import ToolListing, all_definitions, read_definitions
from toolcrib.model import McpBackend, Tool
from toolcrib.model.toolid import name_fault


def defined(name: Any, **fields: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **fields}


def read(definitions: list[Any], server: str) -> ToolListing:
    return anyio.run(read_definitions, definitions, server)


def test_a_definition_becomes_a_tool_of_its_server() -> None:
    definition = defined("add", title="Add", annotations={"readOnlyHint": True}, extra={"kept": [1]})
    (tool,) = read([definition], "maths").tools
    assert str(tool.id) == "maths:add"
    assert tool.backend == McpBackend(server_name="maths")
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is True
    assert tool.to_json()["extra"] == {"kept": [1]}
    assert own_name(tool) == "add"


@pytest.mark.parametrize(
    ("definition", "named", "reason"),
    [
        ({"name": "a"}, "a", "/inputSchema: is required"),
        (defined("a", inputSchema="none"), "a", "/inputSchema"),
        (defined("a", annotations={"readOnlyHint": "yes"}), "a", "/annotations/readOnlyHint"),
        (defined("a", _meta=[1]), "a", "/_meta"),
        (defined("b c", _meta=[1]), "b c", "/_meta"),
        (defined(3), "#2", "an object with a name"),
        ("a", "#2", "an object with a name"),
        ({}, "#2", "an object with a name"),
    ],
)
def test_a_definition_that_is_no_tool_is_left_out_with_the_reason(
    definition: Any, named: str, reason: str
) -> None:
    catalogue = read([defined("good"), definition, defined("better")], "one")
    assert [tool.name for tool in catalogue.tools] == ["good", "better"]
    assert list(catalogue.refused) == [named]
    assert reason in catalogue.refused[named]


def test_an_argument_that_no_header_can_carry_leaves_a_tool_out_where_arguments_are_sent_as_headers() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "My City"}}}
    definitions = [defined("good"), defined("bad", inputSchema=schema)]
    with_headers = anyio.run(partial(read_definitions, has_headers=True), definitions, "one")
    assert [tool.name for tool in with_headers.tools] == ["good"]
    assert "'My City' is not an RFC 9110 token" in with_headers.refused["bad"]
    assert [tool.name for tool in read(definitions, "one").tools] == ["good", "bad"]


def test_first_of_two_tools_with_the_same_name_is_kept() -> None:
    catalogue = read([defined("a", title="first"), defined("a", title="second")], "one")
    assert [tool.title for tool in catalogue.tools] == ["first"]
    assert "the first one is used" in catalogue.refused["a"]


def test_names_that_an_id_cannot_carry_are_mended_and_kept() -> None:
    names = ["create issue", "create/issue", "create_issue", "", "ü" * 200]
    tools = read([*map(defined, names)], "one").tools
    assert len({tool.name for tool in tools}) == len(names)
    assert [own_name(tool) for tool in tools] == names
    assert tools[2].meta is None


def test_a_mended_tool_keeps_the_rest_of_its_meta() -> None:
    (tool,) = read([defined("a b", _meta={"x": 1})], "one").tools
    assert tool.meta == {"x": 1, "toolcrib.name": "a b"}


def test_a_server_cannot_say_that_a_tool_is_called_otherwise() -> None:
    (tool,) = read([defined("a", _meta={"toolcrib.name": "b"})], "one").tools
    assert own_name(tool) == "a"
    stored = Tool(name="a", input_schema={}, meta={"toolcrib.name": "b c"})
    assert own_name(stored) == "a"


def test_the_name_of_a_server_is_mended_for_the_namespace_alone() -> None:
    (tool,) = read([defined("a")], "My Server").tools
    assert tool.namespace == mend_name("My Server")
    assert tool.backend == McpBackend(server_name="My Server")


def test_a_server_has_no_say_in_where_a_tool_belongs() -> None:
    definition = defined("a", namespace="other", backend={"kind": "local", "name": "rm"})
    (tool,) = read([definition], "one").tools
    assert tool.namespace == "one"
    assert tool.backend == McpBackend(server_name="one")


def test_versions_and_tags_are_taken_if_they_are_some() -> None:
    right, wrong = read(
        [defined("a", version="1.2.3", tags=["X Y"]), defined("b", version="1.0", tags="many")], "one"
    ).tools
    assert (right.version, right.tags) == ("1.2.3", ("x-y",))
    assert (wrong.version, wrong.tags) == (None, ())


@given(st.text(max_size=300))
def test_a_mended_name_can_be_carried_and_needs_no_mending(name: str) -> None:
    mended = mend_name(name)
    assert not name_fault(mended)
    assert mend_name(mended) == mended


@given(st.lists(st.text(max_size=20), unique=True, max_size=20))
def test_two_names_are_never_mended_into_one(names: list[str]) -> None:
    assert len(set(map(mend_name, names))) == len(names)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
FIELDS = st.sampled_from(
    ["title", "inputSchema", "outputSchema", "annotations", "_meta", "version", "tags", "icons"]
)


@law(20)
@given(st.lists(st.dictionaries(FIELDS, JSON, max_size=4), max_size=4))
def test_whatever_a_server_lists_is_taken_or_refused(definitions: list[dict[str, Any]]) -> None:
    named = [{"name": f"tool {number}", **fields} for number, fields in enumerate(definitions)]
    catalogue = read(named, "one")
    assert len(catalogue.tools) + len(catalogue.refused) == len(definitions)


class Pages:
    def __init__(self, *pages: Any) -> None:
        self.pages = pages
        self.asked: list[str | None] = []

    async def __call__(self, cursor: str | None) -> Any:
        self.asked.append(cursor)
        return self.pages[len(self.asked) - 1]


@pytest.mark.anyio
async def test_all_pages_are_read() -> None:
    pages = Pages({"tools": [1], "nextCursor": "x"}, {"tools": [], "nextCursor": ""}, {"tools": [2]})
    assert await all_definitions(pages) == [1, 2]
    assert pages.asked == [None, "x", ""]


@pytest.mark.anyio
@pytest.mark.parametrize("cursor", ["same", 7], ids=["a loop", "no text"])
async def test_pages_that_do_not_end_are_refused(cursor: Any) -> None:
    with pytest.raises(ValueError, match="does not end"):
        await all_definitions(Pages(*[{"tools": [], "nextCursor": cursor}] * 3))


@pytest.mark.anyio
async def test_there_is_a_limit_to_the_pages() -> None:
    with pytest.raises(ValueError, match="does not end: 1001 pages"):
        await all_definitions(Pages(*[{"tools": [], "nextCursor": str(n)} for n in range(1100)]))


@pytest.mark.anyio
async def test_a_page_without_tools_is_refused() -> None:
    with pytest.raises(ValueError, match="without a list of tools"):
        await all_definitions(Pages({"tools": None}))


@pytest.mark.anyio
async def test_there_is_a_limit_to_the_tools() -> None:
    page = {"tools": [0] * 60_000, "nextCursor": "more"}
    with pytest.raises(ValueError, match="more than 100,000 tools"):
        await all_definitions(Pages(page, page))


@pytest.mark.anyio
async def test_there_is_a_limit_to_the_size_of_a_listing() -> None:
    page = {"tools": ["x" * 2**20] * 100}
    with pytest.raises(ValueError, match="larger than 256 MiB"):
        await all_definitions(Pages(*[page | {"nextCursor": str(n)} for n in range(3)]))


@pytest.mark.anyio
async def test_other_tasks_run_while_a_long_listing_is_parsed() -> None:
    turns: list[int] = []

    async def take_turns() -> None:
        while True:
            turns.append(len(turns))
            await anyio.lowlevel.checkpoint()

    class Slow(dict[str, Any]):
        """A definition that takes long to look at."""

        def __str__(self) -> str:
            time.sleep(0.02)
            return super().__str__()

        def get(self, *key: Any) -> Any:
            time.sleep(0.02)
            return super().get(*key)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_turns)
        definitions = await all_definitions(Pages({"tools": [Slow(defined(f"t{n}")) for n in range(10)]}))
        assert len(turns) >= 10
        turns.clear()
        await read_definitions(definitions, "one")
        tasks.cancel_scope.cancel()
    assert len(turns) >= 10

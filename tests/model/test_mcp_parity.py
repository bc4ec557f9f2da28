"""The parity of our record with the protocol's: every field is mapped or carried, and none is forgotten."""

from typing import Any

import mcp_types
import pytest
from pydantic import BaseModel

from toolcrib.model import Icon, Tool, ToolAnnotations
from toolcrib.model.record import Record

MAPPED: dict[type[BaseModel], tuple[type[Record], dict[str, str]]] = {
    mcp_types.Tool: (
        Tool,
        {
            "name": "name",
            "title": "title",
            "description": "description",
            "inputSchema": "input_schema",
            "outputSchema": "output_schema",
            "icons": "icons",
            "annotations": "annotations",
            "_meta": "meta",
        },
    ),
    mcp_types.ToolAnnotations: (
        ToolAnnotations,
        {
            "title": "title",
            "readOnlyHint": "read_only_hint",
            "destructiveHint": "destructive_hint",
            "idempotentHint": "idempotent_hint",
            "openWorldHint": "open_world_hint",
        },
    ),
    mcp_types.Icon: (Icon, {"src": "src", "mimeType": "mime_type", "sizes": "sizes", "theme": "theme"}),
}
"""The protocol's fields that are fields of ours, by their names in JSON."""

CARRIED: dict[type[BaseModel], set[str]] = {
    mcp_types.Tool: {"execution"},
    mcp_types.ToolAnnotations: set(),
    mcp_types.Icon: set(),
}
"""The protocol's fields that survive as unknown ones."""

OURS = {"namespace", "version", "tags", "backend"}
"""Fields that `Tool` adds to the protocol's."""

FULL: dict[str, Any] = {
    "name": "create_issue",
    "title": "Create issue",
    "description": "Open an issue.",
    "inputSchema": {"type": "object", "properties": {"title": {"type": "string"}}},
    "outputSchema": {"type": "object"},
    "icons": [{"src": "https://x.test/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}],
    "annotations": {
        "title": "T",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    },
    "_meta": {"x.test/a": [1, None]},
    "execution": {"taskSupport": "optional"},
}


@pytest.mark.parametrize("theirs", MAPPED, ids=lambda kind: kind.__name__)
def test_every_field_of_the_protocol_is_mapped_or_carried(theirs: type[BaseModel]) -> None:
    known = {field.alias or name for name, field in theirs.model_fields.items()}
    listed = MAPPED[theirs][1].keys() | CARRIED[theirs]
    assert known - listed == set(), (
        f"the SDK's {theirs.__name__} has new fields: map them, or list them as carried"
    )
    assert listed - known == set(), (
        f"the SDK's {theirs.__name__} has lost fields: what shall ours do with them?"
    )


@pytest.mark.parametrize("theirs", MAPPED, ids=lambda kind: kind.__name__)
def test_every_mapped_field_has_the_protocols_name_in_json(theirs: type[BaseModel]) -> None:
    ours, mapped = MAPPED[theirs]
    extra = OURS if ours is Tool else set()
    assert {field.alias: name for name, field in ours.model_fields.items() if name not in extra} == mapped


@pytest.mark.parametrize("theirs", MAPPED, ids=lambda kind: kind.__name__)
def test_the_same_fields_are_required(theirs: type[BaseModel]) -> None:
    ours, mapped = MAPPED[theirs]
    required = {
        mapped[field.alias or name] for name, field in theirs.model_fields.items() if field.is_required()
    }
    assert {name for name, field in ours.model_fields.items() if field.is_required()} == required


def test_a_full_tool_of_the_protocol_comes_back_as_it_went() -> None:
    assert FULL.keys() == MAPPED[mcp_types.Tool][1].keys() | CARRIED[mcp_types.Tool]
    assert Tool.from_json(FULL).to_json() == FULL


def test_the_sdk_reads_what_we_write_and_finds_the_same() -> None:
    tool = Tool.from_json(FULL | {"namespace": "github", "version": "1.0.0", "tags": ["issues"]})
    theirs = mcp_types.Tool.model_validate(tool.to_json())
    assert theirs.model_dump(by_alias=True, mode="json", exclude_none=True) == FULL


def test_we_read_what_the_sdk_writes_with_and_without_its_nulls() -> None:
    for sparse in (True, False):
        theirs = mcp_types.Tool(name="add", input_schema={"type": "object"})
        written = theirs.model_dump(by_alias=True, mode="json", exclude_none=sparse)
        tool = Tool.from_json(written)
        assert (tool.name, tool.input_schema, tool.annotations) == ("add", {"type": "object"}, None)

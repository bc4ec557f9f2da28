"""The tools that the scenarios of the official conformance suite call by name."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from servers.conformance.calls import TEXT, Call, Json, missing, text
from servers.conformance.content import PIXEL, PROMPTS, embed, offers
from servers.conformance.tasks import REQUIRED

SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
STEP_SECONDS = 0.05

Answer = types.CallToolResult | types.InputRequiredResult | Json
Handler = Callable[[Call], Awaitable[Answer]]

BUS = InMemorySubscriptionBus()
"""Sends changes to subscribers in the stateless era."""


@dataclass(frozen=True)
class Entry:
    """A tool and its function."""

    tool: types.Tool
    run: Handler
    needs_tasks: bool = False


TOOLS: dict[str, Entry] = {}


def serves(
    schema: Json | None = None, *, needs_tasks: bool = False, **properties: Json
) -> Callable[[Handler], Handler]:
    """Make a tool of a function, with its arguments or with a whole schema for them."""
    arguments = schema or {"type": "object", "properties": properties, "required": list(properties)}

    def add(function: Handler) -> Handler:
        name = function.__name__
        tool = types.Tool(name=name, description=function.__doc__, input_schema=arguments)
        TOOLS[name] = Entry(tool, function, needs_tasks)
        return function

    return add


async def run_tool(call: Call, name: str) -> Answer:
    """Run a tool by its name."""
    entry = TOOLS.get(name)
    if entry is None:
        raise MCPError(types.INVALID_PARAMS, f"no tool named {name!r}")
    if entry.needs_tasks and not call.can_have_tasks:
        raise missing(REQUIRED)
    return await entry.run(call)


def returns(name: str, description: str, *content: types.ContentBlock, is_error: bool = False) -> None:
    """Make a tool that always returns the same."""
    result = types.CallToolResult(content=list(content), is_error=is_error)

    async def answer(_: Call) -> Answer:
        return result

    tool = types.Tool(name=name, description=description, input_schema={"type": "object"})
    TOOLS[name] = Entry(tool, answer)


SIMPLE = types.TextContent(text="This is a simple text response for testing.")
IMAGE = types.ImageContent(data=PIXEL, mime_type="image/png")
AUDIO = types.AudioContent(data=SILENCE, mime_type="audio/wav")
MIXED = (
    types.TextContent(text="Multiple content types test:"),
    IMAGE,
    embed("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
)
EMBEDDED = embed("test://embedded-resource", "text/plain", "This is an embedded resource content.")
ERROR = types.TextContent(text="This tool intentionally returns an error for testing")
returns("test_simple_text", "Return text.", SIMPLE)
returns("test_image_content", "Return an image.", IMAGE)
returns("test_audio_content", "Return a sound.", AUDIO)
returns("test_embedded_resource", "Return a resource.", EMBEDDED)
returns("test_multiple_content_types", "Return text, an image and a resource.", *MIXED)
returns("test_error_handling", "Fail.", ERROR, is_error=True)


@serves()
async def test_tool_with_logging(call: Call) -> Answer:
    """Send three log messages."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.log(message)
        await anyio.sleep(STEP_SECONDS)
    return text("logged")


@serves()
async def test_logging_tool(call: Call) -> Answer:
    """Send a log message to those who want it."""
    await call.log("Only for those who set a level")
    return text("logged")


@serves()
async def test_tool_with_progress(call: Call) -> Answer:
    """Report progress three times."""
    for done in (0, 50, 100):
        await call.ctx.session.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(STEP_SECONDS)
    return text("done")


@serves()
async def test_reconnection(call: Call) -> Answer:
    """Close the stream of the answer before the answer, which the client gets once it reconnects."""
    if call.ctx.close_sse_stream is not None:
        await call.ctx.close_sse_stream()
        await anyio.sleep(STEP_SECONDS)
    return text("reconnected")


@serves(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": TEXT, "city": TEXT},
            }
        },
        "properties": {
            "name": TEXT,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": TEXT,
            "email": TEXT,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(call: Call) -> Answer:
    """Take what a schema with many keywords allows."""
    return text(f"got {sorted(call.args)}")


@serves(region={"type": "string", "x-mcp-header": "Region"}, query=TEXT)
async def test_custom_header(call: Call) -> Answer:
    """Take an argument that is sent as a header too."""
    return text(f"searched in {call.args['region']}")


@serves()
async def test_trigger_tool_change(call: Call) -> Answer:
    """Offer one more tool, or one less, and tell."""
    if TOOLS.pop(sometimes.__name__, None) is None:
        serves()(sometimes)
    if call.modern:
        await BUS.publish(ToolsListChanged())
    else:
        await call.ctx.session.send_tool_list_changed()
    return text("changed")


async def sometimes(_: Call) -> Answer:
    """Be there after every other change."""
    return text("here")


@serves()
async def test_trigger_prompt_change(call: Call) -> Answer:
    """Offer one more prompt, or one less, and tell."""
    if PROMPTS.pop(seldom.__name__, None) is None:
        offers()(seldom)
    if call.modern:
        await BUS.publish(PromptsListChanged())
    else:
        await call.ctx.session.send_prompt_list_changed()
    return text("changed")


async def seldom(_: Call) -> list[types.ContentBlock]:
    """Be there after every other change."""
    return [types.TextContent(text="here")]

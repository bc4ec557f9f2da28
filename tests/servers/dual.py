"""A server of the SDK's own `MCPServer`, which speaks both eras and elicits input in the handshake era only.

It has what the handshake scenarios of the official conformance suite call by name, and a few tools, a prompt and a
resource that say which process and which era they were reached in. `python -m servers.dual` serves stdio, and
`--http PORT` streamable HTTP on 127.0.0.1, where 0 takes a free port; the port is the first line on standard output.
With `--lock FILE` a second process does not start.
"""

import argparse
import base64
import json
import os
import warnings
from pathlib import Path
from typing import Annotated, Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from pydantic import BaseModel, Field, WithJsonSchema
from servers.conformance import content
from servers.conformance.__main__ import RETRY_MS, Events, accept
from servers.conformance.content import PIXEL, embed
from servers.conformance.tools import AUDIO, EMBEDDED, IMAGE, MIXED, STEP_SECONDS, TOOLS
from servers.faulty import serve_http

NAMES = ["option1", "option2", "option3"]
SCHEMA = TOOLS["json_schema_2020_12_tool"].tool.input_schema
TITLED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
WATCHED = "test://watched-resource"
SUBSCRIBED: set[str] = set()
server = MCPServer("dual", version="1.0.0", log_level="CRITICAL")


class Name(BaseModel):
    """A name that the user gives."""

    name: str


class Reply(BaseModel):
    """The form that the suite fills in."""

    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Review(BaseModel):
    """A form that is filled in."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Annotated[
        str,
        WithJsonSchema({"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"}),
    ] = "active"
    verified: bool = True


class Choice(BaseModel):
    """The five ways to choose."""

    untitledSingle: Annotated[str, WithJsonSchema({"type": "string", "enum": NAMES})]  # noqa: N815 - the suite's
    titledSingle: Annotated[str, WithJsonSchema({"type": "string", "oneOf": TITLED})]  # noqa: N815 - the same
    legacyEnum: Annotated[  # noqa: N815 - the same
        str,
        WithJsonSchema(
            {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]}
        ),
    ]
    untitledMulti: Annotated[  # noqa: N815 - the same
        list[str], WithJsonSchema({"type": "array", "items": {"type": "string", "enum": NAMES}})
    ]
    titledMulti: Annotated[list[str], WithJsonSchema({"type": "array", "items": {"anyOf": TITLED}})]  # noqa: N815 - the same


def filled(what: str, reply: Any) -> str:
    """Return the user's answer, as a text."""
    data = reply.data.model_dump_json() if reply.action == "accept" else "{}"
    return f"{what}: action={reply.action}, content={data}"


@server.tool(structured_output=False)
def test_simple_text() -> str:
    """Return text."""
    return "This is a simple text response for testing."


@server.tool(structured_output=False)
def test_image_content() -> list[types.ImageContent]:
    """Return an image."""
    return [IMAGE]


@server.tool(structured_output=False)
def test_audio_content() -> list[types.AudioContent]:
    """Return a sound."""
    return [AUDIO]


@server.tool(structured_output=False)
def test_embedded_resource() -> list[types.EmbeddedResource]:
    """Return a resource."""
    return [EMBEDDED]


@server.tool(structured_output=False)
def test_multiple_content_types() -> list[types.ContentBlock]:
    """Return text, an image and a resource."""
    return list(MIXED)


@server.tool(structured_output=False)
def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool(structured_output=False)
async def test_tool_with_logging(ctx: Context) -> str:
    """Send three log messages."""
    for message in ("Tool execution started", "Tool processing data"):
        await ctx.info(message)
        await anyio.sleep(STEP_SECONDS)
    await ctx.info("Tool execution completed")
    return "logged"


@server.tool(structured_output=False)
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50):
        await ctx.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(STEP_SECONDS)
    await ctx.report_progress(100, 100, "100 of 100")
    return "done"


@server.tool(structured_output=False)
async def test_reconnection(ctx: Context) -> str:
    """Close the stream of the answer before the answer."""
    await ctx.close_sse_stream()
    await anyio.sleep(STEP_SECONDS)
    return "reconnected"


@server.tool(structured_output=False)
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the model of the client."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    reply = await ctx.session.create_message(
        messages=[message], max_tokens=100, related_request_id=ctx.request_id
    )
    return f"LLM response: {reply.content.text}"  # type: ignore[union-attr]


@server.tool(structured_output=False)
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user of the client."""
    return filled("User response", await ctx.elicit(message, Reply))


@server.tool(structured_output=False)
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user with a form that is filled in."""
    return filled("Elicitation completed", await ctx.elicit("Please review your information", Review))


@server.tool(structured_output=False)
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the user to choose, in each of the five ways."""
    return filled("Elicitation completed", await ctx.elicit("Please choose", Choice))


@server.tool(structured_output=False)
def json_schema_2020_12_tool() -> str:
    """Take what a schema with many keywords allows."""
    return "taken"


@server.tool(structured_output=False)
async def greet_user(ctx: Context) -> str:
    """Greet the user by the name that they give."""
    reply = await ctx.elicit("Who?", Name)
    return f"Hello, {reply.data.name}!" if reply.action == "accept" else reply.action


@server.tool(structured_output=False)
async def list_folders(ctx: Context) -> str:
    """List the roots of the client."""
    found = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in found.roots)


@server.tool(structured_output=False)
def about_call(ctx: Context) -> str:
    """Return the process, and the revision that the call came in."""
    return f"{os.getpid()} {ctx.protocol_version}"


@server.tool(structured_output=False)
def stop_server() -> str:
    """End the server."""
    os._exit(7)


@server.tool(structured_output=False)
async def touch(ctx: Context) -> str:
    """Say that a resource has changed, to those who listen and to the session of the call if it has subscribed."""
    await ctx.notify_resource_updated(WATCHED)
    if WATCHED in SUBSCRIBED:
        await ctx.session.send_resource_updated(WATCHED)
    return " ".join(SUBSCRIBED)


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """Give text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """Give an image."""
    return base64.b64decode(PIXEL)


@server.resource(WATCHED, mime_type="text/plain")
def watched_resource() -> str:
    """Give what can be watched."""
    return "This resource can be watched."


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:  # noqa: A002 - the suite's
    """Give data of an id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.resource("test://greeting/{word}", mime_type="text/plain")
async def greeting(word: str, ctx: Context) -> str:
    """Give a greeting of the user by the name that they give."""
    return f"{word}, {await greet_user(ctx)}"


@server.prompt()
def test_simple_prompt() -> str:
    """Give text."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Give text with the arguments in it."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803 - the suite's
    """Give a resource."""
    embedded = embed(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [UserMessage(embedded), UserMessage("Please process the embedded resource above.")]


@server.prompt()
def test_prompt_with_image() -> list[Any]:
    """Give an image."""
    return [UserMessage(IMAGE), UserMessage("Please analyze the image above.")]


@server.prompt()
async def welcome(ctx: Context) -> str:
    """Give a greeting of the user by the name that they give."""
    return await greet_user(ctx)


async def subscribe(_: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
    """Note that a resource is watched, over a connection of the handshake era to this process."""
    SUBSCRIBED.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(_: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    """Note that it is watched no more."""
    SUBSCRIBED.discard(str(params.uri))
    return types.EmptyResult()


async def complete(ctx: ServerRequestContext[Any, Any], params: types.CompleteRequestParams) -> Any:
    """Complete a word; "?" with the name that the user gives."""
    if params.argument.value != "?":
        return await content.complete(ctx, params)
    reply = await ctx.session.elicit_form("Who?", Name.model_json_schema(), ctx.request_id)
    return types.CompleteResult(completion=types.Completion(values=[str((reply.content or {})["name"])]))


def main() -> None:
    """Serve as asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--http", type=int, metavar="PORT")
    options.add_argument("--lock", metavar="FILE")
    wanted = options.parse_args()
    if wanted.lock is not None:
        Path(wanted.lock).touch(exist_ok=False)
    warnings.simplefilter("ignore")  # some of what it serves is deprecated in one of the eras
    inner = server._lowlevel_server
    listed = server._tool_manager.get_tool(json_schema_2020_12_tool.__name__)
    assert listed is not None
    listed.parameters = SCHEMA
    for method, params, handler in (
        ("resources/subscribe", types.SubscribeRequestParams, subscribe),
        ("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe),
        ("logging/setLevel", types.SetLevelRequestParams, accept),
        ("completion/complete", types.CompleteRequestParams, complete),
    ):
        inner.add_request_handler(method, params, handler)
    if wanted.http is None:
        server.run()
    else:
        app = server.streamable_http_app(event_store=Events(), retry_interval=RETRY_MS)
        serve_http(app, wanted.http, "h11")


if __name__ == "__main__":
    main()

"""The resources and prompts that the scenarios of the official conformance suite ask for by name."""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import mcp_types as types
from mcp import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from servers.conformance.calls import TEXT, Call, Context, form

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
NOT_FOUND = -32002
"""The error code of the handshake era for an unknown resource."""
WORDS = ("paris", "park", "party", "test")

PLAIN = "text/plain"
RESOURCES = {
    "test://static-text": (PLAIN, "This is the content of the static text resource."),
    "test://static-binary": ("image/png", PIXEL),
    "test://watched-resource": (PLAIN, "This resource can be watched."),
}
TEMPLATE = "test://template/{id}/data"


async def list_resources(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    """Answer `resources/list`."""
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=uri, name=uri.partition("//")[2], description="For testing.", mime_type=mime)
            for uri, (mime, _) in RESOURCES.items()
        ]
    )


async def list_templates(
    _: Context, __: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    """Answer `resources/templates/list`."""
    template = types.ResourceTemplate(
        uri_template=TEMPLATE, name="template", description="For testing.", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    """Answer `resources/read`."""
    uri = params.uri
    found: types.TextResourceContents | types.BlobResourceContents
    if matched := re.fullmatch(r"test://template/([^/]+)/data", uri):
        data = {"id": matched[1], "templateTest": True, "data": f"Data for ID: {matched[1]}"}
        found = types.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
    elif uri in RESOURCES:
        mime, content = RESOURCES[uri]
        if mime == PLAIN:
            found = types.TextResourceContents(uri=uri, mime_type=mime, text=content)
        else:
            found = types.BlobResourceContents(uri=uri, mime_type=mime, blob=content)
    else:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        raise MCPError(types.INVALID_PARAMS if modern else NOT_FOUND, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[found])


def embed(uri: str, mime_type: str, content: str) -> types.EmbeddedResource:
    """Return a text resource that stands inside other content."""
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=content)
    return types.EmbeddedResource(resource=contents)


Write = Callable[[Call], Awaitable[list[types.ContentBlock]]]


@dataclass(frozen=True)
class Entry:
    """A prompt and the function that renders it."""

    prompt: types.Prompt
    write: Write


PROMPTS: dict[str, Entry] = {}


def offers(*arguments: str) -> Callable[[Write], Write]:
    """Make a prompt of a function."""

    def add(function: Write) -> Write:
        name = function.__name__
        wanted = [
            types.PromptArgument(name=each, description="For testing.", required=True) for each in arguments
        ]
        PROMPTS[name] = Entry(
            types.Prompt(name=name, description=function.__doc__, arguments=wanted or None), function
        )
        return function

    return add


def gives(name: str, description: str, *written: types.ContentBlock) -> None:
    """Make a prompt that is always the same."""

    async def write(_: Call) -> list[types.ContentBlock]:
        return list(written)

    PROMPTS[name] = Entry(types.Prompt(name=name, description=description), write)


SIMPLE = types.TextContent(text="This is a simple prompt for testing.")
IMAGE = types.ImageContent(data=PIXEL, mime_type="image/png")
gives("test_simple_prompt", "Give text.", SIMPLE)
gives(
    "test_prompt_with_image",
    "Give an image.",
    IMAGE,
    types.TextContent(text="Please analyze the image above."),
)


@offers("arg1", "arg2")
async def test_prompt_with_arguments(call: Call) -> list[types.ContentBlock]:
    """Give text with the arguments in it."""
    given = ", ".join(f"{name}='{value}'" for name, value in call.args.items())
    return [types.TextContent(text=f"Prompt with arguments: {given}")]


@offers("resourceUri")
async def test_prompt_with_embedded_resource(call: Call) -> list[types.ContentBlock]:
    """Give a resource."""
    embedded = embed(call.args["resourceUri"], PLAIN, "Embedded resource content for testing.")
    return [embedded, types.TextContent(text="Please process the embedded resource above.")]


@offers()
async def test_input_required_result_prompt(call: Call) -> list[types.ContentBlock]:
    """Give what the user answers."""
    answers = await call.ask(user_context=form("What context should the prompt use?", context=TEXT))
    return [types.TextContent(text=f"Context: {answers['user_context'].content}")]


async def list_prompts(_: Context, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    """Answer `prompts/list`."""
    return types.ListPromptsResult(prompts=[entry.prompt for entry in PROMPTS.values()])


async def get_prompt(call: Call, name: str) -> types.GetPromptResult:
    """Answer `prompts/get`."""
    entry = PROMPTS.get(name)
    if entry is None:
        raise MCPError(types.INVALID_PARAMS, f"no prompt named {name!r}")
    written = await entry.write(call)
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=each) for each in written]
    )


async def complete(_: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Answer `completion/complete`."""
    found = [word for word in WORDS if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=found, total=len(found), has_more=False))

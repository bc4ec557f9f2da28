"""A program that runs a client scenario of the official conformance suite with a crib.

The suite starts it with the address of a server, and names the scenario in the environment.
"""

import json
import os
import sys
from typing import Any

import anyio

from toolcrib import Crib

SCHEMA_TOOL = "server:json_schema_2020_12_tool"
ECHO_TOOL = "server:json_schema_echo"
VALUES = {"string": "us-west1", "number": 2.5, "integer": 2, "boolean": True, "array": [], "object": {}}


def fill(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with everything that a schema requires."""
    return {name: VALUES.get(schema["properties"][name].get("type")) for name in schema.get("required", ())}


def without_nulls(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that a schema without `null` allows, as a crib checks that."""
    return {name: value for name, value in arguments.items() if value is not None}


async def answer(_: Any, requests: dict[str, Any]) -> dict[str, Any]:
    """Accept every question, with the values that its form suggests."""
    answers = {}
    for name, request in requests.items():
        fields = request["params"]["requestedSchema"]["properties"]
        content = {field: schema.get("default", VALUES[schema["type"]]) for field, schema in fields.items()}
        answers[name] = {"action": "accept", "content": content}
    return answers


async def main(url: str) -> None:
    """Use all that the server has."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    async with Crib({"mcpServers": {"server": {"url": url}}}, on_input=answer) as crib:
        schemas = {tool.id: (await crib.describe(tool.id)).tool.input_schema for tool in await crib.tools()}
        calls = [
            (f"server:{call['name']}", without_nulls(call["arguments"]))
            for call in context.get("toolCalls", ())
        ]
        if ECHO_TOOL in schemas:
            calls = [(ECHO_TOOL, {"schema": schemas[SCHEMA_TOOL]})]
        for tool_id, arguments in calls or [(each, fill(schema)) for each, schema in schemas.items()]:
            await crib.run(tool_id, arguments)
        for resource in await crib.resources():
            await crib.read(resource.uri)
        for prompt in await crib.prompts():
            await crib.prompt(prompt.name)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])

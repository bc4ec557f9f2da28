"""A gateway with tools that the rules hide from a principal answers that principal as one without them."""

import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import anyio
import httpx2
import pytest
from gateway.little_face import serving
from gateway.passing import ERAS, asked
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from servers.launch import LIBRARY, little
from waiting import PATIENCE

from toolcrib.gateway import Gateway
from toolcrib.model import McpBackend, Tool, ToolAnnotations

pytestmark = pytest.mark.anyio

TOKEN = "of-bob"  # noqa: S105 - it opens nothing
RULES: list[dict[str, Any]] = [
    {"name": "no hr", "tools": ["hr:*"], "effect": "deny", "reason": "ask the hr team"},
    {"name": "no erasing", "tools": ["notes:erase*"], "args": {"required": ["all"]}, "effect": "deny"},
    {"name": "no erasing at all", "tools": ["notes:erase*"], "effect": "deny"},
    {"name": "nothing dangerous", "tools": ["tag:danger"], "effect": "deny"},
    {"name": "nothing open", "annotations": {"openWorldHint": True}, "effect": "deny"},
    {"name": "some", "tools": ["notes:*", "books:*", "text:*"], "effect": "allow"},
]
ROUTED = {"type": "object", "properties": {"titel": {"type": "integer", "x-mcp-header": "Title"}}}
"""Arguments of which one is to be in a header too, which the SDK compares before a call."""
HIDDEN = [
    "hr:fire_employee",
    "hr:borrow",
    "hr:move_employee",
    "notes:erase_note",
    "notes:purge_notes",
    "notes:publish_notes",
]
REFERENCES = [
    *HIDDEN,
    *(ref.replace("e", "", 1) for ref in HIDDEN),
    *(f"{ref}s" for ref in HIDDEN),
    *(f"{ref}:1.0.0" for ref in HIDDEN),
    *(ref.partition(":")[2] for ref in HIDDEN),
    *("hr:nothing", "h:fire_employee", "her:fire_employee", "HR:fire_employee", "note:read", "notes:reed"),
    *("lost:tool", "books:borow", "text:shout", "notes:read"),
]
"""Exact ids of hidden tools, near misses of them and of others, and ids that no tool has."""


def server(shelf: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [LIBRARY, shelf], "start_timeout": PATIENCE}


@asynccontextmanager
async def served(policy: Any, *, hides: bool) -> AsyncIterator[tuple[Gateway, str]]:
    servers = {"books": server("main"), "text": little()}
    if hides:
        servers |= {"hr": server("secret"), "lost": {"command": "/no/such/program"}}
    digest = sha256(TOKEN.encode()).hexdigest()
    tokens = {"bob": {"hash": f"sha256:{digest}"}}
    gateway = Gateway({"servers": servers, "policy": policy, "gateway": {"tokens": tokens}})
    for name in ("read", "write"):
        gateway.crib.add(note, namespace="notes", name=name)
    if hides:
        gateway.crib.add(note, namespace="hr", name="fire_employee")
        moving = Tool(
            name="move_employee",
            namespace="hr",
            input_schema=ROUTED,
            backend=McpBackend(server_name="hr"),
        )
        gateway.crib.add(moving)
        gateway.crib.add(note, namespace="notes", name="erase_note")
        gateway.crib.add(note, namespace="notes", name="purge_notes", tags=["danger"])
        hints = ToolAnnotations(open_world_hint=True)
        gateway.crib.add(note, namespace="notes", name="publish_notes", annotations=hints)
    async with gateway, serving(gateway) as url:
        with anyio.fail_after(PATIENCE):
            await gateway.crib.namespaces()
        yield gateway, url


def note(title: str = "") -> str:
    """Do something with a note of an employee."""
    return f"done with {title}"


def calls() -> list[tuple[str, dict[str, Any]]]:
    """Return the calls of the meta-tools."""
    made: list[tuple[str, dict[str, Any]]] = [
        ("search_tools", {"query": query, **more})
        for query in ("fire an employee", "erase a note", "borrow", "hr", "publish", "danger")
        for more in ({}, {"namespace": "hr"}, {"tags": ["danger"]}, {"namespace": "h"})
    ]
    made += [("list_tools", more) for more in ({}, {"namespace": "hr"}, {"namespace": "her"}, {"limit": 2})]
    made += [("list_namespaces", {})]
    for ref in REFERENCES:
        made += [
            ("describe_tool", {"tool_id": ref}),
            ("list_tool_examples", {"tool_id": ref}),
            ("run_tool", {"tool_id": ref}),
            ("run_tool", {"tool_id": ref, "args": {"titel": "x", "all": True}}),
            ("run_tool", {"tool_id": ref, "args": [1]}),
            ("run_chain", {"steps": [{"tool_id": ref, "args": {"titel": 1}}]}),
            ("run_chain", {"steps": [{"tool_id": "notes:read"}, {"tool_id": ref, "use_previous": True}]}),
            ("execute_code", {"code": f"__out = await run_tool({ref!r}, {{'titel': 1}})"}),
        ]
    for code in ("await hr.fire_employee()", "await hr.fire()", "await notes.erase_note()", "hr",
                 "await notes.erase_notes()", "await notes.purge_notes()", "await hrr.x()", "print(dir())"):  # fmt: skip
        made.append(("execute_code", {"code": f"__out = {code}"}))
    return made


def requests() -> list[tuple[str, dict[str, Any]]]:
    """Return the other requests."""
    made: list[tuple[str, dict[str, Any]]] = [
        (method, {})
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
    ]
    for shelf in ("secret", "secre", "main"):
        uris = (f"library://{shelf}/catalogue", f"toolcrib://servers/hr/library://{shelf}/catalogue")
        made += [("resources/read", {"uri": uri}) for uri in uris]
        ref = {"type": "ref/resource", "uri": f"library://{shelf}/books/{{title}}"}
        argument = {"name": "title", "value": "e"}
        made.append(("completion/complete", {"ref": ref, "argument": argument}))
    for name in ("hr__review", "hr_review", "her__review", "books__review", "review"):
        made.append(("prompts/get", {"name": name, "arguments": {"title": "emma"}}))
        ref = {"type": "ref/prompt", "name": name}
        made.append(("completion/complete", {"ref": ref, "argument": {"name": "title", "value": "e"}}))
    return made


async def answers(url: str, era: str, surface: str) -> dict[str, Any]:
    """Return the response to each request, without the parts that differ from run to run."""
    given: dict[str, Any] = {}
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(
            streamable_http_client(f"{url}/mcp/{surface}", http_client=http),
            mode=ERAS[era],  # type: ignore[arg-type]
            read_timeout_seconds=PATIENCE,
        ) as client,
    ):
        given["instructions"] = client.instructions
        given["capabilities"] = lasting(client.server_capabilities.model_dump())
        named = [ref.replace(":", "__", 1) for ref in REFERENCES]
        tools = calls() if surface == "meta" else [(name, {"titel": 1}) for name in named]
        for method, params in [
            *requests(),
            *(("tools/call", {"name": name, "arguments": arguments}) for name, arguments in tools),
        ]:
            given[f"{method} {json.dumps(params)}"] = await answer(client, method, params)
        for path in ("/ready", "/metrics"):
            given[path] = metrics((await http.get(f"{url}{path}")).text)
    return given


async def answer(client: Client, method: str, params: dict[str, Any]) -> Any:
    try:
        return lasting(await asked(client, method, **params))
    except MCPError as error:
        return error.code, error.message, error.data


def lasting(value: Any) -> Any:
    """Return an answer without times, cursors, their tokens and ids of gateways, which are never the same."""
    if isinstance(value, dict):
        varying = {"durationMs", "nextCursor", "response", "toolcrib/gateways"}
        return {key: lasting(each) for key, each in value.items() if key not in varying}
    if isinstance(value, list):
        return [lasting(each) for each in value]
    is_json = isinstance(value, str) and value.startswith("{") and value.endswith("}")
    return lasting(json.loads(value)) if is_json else value


def metrics(text: str) -> list[str]:
    """Return the lines of counters, without times."""
    varying = re.compile(r"process_|_seconds_(bucket|sum)|_created")
    return [line for line in text.splitlines() if not varying.search(line)]


@pytest.mark.parametrize("surface", ["meta", "all"])
@pytest.mark.parametrize("era", ERAS)
async def test_gateway_with_hidden_tools_answers_as_one_without(era: str, surface: str) -> None:
    async with served(RULES, hides=True) as (_, one), served(RULES, hides=False) as (_, other):
        found, expected = await answers(one, era, surface), await answers(other, era, surface)
    different = {key: (found[key], expected[key]) for key in expected if found[key] != expected[key]}
    assert different == {}
    assert len(found) > 50


@pytest.mark.parametrize(
    ("ref", "code", "rule"),
    [
        ("hr:fire_employee", "denied", "no hr"),
        ("hr:no_such_tool", "denied", "no hr"),
        ("notes:erase_note", "denied", "no erasing at all"),
        ("notes:purge_notes", "tool_not_found", None),
        ("other:tool", "denied", None),
        ("notes:raed", "tool_not_found", None),
    ],
)
async def test_refused_id_is_denied_whether_or_not_a_tool_has_it(
    ref: str, code: str, rule: str | None
) -> None:
    async with served(RULES, hides=True) as (_, url):
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            ran = await client.call_tool("run_tool", {"tool_id": ref})
    error = (ran.structured_content or {})["error"]
    assert (error["code"], error.get("details", {}).get("rule")) == (code, rule)
    assert not any(hidden in error["message"] for hidden in HIDDEN if hidden != ref)

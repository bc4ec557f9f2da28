"""Values that the configuration marks as secret, as clients and operators see them."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway.passing import ERAS, asked, join, list_items
from mcp import Client, MCPError
from mcp_types import PromptReference
from servers.telltale import ENCODINGS, PLACES
from waiting import until

from toolcrib import Crib
from toolcrib.errors import ToolcribError
from toolcrib.gateway import Gateway

pytestmark = pytest.mark.anyio
SECRET = "zK7/p+q9'W=tr-55\"x"  # noqa: S105 - it is none
"""Quotes and signs that each encoding writes differently."""
BEARER = "Tz8-kq.47_Xw~b2"
_SCRIPT = Path(__file__).parent.parent / "servers" / "telltale.py"


def telltale(*options: str, secret: str = SECRET) -> dict[str, Any]:
    """Return how the server is started."""
    return {
        "command": sys.executable,
        "args": ["-S", "-I", str(_SCRIPT), *options],
        "env": {"SHOP_TOKEN": secret},
    }


def reveals(shown: Any, secret: str = SECRET) -> bool:
    """Return whether a text, or a value, holds the secret in any encoding."""
    text = shown if isinstance(shown, str) else repr(shown)
    core = ("base64", "urlsafe", "hex", "upper", "url", "percent", "plain")
    forms = [ENCODINGS[each](secret) for each in core]
    forms += [json.dumps(secret)[1:-1], ENCODINGS["basic"](secret)[8:-4], ENCODINGS["inside"](secret)[14:-10]]
    forms += [secret[3:-3]]
    return any(form.rstrip("=") in text for form in forms)


async def tell(client: Client, place: str, encoding: str, heard: list[Any]) -> str:
    """Return all that a client learns from a call."""

    async def hear(*update: Any) -> None:
        heard.append(update)

    try:
        result = await client.call_tool(
            "tell", {"place": place, "encoding": encoding}, progress_callback=hear
        )
    except MCPError as error:
        return f"{error.message} {error.data!r}"
    return result.model_dump_json()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server_era", ["handshake", "stateless"])
async def test_secret_of_environment_reaches_no_client(
    era: str, server_era: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = ("--modern",) if server_era == "stateless" else ()
    heard: list[Any] = []
    shown: dict[tuple[str, str], str] = {}

    async def log(params: Any) -> None:
        heard.append(params)

    with caplog.at_level(logging.DEBUG, logger="toolcrib"):
        async with join(era, {"telltale": telltale(*options)}, logging_callback=log) as client:
            for place in PLACES:
                for encoding in ENCODINGS if place != "stderr" else ("plain",):
                    shown[place, encoding] = await tell(client, place, encoding, heard)
            lists = [
                await list_items(client, "tools/list", "tools"),
                await list_items(client, "resources/list", "resources"),
                await list_items(client, "prompts/list", "prompts"),
                client.instructions,
            ]
            read = await asked(client, "resources/read", uri="telltale://it")
            with pytest.raises(MCPError) as refused:
                await client.get_prompt("it")
            completed = await client.complete(PromptReference(name="it"), {"name": "x", "value": ""})
    assert [key for key, text in shown.items() if reveals(text)] == []
    assert shown["content", "plain"].count("[secret]") >= 1
    assert not reveals(heard)
    assert not reveals(lists)
    assert not reveals(read)
    assert not reveals([refused.value.message, refused.value.data, completed])
    assert not reveals(caplog.text)


@pytest.mark.parametrize("verb", ["run_tool", "run_chain", "execute_code"])
async def test_secret_reaches_no_client_through_meta_tools(verb: str) -> None:
    for place in ("error", "data", "is_error", "content", "structured"):
        args = {"place": place, "encoding": "basic"}
        step = {"tool_id": "telltale:tell", "args": args}
        code = f"print(await telltale.tell(**{args!r}))"
        given = {"run_tool": step, "run_chain": {"steps": [step]}, "execute_code": {"code": code}}[verb]
        async with join("stateless", {"telltale": telltale()}, expose="meta") as client:
            result = await client.call_tool(verb, given)
        assert "tell" in result.model_dump_json()
        assert not reveals(result.model_dump_json())


async def test_secret_is_hidden_in_status_audit_and_errors_of_the_library(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    settings = {"servers": {"telltale": telltale()}, "audit": {"path": str(audit)}}
    raised: list[str] = []
    async with Crib(settings) as crib:
        await crib.ready()
        for place in ("error", "data", "is_error", "stderr"):
            try:
                await crib.run("telltale:tell", {"place": place, "encoding": "hex"})
            except ToolcribError as error:
                cause = error.__cause__
                raised += [str(error), str(cause)]
                raised += [repr(getattr(error, "result", ""))]
                raised += [repr(getattr(cause, name, "")) for name in ("data", "stderr")]
        await until(lambda: crib.status()["telltale"].last_error, "the server's end is seen")
        status = repr(crib.status())
    assert len(raised) == 20
    assert not reveals(raised)
    assert not reveals(status)
    assert audit.read_text()
    assert not reveals(audit.read_text())


@contextmanager
def telltale_url() -> Iterator[str]:
    """Serve over HTTP for a while."""
    command = [sys.executable, "-S", "-I", str(_SCRIPT), "--http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.kill()


@pytest.mark.parametrize("header", [f"Bearer {BEARER}", "Bearer ${TELLTALE}"], ids=["literal", "variable"])
async def test_secret_of_header_reaches_no_client(header: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELLTALE", BEARER)
    shown = []
    with telltale_url() as url:
        server = {"url": url, "headers": {"Authorization": header}}
        async with join("stateless", {"telltale": server}) as client:
            for place in ("error", "data", "is_error", "content", "structured"):
                shown += [await tell(client, place, encoding, []) for encoding in ENCODINGS]
    assert len(shown) == 5 * len(ENCODINGS)
    assert not any(reveals(each, BEARER) for each in shown)


@pytest.mark.parametrize("expose", ["meta", "all"])
@pytest.mark.parametrize("era", ERAS)
async def test_stderr_of_broken_server_reaches_operators_and_no_client(era: str, expose: str) -> None:
    settings = {"servers": {"telltale": telltale("--broken")}}
    gateway = Gateway(settings, expose=expose)
    told: list[str] = []
    async with gateway, Client(gateway.endpoint(), mode=ERAS[era]) as client:  # type: ignore[arg-type]
        uri = "toolcrib://servers/telltale/telltale://it"
        requests: list[tuple[str, dict[str, Any]]] = [
            ("resources/read", {"uri": uri}),
            ("resources/read", {"uri": "telltale://it"}),
            ("prompts/get", {"name": "telltale_it"}),
            ("prompts/get", {"name": "it"}),
            ("resources/subscribe", {"uri": uri}),
            ("completion/complete", {"ref": {"type": "ref/prompt", "name": "telltale_it"},
                                     "argument": {"name": "x", "value": ""}}),
            ("completion/complete", {"ref": {"type": "ref/resource", "uri": uri},
                                     "argument": {"name": "x", "value": ""}}),
            ("resources/list", {}),
            ("prompts/list", {}),
            ("tools/list", {}),
            ("tools/call", {"name": "telltale_tell", "arguments": {}}),
        ]  # fmt: skip
        if expose == "meta":
            step = {"tool_id": "telltale:tell", "args": {}}
            code = "print(await telltale.tell())"
            calls = {
                "run_tool": step,
                "run_chain": {"steps": [step]},
                "execute_code": {"code": code},
                "describe_tool": {"tool_id": "telltale:tell"},
                "search_tools": {"query": "tell"},
            }
            requests += [("tools/call", {"name": name, "arguments": args}) for name, args in calls.items()]
        for method, params in requests:
            try:
                told.append(repr(await asked(client, method, **params)))
            except MCPError as error:
                told.append(f"{error.message} {error.data!r}")
        status = gateway.crib.status()["telltale"]
    assert any("is unavailable" in each for each in told)
    assert [each for each in told if "cannot start with" in each or "/srv/private" in each] == []
    assert "cannot start with the token [secret] in /srv/private" in status.stderr


@pytest.mark.parametrize(
    "settings",
    [
        {"command": "${PLACE}/missing"},
        {"command": "${PLACE}"},
        {"command": sys.executable, "cwd": "${PLACE}/missing"},
        {"url": "${PLACE_URL}/mcp"},
        {"url": "http://${PLACE_HOST}/team/mcp"},
        {"command": sys.executable, "args": ["-c", "import sys; sys.exit(sys.argv[1])", "${PLACE_KEY}"]},
    ],
    ids=["program", "folder", "cwd", "url", "host", "args"],
)
async def test_status_shows_no_value_from_the_environment(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "customer-anna"
    folder.mkdir()
    monkeypatch.setenv("PLACE", str(folder))
    monkeypatch.setenv("PLACE_URL", "http://127.0.0.1:1/customer-anna")
    monkeypatch.setenv("PLACE_HOST", "customer-anna.invalid:1")
    monkeypatch.setenv("PLACE_KEY", "customer-anna-4f8a91c2")
    async with Crib({"servers": {"it": settings}}) as crib:
        with pytest.raises(ToolcribError) as raised:
            await crib.run("it:tell", {})
        status = crib.status()["it"]
    assert status.last_error
    assert "customer-anna" not in repr(status)
    assert "customer-anna" not in f"{raised.value} {raised.value.__cause__}"

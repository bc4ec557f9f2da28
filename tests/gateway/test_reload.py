"""A configuration that changes while clients are there."""

import json
import logging
import os
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import httpx
import pytest
from gateway.little_face import LittleFace, serving
from mcp import Client
from servers.launch import little
from waiting import PATIENCE, until

import toolcrib
from toolcrib.errors import ConfigError, CribStateError
from toolcrib.gateway import Gateway
from toolcrib.gateway.addresses import EndpointAddress
from toolcrib.gateway.watch import mark_of, watch

pytestmark = pytest.mark.anyio


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def shout(text: str) -> str:
    """Convert a text to upper case."""
    return text.upper()


TOOLS = [
    toolcrib.tool(namespace="math")(add),
    toolcrib.tool(namespace="text")(shout),
]


def write(path: Path, text: str) -> None:
    """Replace a file as editors do."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def toolsets(**sets: Any) -> str:
    return "".join(f"[toolsets.{name}]\nnamespaces = {json.dumps(spaces)}\n" for name, spaces in sets.items())


async def status(url: str, token: str = "") -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client:
        return (await client.get(url)).status_code


async def names(gateway: Gateway, toolset: str | None) -> list[str]:
    async with Client(gateway.endpoint(toolset)) as client:
        listed = await client.call_tool("list_tools", {})
    assert listed.structured_content is not None
    return [each["id"] for each in listed.structured_content["tools"]]


async def test_toolsets_have_endpoints_that_follow_the_file(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text(toolsets(a=["math"], b=["math"], c=["text"]))
    async with Gateway(config, tools=TOOLS, watch=False) as gateway:
        assert gateway.toolsets == ("a", "b", "c")
        assert await names(gateway, None) == ["math:add", "text:shout"]
        assert await names(gateway, "a") == ["math:add"]
        same, changed, gone = gateway.endpoint("a"), gateway.endpoint("b"), gateway.find(EndpointAddress("c"))
        write(config, toolsets(a=["math"], b=["text"], maths=["math", "text"]))
        await gateway.reload()
        assert gateway.toolsets == ("a", "b", "maths")
        assert gateway.endpoint("a") is same
        assert gateway.endpoint("b") is changed
        assert await names(gateway, "b") == ["text:shout"]
        assert await names(gateway, "maths") == ["math:add", "text:shout"]
        assert gone is not None
        assert gone.closed.is_set()
        with pytest.raises(ConfigError, match="no toolset 'c'; there are a, b, maths"):
            gateway.endpoint("c")
        with pytest.raises(ConfigError, match="no toolset 'mathe'; did you mean 'maths'"):
            gateway.endpoint("mathe")


async def test_a_file_that_cannot_be_used_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text(toolsets(a=["math"]))
    async with Gateway(config, tools=TOOLS, watch=False) as gateway:
        for text in ("[toolsets", "[gateway]\ntoken = '${NOBODY_KNOWS}'\n", "[toolsets.b]\nid = 1\n"):
            caplog.clear()
            write(config, text)
            await gateway.reload()
            assert "the configuration stays as it was" in caplog.text
            assert gateway.toolsets == ("a",)


async def test_a_session_goes_on_while_its_toolset_changes_and_hears_of_it(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text(toolsets(a=["math"], b=["math"]))
    faces: list[LittleFace] = []

    def face(*parts: Any) -> LittleFace:
        faces.append(LittleFace().take(*parts))
        faces[-1].names.append(f"echo{len(faces)}")
        return faces[-1]

    told = anyio.Event()

    async def note(message: Any) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            told.set()

    async def wait(client: Client) -> None:
        answers.append((await client.call_tool("wait", {})).structured_content)

    answers: list[Any] = []
    async with Gateway(config, frontends=face, watch=False) as gateway, serving(gateway) as url:
        with anyio.fail_after(PATIENCE):
            async with (
                Client(f"{url}/mcp/a", mode="legacy", message_handler=note) as kept,
                Client(f"{url}/mcp/b", mode="legacy") as gone,
                anyio.create_task_group() as tasks,
            ):
                await kept.list_tools()
                await gone.list_tools()
                tasks.start_soon(wait, kept)
                tasks.start_soon(wait, gone)
                await faces[1].started.wait()
                await faces[2].started.wait()
                write(config, toolsets(a=["text"]))
                await gateway.reload()
                assert await status(f"{url}/mcp/b") == 404
                await told.wait()
                faces[1].go_on.set()
                faces[2].go_on.set()
    assert answers == [{"value": "waited"}] * 2
    assert len(faces) == 4


async def test_the_file_is_watched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcrib.gateway")
    config = tmp_path / "toolcrib.toml"
    config.write_text("")
    async with Gateway(config, tools=TOOLS) as gateway:
        write(config, toolsets(a=["math"]))
        await until(lambda: "was read again: other toolsets: a" in caplog.text)
        assert gateway.toolsets == ("a",)


async def test_log_warns_that_no_client_can_call_without_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "toolcrib.toml"
    one = f'[gateway.tokens.ann]\nhash = "sha256:{"0" * 64}"\n'
    config.write_text(one)
    async with Gateway(config, tools=TOOLS, watch=False) as gateway:
        for text in (one + 'groups = ["a"]\n', "[gateway.tokens]\n", "[gateway.tokens]\n# still\n", one, ""):
            write(config, text)
            await gateway.reload()
    told = [each.getMessage() for each in caplog.records if "was read again" not in each.getMessage()]
    closed, opened = told
    assert closed.startswith("nobody can call the gateway over HTTP any more: a token is required, but")
    assert "toolcrib token add NAME" in closed
    assert opened == "the gateway no longer requires a token from clients"


async def test_a_gateway_that_asks_for_other_tokens_is_not_said_to_ask_for_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "toolcrib.toml"
    named = f'[gateway.tokens.ann]\nhash = "sha256:{"0" * 64}"\n'
    config.write_text(f"[gateway]\ntoken = 'secret-one'\n{named}")
    async with Gateway(config, tools=TOOLS, watch=False) as gateway:
        write(config, named)
        await gateway.reload()
    assert "no longer requires a token" not in caplog.text


async def test_reload_logs_changes_and_settings_that_need_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolcrib.gateway")
    config = tmp_path / "toolcrib.toml"
    config.write_text("[gateway]\ntoken = 'secret-one'\n")
    async with Gateway(config, tools=TOOLS, watch=False) as gateway:
        await gateway.reload()
        write(config, "[gateway]\nport = 1\nconfirm = false\n" + toolsets(a=["math"]))
        await gateway.reload()
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING, logging.WARNING]
    same, told, warned = (record.getMessage() for record in caplog.records)
    assert same.endswith(": nothing that concerns the gateway has changed")
    assert told.endswith(
        ": other toolsets: a; other gateway settings: token, confirm; after a restart: gateway.port"
    )
    assert warned == "the gateway no longer requires a token from clients"
    assert "secret" not in caplog.text


async def test_a_tool_that_is_excluded_is_gone_before_the_tools_of_what_left_are(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    servers = (
        f"[servers.little]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(little()['args'])}\n"
    )
    config.write_text(toolsets(a=["math", "text"], b=["little"]) + servers)
    seen: list[tuple[int, list[str]]] = []
    async with Gateway(config, tools=TOOLS, watch=False) as gateway:
        with anyio.fail_after(PATIENCE):
            await gateway.crib.ready()
            find = gateway.crib.index.on_change(
                lambda _: seen.append((len(gateway.crib.index), list(gateway.toolsets)))
            )
            write(config, toolsets(a=["math"]))
            await gateway.reload()
            find()
    assert seen
    assert all(names == ["a"] for _, names in seen)


async def test_a_toolset_that_leaves_with_its_server_does_not_end_the_following(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    servers = (
        f"[servers.little]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(little()['args'])}\n"
    )
    config.write_text(toolsets(b=["little"]) + servers)
    async with Gateway(config, tools=TOOLS, watch=False) as gateway:
        with anyio.fail_after(PATIENCE):
            await gateway.crib.ready()
            write(config, "")
            await gateway.reload()
            write(config, toolsets(c=["math"]))
            await gateway.reload()
            gateway.crib.add(shout, namespace="loud")
            await until(lambda: "loud" in (gateway.endpoint().instructions or ""))
        assert gateway.toolsets == ("c",)
        assert gateway.unready() == {}


async def test_a_gateway_that_follows_nothing_any_more_is_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Gateway):
        async def reload(self) -> None:
            raise LookupError("broken")

    config = tmp_path / "toolcrib.toml"
    config.write_text("")
    async with Broken(config, tools=TOOLS) as gateway:
        assert gateway.unready() == {}
        write(config, toolsets(a=["math"]))
        await until(lambda: "gateway" in gateway.unready())
    assert "no longer follows changes of tools and configuration" in caplog.text


async def test_an_endpoint_that_cannot_follow_is_logged_as_such(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolcrib.gateway")
    config = tmp_path / "toolcrib.toml"
    config.write_text("")
    made: list[LittleFace] = []

    def face(*_: Any) -> LittleFace:
        if made:
            raise LookupError("no second face")
        made.append(LittleFace())
        return made[0]

    async with Gateway(config, frontends=face, watch=False) as gateway:
        write(config, toolsets(a=["math"]))
        await gateway.reload()
    assert "applied, but not by all endpoints" in caplog.text
    assert "stays as it was" not in caplog.text


async def test_configuration_that_is_no_file_changes_and_blocks_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text("")
    async with Gateway(config, tools=TOOLS, watch=False) as gateway:
        config.unlink()
        os.mkfifo(config)
        with anyio.fail_after(PATIENCE):
            await gateway.reload()
    assert "the configuration stays as it was" in caplog.text


async def test_an_api_that_is_required_counts_for_readiness(tmp_path: Path) -> None:
    lost = {"document": str(tmp_path / "none.json"), "required": True}
    async with Gateway({"openapi": {"lost": lost, "other": {**lost, "required": False}}}) as gateway:
        await until(lambda: "lost" in gateway.unready())
        assert set(gateway.unready()) == {"lost"}


async def test_a_gateway_without_a_file_has_nothing_to_read_again() -> None:
    async with Gateway(tools=TOOLS) as gateway:
        await gateway.reload()
        assert await names(gateway, None) == ["math:add", "text:shout"]


async def test_a_gateway_that_is_not_open_has_no_endpoints() -> None:
    with pytest.raises(CribStateError, match="not open"):
        Gateway(tools=TOOLS).endpoint()


async def test_the_token_may_not_go_while_others_can_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text("[gateway]\ntoken = 'one'\n")
    async with Gateway(config, tools=TOOLS, watch=False) as gateway, serving(gateway, host="0.0.0.0") as url:  # noqa: S104 - it has a token
        here = url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - it has a token
        write(config, "")
        await gateway.reload()
        assert "needs a token" in caplog.text
        assert await status(f"{here}/metrics") == 401
        write(config, "[gateway]\ntoken = 'two'\n")
        await gateway.reload()
        for token, expected in (("one", 401), ("two", 200)):
            assert await status(f"{here}/metrics", token) == expected


async def test_a_file_has_changed_when_it_is_written_replaced_or_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    seen: list[str] = []
    heard = anyio.Event()

    async def note() -> None:
        seen.append(file.read_text())
        heard.set()

    async def change(text: str) -> None:
        nonlocal heard
        heard = anyio.Event()
        write(file, text)
        with anyio.fail_after(PATIENCE):
            await heard.wait()

    file.write_text("one")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: watch(str(file), mark_of(file), note, every=0.01, settled=0.01))
        await anyio.wait_all_tasks_blocked()
        await change("two")
        file.unlink()
        await until(lambda: caplog.records)
        await anyio.sleep(0.05)  # in which it looks again, and says no more
        await change("three")
        os.utime(file, (1, 1))
        await until(lambda: len(seen) == 3)
        tasks.cancel_scope.cancel()
    assert seen == ["two", "three", "three"]
    assert [record.message for record in caplog.records] == [
        f"the configuration file {str(file)!r} is gone; the last version read stays in force"
    ]


async def test_a_gateway_whose_face_cannot_be_made_leaves_nothing_open() -> None:
    def fail(*_: Any) -> Any:
        raise ConfigError("x", ())

    gateway = Gateway(tools=TOOLS, frontends=fail)
    with pytest.raises(ConfigError):
        await gateway.__aenter__()
    with pytest.raises(CribStateError, match="closed"):
        await gateway.crib.search("add")


def test_outside_of_the_main_thread_signals_are_left_alone() -> None:
    async def serve() -> None:
        async with Gateway(tools=TOOLS) as gateway, serving(gateway) as url:
            codes.append(await status(f"{url}/health"))

    codes: list[int] = []
    thread = Thread(target=anyio.run, args=(serve,))
    thread.start()
    thread.join(PATIENCE)
    assert codes == [200]

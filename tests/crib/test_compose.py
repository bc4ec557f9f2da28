"""Composition of a crib from parts that are missing or fail."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from waiting import PATIENCE

from toolcrib import Crib, DefaultValidator, SyncCrib, Tool
from toolcrib.crib.sources import Origin, ToolLister
from toolcrib.crib.sources.catalogue import CatalogueWriter, keep_only
from toolcrib.discovery import Discovery, MemoryStore, StaticEmbedder, StoredTool
from toolcrib.errors import EmbeddingError, InputValidationError, ServerUnavailableError, StoreError
from toolcrib.execution import Outcome, Principal
from toolcrib.model import McpBackend

pytestmark = pytest.mark.anyio


def made(name: str, **fields: Any) -> Tool:
    fields = {"input_schema": {}, "namespace": "text", "backend": McpBackend(server_name="text")} | fields
    return Tool(name=name, **fields)


def origin(name: str = "text", **fields: Any) -> Origin:
    async def nothing() -> tuple[Tool, ...]:
        return ()

    return Origin(**{"name": name, "key": f"mcp:{name}", "identity": "1", "list_tools": nothing} | fields)


async def test_tools_are_found_by_meaning_where_there_is_a_model(tmp_path: Path) -> None:
    table = {"umbrella": [1, 0], "weather": [1, 0.1], "mail": [0, 1]}
    StaticEmbedder.save(str(tmp_path), ["[UNK]", *table], np.array([[0, 0], *table.values()]))
    for searcher in ("auto", "hybrid"):
        crib = Crib({"search": {"searcher": searcher, "model": str(tmp_path)}})
        crib.discovery.register(made("forecast", description="Tell the weather."))
        crib.discovery.register(made("send", description="Send a mail."))
        found = await crib.search("shall I take an umbrella?")
        assert (found.items[0].summary.name, found.items[0].score_type) == ("forecast", "hybrid")
    words = Crib({"search": {"searcher": "bm25", "model": str(tmp_path)}})
    words.discovery.register(made("forecast", description="Tell the weather."))
    assert (await words.search("weather")).items[0].score_type == "bm25"


@pytest.mark.parametrize(
    ("search", "score_type"),
    [({}, "hybrid"), ({"searcher": "hybrid"}, "hybrid"), ({"searcher": "bm25"}, "bm25")],
)
async def test_without_a_model_the_built_in_one_finds_tools_by_meaning(
    search: dict[str, Any], score_type: str
) -> None:
    crib = Crib({"search": search})
    crib.discovery.register(made("forecast", description="Tell the weather."))
    assert (await crib.search("weather")).items[0].score_type == score_type


@pytest.mark.parametrize("searcher", ["auto", "hybrid"])
async def test_a_model_that_is_not_there_is_told_at_once(tmp_path: Path, searcher: str) -> None:
    with pytest.raises(EmbeddingError):
        Crib({"search": {"searcher": searcher, "model": str(tmp_path / "none")}})


async def test_a_model_that_is_not_installed_is_done_without_unless_it_is_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(EmbeddingError, match="did you mean 'minilm'"):
        Crib({"search": {"searcher": "hybrid", "model": "minlm"}})
    with caplog.at_level(logging.WARNING):
        crib = Crib({"search": {"model": "minlm"}})
    assert "tools are found with the built-in model: embedding with 'minlm' failed" in caplog.text
    crib.discovery.register(made("forecast", description="Tell the weather."))
    assert (await crib.search("weather")).items[0].score_type == "hybrid"


@pytest.mark.parametrize("name", ["mine", "./mine", "mine/"])
async def test_a_folder_may_be_written_as_a_name_where_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    StaticEmbedder.save(
        tmp_path / "mine", ["[UNK]", "umbrella", "weather"], np.array([[0, 0], [1, 0], [1, 0.1]])
    )
    monkeypatch.chdir(tmp_path)
    crib = Crib({"search": {"searcher": "hybrid", "model": name}})
    crib.discovery.register(made("forecast", description="Tell the weather."))
    assert (await crib.search("umbrella")).items[0].summary.name == "forecast"


@pytest.mark.parametrize("searcher", ["auto", "hybrid"])
def test_a_folder_that_is_called_as_the_built_in_model_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searcher: str
) -> None:
    (tmp_path / "static").mkdir()
    monkeypatch.chdir(tmp_path)
    Crib({"search": {"searcher": searcher, "model": "static"}})
    with pytest.raises(EmbeddingError, match=r"the folder has no 'vocab\.txt'"):
        Crib({"search": {"searcher": searcher, "model": "./static"}})


def error_text(code: str, folder: Path) -> list[str]:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=True)
    return ran.stdout.splitlines()


@pytest.mark.proof
@pytest.mark.parametrize(("searcher", "said"), [("auto", "hybrid"), ("hybrid", "MissingExtraError")])
def test_without_the_extra_of_the_model_the_built_in_one_must_do(
    tmp_path: Path, searcher: str, said: str
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    code = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from toolcrib import SyncCrib\n"
        "try:\n"
        f"    crib = SyncCrib({{'search': {{'searcher': {searcher!r}, 'model': '.'}}}})\n"
        "    @crib.add\n"
        "    def add(a: int, b: int) -> int: return a + b\n"
        "    print(crib.search('add').items[0].score_type)\n"
        "except ImportError as error: print(type(error).__name__)\n"
    )
    assert error_text(code, tmp_path) == [said]


def test_without_the_mcp_extra_servers_are_unavailable_and_functions_are_not(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "from toolcrib import SyncCrib\n"
        "with SyncCrib({'mcpServers': {'text': {'command': 'x'}}}) as crib:\n"
        "    @crib.add\n"
        "    def add(a: int, b: int) -> int: return a + b\n"
        "    print(crib.run('add', {'a': 1, 'b': 2}).structured)\n"
        "    try: crib.run('text:shout')\n"
        "    except ConnectionError as error: print(error)\n"
    )
    first, second = error_text(code, tmp_path)
    assert first == "3"
    assert second.endswith("pip install 'toolcrib[mcp]'")


async def test_a_store_that_fails_costs_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with Crib({"store": str(tmp_path / "catalogue.db")}) as crib:

            @crib.add
            def find():  # type: ignore[no-untyped-def]  # noqa: ANN202 - so that nothing is known of the result
                """Find something."""
                return {"found": True}

            store = crib.discovery.index.store
            assert store is not None
            store.close()
            assert (await crib.run("find")).structured == {"found": True}
    assert "nothing was learned from the result of find" in caplog.text
    assert "the uses of find are not counted" in caplog.text
    assert "the catalogue could not be written" in caplog.text


async def test_a_tool_that_is_gone_is_not_counted() -> None:
    crib = Crib()

    class Remover:
        def begin(self, tool_id: str, principal: Principal | None) -> Any:  # noqa: ARG002 - a protocol's
            def ended(outcome: Outcome) -> None:
                crib.discovery.unregister(outcome.tool_id)

            return ended

    crib = Crib(observers=[Remover()])

    @crib.add
    def once() -> int:
        """Run once."""
        return 1

    assert (await crib.run("once")).structured == 1
    assert crib.discovery.index.usage() == {}


async def test_after_many_runs_only_some_results_are_looked_at() -> None:
    crib = Crib()

    @crib.add
    async def find():  # type: ignore[no-untyped-def]  # noqa: ANN202 - so that nothing is known of the result
        """Find something."""
        return 1

    for _ in range(80):
        await crib.run("find")
    learnt = (await crib.describe("find")).observed_output
    assert learnt is not None
    assert learnt.observed == 65
    assert crib.discovery.index.usage() == {"find": 80}


def test_a_binding_that_cannot_be_read_is_dropped() -> None:
    store = MemoryStore()
    store.write_texts("origins", {"mcp:text": "1", "mcp:gone": "2"})
    good = json.dumps([{"kind": "mcp", "serverName": "text"}])
    rows = {"text:a": good, "text:b": "nonsense", "text:c": "5", "text:d": '[5, {"kind": "mcp"}]'}
    store.write(StoredTool(name, "{}", backends, "[]", "[]", "x") for name, backends in rows.items())
    kept = keep_only(store, {"mcp:text": "1", "mcp:gone": "3"})
    assert {key: known.ids for key, known in kept.items()} == {"mcp:text": frozenset({"text:a"})}
    assert [row.id for row in store.tools()] == ["text:a"]
    assert dict(store.texts("origins")) == {"mcp:text": "1"}


def test_the_catalogue_follows_a_server_whatever_else_happened_to_its_tools() -> None:
    discovery = Discovery()
    catalogue = CatalogueWriter(discovery)
    assert catalogue.replace("mcp:text", [made("a"), made("b"), made("c", backend=None)]) == 2
    discovery.unregister("text:a")
    assert catalogue.replace("mcp:text", [made("b", description="Changed.")]) == 1
    assert [summary.id for summary in discovery.tools()] == ["text:b"]
    assert discovery.index.get("text:b").description == "Changed."


async def test_an_origin_that_breaks_in_an_unknown_way_breaks_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken() -> tuple[Tool, ...]:
        raise ZeroDivisionError

    taken: list[str] = []
    listing = ToolLister(
        [origin("bad", list_tools=broken, required=True), origin("good")],
        lambda each, _: taken.append(each.name),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listing.run)
        with anyio.fail_after(PATIENCE):
            with pytest.raises(ServerUnavailableError, match="listing its tools failed: ZeroDivisionError"):
                await listing.wait_all(None)
            await listing.wait(["good"])
            await listing.wait_again("good")
        listing.note("nobody", ())
        tasks.cancel_scope.cancel()
    assert taken == ["good"]
    assert "listing the tools of 'bad' failed" in caplog.text


async def test_an_answer_that_cannot_be_kept_is_a_failure_of_its_server() -> None:
    def full(*_: Any) -> None:
        raise StoreError("catalogue.db", "the disk is full")

    listing = ToolLister([origin()], full)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listing.run)
        with anyio.fail_after(PATIENCE):
            await listing.wait(["text"])
        assert "the disk is full" in str(listing.failure(listing.origins["text"]))
        tasks.cancel_scope.cancel()


async def test_that_nothing_came_is_a_failure_of_the_server_although_it_cannot_be_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken() -> tuple[Tool, ...]:
        raise ServerUnavailableError("text", "it is broken")

    def full(*_: Any) -> None:
        raise StoreError("catalogue.db", "the disk is full")

    listing = ToolLister([origin(list_tools=broken)], lambda *_: None, full)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listing.run)
        with anyio.fail_after(PATIENCE):
            await listing.wait(["text"])
        assert "it is broken" in str(listing.failure(listing.origins["text"]))
        tasks.cancel_scope.cancel()
    assert "it could not be stored that 'text' did not answer" in caplog.text


async def test_an_answer_that_breaks_what_keeps_it_takes_no_other_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken: list[str] = []

    def take(each: Origin, _: Any) -> None:
        if each.name == "bad":
            raise ZeroDivisionError
        taken.append(each.name)

    listing = ToolLister([origin("bad"), origin("good")], take)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listing.run)
        with anyio.fail_after(PATIENCE):
            await listing.wait(["bad", "good"])
        assert "cannot be kept: ZeroDivisionError" in str(listing.failure(listing.origins["bad"]))
        listing.note("good", ())
        with anyio.fail_after(PATIENCE):
            await listing.origins["good"].taken.wait()
        tasks.cancel_scope.cancel()
    assert taken == ["good", "good"]
    assert "the tools of 'bad' cannot be kept" in caplog.text


async def test_last_of_several_listings_counts() -> None:
    taken: list[int] = []
    listing = ToolLister([origin()], lambda _, tools: taken.append(len(tools)))
    listing.note("text", ())
    listing.note("text", (made("a"),))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listing.run)
        with anyio.fail_after(PATIENCE):
            await listing.wait(["text"])
        listing.note("text", (made("a"), made("b")))
        with anyio.fail_after(PATIENCE):
            await listing.origins["text"].taken.wait()
        tasks.cancel_scope.cancel()
    assert taken == [1, 2]


async def test_giving_up_while_a_crib_opens_closes_it(tmp_path: Path) -> None:
    crib = Crib({"store": str(tmp_path / "catalogue.db")})
    with anyio.CancelScope() as scope:
        scope.cancel()
        await crib.__aenter__()
    assert scope.cancelled_caught
    assert "closed" in repr(crib)


class Counting(DefaultValidator):
    """Counts validations."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def validate_input(self, tool: Tool, args: Any) -> None:
        self.asked.append(f"{tool.name} input")
        super().validate_input(tool, args)

    def validate_output(self, tool: Tool, value: Any) -> None:
        self.asked.append(f"{tool.name} output")
        super().validate_output(tool, value)


def test_a_validator_of_ones_own_checks_every_call() -> None:
    validator = Counting()
    crib = SyncCrib(validator=validator)

    @crib.add(namespace="math")
    def double(number: int) -> int:
        return 2 * number

    assert crib.run("math:double", {"number": 2}).structured == 4
    assert validator.asked == ["double input", "double output"]
    with pytest.raises(InputValidationError):
        crib.run("math:double", {"number": "two"})

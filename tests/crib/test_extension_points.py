"""Parts replaced by a program reach the crib, the synchronous crib, and the gateway."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from toolcrib import Crib, SyncCrib, Tool
from toolcrib.adapter import CanonicalTool, OpenAIAdapter
from toolcrib.discovery import Bm25Searcher, MemoryStore, SqliteStore
from toolcrib.errors import ConfigError, InvalidSchemaError, PolicyDeniedError, ToolError, ValidationError
from toolcrib.gateway import Gateway
from toolcrib.model import LocalTool
from toolcrib.runtime import BackendInfo, Bridge, Job, Limits, LimitsEnforced

pytestmark = pytest.mark.anyio

Cribs = Callable[..., Crib]


def of_sync(**parts: Any) -> Crib:
    return SyncCrib(**parts)._crib


def of_gateway(**parts: Any) -> Crib:
    return Gateway(**parts).crib


@pytest.fixture(params=[Crib, of_sync, of_gateway], ids=["Crib", "SyncCrib", "Gateway"])
def make(request: pytest.FixtureRequest) -> Cribs:
    made: Cribs = request.param
    return made


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Backwards(Bm25Searcher):
    """Ranks the other way round."""

    def search(self, query: str, **options: Any) -> Any:
        found = super().search(query, **options)
        found.reverse()
        return found


class Colours:
    """An embedder with a vocabulary of one word."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], /) -> Any:
        self.texts += texts
        return np.array([[1.0, float("colour" in text)] for text in texts])


class Echo:
    """A sandbox that gives back the code."""

    kind = "monty"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return None

    def info(self) -> BackendInfo:
        details = {"available": True, "profiles": ["standard"]}
        return BackendInfo(kind=self.kind, readiness="prod", details=details)

    def enforces(self, limits: Limits) -> LimitsEnforced:  # noqa: ARG002 - of the protocol
        return LimitsEnforced()

    async def run(self, job: Job, bridge: Bridge) -> Any:  # noqa: ARG002 - of the protocol
        return job.code


class Shouting(OpenAIAdapter):
    """Writes names in capitals."""

    def translate(self, tool: CanonicalTool, *, name: str | None = None, **options: Any) -> Any:
        return super().translate(tool, name=(name or tool.name).upper(), **options)


async def test_a_searcher_of_ones_own_ranks(make: Cribs) -> None:
    for searcher, first in ((Bm25Searcher(), "mail"), (Backwards(), "letter")):
        crib = make(searcher=searcher)
        for name, text in (("mail", "Send mail mail."), ("letter", "Send a letter, as mail, by post.")):
            crib.add(LocalTool(add, Tool(name=name, description=text, input_schema={})))
        assert (await crib.search("send mail")).items[0].summary.name == first


async def test_an_embedder_of_ones_own_makes_the_vectors(make: Cribs) -> None:
    embedder = Colours()
    crib = make(embedder=embedder)
    crib.add(add)
    await crib.search("colour")
    assert any("Add two numbers" in text for text in embedder.texts)


async def test_a_store_of_ones_own_keeps_the_catalogue(make: Cribs, tmp_path: Path) -> None:
    for store in (MemoryStore(), SqliteStore(tmp_path / "mine.db")):
        crib = make(store=store)
        crib.add(add)
        assert [row.id for row in store.tools()] == ["add"]
        async with crib:
            assert [row.id for row in store.tools()] == ["add"]
        assert [row.id for row in store.tools()] == ["add"]  # it is still open
        store.close()


async def test_a_sandbox_of_ones_own_runs_code(make: Cribs) -> None:
    crib = make(sandboxes=[Echo()])
    assert (await crib.execute("__out = 1")).value == "__out = 1"
    async with crib:
        assert (await crib.execute("__out = 2")).value == "__out = 2"


async def test_a_policy_of_ones_own_refuses(make: Cribs) -> None:
    crib = make(policy=lambda request: f"not {request.tool_id}")
    crib.add(add)
    with pytest.raises(PolicyDeniedError, match="not add"):
        await crib.run("add", {"a": 1, "b": 2})


async def test_a_validator_of_ones_own_checks_calls(make: Cribs) -> None:
    class Strict:
        def validate(self, schema: Any, instance: Any) -> None: ...

        def validate_input(self, tool: Any, args: Any) -> None:  # noqa: ARG002 - of the protocol
            raise ValidationError((), "never")

        def validate_output(self, tool: Any, result: Any) -> None: ...

    crib = make(validator=Strict())
    crib.add(add)
    with pytest.raises(ValidationError, match="never"):
        await crib.run("add", {"a": 1, "b": 2})


@pytest.mark.parametrize("kind", [Crib, of_sync], ids=["Crib", "SyncCrib"])
def test_an_adapter_of_ones_own_stands_in_for_one_of_its_name(kind: Cribs) -> None:
    crib = kind(adapters=[Shouting()])
    crib.add(add)
    assert crib.convert("openai")[0].payload["function"]["name"] == "ADD"
    assert kind().convert("openai") == []


def test_a_searcher_and_an_embedder_exclude_each_other(make: Cribs) -> None:
    with pytest.raises(ConfigError, match="put it into your own"):
        make(searcher=Bm25Searcher(), embedder=Colours())


def test_invalid_searcher_and_store_are_refused(make: Cribs) -> None:
    with pytest.raises(ValidationError, match="must be a Searcher, not object"):
        make(searcher=object())
    with pytest.raises(ValidationError, match="SqliteStore opens a file"):
        make(store="catalogue.db")


@pytest.mark.parametrize(
    ("parts", "kind", "message"),
    [
        ({"validator": 5}, ValidationError, "/validator: must be a SchemaValidator, not int"),
        ({"sandboxes": 5}, ConfigError, "/sandboxes: must be a list, not int"),
        ({"sandboxes": [object()]}, ConfigError, "/sandboxes: must be a Sandbox, not object"),
        ({"sandboxes": [Echo]}, ConfigError, "/sandboxes: must be a Sandbox, not the class Echo"),
        ({"middleware": None}, ConfigError, "/middleware: must be a list, not NoneType"),
        ({"policy": "no"}, ConfigError, "/policy: must be a function of a request, not str"),
    ],
    ids=["validator", "no list", "no sandbox", "class", "none", "policy"],
)
def test_a_part_of_another_kind_is_refused_when_the_crib_is_made(
    make: Cribs, parts: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        make(**parts)


class Checker:
    """A validator that answers as it is made to."""

    def __init__(self, answer: Callable[[], Any], op: str) -> None:
        self.answer, self.op = answer, op

    def validate(self, schema: Any, instance: Any) -> Any:  # noqa: ARG002 - of the protocol
        return self.answer() if self.op == "validate" else None

    def validate_input(self, tool: Any, args: Any) -> Any:  # noqa: ARG002 - of the protocol
        return self.answer() if self.op == "validate_input" else None

    def validate_output(self, tool: Any, result: Any) -> Any:  # noqa: ARG002 - of the protocol
        return self.answer() if self.op == "validate_output" else None


async def later() -> None: ...


@pytest.mark.parametrize("op", ["validate_input", "validate_output"])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda: {}["x"], "the validator failed: KeyError: 'x'"),
        (lambda: False, "returns None or raises, and this one returned bool"),
        (later, "returns None or raises, and this one returned coroutine"),
    ],
    ids=["fails", "returns a verdict", "is asynchronous"],
)
async def test_a_validator_that_cannot_say_refuses(answer: Callable[[], Any], op: str, message: str) -> None:
    crib = Crib(validator=Checker(answer, op))
    crib.add(add)
    with pytest.raises(ToolError, match=message) as caught:
        await crib.run("add", {"a": 1, "b": 2})
    assert (caught.value.tool_id, caught.value.op) == ("add", op)


def test_a_validator_that_fails_on_a_schema_refuses_the_tool() -> None:
    crib = Crib(validator=Checker(lambda: {}["x"], "validate"))
    with pytest.raises(InvalidSchemaError, match="add, input schema: the validator failed: KeyError: 'x'"):
        crib.add(add)

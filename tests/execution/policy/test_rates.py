"""Rate limits of the configuration, and the buckets in memory, in a file and in PostgreSQL."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contracts.token_buckets import HOUR, TokenBucketsContract, token

from toolcrib import Crib
from toolcrib.discovery import PostgresStore
from toolcrib.errors import (
    ChainError,
    CodeError,
    ConfigError,
    InputValidationError,
    PolicyDeniedError,
    RateLimitError,
    ValidationError,
    explain,
)
from toolcrib.execution import CallContext, Principal, RateRule, Request
from toolcrib.execution.entries import FileEntries
from toolcrib.execution.policy.rates import MemoryBuckets, RateLimiter
from toolcrib.execution.principal import Issuers
from toolcrib.model import Tool
from toolcrib.model.token_buckets import TokenBuckets

pytestmark = pytest.mark.anyio

ANN, BOB = (Principal(issuer="tokens", subject=name) for name in ("ann", "bob"))


class TestMemoryBuckets(TokenBucketsContract):
    @pytest.fixture
    def buckets(self) -> TokenBuckets:
        return MemoryBuckets()

    def test_full_buckets_are_forgotten(self) -> None:
        now = [0.0]
        buckets = MemoryBuckets(lambda: now[0])
        for number in range(100):
            buckets.take_tokens([token(str(number), 1, 1.0)])
        assert len(buckets) == 100
        now[0] = 1.5
        buckets.take_tokens([token("last", 1, 1.0)])
        assert len(buckets) == 1


class TestFileEntries(TokenBucketsContract):
    @pytest.fixture
    def buckets(self, tmp_path: Path) -> Iterator[TokenBuckets]:
        entries = FileEntries(tmp_path / "entries.db")
        yield entries
        entries.close()

    def test_two_processes_share_them(self, buckets: FileEntries, tmp_path: Path) -> None:
        other = FileEntries(tmp_path / "entries.db")
        assert buckets.take_tokens([token("a")]) is None
        assert other.take_tokens([token("a")]) is not None
        other.close()

    def test_clock_set_back_empties_a_bucket_at_most(
        self, buckets: FileEntries, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + 1e6)
        assert buckets.take_tokens([token("a", 2, 60.0)]) is None
        monkeypatch.undo()
        for _ in range(2):
            shortage = buckets.take_tokens([token("a", 2, 60.0)])
            assert shortage is not None
            assert 0 < shortage.wait <= 60.0


class TestPostgresStore(TokenBucketsContract):
    @pytest.fixture
    def buckets(self, database: str) -> Iterator[TokenBuckets]:
        with PostgresStore(database) as store:
            yield store

    def test_two_gateways_share_them(self, buckets: PostgresStore, database: str) -> None:
        with PostgresStore(database) as other:
            assert buckets.take_tokens([token("a")]) is None
            assert other.take_tokens([token("a")]) is not None

    def test_full_buckets_are_deleted(self, buckets: PostgresStore) -> None:
        for number in range(5):
            buckets.take_tokens([token(str(number), 2, 1e-6)])
        buckets.take_tokens([token("last")])
        with buckets.database.transaction() as connection:
            rows = connection.execute("SELECT id FROM toolcrib_entries WHERE collection = 'rates'").fetchall()
        assert [name for (name,) in rows] == ["last"]


def make_crib(*limits: dict[str, Any], **settings: Any) -> Crib:
    """Return a crib with two tools and with these limits."""
    crib = Crib({"rate_limits": [{"name": "few", "limit": "2/hour", **each} for each in limits], **settings})

    @crib.add(namespace="shop")
    async def price(sku: str) -> str:
        return sku

    @crib.add(namespace="web")
    async def fetch() -> str:
        return "page"

    return crib


async def allowed(crib: Crib, tool: str = "shop:price", principal: Principal | None = None) -> int:
    """Return how often a tool can be run before it is refused."""
    args = {"sku": "fig"} if tool == "shop:price" else {}
    for count in range(9):
        try:
            await crib.run(tool, args, principal=principal)
        except RateLimitError:
            return count
    return 9


async def test_call_beyond_a_limit_is_refused_with_the_time_to_wait() -> None:
    crib = make_crib({})
    assert await allowed(crib) == 2
    with pytest.raises(RateLimitError) as caught:
        await crib.run("shop:price", {"sku": "fig"})
    error = caught.value
    assert (error.limit, error.tool_id, error.op) == ("few", "shop:price", "policy")
    assert 0 < error.retry_after <= HOUR / 2
    assert "'few' of 2/hour is used up; try again in" in str(error)
    told = explain(error)
    assert (told["code"], told["retryable"]) == ("limit_exceeded", True)
    assert told["details"] == {"limit": "few", "retry_after": error.retry_after}


async def test_each_principal_has_a_limit_of_its_own_and_unknown_clients_share_one() -> None:
    crib = make_crib({})
    assert [await allowed(crib, principal=each) for each in (ANN, BOB, ANN)] == [2, 2, 0]
    assert await allowed(crib, principal=Principal(issuer="tokens", subject="ann", client="editor")) == 0
    clients = [Principal(client=f"mcp:{name}") for name in "ab"]
    assert [await allowed(crib, principal=each) for each in clients] == [2, 0]


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        (["principal"], [2, 0, 2]),
        (["tool"], [2, 2, 0]),
        (["server", "principal"], [2, 2, 2]),
        ([], [2, 0, 0]),
    ],
    ids=["principal", "tool", "server and principal", "all"],
)
async def test_calls_are_counted_apart_by_what_each_says(each: list[str], expected: list[int]) -> None:
    crib = make_crib({"each": each})
    calls = [("shop:price", ANN), ("web:fetch", ANN), ("shop:price", BOB)]
    assert [await allowed(crib, tool, who) for tool, who in calls] == expected


async def test_limit_is_about_its_principals_and_tools_alone() -> None:
    crib = make_crib({"who": ["token:ann"], "tools": ["shop:*"]})
    calls = [("shop:price", ANN), ("web:fetch", ANN), ("shop:price", BOB)]
    assert [await allowed(crib, tool, who) for tool, who in calls] == [2, 9, 9]


async def test_call_must_fit_all_limits_and_counts_for_none_where_it_is_refused() -> None:
    crib = make_crib({"tools": ["shop"]}, {"name": "all", "limit": "3/day", "each": []})
    assert await allowed(crib) == 2
    assert await allowed(crib, "web:fetch") == 1


async def test_burst_is_allowed_at_once() -> None:
    assert await allowed(make_crib({"limit": "100/hour", "burst": 4})) == 4


async def test_calls_that_may_not_run_do_not_count() -> None:
    deny = {"name": "no", "tools": ["web:*"], "effect": "deny"}
    crib = make_crib({"each": []}, policy=[deny, {"name": "rest", "effect": "allow"}])
    for _ in range(3):
        with pytest.raises(PolicyDeniedError):
            await crib.run("web:fetch", {})
        with pytest.raises(InputValidationError):
            await crib.run("shop:price", {})
    assert await allowed(crib) == 2


async def test_steps_of_chains_and_calls_of_code_count() -> None:
    crib = make_crib({"limit": "3/hour"})
    step = {"toolId": "shop:price", "args": {"sku": "fig"}}
    with pytest.raises(ChainError) as caught:
        await crib.run_chain([step] * 4)
    assert caught.value.step_index == 3
    assert isinstance(caught.value.__cause__, RateLimitError)
    crib = make_crib({"limit": "3/hour"})
    with pytest.raises(CodeError, match="try again in"):
        await crib.execute("for _ in range(4):\n    await shop.price(sku='fig')")
    assert await allowed(crib) == 0


async def test_limits_hold_over_cribs_with_one_configuration(tmp_path: Path) -> None:
    config = tmp_path / "toolcrib.toml"
    config.write_text(
        f'store = "{tmp_path / "tools.db"}"\n[[rate_limits]]\nname = "few"\nlimit = "3/hour"\n',
        encoding="utf-8",
    )

    async def run_some() -> int:
        async with Crib(config) as crib:
            crib.add(lambda_tool)
            return sum([await is_allowed(crib) for _ in range(2)])

    assert [await run_some() for _ in range(3)] == [2, 1, 0]


async def lambda_tool() -> int:
    return 1


async def is_allowed(crib: Crib) -> bool:
    try:
        await crib.run("lambda_tool", {})
    except RateLimitError:
        return False
    return True


async def test_what_was_counted_is_kept_over_a_reload() -> None:
    limit = {"name": "few", "limit": "2/hour"}
    async with Crib({"rate_limits": [limit]}) as crib:
        crib.add(lambda_tool)
        assert await is_allowed(crib)
        await crib.reload({"rate_limits": [limit], "timeout": 5})
        assert [await is_allowed(crib) for _ in range(2)] == [True, False]
        await crib.reload({})
        assert await is_allowed(crib)


@pytest.mark.parametrize("limit", ["60", "0/minute", "6/fortnight", "-1/s", "1.5/s", "/s", "60/minutes"])
def test_limit_that_cannot_be_read_is_refused(limit: str) -> None:
    with pytest.raises(ValidationError, match="such as '60/minute'"):
        RateRule(name="a", limit=limit)


def test_two_limits_of_one_name_are_refused() -> None:
    limit = {"name": "a", "limit": "1/s"}
    with pytest.raises(ConfigError, match="'a' is the name of several rate limits"):
        Crib({"rate_limits": [limit, limit]})


async def test_process_counts_by_itself_while_shared_buckets_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = FileEntries(tmp_path / "entries.db")
    gone.close()
    limiter = RateLimiter([RateRule(name="few", limit="2/hour")], Issuers(), MemoryBuckets(), lambda: gone)
    request = Request(tool=Tool(name="a", input_schema={}), args={}, context=CallContext())
    for _ in range(2):
        await limiter.admit(request)
    with pytest.raises(RateLimitError):
        await limiter.admit(request)
    assert caplog.text.count("counted by this process alone") == 1

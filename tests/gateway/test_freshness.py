"""Freshness of a server's lists through a gateway: the time to live, and the scope."""

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gateway.passing import asked, join, whole
from waiting import PATIENCE

from toolcrib.crib.sources.catalogue import CatalogueWriter

pytestmark = pytest.mark.anyio
FRESH = Path(__file__).parent.parent / "servers" / "fresh.py"
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
HOUR = 3_600_000


def fresh(ttl: int, scope: str) -> dict[str, Any]:
    """Return the settings of a server that declares a time to live and a scope for its lists."""
    args = ["-S", "-I", str(FRESH), str(ttl), scope]
    return {"command": sys.executable, "args": args, "start_timeout": PATIENCE}


async def freshness_of(client: Any, method: str) -> tuple[int, str, str]:
    """Return how long a list is fresh, for whom, and the name of its last item."""
    answer = await asked(client, method)
    return answer["ttlMs"], answer["cacheScope"], answer[LISTS[method]][-1]["name"]


def number(found: tuple[int, str, str]) -> int:
    """Return how often the server had listed when it gave this list."""
    return int(found[2].removeprefix("listed_"))


@pytest.mark.parametrize("method", LISTS)
async def test_a_list_says_for_how_long_its_server_says_that_it_is_fresh(method: str) -> None:
    async with join("stateless", {"one": fresh(HOUR, "public")}) as client:
        first, again = [await freshness_of(client, method) for _ in range(2)]
    assert HOUR - 1000 * PATIENCE < again[0] <= first[0] <= HOUR
    assert (first[1], first[2], again[2]) == ("public", "listed_1", "listed_1")


@pytest.mark.parametrize("method", LISTS)
async def test_a_list_that_is_stale_at_once_is_asked_for_each_time(method: str) -> None:
    async with join("stateless", {"one": fresh(0, "private")}) as client:
        found = [await freshness_of(client, method) for _ in range(3)]
    assert [each[:2] for each in found] == [(0, "private")] * 3
    first, second, third = map(number, found)
    assert first < second < third  # a listing of the gateway's own may come between


async def test_a_list_holds_what_the_server_listed_for_it_however_slow_the_catalogue_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace = CatalogueWriter.replace

    def slowly(self: CatalogueWriter, *args: Any) -> int:
        time.sleep(0.2)
        return replace(self, *args)

    monkeypatch.setattr(CatalogueWriter, "replace", slowly)
    async with join("stateless", {"one": fresh(0, "private")}) as client:
        first, second, third = [await freshness_of(client, "tools/list") for _ in range(3)]
    assert number(first) < number(second) < number(third)


async def test_lists_of_several_servers_are_as_fresh_as_the_one_that_is_stale_first() -> None:
    servers = {"one": fresh(HOUR, "public"), "two": fresh(30_000, "private"), "three": whole()}
    async with join("stateless", servers) as client:
        ttl, scope, _ = await freshness_of(client, "tools/list")
        listed, _, _ = await freshness_of(client, "resources/list")
    assert 0 < ttl <= 30_000
    assert 0 < listed <= 30_000
    assert scope == "private"


async def test_list_limited_by_rules_is_private() -> None:
    rules = {"policy": [{"name": "all", "effect": "allow"}]}
    async with join("stateless", {"one": fresh(HOUR, "public")}, config=rules) as client:
        scopes = [(await freshness_of(client, method))[1] for method in LISTS]
    assert scopes == ["private"] * 4


async def test_the_meta_tools_are_as_fresh_as_ever() -> None:
    async with join("stateless", {"one": fresh(0, "public")}, expose="meta") as client:
        ttl, scope, _ = await freshness_of(client, "tools/list")
    assert (ttl, scope) == (60_000, "private")

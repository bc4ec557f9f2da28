"""A tool that a principal may not run is hidden from it: list, search, describe, run, chain and code agree."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from execution.mcp.web import serving
from hypothesis import given
from hypothesis import strategies as st
from servers.asking import Asking, HandshakeOnly
from servers.launch import closed_port
from tests.laws import law

from toolcrib import Crib
from toolcrib.errors import (
    ChainError,
    ConfigError,
    InvalidChainError,
    PolicyDeniedError,
    ResourceNotFoundError,
    ServerUnavailableError,
    ToolNotFoundError,
)
from toolcrib.execution import Principal
from toolcrib.model import LocalTool, Tool

pytestmark = pytest.mark.anyio
ANN = Principal(issuer="https://login.example", subject="ann", groups=frozenset({"staff"}))
BOB = Principal(issuer="https://login.example", subject="bob")
NAMES = ("git:log", "git:delete_tag", "mail:send", "mail:delete", "plain")
TAGS = {"git:log": ["history"], "mail:send": ["history"]}
HINTS = {"git:delete_tag": {"destructiveHint": True}, "git:log": {"readOnlyHint": True}}


def crib_of(*rules: dict[str, Any]) -> Crib:
    crib = Crib({"policy": list(rules)})
    for name in NAMES:
        namespace, _, last = name.rpartition(":")
        tool = Tool(
            name=last,
            namespace=namespace or None,
            description=f"Works with {name}",
            input_schema={"type": "object"},
            tags=TAGS.get(name, []),
            annotations=HINTS.get(name),
        )
        crib.add(LocalTool(lambda name=name: name, tool))
    return crib


async def found(crib: Crib, principal: Principal) -> set[str]:
    return {each.id for each in await crib.seen_by(principal).tools()}


async def test_without_rules_everybody_finds_and_runs_everything() -> None:
    crib = crib_of()
    assert await found(crib, BOB) == set(NAMES)
    assert (await crib.run("git:log", principal=BOB)).structured == "git:log"


async def test_a_server_that_the_rules_hide_is_not_asked_for_its_resources() -> None:
    rules = [
        {"name": "not theirs", "who": ["bob"], "tools": ["hr"], "effect": "deny"},
        {"name": "all", "effect": "allow"},
    ]
    with closed_port() as port:
        servers = {"hr": {"url": f"http://127.0.0.1:{port}/mcp"}}
        async with Crib({"servers": servers, "policy": rules}) as crib:
            with pytest.raises(ServerUnavailableError):
                await crib.seen_by(ANN).read("file:///x")
            with pytest.raises(ResourceNotFoundError):
                await crib.seen_by(BOB).read("file:///x")


async def test_tool_a_principal_may_not_run_is_not_found() -> None:
    crib = crib_of(
        {"name": "no deleting", "who": ["bob"], "tools": ["*:delete*"], "effect": "deny"},
        {"name": "all", "effect": "allow"},
    )
    assert await found(crib, ANN) == set(NAMES)
    assert await found(crib, BOB) == {"git:log", "mail:send", "plain"}
    view = crib.seen_by(BOB)
    assert {hit.id for hit in await view.search("delete tag", limit=10)} <= {"git:log", "mail:send", "plain"}
    with pytest.raises(ToolNotFoundError):
        await view.describe("git:delete_tag")
    with pytest.raises(PolicyDeniedError) as caught:
        await crib.run("git:delete_tag", principal=BOB)
    assert caught.value.rule == "no deleting"
    assert (await crib.run("git:delete_tag", principal=ANN)).structured == "git:delete_tag"


async def test_calls_through_somebodys_view_are_theirs() -> None:
    seen: list[Principal | None] = []
    crib = Crib(policy=lambda request: seen.append(request.principal))
    crib.add(LocalTool(lambda: 1, Tool(name="one", input_schema={})))
    await crib.seen_by(ANN).run("one")
    await crib.seen_by(ANN).run_chain([{"tool_id": "one"}])
    assert seen == [ANN, ANN]


async def test_name_in_a_rule_follows_the_tokens_and_logins_after_a_reload() -> None:
    rules = [{"name": "ci", "who": ["ci"], "effect": "allow"}]
    token = {"hash": f"sha256:{'0' * 64}"}
    login = {"issuer": "https://login.example", "audience": "https://crib.example/mcp"}
    of_token, of_login = (
        Principal(issuer=issuer, subject="ci") for issuer in ("tokens", "https://login.example")
    )

    async def found(principal: Principal) -> bool:
        return bool(await crib.seen_by(principal).tools())

    async with crib_of(*rules) as crib:
        await crib.reload({"policy": rules, "gateway": {"tokens": {"ci": token}, "auth": login}})
        assert (await found(of_token), await found(of_login)) == (True, False)
        await crib.reload({"policy": rules, "gateway": {"tokens": {}, "auth": login}})
        assert (await found(of_token), await found(of_login)) == (False, True)
        with pytest.raises(PolicyDeniedError):
            await crib.run("plain", {}, principal=of_token)


async def test_other_rules_hold_at_once_after_a_reload() -> None:
    crib = crib_of({"name": "git", "tools": ["git:*"], "effect": "allow"})
    async with crib:
        view = crib.seen_by(BOB)
        assert {each.id for each in await view.tools()} == {"git:log", "git:delete_tag"}
        await crib.reload({"policy": [{"name": "mail", "tools": ["mail"], "effect": "allow"}]})
        assert {each.id for each in await view.tools()} == {"mail:send", "mail:delete"}
        await crib.reload({})
        assert {each.id for each in await view.tools()} == set(NAMES)


async def test_a_tool_that_comes_later_is_judged_too() -> None:
    crib = crib_of({"name": "git", "tools": ["git:*"], "effect": "allow"})
    view = crib.seen_by(BOB)
    assert len(await view.tools()) == 2
    crib.add(LocalTool(lambda: 1, Tool(name="push", namespace="git", input_schema={})))
    crib.add(LocalTool(lambda: 1, Tool(name="push", namespace="mail", input_schema={})))
    assert {each.id for each in await view.tools()} == {"git:log", "git:delete_tag", "git:push"}


def test_rules_of_one_name_and_rules_that_make_no_sense_are_refused_together() -> None:
    with pytest.raises(ConfigError, match="several rules"):
        Crib({"policy": [{"name": "a", "effect": "allow"}, {"name": "a", "effect": "deny"}]})
    with pytest.raises(ConfigError) as caught:
        Crib({"policy": [{"name": "a", "effect": "alow"}, {"name": "b", "effect": "deny", "tool": ["x"]}]})
    assert {problem.path for problem in caught.value.problems} == {"/policy/0/effect", "/policy/1/tool"}


PATTERNS = st.sampled_from(["*", "git:*", "mail", "*:delete*", "plain", "tag:history", "git:log"])
RULES = st.lists(
    st.fixed_dictionaries(
        {
            "who": st.lists(st.sampled_from(["*", "ann", "bob", "group:staff"]), min_size=1, max_size=2),
            "tools": st.lists(PATTERNS, min_size=1, max_size=2),
            "effect": st.sampled_from(["allow", "deny"]),
        },
        optional={
            "annotations": st.sampled_from([{"readOnlyHint": True}, {"destructiveHint": True}]),
            "args": st.sampled_from([{"required": ["never"]}, {"maxProperties": 0}]),
        },
    ),
    min_size=1,
    max_size=5,
)


@given(rules=RULES, principal=st.sampled_from([ANN, BOB]))
@law(40)
def test_list_search_describe_run_and_chain_agree(rules: list[dict[str, Any]], principal: Principal) -> None:
    anyio.run(_agree, rules, principal)


async def _agree(rules: list[dict[str, Any]], principal: Principal) -> None:
    crib = crib_of(*({"name": f"rule {place}", **rule} for place, rule in enumerate(rules)))
    view = crib.seen_by(principal)
    listed = {each.id for each in await view.tools()}
    assert {hit.id for hit in await view.search("works with", limit=len(NAMES))} <= listed
    for name in NAMES:
        described = await _works(view.describe(name), ToolNotFoundError)
        ran = await _works(crib.run(name, {}, principal=principal), PolicyDeniedError)
        chained = await _works(view.run_chain([{"tool_id": name}]), InvalidChainError, ChainError)
        assert described == (name in listed)
        assert chained == ran
        assert ran <= described  # what runs is found; what is found may still need other arguments
        if not any("args" in rule for rule in rules):
            assert ran == described


async def _works(asked: Any, *refusals: type[Exception]) -> bool:
    try:
        await asked
    except refusals:
        return False
    return True


async def test_code_finds_and_runs_what_its_principal_may() -> None:
    crib = crib_of({"name": "git", "who": ["ann"], "tools": ["git:*"], "effect": "allow"})
    code = 'try:\n    __out = await {}()\nexcept Exception as error:\n    __out = "refused"'
    assert (await crib.execute(code.format("git.log"), principal=ANN)).value == "git:log"
    assert (await crib.execute(code.format("mail.send"), principal=ANN)).value == "refused"
    assert (await crib.execute(code.format("git.log"), principal=BOB)).value == "refused"


async def test_tool_that_its_hints_allow_is_waited_for_though_it_is_new_since_the_last_run(
    tmp_path: Path,
) -> None:
    class Growing(Asking):
        """A server that has another tool with each run."""

        names = ("count",)

        async def _list(self, *params: Any) -> Any:
            listed = await super()._list(*params)
            kept = [each for each in listed.tools if each.name in self.names]
            return listed.model_copy(update={"tools": kept})

    server = Growing()
    app: Any = server.server.streamable_http_app()
    with serving(HandshakeOnly(app)) as url:
        config = {
            "servers": {"one": {"url": f"{url}/mcp"}},
            "store": str(tmp_path / "catalogue.db"),
            "policy": [{"name": "reads", "annotations": {"readOnlyHint": True}, "effect": "allow"}],
        }
        async with Crib(config) as crib:
            assert (await crib.run("one:count", principal=ANN)).structured is not None
        server.names = ("count", "log")
        async with Crib(config) as crib:
            assert (await crib.seen_by(ANN).run("one:log")).structured is not None

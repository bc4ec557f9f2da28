"""Sessions that a server has forgotten, behind sessions and connections of clients that live on."""

from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from execution.oauth.accounts import Accounts, accounts
from gateway.support import Place, Served
from gateway.test_connect import RUN, TOKENS, client_of, gateway_of, in_both_eras
from gateway.workers.lines import Line
from waiting import PATIENCE, wait_until

from toolcrib.execution.oauth.vault import LoginVault, StoredLogin

KEY = "a key of many characters"


@pytest.fixture
def authority() -> Iterator[Accounts]:
    with accounts(handshake=True) as running:
        yield running


def log_in(authority: Accounts, vault: LoginVault, *names: str | None) -> None:
    """Store logins of these persons; None is the operator."""
    for name in names:
        vault.put(
            StoredLogin(
                server="notes",
                url=authority.url,
                token_endpoint=f"{authority.issuer}/token",
                client_id="someone",
                access_token=authority.token_of(name or "operator"),
                owner=None if name is None else ("tokens", name),
            )
        )


@pytest.mark.anyio
@in_both_eras
async def test_session_that_a_server_has_forgotten_begins_anew_for_its_client_alone(
    authority: Accounts, era: str
) -> None:
    async with gateway_of(authority) as (_, url):
        log_in(authority, LoginVault(), *TOKENS)
        async with client_of(url, era, "ann") as ann, client_of(url, era, "bob") as bob:
            for name, client in (("ann", ann), ("bob", bob)):
                assert said(await client.call_tool("run_tool", RUN)) == f"{name}: hello"
            (of_ann,), (of_bob,) = authority.sessions_of("ann"), authority.sessions_of("bob")
            authority.expired.add(of_ann)
            for name, client in (("ann", ann), ("bob", bob), ("ann", ann)):
                assert said(await client.call_tool("run_tool", RUN)) == f"{name}: hello"
            assert authority.sessions_of("bob") == {of_bob}
            (again,) = authority.sessions_of("ann")
            assert again != of_ann


def said(result: Any) -> str:
    assert not result.is_error, result
    text: str = result.structured_content["structured"]["result"]
    return text


def test_session_that_a_server_has_forgotten_begins_anew_in_each_worker(
    authority: Accounts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_VAULT_KEY", KEY)
    servers = {"notes": {"url": authority.url, "auth": {"mode": "per_user"}}}
    tokens = {
        name: {"hash": f"sha256:{sha256(token.encode()).hexdigest()}"} for name, token in TOKENS.items()
    }
    place = Place(tmp_path, servers, timeout=PATIENCE, gateway={"tokens": tokens})
    log_in(authority, LoginVault(place.environ), None, *TOKENS)
    with Served(place, "--workers", "2") as served, ExitStack() as stack:

        def connect(name: str) -> list[tuple[Line, str]]:
            """Return connections to both workers, each with a session of a client."""
            found: dict[str, Line] = {}

            def is_everywhere() -> bool:
                before = authority.sessions_of(name)
                line = stack.enter_context(Line(served, TOKENS[name]))
                session = line.begin()
                assert whoami(line, session) == name
                if authority.sessions_of(name) > before:  # the first call of this worker
                    found[session] = line
                return len(found) == 2

            wait_until(is_everywhere, "both workers have a session with the server")
            return [(line, session) for session, line in found.items()]

        ann, bob = connect("ann"), connect("bob")
        before = authority.sessions_of("bob")
        lost = authority.sessions_of("ann")
        assert (len(lost), len(before)) == (2, 2)
        authority.expired |= lost
        for line, session in [*ann, *bob, *ann]:
            assert whoami(line, session) in {"ann", "bob"}
        assert authority.sessions_of("bob") == before
        assert len(authority.sessions_of("ann")) == 2


def whoami(line: Line, session: str) -> str:
    answer = line.call("whoami", session, note="hello")
    assert "result" in answer, answer
    assert not answer["result"].get("isError"), answer
    text: str = answer["result"]["structuredContent"]["result"]
    return text.removesuffix(": hello")

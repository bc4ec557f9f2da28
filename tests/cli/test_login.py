"""Logging in to servers from the command line, and the login state in other commands."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Command
from execution.oauth.authority import Authority, authorities

from toolcrib.execution.oauth.vault import LoginVault, StoredLogin


@pytest.fixture
def authority() -> Iterator[Authority]:
    with authorities() as running:
        yield running


@pytest.fixture(autouse=True)
def _browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have addresses opened by the browser of a logged-in user."""
    opens = f'{sys.executable} -c "import sys, urllib.request as r; r.urlopen(sys.argv[1]).read()" %s'
    monkeypatch.setenv("BROWSER", opens)
    monkeypatch.setenv("TOOLCRIB_VAULT_KEY", "a key of many characters")


def test_a_logout_of_everybody_forgets_the_logins_of_persons_to_that_server_alone(
    toolcrib: Command, config: Callable[..., str], authority: Authority
) -> None:
    file = config(one={"url": authority.url, "auth": {"mode": "per_user"}}, two={"url": authority.url})
    vault, ann, bob = LoginVault(), ("https://login.example", "ann"), ("https://login.example", "bob")
    authority.clients["someone"] = None
    known = StoredLogin(
        server="one",
        url=authority.url,
        token_endpoint=f"{authority.issuer}/token",
        revocation_endpoint=f"{authority.issuer}/revoke",
        client_id="someone",
        access_token=authority.secret(),
    )
    for login in (known.replace(owner=ann), known.replace(owner=bob), known.replace(server="two")):
        vault.put(login)
    assert sorted(vault.owners("one", authority.url)) == [ann, bob]

    alone = toolcrib("logout", "one", "--config", file)
    assert alone.stderr.strip() == "note: nobody was logged in to 'one'"
    assert vault.get("one", authority.url, ann) is not None
    assert toolcrib("logout", "one", "--everybody", "--config", file).stdout == "logged out of 'one'\n"
    assert vault.owners("one", authority.url) == ()
    assert vault.get("two", authority.url) is not None


def test_a_login_gives_the_verbs_access_until_the_logout(
    toolcrib: Command, config: Callable[..., str], authority: Authority
) -> None:
    file = config(one={"url": authority.url})
    listed = toolcrib("list", "--config", file)
    assert listed.exit_code == 0
    assert "it needs a login: toolcrib login one" in listed.stderr

    login = toolcrib("login", "one", "--config", file)
    assert (login.exit_code, login.stdout) == (0, "logged in to 'one' until it is revoked\n"), login.stderr
    assert f"{authority.issuer}/authorize?" in login.stderr

    run = toolcrib("run", "one:echo", "--args", '{"text": "a"}', "--config", file)
    assert (run.exit_code, json.loads(run.stdout)) == (0, {"result": "a"})
    status = json.loads(toolcrib("status", "--json", "--config", file).stdout)["servers"][0]
    assert (status["state"], status["login"]["loggedIn"]) == ("answered", True)
    assert status["login"]["issuer"] == authority.issuer
    assert "logged in until it is revoked" in toolcrib("status", "--config", file).stdout

    assert toolcrib("logout", "one", "--config", file).stdout == "logged out of 'one'\n"
    again = toolcrib("logout", "one", "--config", file)
    assert (again.exit_code, again.stderr.strip()) == (0, "note: nobody was logged in to 'one'")
    assert toolcrib("run", "one:echo", "--args", '{"text": "a"}', "--config", file).exit_code == 4


def test_a_device_gets_a_code(toolcrib: Command, config: Callable[..., str], authority: Authority) -> None:
    login = toolcrib("login", "one", "--device", "--json", "--config", config(one={"url": authority.url}))
    assert login.exit_code == 0
    assert "enter the code ABCD-EFGH" in login.stderr
    assert json.loads(login.stdout)["loggedIn"] is True


def test_add_says_that_a_server_needs_a_login(
    toolcrib: Command, authority: Authority, tmp_path: Path
) -> None:
    file = str(tmp_path / "toolcrib.toml")
    added = toolcrib("add", "one", "--url", authority.url, "--config", file)
    assert added.exit_code == 4
    assert "it needs a login: toolcrib login one" in added.stderr


def test_doctor_and_search_say_that_a_server_needs_a_login(
    toolcrib: Command, config: Callable[..., str], authority: Authority
) -> None:
    file = config(one={"url": authority.url})
    examined = toolcrib("doctor", "--config", file)
    assert examined.exit_code == 1
    assert "it needs a login: toolcrib login one" in examined.stdout
    assert "log in, with the command that it names" in examined.stdout
    found = toolcrib("search", "echo a text", "--config", file)
    assert "it needs a login: toolcrib login one" in found.stderr


@pytest.mark.parametrize(
    ("settings", "code", "reason"),
    [
        ({"command": "python"}, 5, "it is started here, and needs no login"),
        ({"url": "http://127.0.0.1:1/mcp"}, 5, "nothing listens at"),
    ],
)
def test_a_login_that_cannot_be_is_refused(
    toolcrib: Command, config: Callable[..., str], settings: dict[str, Any], code: int, reason: str
) -> None:
    refused = toolcrib("login", "one", "--config", config(one=settings))
    assert refused.exit_code == code
    assert reason in refused.stderr
    missing = toolcrib("login", "on", "--config", config(one=settings))
    assert missing.exit_code == 3
    assert "there is no server 'on'; did you mean 'one'?" in missing.stderr


def test_no_secret_of_a_login_is_written_anywhere(
    toolcrib: Command, config: Callable[..., str], authority: Authority, home: Path
) -> None:
    file = config(one={"url": authority.url})
    runs = [
        toolcrib("login", "one", "--no-browser", "--device", "--config", file),
        toolcrib("run", "one:echo", "--args", '{"text": "a"}', "--config", file),
        toolcrib("status", "--json", "--config", file),
        toolcrib("doctor", "--json", "--config", file),
        toolcrib("logout", "one", "--json", "--config", file),
    ]
    written = "\n".join(each.stdout + each.stderr for each in runs)
    kept = b"\n".join(each.read_bytes() for each in home.rglob("*") if each.is_file())
    assert len(authority.secrets) >= 3
    assert [each for each in authority.secrets if each in written or each.encode() in kept] == []

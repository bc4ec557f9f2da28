"""No secret of a login is written anywhere: commands and a gateway at a real authorization server, all logs switched on."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from execution.mcp.web import serving
from execution.oauth import browser
from execution.oauth.real_authority import SECRET, RealAuthority
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from servers.launch import closed_port, command
from waiting import PATIENCE

from toolcrib.execution.oauth.vault import LoginVault, StoredLogin

pytestmark = pytest.mark.proof
VAULT_KEY = "the key of the vault, of many characters"
CONFIG = """
[servers.one]
url = "{url}"

[servers.nightly]
url = "{url}"
auth = {{ mode = "client_credentials", client_id = "nightly", client_secret = "${{NIGHTLY_SECRET}}", issuer = "{issuer}" }}

[gateway.auth]
issuer = "{issuer}"
audience = "{url}"
jwks = "{issuer}/jwks"

[audit]
path = "{folder}/audit.jsonl"
arguments = true
"""
CALL = ("run", "one:echo", "--args", '{"text": "a"}')


class Household:
    """A user of the command, with a folder for everything that it writes."""

    def __init__(self, folder: Path, authority: RealAuthority) -> None:
        self.folder, self.authority = folder, authority
        opens = f"{sys.executable} {browser.__file__} %s"
        self.environ = {
            **os.environ,
            "TOOLCRIB_HOME": str(folder / "home"),
            "TOOLCRIB_VAULT_KEY": VAULT_KEY,
            "NIGHTLY_SECRET": SECRET,
            "BROWSER": opens,
        }
        self.written: list[str] = []
        settings = CONFIG.format(url=authority.url, issuer=authority.issuer, folder=folder)
        (folder / "toolcrib.toml").write_text(settings)

    def start(self, *args: str, stderr: Any = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start a command."""
        asked = [*command(), "--debug", "--no-daemon", "--config", str(self.folder / "toolcrib.toml"), *args]
        return subprocess.Popen(
            asked, stdout=subprocess.PIPE, stderr=stderr, text=True, env=self.environ, cwd=self.folder
        )

    def run(self, *args: str) -> str:
        """Run a command, and return its standard output."""
        out, err = self.start(*args).communicate(timeout=PATIENCE)
        self.written += [out, err]
        return out

    def log_in_by_device(self) -> None:
        """Log in with a code that is entered with another browser."""
        running = self.start("login", "one", "--device", "--no-browser")
        assert running.stderr is not None
        for line in running.stderr:
            self.written.append(line)
            address = line.strip().removeprefix("note: ")
            if address.startswith("http"):
                browser.browse(address)
        self.written.append(running.communicate(timeout=PATIENCE)[0])
        assert running.returncode == 0

    def login(self) -> StoredLogin:
        """Return the stored login."""
        login = LoginVault(self.environ).get("one", self.authority.url)
        assert login is not None
        return login

    def expire(self) -> None:
        """Have the access token end."""
        LoginVault(self.environ).put(self.login().replace(expires_at=1.0))

    @contextmanager
    def gateway(self) -> Iterator[str]:
        """Run a gateway over HTTP, and yield its address."""
        serve = ("serve", "--transport", "http", "--port", "0", "--log-level", "debug", "--json")
        with (self.folder / "gateway.log").open("w") as log:
            running = self.start(*serve, stderr=log)
        assert running.stdout is not None
        try:
            yield json.loads(running.stdout.readline())["url"]
        finally:
            running.terminate()
            self.written.append(running.communicate(timeout=PATIENCE)[0])


async def call_as_client(url: str, token: str) -> None:
    """Call a tool of a gateway with a token, which it takes, and with parts of it, which it refuses."""
    async with httpx2.AsyncClient(timeout=PATIENCE) as http:
        for wrong in (token[:-4], f"{token}x", token.replace(".", "")):
            answer = await http.post(url, json={}, headers={"authorization": f"Bearer {wrong}"})
            assert answer.status_code == 401
        http.headers["authorization"] = f"Bearer {token}"
        async with Client(streamable_http_client(url, http_client=http)) as client:
            given = await client.call_tool("run_tool", {"tool_id": "one:echo", "args": {"text": "a"}})
            assert not given.is_error


@pytest.fixture
def household(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Household]:
    secrets = tmp_path_factory.mktemp("authority") / "secrets"
    with closed_port() as port, serving((authority := RealAuthority(port, secrets)).app()) as address:
        authority.url = f"{address}/mcp"
        yield Household(tmp_path, authority)


def test_no_secret_is_in_any_output_log_or_file(household: Household) -> None:
    authority, run = household.authority, household.run
    with authority.running():
        run("list")
        run("login", "one")
        assert json.loads(run(*CALL)) == {"result": "a"}
        household.expire()
        assert json.loads(run(*CALL)) == {"result": "a"}
        assert json.loads(run("run", "nightly:echo", "--args", '{"text": "a"}')) == {"result": "a"}
        household.log_in_by_device()
        with household.gateway() as url:
            anyio.run(call_as_client, url, household.login().access_token)
        run("status", "--json")
        run("doctor", "--json")
    with authority.running():  # which has forgotten the login, and refuses to refresh it
        household.expire()
        run(*CALL)
        assert household.login().access_token is None
        run("login", "one")
        run("status", "--json")
        run("doctor")
        for args in (["show"], ["show", "--json"], ["verify"], ["key"]):
            assert run("audit", *args)
        run("logout", "one")
        run(*CALL)

    secrets = authority.secrets
    kinds = {"access_token", "refresh_token", "code", "code_verifier", "device_code", "basic"}
    assert kinds <= secrets.keys()
    assert len(secrets["access_token"]) >= 5
    forbidden = {VAULT_KEY, SECRET} | {value for found in secrets.values() for value in found}
    forbidden |= {value.rpartition(".")[2] for value in secrets["access_token"]}  # the signature of a JWT
    files = [path for path in household.folder.rglob("*") if path.is_file()]
    assert {"audit.jsonl", "logins.json"} <= {path.name for path in files}
    outputs = {str(path): path.read_bytes().decode("latin-1") for path in files}
    outputs["standard output and error"] = "\n".join(household.written)
    assert "DEBUG" in outputs["standard output and error"]
    leaks = [
        (place, secret[:12]) for place, text in outputs.items() for secret in forbidden if secret in text
    ]
    assert leaks == []

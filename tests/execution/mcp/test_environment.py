"""Environment variables that a server inherits, and the hint if one may be missing."""

import sys
from typing import Any

import anyio
import pytest
from execution.mcp.calling import call
from servers.launch import TINY
from waiting import PATIENCE

from toolcrib.errors import ServerUnavailableError
from toolcrib.execution.mcp import McpServers, ServerConfig
from toolcrib.execution.mcp.transport.environment import describe_withheld, server_environment

VALUE = "s3cr3t-value"
USUAL = dict.fromkeys(
    (
        *("PATH", "HOME", "USER", "LANG", "LANGUAGE", "LC_ALL", "LC_TIME", "TZ"),
        *("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
        *("http_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"),
        *("NODE_USE_ENV_PROXY", "PIP_PROXY", "npm_config_proxy", "npm_config_https_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    ),
    "x",
)
PRIVATE = dict.fromkeys(
    ("AWS_PROFILE", "AWS_SECRET_ACCESS_KEY", "KUBECONFIG", "UV_INDEX_URL", "npm_config_registry"), VALUE
)
SHOP = """
import os, runpy, sys
if "SHOP_TOKEN" not in os.environ:
    sys.exit("SHOP_TOKEN is not set")
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_a_server_inherits_language_folders_proxies_and_certificates_and_no_secrets() -> None:
    assert server_environment(USUAL | PRIVATE, {}) == USUAL


@pytest.mark.parametrize(
    ("inherit", "more"),
    [
        (["AWS_*"], {"AWS_PROFILE", "AWS_SECRET_ACCESS_KEY"}),
        (["AWS_PROFILE", "UV_*"], {"AWS_PROFILE", "UV_INDEX_URL"}),
        (["aws_*"], set()),
        (["*"], set(PRIVATE)),
    ],
)
def test_a_server_inherits_what_it_names(inherit: list[str], more: set[str]) -> None:
    found = server_environment(USUAL | PRIVATE, {"HOME": "/x"}, inherit)
    assert found.keys() == USUAL.keys() | more
    assert found["HOME"] == "/x"


def test_names_of_variables_have_no_case_on_windows() -> None:
    environ = {"Aws_Profile": "a", "HTTP_PROXY": "p", "OTHER": "o", "Token": "theirs"}
    found = server_environment(environ, {"TOKEN": "own"}, ["aws_*", "token"], is_posix=False)
    assert found == {"Aws_Profile": "a", "HTTP_PROXY": "p", "TOKEN": "own"}
    config = ServerConfig(command="aws.exe")
    assert "it may need Aws_Profile," in describe_withheld(environ, config, "", is_posix=False)


@pytest.mark.parametrize(
    ("config", "stderr", "named", "inherit"),
    [
        ({"command": "npx", "args": ["-y", "thing"]}, "", "npm_config_registry", '["npm_config_*"]'),
        ({"command": "/usr/bin/uvx", "args": ["thing"]}, "", "UV_INDEX_URL", '["UV_*"]'),
        ({"command": "kubectl"}, "", "KUBECONFIG", '["KUBECONFIG"]'),
        (
            {"command": "x", "args": ["awslabs.core-mcp-server"]},
            "",
            "AWS_PROFILE, AWS_SECRET_ACCESS_KEY",
            '["AWS_*"]',
        ),
        ({"command": "x"}, "set AWS_PROFILE first", "AWS_PROFILE", '["AWS_PROFILE"]'),
        (
            {"command": "kubectl"},
            "no 'AWS_PROFILE'",
            "AWS_PROFILE, KUBECONFIG",
            '["AWS_PROFILE", "KUBECONFIG"]',
        ),
    ],
)
def test_variables_that_a_server_may_have_missed_are_named(
    config: dict[str, Any], stderr: str, named: str, inherit: str
) -> None:
    said = describe_withheld(USUAL | PRIVATE, ServerConfig(**config), stderr)
    assert said.startswith(f"it may need {named}, which ")
    assert said.endswith(f"add inherit = {inherit}")
    assert VALUE not in said


@pytest.mark.parametrize(
    ("config", "stderr"),
    [
        ({"command": "x"}, "the AWS_PROFILEX is missing, and so is PATH"),
        ({"command": "kubectl", "env": {"KUBECONFIG": "own"}}, "KUBECONFIG"),
        ({"command": "kubectl", "inherit": ["KUBE*"]}, "KUBECONFIG"),
    ],
)
def test_variables_that_a_server_got_or_does_not_speak_of_are_not_named(
    config: dict[str, Any], stderr: str
) -> None:
    assert describe_withheld(USUAL | PRIVATE, ServerConfig(**config), stderr) == ""


def test_active_virtual_environment_is_never_what_a_server_missed() -> None:
    environ = USUAL | {"VIRTUAL_ENV": "/x"}
    stderr = "warning: `VIRTUAL_ENV=/x` does not match"
    assert describe_withheld(environ, ServerConfig(command="python3"), stderr) == ""


def test_many_variables_are_counted() -> None:
    environ = {f"AWS_{number}": "x" for number in range(9)}
    said = describe_withheld(environ, ServerConfig(command="aws"), "")
    assert "AWS_5 and 3 more, which are set here" in said


@pytest.mark.anyio
async def test_a_server_that_dies_at_start_says_what_it_did_not_get(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", VALUE)
    config = {"command": sys.executable, "args": ["-c", SHOP, TINY], "start_timeout": PATIENCE}
    with anyio.fail_after(PATIENCE):
        async with McpServers({"shop": config}) as servers:
            with pytest.raises(ServerUnavailableError) as caught:
                await servers.tools("shop")
        async with McpServers({"shop": {**config, "inherit": ["SHOP_*"]}}) as servers:
            assert len(await servers.tools("shop")) == 4
    told = 'it may need SHOP_TOKEN, which is set here but not passed on; add inherit = ["SHOP_TOKEN"]'
    assert str(caught.value).endswith(f"; its stderr ends with: SHOP_TOKEN is not set; {told}")
    assert VALUE not in str(caught.value)


@pytest.mark.anyio
async def test_a_server_that_does_not_start_in_time_says_what_it_did_not_get(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("npm_config_registry", VALUE)
    config = {
        "command": sys.executable,
        "args": ["-c", "import time; time.sleep(600)", "npx"],
        "start_timeout": 0.5,
    }
    with anyio.fail_after(PATIENCE):
        async with McpServers({"slow": config}) as servers:
            with pytest.raises(ServerUnavailableError, match="it may need npm_config_registry"):
                await servers.tools("slow")


@pytest.mark.anyio
async def test_a_server_that_dies_later_is_not_said_to_miss_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", VALUE)
    config = {"command": sys.executable, "args": [TINY, "kubectl"], "start_timeout": PATIENCE}
    with anyio.fail_after(PATIENCE):
        async with McpServers({"one": config}) as servers:
            await servers.tools("one")
            with pytest.raises(Exception, match="status 7") as caught:
                await call(servers, "crash")
    assert "KUBECONFIG" not in str(caught.value)

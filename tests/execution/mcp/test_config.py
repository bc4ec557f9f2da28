import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import ConfigError
from toolcrib.execution.mcp import ServerConfig
from toolcrib.model.record import Record


def refusal(**settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        ServerConfig(**settings)
    with pytest.raises(ConfigError) as again:
        ServerConfig.from_json(settings)
    assert str(again.value) == str(caught.value)
    return str(caught.value)


def test_a_command_is_started_and_a_url_is_reached() -> None:
    started = ServerConfig(command="uvx", args=["mcp-server-time"])
    assert (started.transport, started.args) == ("stdio", ("mcp-server-time",))
    assert ServerConfig(url="http://localhost:1/mcp").transport == "http"


@pytest.mark.parametrize("key", ["type", "transport"])
@pytest.mark.parametrize(
    ("spelling", "transport"),
    [
        ("http", "http"),
        ("streamable-http", "http"),
        ("streamable_http", "http"),
        ("streamableHttp", "http"),
        ("sse", "sse"),
    ],
)
def test_every_spelling_of_a_transport_is_read(key: str, spelling: str, transport: str) -> None:
    assert ServerConfig.from_json({"url": "http://h/", key: spelling}).transport == transport


def test_stdio_may_be_said() -> None:
    assert ServerConfig.from_json({"type": "stdio", "command": "x"}).transport == "stdio"


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_every_name_of_the_url_is_read(key: str) -> None:
    config = ServerConfig.from_json({key: "https://h/mcp"})
    assert (config.url, config.to_json()["url"]) == ("https://h/mcp", "https://h/mcp")


def test_keys_that_are_not_known_are_kept() -> None:
    written = {"command": "x", "autoApprove": ["a"], "description": "mine"}
    assert ServerConfig.from_json(written).to_json().items() >= written.items()


def test_settings_survive_a_round_trip_through_json() -> None:
    config = ServerConfig(
        command="x",
        args=["a"],
        env={"A": "1"},
        cwd="/",
        timeout=3,
        start_timeout=4,
        idle_timeout=None,
        other=1,
    )
    assert ServerConfig.from_json(config.to_json()) == config.replace(idle_timeout=600)
    assert config.replace(timeout=5).transport == "stdio"


def test_numbers_and_paths_become_texts() -> None:
    config = ServerConfig(
        command=Path("/bin/x"), args=["--port", 80, 1.5], env={"N": 3, "F": 0.5}, cwd=Path("/srv")
    )
    assert (config.command, config.args, config.cwd) == ("/bin/x", ("--port", "80", "1.5"), "/srv")
    assert config.env == {"N": "3", "F": "0.5"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "it needs a 'command' to start, or a 'url' to reach"),
        ({"command": "x", "url": "http://h"}, "it has both a 'command' and a 'url'"),
        ({"url": "http://h", "serverUrl": "http://h"}, "/serverUrl: is given beside 'url'"),
        ({"command": ""}, "/command: must not be empty"),
        ({"command": ["x"]}, "/command: must be a string, not list"),
        ({"command": "a\0b"}, "/command: must not contain a NUL character"),
        ({"command": "x", "args": "y"}, "/args: must be an array"),
        ({"command": "x", "args": [None]}, "/args/0: must be a string, not NoneType"),
        ({"command": "x", "env": {"A": True}}, "/env/A: must be a string, not bool; put it in quotes"),
        ({"command": "x", "env": {"A": {}}}, "/env/A: must be a string, not dict"),
        ({"command": "x", "env": {"A=B": "c"}}, "is not the name of a variable"),
        (
            {"command": "x", "transport": "studio"},
            "/transport: 'studio' is not a transport; choose 'stdio', 'http' or 'sse'; did you mean 'stdio'?",
        ),
        ({"command": "x", "type": 3}, "/type: 3 is not a transport"),
        ({"command": "x", "type": "stdio", "transport": "sse"}, "/type: 'stdio' contradicts transport 'sse'"),
        ({"command": "x", "transport": "http"}, "/url: is required by the transport 'http'"),
        ({"url": "http://h", "transport": "stdio"}, "/command: is required by the transport 'stdio'"),
        ({"url": "ftp://h"}, "/url: must begin with http:// or https:// and name a host"),
        ({"url": "http://"}, "/url: must begin with"),
        ({"url": "localhost:80"}, "/url: must begin with"),
        ({"url": "http://h:x/"}, "/url: must begin with"),
        ({"url": "http://h", "headers": {"A B": "c"}}, "is not the name of a header"),
        ({"url": "http://h", "headers": {"A": "b\r\nC: d"}}, "/headers/A: may contain only printable ASCII"),
        ({"command": "x", "timeout": 0}, "/timeout: must be greater than 0"),
        ({"command": "x", "timeout": float("nan")}, "/timeout: "),
        ({"command": "x", "startTimeout": -1}, "/startTimeout: must be greater than 0"),
        ({"command": "x", "idleTimeout": -1}, "/idleTimeout: must be greater than 0"),
        ({"command": "x", "maxConcurrency": 0}, "/maxConcurrency: must be greater than or equal to 1"),
        ({"command": "x", "required": "perhaps"}, "/required: must be a boolean"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], reason: str) -> None:
    assert reason in refusal(**settings)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        ServerConfig(type="htp", timeout=-1, env={"A": None}, args=3)
    assert [problem.path for problem in caught.value.problems] == ["", "/type", "/args", "/env/A", "/timeout"]


def test_secrets_are_shown_neither_in_refusals_nor_in_the_repr() -> None:
    assert "s3cret" not in refusal(url="http://h", headers={"Authorization": "Bearer s3cret\nX"}, timeout=-1)
    config = ServerConfig(url="http://h", headers={"Authorization": "s3cret"}, env={"TOKEN": "s3cret"})
    assert "s3cret" not in repr(config)


def test_settings_that_are_no_object_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be a JSON object"):
        ServerConfig.from_json("[]")


def test_problems_inside_another_record_keep_their_place() -> None:
    class Settings(Record):
        servers: dict[str, ServerConfig]

    with pytest.raises(ValueError, match="/servers/a/timeout: must be greater than 0"):
        Settings.from_json({"servers": {"a": {"command": "x", "timeout": 0}}})
    with pytest.raises(ValueError, match="/servers/a: must be"):
        Settings.from_json({"servers": {"a": 3}})


def test_variables_are_filled_in_everywhere_that_matters() -> None:
    config = ServerConfig(
        command="${C}", args=["${A:-a}", "b"], env={"E": "${E}"}, cwd="${HOME}", note="${C}"
    )
    filled = config.expanded({"C": "cmd", "E": "e", "HOME": "/h"})
    assert (filled.command, filled.args, filled.env, filled.cwd) == ("cmd", ("a", "b"), {"E": "e"}, "/h")
    assert filled.model_extra == {"note": "${C}"}
    reached = ServerConfig(url="${BASE}/mcp", headers={"Authorization": "Bearer ${T}"}, timeout=3)
    filled = reached.expanded({"BASE": "https://h", "T": "t\n"})
    assert (filled.url, filled.headers, filled.timeout) == ("https://h/mcp", {"Authorization": "Bearer t"}, 3)


def test_every_missing_variable_is_named_with_its_place() -> None:
    config = ServerConfig(command="x", args=["${ONE}", "${TWO}"], env={"a/b": "${THREE}"})
    with pytest.raises(ConfigError) as caught:
        config.expanded({})
    assert [problem.path for problem in caught.value.problems] == ["/args/0", "/args/1", "/env/a~1b"]
    assert "the variable 'THREE' is not set; set it, or write ${THREE:-default}" in str(caught.value)


def test_settings_are_checked_after_variables_are_filled_in() -> None:
    with pytest.raises(ConfigError, match="/url: must begin with"):
        ServerConfig(url="${BASE}").expanded({"BASE": "file:///etc/passwd"})
    with pytest.raises(ConfigError, match="/command: must not be empty"):
        ServerConfig(command="${C}").expanded({"C": ""})


def test_the_identity_is_of_what_is_started_or_reached_and_of_nothing_else() -> None:
    config = ServerConfig(command="x", args=["a"])
    assert config.identity == ServerConfig(command="x", args=["a"], env={"TOKEN": "t"}, timeout=3).identity
    others = [
        ServerConfig(command="x"),
        ServerConfig(command="x", args=["a"], cwd="/"),
        ServerConfig(command="x", args=["a", ""]),
        ServerConfig(url="http://x"),
        ServerConfig(url="http://y"),
    ]
    assert len({config.identity, *(other.identity for other in others)}) == 6
    assert (
        ServerConfig(command="x").identity
        == "eda9a0a00485d3b7b76658a812ad1b8f038312dbb1998bea31eb5226f9340d1a"
    )


@pytest.mark.proof
def test_settings_need_no_extra() -> None:
    program = (
        "import sys, toolcrib.execution.mcp.config, toolcrib.execution.mcp.transport.process\n"
        "assert not {'mcp', 'mcp_types', 'httpx2', 'httpx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_connection_is_not_for_more_calls_at_once_than_its_pool_was_made_for() -> None:
    known = ServerConfig(url="http://x", max_concurrency=2)
    assert known.replace(max_concurrency=1).reaches_as(known)
    assert not known.replace(max_concurrency=3).reaches_as(known)
    started = ServerConfig(command="x", max_concurrency=2)
    assert started.replace(max_concurrency=3).reaches_as(started)


def test_a_wall_says_what_is_read_written_and_reached() -> None:
    config = ServerConfig(
        command="x",
        sandbox="bubblewrap",
        read=["/data", "~/notes", "${FOLDER}"],
        write=["/out"],
        network=["api.example.com", "*.example.org", "10.0.0.7:80", "${HOST}"],
    )
    assert ServerConfig.from_json(config.to_json()) == config
    filled = config.expanded({"FOLDER": "/srv", "HOST": "a.example"})
    assert (filled.read, filled.network[-1]) == (("/data", "~/notes", "/srv"), "a.example")
    assert ServerConfig(command="x").network == ServerConfig(command="x", sandbox="docker").network == "none"
    assert not config.reaches_as(config.replace(write=["/other"]))
    assert not config.reaches_as(config.replace(sandbox="docker"))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sandbox": "firejail"}, "/sandbox: "),
        ({"read": ["/data"]}, "/read: is for a server in a sandbox; add sandbox = 'bubblewrap' or 'docker'"),
        ({"network": "all"}, "/network: is for a server in a sandbox"),
        ({"sandbox": "docker", "read": ["data"]}, "/read/0: 'data' is relative; write the whole path"),
        ({"sandbox": "docker", "write": ["./data"]}, "/write/0: './data' is relative"),
        (
            {"sandbox": "docker", "read": ["/"]},
            "/read/0: is the root of all files, which would leave nothing",
        ),
        ({"sandbox": "docker", "read": [""]}, "/read/0: must not be empty"),
        ({"sandbox": "docker", "network": "some"}, "/network: must be 'none', 'all' or a list of hosts"),
        ({"sandbox": "docker", "network": {"a": 1}}, "/network: must be 'none', 'all' or a list of hosts"),
        (
            {"sandbox": "docker", "network": ["https://a.example"]},
            "/network: 'https://a.example' is more than a host",
        ),
        (
            {"sandbox": "docker", "network": ["a.example:x"]},
            "/network: 'a.example:x' has no port after its colon",
        ),
    ],
)
def test_a_wall_that_cannot_stand_is_refused(settings: dict[str, Any], told: str) -> None:
    assert told in refusal(command="x", **settings)


@pytest.mark.parametrize("settings", [{"sandbox": "docker"}, {"read": ["/data"]}, {"network": "all"}])
def test_a_server_that_is_reached_has_no_wall(settings: dict[str, Any]) -> None:
    assert "is for a server that a 'command' starts" in refusal(url="http://localhost:1/mcp", **settings)


def test_a_variable_that_makes_a_path_relative_is_refused() -> None:
    config = ServerConfig(command="x", sandbox="docker", read=["${FOLDER}"])
    with pytest.raises(ConfigError, match="'data' is relative"):
        config.expanded({"FOLDER": "data"})


@pytest.mark.parametrize(
    ("settings", "limit", "program"),
    [
        ({"command": "python3"}, 30, ""),
        ({"command": "npx", "args": ["-y", "thing"]}, 300, "npx"),
        ({"command": "/usr/local/bin/uvx"}, 300, "uvx"),
        ({"command": "npx.cmd"}, 300, "npx"),
        ({"command": "docker", "start_timeout": 5}, 5, "docker"),
        ({"url": "http://localhost:1/mcp"}, 30, ""),
    ],
)
def test_start_limit_is_longer_for_programs_that_download(
    settings: dict[str, Any], limit: float, program: str
) -> None:
    config = ServerConfig(**settings)
    said = f"{program} may still be downloading it" if program else ""
    assert (config.start_limit, config.download) == (limit, said)

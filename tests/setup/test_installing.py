"""Handing our servers to other MCP clients, and taking over theirs."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolcrib.crib import load
from toolcrib.errors import ConfigError
from toolcrib.execution.mcp import ServerConfig
from toolcrib.setup.editing import backups
from toolcrib.setup.installing import CLIENTS, export, install, merge, read_servers, servers_of, undo
from toolcrib.setup.installing.clients import is_toolcrib, shape
from toolcrib.setup.installing.imports import written
from toolcrib.setup.installing.install import gateway_server

OURS = """\
[servers.time]
command = "uvx"
args = ["mcp-server-time"]
env = { TZ = "${TZ}", KEY = "a-${KEY}" }

[servers.web]
url = "https://example.com/mcp"
headers = { Authorization = "Bearer ${TOKEN}", X-Team = "${TEAM}", X-Kind = "plain" }

[servers.old]
url = "https://example.com/sse"
transport = "sse"
disabled = true
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a user who has nothing yet."""
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    for name in ("XDG_CONFIG_HOME", "APPDATA", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "TOOLCRIB_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def project(tmp_path: Path, user: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a project in which we are."""
    assert user.is_dir()
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return path


@pytest.mark.parametrize(
    ("client", "platform", "expected"),
    [
        ("claude", "linux", ".claude.json"),
        ("claude-desktop", "linux", ".config/Claude/claude_desktop_config.json"),
        ("claude-desktop", "darwin", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("cursor", "darwin", ".cursor/mcp.json"),
        ("vscode", "linux", ".config/Code/User/mcp.json"),
        ("vscode", "darwin", "Library/Application Support/Code/User/mcp.json"),
        ("windsurf", "linux", ".codeium/windsurf/mcp_config.json"),
        ("gemini", "linux", ".gemini/settings.json"),
        ("codex", "linux", ".codex/config.toml"),
        ("zed", "linux", ".config/zed/settings.json"),
        ("zed", "darwin", ".config/zed/settings.json"),
        ("zed", "win32", "AppData/Roaming/Zed/settings.json"),
    ],
)
def test_every_client_has_its_file(user: Path, client: str, platform: str, expected: str) -> None:
    assert CLIENTS[client].file(environ={}, platform=platform) == user / expected


def test_a_client_may_have_been_moved(user: Path) -> None:
    assert CLIENTS["codex"].file(environ={"CODEX_HOME": "/x"}) == Path("/x/config.toml")
    assert CLIENTS["claude"].file(environ={"CLAUDE_CONFIG_DIR": "~/c"}) == user / "c" / ".claude.json"
    assert CLIENTS["vscode"].file(environ={"XDG_CONFIG_HOME": "/y"}, platform="linux").is_relative_to("/y")


def test_a_client_without_a_file_for_projects_says_so(project: Path) -> None:
    assert CLIENTS["cursor"].file("project") == project / ".cursor" / "mcp.json"
    assert CLIENTS["codex"].file("project") == project / ".codex" / "config.toml"
    with pytest.raises(ConfigError, match="Windsurf: it has no file for a project"):
        CLIENTS["windsurf"].file("project")


def exported(project: Path, client: str) -> Any:
    settings = load(put(project / "toolcrib.toml", OURS))
    return export(CLIENTS[client], settings.servers)


def test_claude_code_is_told_the_transport_and_fills_in_variables(project: Path) -> None:
    made = exported(project, "claude")
    assert made.notes == ()
    assert made.servers["time"]["type"] == "stdio"
    assert made.servers["time"]["env"] == {"TZ": "${TZ}", "KEY": "a-${KEY}"}
    assert made.servers["old"] == {"type": "sse", "url": "https://example.com/sse", "disabled": True}
    assert json.loads(made.text) == {"mcpServers": made.servers}


def test_vs_code_has_another_word_for_servers_and_for_variables(project: Path) -> None:
    made = exported(project, "vscode")
    assert json.loads(made.text)["servers"]["web"] == {
        "type": "http",
        "url": "https://example.com/mcp",
        "headers": {"Authorization": "Bearer ${env:TOKEN}", "X-Team": "${env:TEAM}", "X-Kind": "plain"},
    }


def test_codex_names_variables_in_its_own_way(project: Path) -> None:
    made = exported(project, "codex")
    servers = tomllib.loads(made.text)["mcp_servers"]
    assert servers["web"] == {
        "url": "https://example.com/mcp",
        "bearer_token_env_var": "TOKEN",
        "env_http_headers": {"X-Team": "TEAM"},
        "http_headers": {"X-Kind": "plain"},
    }
    assert (servers["time"]["env_vars"], servers["time"]["env"]) == (["TZ"], {"KEY": "a-${KEY}"})
    assert made.notes == (
        "'time': Codex does not fill in variables: write the value of KEY there",
        "'old': Codex does not speak the old transport 'sse'",
    )
    assert shape(CLIENTS["codex"], ServerConfig(command="x", disabled=True))[0] == {
        "command": "x",
        "args": [],
        "enabled": False,
    }


def test_claude_desktop_starts_commands_alone(project: Path) -> None:
    made = exported(project, "claude-desktop")
    assert list(made.servers) == ["time"]
    assert "'web': Claude Desktop only starts commands, and does not connect to a url" in made.notes


@pytest.mark.parametrize(
    ("client", "key"),
    [("windsurf", "serverUrl"), ("gemini", "httpUrl"), ("zed", "url"), ("cursor", "url"), ("cline", "url")],
)
def test_every_client_calls_an_address_something(project: Path, client: str, key: str) -> None:
    assert exported(project, client).servers["web"][key] == "https://example.com/mcp"


def test_gemini_and_cline_tell_old_servers_apart(project: Path) -> None:
    assert exported(project, "gemini").servers["old"]["url"] == "https://example.com/sse"
    assert exported(project, "cline").servers["old"]["type"] == "sse"
    assert exported(project, "cline").servers["web"]["type"] == "streamableHttp"


def test_a_variable_with_a_default_is_told_where_it_is_not_understood() -> None:
    entry, notes = shape(CLIENTS["cursor"], ServerConfig(command="x", args=["${A:-1}"], cwd="/srv"))
    assert entry == {"command": "x", "args": ["${A:-1}"], "cwd": "/srv"}
    assert notes == ("Cursor does not fill in variables: write the value of A there",)


def test_exported_servers_can_be_imported_again(project: Path) -> None:
    settings = load(put(project / "toolcrib.toml", OURS))
    for client in ("claude", "vscode", "gemini", "codex", "cline", "zed", "cursor", "windsurf"):
        suffix = "config.toml" if client == "codex" else "mcp.json"
        path = put(project / f".{client}" / suffix, export(CLIENTS[client], settings.servers).text)
        found = read_servers(path).servers
        assert found.keys() == settings.servers.keys() - ({"old"} if client == "codex" else set())
        for name, server in found.items():
            ours = json.dumps(written(settings.servers[name])).replace("env:", "")
            theirs = json.dumps(written(server)).replace("env:", "")
            same = json.loads(theirs) == json.loads(ours)
            assert same or (client in {"cursor", "windsurf", "zed"} and name == "old"), (client, name)


def test_the_servers_of_a_client_are_taken_over(project: Path, user: Path) -> None:
    put(
        user / ".cursor" / "mcp.json",
        {
            "mcpServers": {
                "My Server": {"command": "x", "cwd": "sub"},
                "bad": {"args": []},
                "b": {"command": "u"},
            }
        },
    )
    put(project / ".cursor" / "mcp.json", '{// here\n"mcpServers": {"b": {"command": "p"}}}')
    found = servers_of(CLIENTS["cursor"], project)
    assert found.servers["b"].command == "p"
    assert found.servers["My-Server"].cwd == str(user / ".cursor" / "sub")
    assert found.names["My-Server"] == "My Server"
    assert found.notes == ["'bad' is left out: it needs a 'command' to start, or a 'url' to reach"]
    merged = merge(project / "toolcrib.toml", found.servers)
    assert sorted(merged.added) == ["My-Server", "b"]
    merged.edit.write()
    assert sorted(load(project / "toolcrib.toml").servers) == ["My-Server", "b"]


def test_claude_code_keeps_servers_in_three_places(project: Path, user: Path) -> None:
    put(
        user / ".claude.json",
        {
            "numStartups": 7,
            "mcpServers": {"everywhere": {"command": "e"}, "x": {"command": "user"}},
            "projects": {
                str(project): {"mcpServers": {"local": {"command": "l"}, "x": {"command": "local"}}}
            },
        },
    )
    shared = {"shared": {"type": "http", "url": "https://example.com/mcp"}, "x": {"command": "project"}}
    put(project / ".mcp.json", {"mcpServers": shared})
    found = servers_of(CLIENTS["claude"], project)
    assert found.servers.keys() == {"everywhere", "local", "shared", "x"}
    assert found.servers["x"].command == "local"
    assert found.files == [user / ".claude.json", project / ".mcp.json"]
    own = servers_of(CLIENTS["claude"], project, only=user / ".claude.json")
    assert own.servers.keys() == {"everywhere", "x"}


def test_input_prompt_of_an_editor_becomes_a_variable(project: Path) -> None:
    servers = {"gh": {"command": "x", "env": {"T": "${input:github token}"}, "args": ["${input:1st}"]}}
    found = read_servers(put(project / ".vscode" / "mcp.json", {"servers": servers}))
    assert found.servers["gh"].env == {"T": "${GITHUB_TOKEN}"}
    assert found.servers["gh"].args == ("${_1ST}",)


def test_the_defaults_of_what_an_editor_asks_for_are_kept(project: Path) -> None:
    inputs = [
        {"type": "promptString", "id": "level", "default": "debug"},
        {"type": "promptString", "id": "odd", "default": "{x}"},
        {"type": "promptString", "id": "token", "password": True},
    ]
    env = {"LEVEL": "${input:level}", "ODD": "${input:odd}", "TOKEN": "${input:token}"}
    document = {"inputs": inputs, "servers": {"gh": {"command": "x", "env": env}}}
    found = read_servers(put(project / ".vscode" / "mcp.json", document))
    assert found.servers["gh"].env == {"LEVEL": "${LEVEL:-debug}", "ODD": "${ODD}", "TOKEN": "${TOKEN}"}


def test_a_workspace_is_a_folder_in_a_project_alone(project: Path, user: Path) -> None:
    servers = {"mcpServers": {"a": {"command": "x", "args": ["${workspaceFolder}/data"]}}}
    found = read_servers(put(project / ".cursor" / "mcp.json", servers))
    assert (found.servers["a"].args, found.notes) == ((f"{project}/data",), [])
    for path in (user / ".cursor" / "mcp.json", user / ".claude.json"):
        found = read_servers(put(path, servers))
        assert found.servers["a"].args == ("${workspaceFolder}/data",)
        assert found.notes == [
            "'a': ${workspaceFolder} is not a folder outside of a project; write one instead"
        ]


def test_milliseconds_become_seconds(project: Path, user: Path) -> None:
    path = put(user / ".gemini" / "settings.json", {"mcpServers": {"a": {"command": "x", "timeout": 5000}}})
    assert servers_of(CLIENTS["gemini"], project).servers["a"].timeout == 5
    assert read_servers(put(project / ".gemini" / "odd.json", {"mcpServers": {"a": 5}})).servers == {}
    assert read_servers(path).servers["a"].timeout == 5


def test_the_variables_of_gemini_are_read(project: Path) -> None:
    server = {"command": "x", "env": {"A": "$KEY", "B": "${KEY}", "C": "costs $5", "D": 1}}
    found = read_servers(put(project / ".gemini" / "settings.json", {"mcpServers": {"a": server}}))
    assert found.servers["a"].env == {"A": "${KEY}", "B": "${KEY}", "C": "costs $5", "D": "1"}


def test_the_times_and_tokens_of_codex_are_read(project: Path) -> None:
    path = put(
        project / "config.toml",
        'model = "x"\n[mcp_servers.a]\nurl = "https://example.com/mcp"\nbearer_token_env_var = "T"\n'
        "startup_timeout_sec = 20\ntool_timeout_sec = 9\n[mcp_servers]\nb = 5\n".replace(
            "[mcp_servers]\nb = 5\n", ""
        ),
    )
    server = read_servers(path).servers["a"]
    assert (server.headers, server.start_timeout, server.timeout) == ({"Authorization": "Bearer ${T}"}, 20, 9)
    odd = put(project / "odd.toml", "mcp_servers.b = 5\n")
    assert read_servers(odd).servers == {}


def test_a_file_of_ours_can_be_taken_over_too(project: Path) -> None:
    assert list(read_servers(put(project / "other.toml", OURS)).servers) == ["time", "web", "old"]
    with pytest.raises(ConfigError, match="it cannot be read"):
        read_servers(project / "missing.json")


def test_a_conflict_is_told_and_ours_stays_unless_forced(project: Path) -> None:
    path = put(project / "toolcrib.toml", '[servers.a]\ncommand = "ours"\n[servers.same]\ncommand = "s"\n')
    theirs = {"a": ServerConfig(command="theirs"), "same": ServerConfig(command="s")}
    merged = merge(path, theirs)
    assert (merged.conflicts, merged.same, merged.edit.changes) == (("a",), ("same",), False)
    merged = merge(path, theirs, force=True)
    assert (merged.replaced, merged.conflicts) == (("a",), ())
    merged.edit.write()
    assert load(path).servers["a"].command == "theirs"


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({"command": "toolcrib", "args": ["serve"]}, True),
        ({"command": "/opt/venv/bin/toolcrib", "args": ["serve", "--config", "x"]}, True),
        ({"command": "C:\\py\\toolcrib.exe", "args": ["serve"]}, True),
        ({"command": "uvx", "args": ["toolcrib[cli]==1.0", "serve"]}, True),
        ({"command": "python", "args": ["-m", "toolcrib.cli", "serve"]}, True),
        ({"command": "toolcrib-server", "args": ["serve"]}, False),
        ({"command": "toolcrib", "args": ["list"]}, False),
        ({"url": "http://127.0.0.1:8808/mcp"}, True),
        ({"url": "http://localhost:9000/mcp"}, False),
        ({"url": "http://0.0.0.0:8808/mcp/reading"}, True),
        ({"url": "http://[::1]:8808/mcp"}, True),
        ({"url": "http://localhost:8808/mcp-other"}, False),
        ({"url": "http://example.com:8808/mcp"}, False),
        ({"command": "docs-mcp", "args": ["serve", "--dir", "/home/me/src/toolcrib"]}, False),
        ({"command": "uvx", "args": ["docs-mcp", "serve", "toolcrib"]}, False),
        ({"command": "uvx", "args": ["--from", "toolcrib[cli]", "toolcrib", "serve"]}, True),
        ({"command": "pipx", "args": ["run", "toolcrib", "serve"]}, True),
        ({"command": "uv", "args": ["run", "--", "python", "-m", "toolcrib", "serve"]}, True),
        ({"command": "uv", "args": ["run", "-q"]}, False),
        ({"command": "env", "args": ["A=1", "toolcrib", "serve"]}, True),
        ({"command": "python3.11", "args": ["-mtoolcrib.cli", "serve"]}, True),
        ({"command": "python", "args": ["-I", "-m", "toolcrib_docs", "serve"]}, False),
        ({"command": "python", "args": ["toolcrib.py", "serve"]}, False),
        ({"command": "python", "args": ["-m"]}, False),
        ({"command": "python", "args": ["-V"]}, False),
        ({"command": "sh", "args": ["-c", "toolcrib serve"]}, True),
        ({"command": "bash", "args": ["-lc", "cd /srv && exec toolcrib serve --config x"]}, True),
        ({"command": "cmd", "args": ["/c", "toolcrib", "serve"]}, True),
        ({"command": "sh", "args": ["-c", "docs serve 'toolcrib"]}, False),
        ({"url": "https://${HOST}:x/mcp"}, False),
    ],
)
def test_toolcrib_knows_itself(server: dict[str, Any], expected: bool) -> None:
    assert is_toolcrib(ServerConfig(**server)) is expected


def test_toolcrib_is_known_by_the_port_that_it_has() -> None:
    server = ServerConfig(url="http://localhost:9000/mcp")
    assert is_toolcrib(server, 9000)
    assert not is_toolcrib(ServerConfig(url="http://localhost:8808/mcp"), 9000)


def test_toolcrib_never_takes_over_nor_exports_itself(project: Path) -> None:
    servers = {"crib": {"command": "toolcrib", "args": ["serve"]}, "a": {"command": "x"}}
    path = put(project / "mcp.json", {"mcpServers": servers})
    found = read_servers(path)
    assert list(found.servers) == ["a"]
    assert found.notes == ["'crib' is left out: it is toolcrib itself"]
    assert list(export(CLIENTS["cursor"], load(path).servers).servers) == ["a"]


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_toolcrib_is_installed_once_in_every_client(project: Path, user: Path, client: str) -> None:
    config = put(project / "toolcrib.toml", OURS)
    first = install(CLIENTS[client], config)
    assert first.changes
    assert first.write() == ()
    assert first.edit.path.is_relative_to(user)
    again = install(CLIENTS[client], config)
    assert not again.changes
    assert again.write() == ()
    text = first.edit.path.read_text()
    assert str(config) in text
    assert "serve" in text


def test_installing_keeps_everything_else_in_a_clients_file(project: Path, user: Path) -> None:
    config = put(project / "toolcrib.toml", OURS)
    text = '{\n  // theme\n  "theme": "One Dark",\n  "context_servers": {}\n}\n'
    path = put(user / ".config" / "zed" / "settings.json", text)
    planned = install(CLIENTS["zed"], config, name="crib")
    (backup,) = planned.write()
    assert backup.read_text() == text
    assert [each.name for each in path.parent.iterdir()] == ["settings.json"]
    after = path.read_text()
    assert after.startswith('{\n  // theme\n  "theme": "One Dark",\n  "context_servers": {\n    "crib": {\n')


def test_a_clients_servers_move_behind_the_gateway_and_back(project: Path, user: Path) -> None:
    path = put(
        user / ".cursor" / "mcp.json",
        '{\n  // mine\n  "mcpServers": {\n    "My Server": {"command": "x"},\n    "time": {"command": "other"}\n  }\n}\n',
    )
    before = json.loads(path.read_text().replace("// mine", ""))
    config = put(project / "toolcrib.toml", OURS)
    planned = install(CLIENTS["cursor"], config, replace=True)
    stays, renamed = planned.notes
    assert stays == "'time' stays: our configuration has another server of that name"
    assert renamed.startswith("'My Server' is 'My-Server' here")
    assert len(planned.write()) == 2
    assert load(config).servers["My-Server"].command == "x"
    assert list(load(path).servers) == ["time", "toolcrib"]
    assert not install(CLIENTS["cursor"], config, replace=True).changes
    path.write_text(path.read_text().replace("// mine", "// still mine"))
    undo(CLIENTS["cursor"]).write()
    assert json.loads(path.read_text().replace("// still mine", "")) == {
        "mcpServers": {name: before["mcpServers"][name] for name in ("time", "My Server")}
    }
    undo(CLIENTS["cursor"]).write()
    assert list(load(path).servers) == ["time", "toolcrib"]


def test_without_a_configuration_replacing_makes_one(project: Path) -> None:
    put(project / ".mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    planned = install(CLIENTS["claude"], project / ".mcp.json", scope="project", replace=True)
    assert planned.config == project / "toolcrib.toml"
    planned.write()
    assert list(load(project / "toolcrib.toml").servers) == ["a"]
    assert list(load(project / ".mcp.json").servers) == ["toolcrib"]


def test_a_gateway_is_never_made_to_serve_itself(project: Path) -> None:
    path = put(project / ".mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    with pytest.raises(ConfigError, match="the gateway would serve itself; --replace"):
        install(CLIENTS["claude"], path, scope="project")
    for scope in ("user", "project"):
        with pytest.raises(ConfigError, match="there is no configuration to serve"):
            install(CLIENTS["cursor"], scope=scope, folder=project / "empty")
    itself = {"c": {"command": "toolcrib", "args": ["serve"]}}
    config = put(project / "mcp.json", {"mcpServers": itself})
    for replace in (False, True):
        with pytest.raises(ConfigError, match="which would serve itself; remove that first"):
            install(CLIENTS["cursor"], config, replace=replace)


def test_user_servers_stay_out_of_the_project(project: Path, user: Path) -> None:
    secret = {"a": {"command": "x", "env": {"KEY": "s3cret"}}}
    put(user / ".cursor" / "mcp.json", {"mcpServers": secret})
    shared = put(project / ".mcp.json", {"mcpServers": {"b": {"command": "y"}}})
    before = shared.read_text()
    planned = install(CLIENTS["cursor"], replace=True)
    assert planned.config == user / ".config" / "toolcrib" / "toolcrib.toml"
    planned.write()
    assert load(planned.config).servers["a"].env == {"KEY": "s3cret"}
    assert [each.name for each in project.iterdir()] == [".mcp.json"]
    assert shared.read_text() == before
    assert install(CLIENTS["zed"]).config == shared  # nothing moves into it


def test_shared_project_file_has_no_paths_of_this_machine(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_HOME", str(project.parent / "home"))
    monkeypatch.setenv("PATH", str(project))
    put(project / "toolcrib.toml", OURS)
    planned = install(CLIENTS["cursor"], scope="project")
    assert planned.notes == (
        "there is no `toolcrib` on the PATH, with which the project's file starts it; install it there",
    )
    planned.write()
    entry = json.loads((project / ".cursor" / "mcp.json").read_text())["mcpServers"]["toolcrib"]
    assert entry == {"command": "toolcrib", "args": ["serve", "--config", "toolcrib.toml"]}
    outside = put(project.parent / "other.toml", OURS)
    assert "is not in the project" in install(CLIENTS["zed"], outside, scope="project").notes[0]


def test_another_server_of_that_name_is_not_written_over(project: Path, user: Path) -> None:
    config = put(project / "toolcrib.toml", OURS)
    path = put(user / ".cursor" / "mcp.json", {"mcpServers": {"toolcrib": {"command": "theirs"}}})
    with pytest.raises(ConfigError, match="there is another server 'toolcrib'; --name gives"):
        install(CLIENTS["cursor"], config)
    assert install(CLIENTS["cursor"], config, name="crib").changes
    assert install(CLIENTS["cursor"], config, force=True).changes
    planned = install(CLIENTS["cursor"], config, replace=True)
    planned.write()
    assert load(config).servers["toolcrib"].command == "theirs"
    assert "serve" in load(path).servers["toolcrib"].args


def test_a_server_that_would_lose_something_stays_with_its_client(project: Path, user: Path) -> None:
    servers = {
        "env": {"command": "x", "envFile": ".env", "disabledTools": []},
        "asks": {"command": "y", "autoApprove": ["z"], "description": "Y."},
    }
    path = put(user / ".cursor" / "mcp.json", {"mcpServers": servers})
    found = servers_of(CLIENTS["cursor"], project)
    assert found.notes == [
        "'env': toolcrib does not read 'envFile', and leaves it out",
        "'asks': toolcrib does not read 'autoApprove', and leaves it out",
    ]
    planned = install(CLIENTS["cursor"], replace=True)
    assert planned.notes == (
        "'asks': toolcrib does not read 'autoApprove', and leaves it out",
        "'env' stays: behind the gateway it would lose 'envFile'",
    )
    planned.write()
    assert list(load(path).servers) == ["env", "toolcrib"]
    assert list(load(planned.config).servers) == ["asks"]


def test_one_broken_server_does_not_keep_the_others(project: Path) -> None:
    odd = (
        '[mcp_servers.good]\ncommand = "x"\nenv_vars = ["A"]\n[mcp_servers.headers]\nurl = "https://x"\n'
        'http_headers = "x"\n[mcp_servers.taken]\nurl = "https://x"\nenv_http_headers = ["x"]\n'
        '[mcp_servers.env]\ncommand = "x"\nenv = "x"\n[mcp_servers.names]\ncommand = "x"\nenv_vars = 5\n'
    )
    found = read_servers(put(project / "config.toml", odd))
    assert list(found.servers) == ["good", "names"]
    assert [note.partition(" is left out")[0] for note in found.notes[:3]] == [
        "'headers'",
        "'taken'",
        "'env'",
    ]
    number = read_servers(put(project / "a.json", {"mcpServers": {"a": 5, "b": {"command": "x"}}}))
    assert number.notes == ["'a' is left out: it must be an object, not int"]
    assert list(number.servers) == ["b"]
    text = read_servers(put(project / "b.json", {"mcpServers": "x"}))
    assert text.notes == [f"{project / 'b.json'}: /mcpServers: must be an object of servers by name"]
    listed = read_servers(put(project / "c.json", {"mcpServers": [{"name": "a", "command": "x"}]}))
    assert list(listed.servers) == ["a"]


def test_a_server_is_taken_over_under_the_name_that_our_file_has_for_it(project: Path) -> None:
    path = put(project / "mcp.json", {"mcpServers": {"My Server": {"command": "x"}}})
    merge(path, {"My-Server": ServerConfig(command="y")}, force=True).edit.write()
    assert json.loads(path.read_text()) == {"mcpServers": {"My Server": {"command": "y"}}}


def test_undoing_gives_a_file_back_to_the_byte(project: Path, user: Path) -> None:
    text = '\ufeff{"mcpServers": {"a":   {"command":"x"}, // mine\r\n "b": {"command": "y"}}}'
    path = user / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    install(CLIENTS["cursor"], replace=True).write()
    installed = path.read_bytes()
    undo(CLIENTS["cursor"]).write()
    assert path.read_bytes() == text.encode()
    undo(CLIENTS["cursor"]).write()
    assert path.read_bytes() == installed
    assert project.is_dir()


def test_undoing_restores_the_servers_before_the_first_of_several_installations(
    project: Path, user: Path
) -> None:
    path = put(user / ".cursor" / "mcp.json", '{"mcpServers": {"a":   {"command": "x"}}}\n')
    text = path.read_text()
    config = put(project / "toolcrib.toml", OURS)
    install(CLIENTS["cursor"], config).write()
    install(CLIENTS["cursor"], put(project / "other.toml", OURS)).write()
    install(CLIENTS["cursor"], config, replace=True).write()
    assert list(load(path).servers) == ["toolcrib"]
    undo(CLIENTS["cursor"]).write()
    assert path.read_text() == text


def test_undoing_keeps_servers_that_were_added_between_two_installations(project: Path, user: Path) -> None:
    path = put(user / ".cursor" / "mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    config = put(project / "toolcrib.toml", OURS)
    install(CLIENTS["cursor"], config).write()
    document = json.loads(path.read_text())
    document["mcpServers"]["b"] = {"command": "y"}
    put(path, document)
    install(CLIENTS["cursor"], config, replace=True).write()
    undo(CLIENTS["cursor"]).write()
    assert list(load(path).servers) == ["a", "b"]


def test_undoing_takes_toolcrib_out_where_there_was_nothing(project: Path, user: Path) -> None:
    put(project / "toolcrib.toml", OURS)
    install(CLIENTS["cursor"], project / "toolcrib.toml").write()
    undo(CLIENTS["cursor"]).write()
    assert json.loads((user / ".cursor" / "mcp.json").read_text()) == {"mcpServers": {}}


def test_undoing_passes_over_a_broken_backup_and_names_it(project: Path, user: Path) -> None:
    path = put(user / ".cursor" / "mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    install(CLIENTS["cursor"], put(project / "toolcrib.toml", OURS)).write()
    broken = put(backups(path)[-1], '{"mcpServers": {"a"')
    edit = undo(CLIENTS["cursor"])
    assert edit.notes[0].startswith(f"{broken} is skipped: it is not JSON")
    edit.write()
    assert list(load(path).servers) == ["a"]


def test_there_must_be_something_to_undo(project: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to undo"):
        undo(CLIENTS["cursor"], scope="project", folder=project)


def test_the_gateway_is_started_by_its_full_path_or_by_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    config = tmp_path / "toolcrib.toml"
    server = gateway_server(config)
    assert [server.command, *server.args] == [
        sys.executable,
        "-m",
        "toolcrib.cli",
        "serve",
        "--config",
        str(config),
    ]
    assert server.env == {"TOOLCRIB_HOME": str(tmp_path / "home")}
    program = tmp_path / "toolcrib"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert gateway_server(config).command == str(program)
    assert gateway_server(config, "project").command == "toolcrib"

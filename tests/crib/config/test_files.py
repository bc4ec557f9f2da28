"""Configurations as people have them: those of MCP clients, and our own."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from toolcrib.crib import Settings, load
from toolcrib.crib.config.files import load_text
from toolcrib.errors import ConfigError

CLAUDE_DESKTOP = """{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ann/notes"],
      "env": {"LOG": "1"}
    }
  }
}"""
CLAUDE_CODE = """{
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://api.example.com/mcp/",
      "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}
    },
    "old": {"type": "sse", "url": "${BASE:-https://example.com}/sse"}
  }
}"""
CURSOR = """{
  "mcpServers": {
    "db": {
      "command": "uvx",
      "args": ["mcp-db", "${workspaceFolder}/data.db"],
      "env": {"DB": "${env:DB_NAME}", "HOME_OF": "${userHome}"}
    }
  }
}"""
VS_CODE = """{
  // what to ask for at the start
  "inputs": [
    {"type": "promptString", "id": "token", "description": "API token", "password": true},
  ],
  "servers": {
    "memory": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-memory"],
      "env": {"TOKEN": "${input:token}"}, /* asked for */
      "dev": {"watch": "src/**"},
    },
  },
}"""
VS_CODE_SETTINGS = """{
  "editor.fontSize": 14,
  "mcp": {"servers": {"memory": {"command": "npx"}}}
}"""
WINDSURF = """{"mcpServers": {"figma": {"serverUrl": "https://mcp.example.com/mcp"}}}"""
GEMINI = """{
  "theme": "dark",
  "mcpServers": {
    "search": {"httpUrl": "http://localhost:3000/mcp", "trust": false, "timeout": 5, "includeTools": ["find"]}
  }
}"""
CLINE = """{
  "mcpServers": {
    "weather": {"command": "node", "args": ["weather.js"], "disabled": true, "autoApprove": ["now"], "alwaysAllow": []}
  }
}"""
ZED = """{"context_servers": {"docs": {"source": "custom", "command": "docs-server", "args": []}}}"""
ZED_NESTED = """{
  "context_servers": {
    "docs": {"command": {"path": "docs-server", "args": ["-v"], "env": {"LOG": "1"}}, "settings": {}}
  }
}"""
OPENCODE = """{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "docs": {
      "type": "local", "command": ["docs-server", "-v"], "environment": {"LOG": "1"}, "enabled": true, "timeout": 5000
    },
    "web": {"type": "remote", "url": "https://mcp.example.com/mcp", "headers": {"A": "b"}, "enabled": false}
  }
}"""
BARE = """{"time": {"command": "mcp-server-time"}, "web": {"url": "http://localhost:1/mcp"}}"""
LISTED = """{"mcpServers": [{"name": "time", "command": "mcp-server-time", "enabled": true}]}"""


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Return a function that reads settings from a file with the given text."""

    def settings(text: str, name: str = "mcp.json") -> Settings:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return load(path)

    return settings


def problems(error: pytest.ExceptionInfo[ConfigError]) -> dict[str, str]:
    return {problem.path: problem.message for problem in error.value.problems}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (CLAUDE_DESKTOP, ["filesystem"]),
        (CLAUDE_CODE, ["github", "old"]),
        (CURSOR, ["db"]),
        (VS_CODE, ["memory"]),
        (VS_CODE_SETTINGS, ["memory"]),
        (WINDSURF, ["figma"]),
        (GEMINI, ["search"]),
        (CLINE, ["weather"]),
        (ZED, ["docs"]),
        (ZED_NESTED, ["docs"]),
        (OPENCODE, ["docs", "web"]),
        (BARE, ["time", "web"]),
        (LISTED, ["time"]),
        ("{}", []),
        ('{"mcpServers": {}}', []),
    ],
)
def test_the_files_of_mcp_clients_are_read_as_they_are(read: Any, text: str, names: list[str]) -> None:
    assert list(read(text).servers) == names


def test_a_server_on_stdio_is_read(read: Any) -> None:
    server = read(CLAUDE_DESKTOP).servers["filesystem"]
    assert (server.transport, server.command, server.args[-1]) == ("stdio", "npx", "/home/ann/notes")
    assert server.env == {"LOG": "1"}


@pytest.mark.parametrize("text", [ZED_NESTED, OPENCODE])
def test_a_command_in_pieces_is_put_together(read: Any, text: str) -> None:
    server = read(text).servers["docs"]
    assert (server.transport, server.command, server.args, server.env) == (
        "stdio",
        "docs-server",
        ("-v",),
        {"LOG": "1"},
    )
    assert not server.disabled


def test_opencode_spellings_are_read(read: Any) -> None:
    servers = read(OPENCODE).servers
    assert (servers["docs"].timeout, servers["docs"].start_timeout) == (None, 5)
    assert (servers["web"].transport, servers["web"].headers, servers["web"].disabled) == (
        "http",
        {"A": "b"},
        True,
    )


@pytest.mark.parametrize(
    "server",
    [{"command": []}, {"command": {}}, {"command": ["x"], "args": ["y"]}, {"type": "local", "timeout": "x", "command": []}],
)  # fmt: skip
def test_a_command_in_no_known_shape_is_refused(server: Any) -> None:
    with pytest.raises(ConfigError, match="/mcpServers/a/command: must be a string"):
        load({"mcpServers": {"a": server}})


def test_servers_are_read_from_every_place_that_has_some(read: Any) -> None:
    text = '{"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}}, "mcp": {"servers": {"c": {"url": "http://c"}}}}'
    assert list(read(text).servers) == list(load(json.loads(text)).servers) == ["a", "b", "c"]
    assert read(text).others == {}
    assert list(read('{"mcpServers": {}, "servers": {"b": {"command": "y"}}}').servers) == ["b"]
    other = read('{"mcpServers": {"a": {"command": "x"}}, "servers": ["eu", "us"], "mcp": {"trace": true}}')
    assert (list(other.servers), other.others) == (["a"], {"servers": ["eu", "us"], "mcp": {"trace": True}})


def test_one_name_in_two_places_is_refused(read: Any) -> None:
    with pytest.raises(ConfigError) as error:
        read('{"mcpServers": {"a": {"command": "x"}}, "servers": {"a": {"command": "y"}}}')
    assert problems(error) == {"/servers/a": "/mcpServers/a has the name 'a' already; rename one of them"}


def test_a_key_that_stands_twice_is_refused(read: Any) -> None:
    with pytest.raises(ConfigError, match="the key 'a' appears twice in one object"):
        read('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}')


def test_endlessly_nested_file_is_refused(read: Any) -> None:
    deep: Any = []
    for _ in range(600):
        deep = [deep]
    cyclic: dict[str, Any] = {"command": "x"}
    cyclic["me"] = cyclic
    for server in ({"command": "x", "y": deep}, cyclic):
        with pytest.raises(
            ConfigError, match="/mcpServers/a: is nested deeper than 100 levels, or contains itself"
        ):
            load({"mcpServers": {"a": server}})
    with pytest.raises(ConfigError, match="nested too deep"):
        read("a = " + "[" * 20_000, "toolcrib.toml")
    with pytest.raises(ConfigError, match="it is not TOML: a line has too many dots"):
        read("a." * 200_000 + "a = 1", "toolcrib.toml")
    with pytest.raises(ConfigError, match="a comment begins at character 0 and does not end"):
        read("/* " * 100_000)


ODD_PATHS = {
    "~nosuchuser/x.json": "begins with '~nosuchuser', and there is no such home",
    "a\0b.json": "must not contain a NUL character",
    "x\ud800.json": "must be a string, unable to parse raw data as a unicode string",
}


@pytest.mark.parametrize("path", ODD_PATHS)
def test_a_path_that_can_be_of_no_file_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="the path "):
        load(path)
    for config in ({"store": path}, {"audit": {"path": path}}, {"search": {"model": path}}):
        with pytest.raises(ConfigError, match=ODD_PATHS[path]):
            load(config)
    with pytest.raises(ConfigError, match="/mcpServers/a/cwd: "):
        load({"mcpServers": {"a": {"command": "x", "cwd": path}}})


def test_a_path_of_bytes_is_refused() -> None:
    class Bytes:
        def __fspath__(self) -> bytes:
            return b"x.json"

    with pytest.raises(ConfigError, match="must be text, not bytes"):
        load(Bytes())  # type: ignore[arg-type]  # on purpose


def test_a_folder_that_is_gone_is_missed_only_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(ConfigError, match="is relative, and the folder that this process is in is gone"):
        load("x.json")
    settings = load({"mcpServers": {"a": {"command": "x", "args": ["${workspaceFolder}"]}}})
    assert settings.servers["a"].args == ("${workspaceFolder}",)


def test_servers_on_the_network_are_read(read: Any) -> None:
    servers = read(CLAUDE_CODE).servers
    assert [server.transport for server in servers.values()] == ["http", "sse"]
    assert servers["github"].headers == {"Authorization": "Bearer ${GITHUB_TOKEN}"}
    assert read(WINDSURF).servers["figma"].url == "https://mcp.example.com/mcp"
    assert read(GEMINI).servers["search"].timeout == 5


def test_keys_that_only_other_clients_know_are_kept(read: Any) -> None:
    assert read(CLINE).servers["weather"].model_extra == {"autoApprove": ["now"], "alwaysAllow": []}
    assert read(CLINE).servers["weather"].disabled
    assert read(VS_CODE).others["inputs"][0]["id"] == "token"
    assert read(CLAUDE_DESKTOP).others == {"globalShortcut": "Ctrl+Space"}


def test_our_own_keys_may_be_written_as_other_clients_would(read: Any) -> None:
    server = {"command": "a", "startTimeout": 1, "idleTimeout": 2, "maxConcurrency": 3}
    found = read(json.dumps({"mcpServers": {"a": server}})).servers["a"]
    assert (found.start_timeout, found.idle_timeout, found.max_concurrency) == (1, 2, 3)


def test_a_key_that_is_nearly_one_of_ours_is_kept_and_warned_of(
    read: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = {"command": "a", "require": True, "enabled": True, "type": "stdio", "alwaysAllow": ["x"]}
    found = read(json.dumps({"mcpServers": {"a": server}})).servers["a"]
    assert (found.required, found.model_extra["require"]) == (False, True)
    assert caplog.messages == ["server 'a': 'require' is not a setting; did you mean 'required'?"]


def test_the_folders_that_editors_have_names_for_are_filled_in(read: Any, tmp_path: Path) -> None:
    server = read(CURSOR, ".cursor/mcp.json").servers["db"]
    assert server.args[1] == f"{tmp_path}/data.db"
    assert server.env["HOME_OF"] == str(Path.home())
    assert read(CURSOR, "mcp.json").servers["db"].args[1] == f"{tmp_path}/data.db"
    assert server.expanded({"DB_NAME": "pets"}).env["DB"] == "pets"


def test_an_input_that_an_editor_would_ask_for_is_named_when_it_is_needed(read: Any) -> None:
    server = read(VS_CODE).servers["memory"]
    with pytest.raises(ConfigError, match=r"/env/TOKEN: '\$\{input:token\}' is not a variable"):
        server.expanded({})


def test_a_name_that_no_tool_id_could_carry_is_mended(read: Any) -> None:
    text = '{"mcpServers": {"My files!": {"command": "a"}, "@scope/pkg": {"command": "b"}, "é": {"command": "c"}}}'
    assert list(read(text).servers) == ["My-files", "scope-pkg", "server"]


def test_two_names_that_become_one_are_refused(read: Any) -> None:
    with pytest.raises(ConfigError) as error:
        read('{"mcpServers": {"a b": {"command": "a"}, "a/b": {"command": "b"}}}')
    assert problems(error) == {
        "/mcpServers/a/b": "/mcpServers/a b has the name 'a-b' already; rename one of them"
    }


def test_settings_of_ours_may_stand_in_a_clients_file(read: Any) -> None:
    text = '{"mcpServers": {}, "timeout": "not ours", "toolcrib": {"timeout": 5, "store": "memory"}}'
    settings = read(text)
    assert (settings.timeout, settings.store, settings.others) == (5, "memory", {"timeout": "not ours"})


def test_our_own_file_is_read(read: Any, tmp_path: Path) -> None:
    settings = read(
        """
        timeout = 12.5
        store = "state/catalogue.db"
        [limits]
        result_bytes = 1000
        concurrency = 4
        [search]
        min_confidence = 0.1
        model = "models/minilm"
        [cache]
        ttl = 5
        [retry]
        [audit]
        path = "audit.jsonl"
        [servers.files]
        command = "npx"
        cwd = "work"
        start_timeout = 5
        [mcpServers.web]
        url = "http://localhost:1/mcp"
        startTimeout = 6
        [openapi.pets]
        document = "pets.yaml"
        base_url = "http://localhost:2"
        secrets = { key = "${PETS_KEY}" }
        """,
        "toolcrib.toml",
    )
    assert settings.timeout == 12.5
    assert settings.store == str(tmp_path / "state/catalogue.db")
    assert (settings.limits.result_bytes, settings.limits.concurrency) == (1000, 4)
    assert (settings.search.min_confidence, settings.search.model) == (0.1, str(tmp_path / "models/minilm"))
    assert settings.cache is not None
    assert settings.cache.ttl == 5
    assert settings.retry is not None
    assert settings.audit is not None
    assert settings.audit.path == str(tmp_path / "audit.jsonl")
    assert settings.servers["files"].cwd == str(tmp_path / "work")
    assert [server.start_timeout for server in settings.servers.values()] == [5, 6]
    assert settings.openapi["pets"].document == str(tmp_path / "pets.yaml")
    assert settings.source == str(tmp_path / "toolcrib.toml")


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        ("static", "static"),
        ("minilm", "minilm"),
        ("x" * 5000, "x" * 5000),
        ("mine", "{here}/mine"),
        ("./static", "{here}/static"),
        ("models/minilm", "{here}/models/minilm"),
        ("~", "{home}"),
        ("~/minilm", "{home}/minilm"),
        ("/srv/minilm", "/srv/minilm"),
        ("${PLACE}/minilm", "${PLACE}/minilm"),
    ],
)
def test_a_model_is_a_name_unless_it_is_a_folder(read: Any, tmp_path: Path, model: str, kept: str) -> None:
    for folder in ("static", "mine"):
        (tmp_path / folder).mkdir()
    said = read(f"[search]\nmodel = {json.dumps(model)}", "toolcrib.toml").search.model
    assert said == kept.replace("{here}", str(tmp_path)).replace("{home}", str(Path.home()))


def test_a_folder_that_is_a_variable_or_absolute_stays(read: Any) -> None:
    text = (
        '{"mcpServers": {"a": {"command": "x", "cwd": "${PLACE}/x"}, "b": {"command": "x", "cwd": "/srv"}}}'
    )
    assert [server.cwd for server in read(text).servers.values()] == ["${PLACE}/x", "/srv"]


def test_files_of_runs_and_engine_are_beside_the_configuration_and_addresses_stay(
    read: Any, tmp_path: Path
) -> None:
    url = "postgresql://db.test/runs"
    settings = read(
        f'runs = {{ store = "{url}" }}\nengine = {{ temporal = "h:7233", tls = true, ca = "ca.pem" }}',
        "toolcrib.toml",
    )
    assert (settings.runs.store, settings.engine.ca) == (url, str(tmp_path / "ca.pem"))
    assert read('runs = { store = "runs.db" }', "toolcrib.toml").runs.store == str(tmp_path / "runs.db")


def test_every_problem_of_our_own_file_is_told_with_its_place(read: Any) -> None:
    with pytest.raises(ConfigError) as error:
        read(
            """
            timout = 5
            colour = "red"
            [limits]
            result_byte = 4
            [cache]
            ttl = 0
            [servers.files]
            comand = "npx"
            [servers.twice]
            command = "a"
            [mcpServers.twice]
            command = "b"
            [openapi.pets]
            docment = "x"
            """,
            "toolcrib.toml",
        )
    assert problems(error) == {
        "/timout": "is not a setting; did you mean 'timeout'?",
        "/colour": "is not a setting; there are servers, inherit, openapi, registry, store, postgres, timeout, limits, search, code, runs, engine, toolsets, gateway, console, cache, retry, policy, rate_limits, results and 2 more",
        "/limits/result_byte": "is not a setting; did you mean 'result_bytes'?",
        "/cache/ttl": "must be greater than 0",
        "/servers/files/comand": "is not a setting; did you mean 'command'?",
        "/servers/files": "it needs a 'command' to start, or a 'url' to reach",
        "/mcpServers/twice": "/servers/twice has the name 'twice' already; rename one of them",
        "/openapi/pets/document": "is required",
        "/openapi/pets/docment": "is not a setting; did you mean 'document'?",
    }
    assert error.value.source.endswith("toolcrib.toml")


@pytest.mark.parametrize(
    ("text", "name", "path", "said"),
    [
        ("{", "mcp.json", "", "it is not JSON: "),
        ("[1]", "mcp.json", "", "it must be a JSON object, not list"),
        ("a = ", "toolcrib.toml", "", "it is not TOML: "),
        ('{"theme": "dark"}', "mcp.json", "", "there are no servers in it; they belong under 'mcpServers'"),
        ('{"mcpServers": 5}', "mcp.json", "/mcpServers", "must be an object of servers by name"),
        ('{"mcpServers": {"a": 5}}', "mcp.json", "/mcpServers/a", "must be an object"),
        ('{"mcpServers": {"a": {"comand": "x"}}}', "mcp.json", "/mcpServers/a/comand", "is not a setting; did you mean 'command'?"),
        ('{"mcpServers": {"a": {}}}', "mcp.json", "/mcpServers/a", "it needs a 'command' to start, or a 'url' to reach"),
        ('{"servers": {"a": {"type": "tcp", "command": "x"}}}', "mcp.json", "/servers/a/type", "'tcp' is not a transport"),
        ('{"toolcrib": 5}', "mcp.json", "/toolcrib", "must be an object"),
        ('{"toolcrib": {"servers": {}}}', "mcp.json", "/toolcrib/servers", "must be under 'mcpServers'"),
        ('{"toolcrib": {"timout": 5}}', "mcp.json", "/toolcrib/timout", "is not a setting; did you mean 'timeout'?"),
        ('{"toolcrib": {"source": "x"}}', "mcp.json", "/toolcrib/source", "is not a setting"),
        ("servers = 5", "toolcrib.toml", "/servers", "must be a table of servers"),
        ('[servers."a b"]\ncommand = "x"', "toolcrib.toml", "/servers", "the name 'a b' may contain only letters"),
        ("[servers]\na = 5", "toolcrib.toml", "/servers/a", "must be an object"),
        ('[search]\nmodel = ""', "toolcrib.toml", "/search/model", "must not be empty"),
        ('[servers.a]\ncommand="x"\n[openapi.a]\ndocument="x"', "toolcrib.toml", "", "'a' cannot be both a server and an API"),
        ('[openapi.a]\ndocument = "https://x.org/openapi.json"', "toolcrib.toml", "/openapi/a/document", "a document is a file; `toolcrib add NAME --openapi URL` downloads it"),
        ('store = "mysql://db.test/tools"', "toolcrib.toml", "/store", "give the path of a file, or postgresql://...: no store is known for mysql://"),
        ('store = "sqlite:///tools.db"', "toolcrib.toml", "/store", "give the path of a file, or postgresql://...: no store is known for sqlite://"),
        ('[audit]\npaht = "x"', "toolcrib.toml", "/audit/paht", "is not a setting; did you mean 'path'?"),
    ],
)  # fmt: skip
def test_unreadable_file_is_refused_with_the_reason(
    read: Any, text: str, name: str, path: str, said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read(text, name)
    assert problems(error)[path].startswith(said)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it cannot be read: No such file"):
        load(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        load(tmp_path / "latin.json")


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(b"\xef\xbb\xbf" + CLAUDE_DESKTOP.encode())
    assert list(load(str(path)).servers) == ["filesystem"]


def test_a_mapping_is_read_like_a_file_with_settings_beside() -> None:
    settings = load({"mcpServers": {"time": {"command": "x"}}, "timeout": 5, "resultBytes": 1})
    assert (list(settings.servers), settings.timeout, settings.source) == (["time"], 5, None)
    assert load(json.loads(CLAUDE_DESKTOP)).others == {"globalShortcut": "Ctrl+Space"}
    assert load({"timeout": 5}).timeout == 5
    assert load({"mcpServers": {}, "toolcrib": {"timeout": 7}}).timeout == 7


@pytest.mark.parametrize(
    ("config", "path", "said"),
    [
        ({"mcpServers": {}, "timout": 5}, "/timout", "is not a setting; did you mean 'timeout'?"),
        ({"mcpServer": {"a": 1}}, "/mcpServer", "is not a setting; did you mean 'mcpServers'?"),
        ({"timeot": 5}, "/timeot", "is not a setting; did you mean 'timeout'?"),
        ({"theme": "dark"}, "", "there are no servers in it; they belong under 'mcpServers'"),
        ({"mcpServers": {}, "others": {}}, "/others", "is not a setting"),
        ({"toolcrib": {1: 2}}, "/toolcrib", "has a key that is a Python int, and not a string"),
        (5, "", "must be a path, a dict with 'mcpServers', Settings or None, not int"),
    ],
)
def test_a_mapping_that_cannot_be_meant_is_refused(config: Any, path: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(config)
    assert problems(error)[path] == said


@pytest.mark.requirement("crib.config.none")
def test_without_a_configuration_no_file_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"here": {"command": "x"}}}')
    monkeypatch.chdir(tmp_path)
    assert load(None).servers == {}


def test_nothing_and_settings_are_taken_as_they_are() -> None:
    assert load() == load(None) == Settings()
    settings = Settings(timeout=3)
    assert load(settings) is settings


def test_secrets_are_never_shown(read: Any) -> None:
    text = """{"mcpServers": {
        "a": {"command": "x", "args": ["--key=hush-1"], "env": {"TOKEN": "hush-2"}, "oauth": {"secret": "hush-3"}},
        "b": {"url": "https://user:hush-4@example.com", "headers": {"Authorization": "hush-5"}}
    }, "extra": "hush-6"}"""
    settings = read(text)
    assert "hush" not in repr(settings) + str(settings) + repr(settings.servers) + str(settings.servers["b"])
    assert "command='x'" in repr(settings.servers["a"])
    assert "others=['oauth']" in repr(settings.servers["a"])
    assert "url='https://example.com/…'" in repr(settings.servers["b"])
    assert "'a', 'b'" in repr(settings)
    with pytest.raises(ConfigError) as error:
        read(text.replace('"command": "x"', '"command": {"hush-7": 1}, "timeout": "hush-8"'))
    assert "hush" not in str(error.value)
    pets = {"document": "x", "secrets": {"key": "hush-9"}, "base_url": "https://u:hush-10@example.com"}
    own = Settings(openapi={"pets": pets})
    assert "hush" not in repr(own) + repr(own.openapi["pets"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such pipes")
def test_a_pipe_or_a_device_is_no_configuration(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mcp.json")
    for path in (tmp_path / "mcp.json", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="it cannot be read: it is a pipe or a device, not a file"):
            load(path)


def test_a_file_that_is_too_large_to_be_a_configuration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("{}" + " " * 4 * 2**20)
    with pytest.raises(ConfigError, match="it is larger than 4 MiB"):
        load(path)


def test_a_text_is_read_as_the_file_that_it_would_be(tmp_path: Path) -> None:
    settings = load_text(tmp_path / "toolcrib.toml", 'store = "x.db"\n[servers.a]\ncommand = "y"\n')
    assert (settings.store, settings.source) == (str(tmp_path / "x.db"), str(tmp_path / "toolcrib.toml"))
    assert (settings.origin, load({"mcpServers": {}}).origin) == (settings.source, "configuration")
    assert list(tmp_path.iterdir()) == []


OWN = """
[servers]
inherit = ["AWS_*"]
[servers.a]
command = "x"
inherit = ["UV_*"]
[servers.far]
url = "https://example.com/mcp"
"""


def test_inherit_is_read_beside_the_servers_of_a_toolcrib_file(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text(OWN)
    settings = load(tmp_path / "toolcrib.toml")
    assert (settings.inherit, list(settings.servers)) == (("AWS_*",), ["a", "far"])
    assert settings.servers["a"].inherit == ("UV_*",)
    started = settings.started_servers
    assert (started["a"].inherit, started["far"].inherit) == (("AWS_*", "UV_*"), ())


def test_a_server_may_be_called_inherit(tmp_path: Path) -> None:
    settings = load_text(tmp_path / "toolcrib.toml", '[servers.inherit]\ncommand = "x"\n')
    assert (settings.inherit, settings.servers["inherit"].command) == ((), "x")


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"a": {"command": "x"}}, "toolcrib": {"inherit": ["AWS_*"]}},
        {"mcpServers": {"a": {"command": "x"}}, "inherit": ["AWS_*"]},
        {"servers": {"a": {"command": "x"}, "inherit": ["AWS_*"]}},
    ],
)
def test_inherit_is_read_from_a_mapping(document: dict[str, Any]) -> None:
    settings = load(document)
    assert settings.started_servers["a"].inherit == ("AWS_*",)
    assert list(settings.servers) == ["a"]


def test_inherit_is_read_from_the_file_of_a_client(tmp_path: Path) -> None:
    document = {"mcpServers": {"a": {"command": "x"}}, "toolcrib": {"inherit": ["AWS_*"]}}
    (tmp_path / "mcp.json").write_text(json.dumps(document))
    assert load(tmp_path / "mcp.json").started_servers["a"].inherit == ("AWS_*",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('inherit = ["A"]\n[servers.a]\ncommand = "x"', "/inherit: belongs under [servers]"),
        ('[servers]\ninherit = "A"\n', "/servers/inherit: "),
        ("[servers]\ninherit = [7, true]\n", "/servers/inherit/1: must be a string, not bool"),
        ('[servers]\ninherit = ["A=1"]\n', "/servers/inherit/0: is not the name of a variable"),
        (
            '[servers.a]\nurl = "http://x/mcp"\ninherit = ["A"]',
            "/servers/a/inherit: is for a server that a 'command'",
        ),
        ('[servers]\ninherit = ["A"]\n[mcpServers]\ninherit = ["B"]', "/mcpServers/inherit: appears twice"),
    ],
)
def test_invalid_inherit_is_refused_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(tmp_path / "toolcrib.toml", text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "config",
    ['policy = { cedar = "rules.cedar" }\n', '[policy]\ncedar = "rules.cedar"\ntext = "permit;"\n'],
)
def test_configuration_with_policies_in_cedar_is_refused_and_names_rules(config: str, tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text(config)
    with pytest.raises(ConfigError, match=r"Cedar are no longer supported.*\[\[policy\]\]") as caught:
        load(path)
    assert [(each.path, each.keyword) for each in caught.value.problems] == [("/policy", "removed")]


def test_paths_of_a_file_begin_in_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text('registry = "cat.json"\nstore = "tools.db"\n[runs]\nstore = "runs.db"\n')
    settings = load(path)
    assert (settings.registry, settings.store, settings.runs.store) == (
        str(tmp_path / "cat.json"),
        str(tmp_path / "tools.db"),
        str(tmp_path / "runs.db"),
    )
    path.write_text('registry = "HTTPS://registry.example"\n[runs]\nstore = "memory"\n')
    settings = load(path)
    assert (settings.registry, settings.runs.store) == ("HTTPS://registry.example", "memory")

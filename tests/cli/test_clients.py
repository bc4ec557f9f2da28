"""The verbs for other MCP clients: `import`, `export` and `install`."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib.cli.state import this_command
from toolcrib.crib import load
from toolcrib.setup.installing import CLIENTS


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a user who has nothing yet."""
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "APPDATA", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return folder


def put(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def test_the_servers_of_a_client_are_imported(toolcrib: Any, user: Path) -> None:
    servers = {"a": {"command": "x"}, "crib": {"command": "toolcrib", "args": ["serve"]}}
    put(user / ".cursor" / "mcp.json", {"mcpServers": servers})
    shown = toolcrib("import", "cursor", "--dry-run")
    assert shown.stdout.endswith('+[servers.a]\n+command = "x"\n')
    made = toolcrib("import", "cursor")
    assert made.stdout == f"imported a into {Path.cwd() / 'toolcrib.toml'}\n"
    assert "'crib' is left out: it is toolcrib itself" in made.stderr
    again = json.loads(toolcrib("import", "cursor", "--json").stdout)
    assert (again["changed"], again["same"], again["added"]) == (False, ["a"], [])
    twice = toolcrib("import", "cursor")
    file = user / ".cursor" / "mcp.json"
    assert twice.stdout == f"imported nothing: all servers of {file} are in our configuration already\n"


def test_import_says_why_nothing_was_imported(toolcrib: Any, user: Path) -> None:
    file = put(user / ".cursor" / "mcp.json", {"mcpServers": {}})
    made = toolcrib("import", "cursor")
    assert (made.exit_code, made.stdout) == (0, f"imported nothing: there are no servers in {file}\n")
    assert f"there are no servers in {file}" in toolcrib("import", "cursor", "--dry-run").stderr
    assert list(Path.cwd().iterdir()) == []
    put(file, {"mcpServers": {"bad": {"args": 5}, "crib": {"command": "toolcrib", "args": ["serve"]}}})
    made = toolcrib("import", "cursor")
    assert made.stdout == f"imported nothing: no server in {file} can be imported\n"
    assert made.stderr.count("is left out") == 2
    put(file, {"mcpServers": {"a": {"command": "y"}}})
    put(Path.cwd() / "mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    shown = json.loads(toolcrib("import", "cursor", "--json").stdout)
    assert shown["reason"] == "our configuration has other servers of the same names"


def test_import_says_which_servers_it_renamed(toolcrib: Any, user: Path) -> None:
    put(user / ".cursor" / "mcp.json", {"mcpServers": {"My Server": {"command": "x"}, "b": {"command": "x"}}})
    shown = json.loads(toolcrib("import", "cursor", "--dry-run", "--json").stdout)
    assert shown["renamed"] == {"My Server": "My-Server"}
    moved = toolcrib("install", "cursor", "--replace", "--dry-run")
    made = toolcrib("import", "cursor")
    for each in (moved, made):
        assert "note: 'My Server' is 'My-Server' here" in each.stderr


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_import_warns_of_a_token_in_clear_text_in_a_git_repository(toolcrib: Any, tmp_path: Path) -> None:
    env = {"GITHUB_TOKEN": "ghp_0123456789abcdefghij0123456789abcdef", "REGION": "eu-central-1"}
    file = put(tmp_path / "theirs.json", {"mcpServers": {"a": {"command": "x", "env": env}}})
    subprocess.run(["git", "init", "-q"], check=True)
    warning = f"{Path.cwd() / 'toolcrib.toml'}: secrets in clear text (GITHUB_TOKEN), and git does not ignore"
    assert warning in toolcrib("import", str(file), "--dry-run").stderr
    Path(".gitignore").write_text("toolcrib.toml\n")
    assert "clear text" not in toolcrib("import", str(file), "--dry-run").stderr
    Path(".gitignore").unlink()
    assert warning in toolcrib("import", str(file)).stderr
    assert "clear text" not in toolcrib("add", "b", "--no-check", "-e", "A=${B}", "--", "x").stderr
    assert "clear text (C_KEY)" in toolcrib("add", "c", "--no-check", "-e", "C_KEY=sesame", "--", "x").stderr


def test_import_counts_the_secrets_that_it_copies_as_text(toolcrib: Any, tmp_path: Path) -> None:
    env = {"GITHUB_TOKEN": "ghp_0123456789abcdefghij0123456789abcdef", "REGION": "eu-central-1"}
    servers = {"a": {"command": "x", "env": env}, "b": {"command": "y", "env": {"C_KEY": "${C_KEY}"}}}
    made = toolcrib("import", str(put(tmp_path / "theirs.json", {"mcpServers": servers})))
    assert (
        f"1 secret is copied as text into {Path.cwd() / 'toolcrib.toml'}; ${{NAME}} in its place"
        in made.stderr
    )
    assert "install CLIENT --replace`" in made.stderr
    put(tmp_path / "theirs.json", {"mcpServers": {"b": servers["b"]}})
    assert "copied as text" not in toolcrib("import", str(tmp_path / "theirs.json"), "--force").stderr


def test_import_warns_about_servers_that_will_not_work(
    toolcrib: Any, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    servers = {
        "good": {"command": sys.executable},
        "off": {"command": "x", "disabled": True},
        "unset": {"command": sys.executable, "env": {"TOKEN": "${NO_SUCH_TOKEN}"}},
        "gone": {"command": "no-such-program"},
    }
    put(user / ".cursor" / "mcp.json", {"mcpServers": servers})
    shown = json.loads(toolcrib("import", "cursor", "--dry-run", "--json").stdout)
    assert (shown["disabled"], sorted(shown["problems"])) == (["off"], ["gone", "unset"])
    made = toolcrib("import", "cursor")
    assert made.stdout == f"imported good, off, unset, gone into {Path.cwd() / 'toolcrib.toml'}\n"
    assert made.stderr == (
        "note: 'off' is disabled, as it was\n"
        "note: 'unset' will not work: env.TOKEN: the variable 'NO_SUCH_TOKEN' is not set; set it, or write "
        "${NO_SUCH_TOKEN:-default}\n"
        "note: 'gone' will not work: there is no program 'no-such-program' on the PATH\n"
        f"note: `{this_command()} doctor` starts each of them, and says what is wrong\n"
        f'note: next: `{this_command()} search "what you want to do"`, then '
        f"`{this_command()} install cursor --replace`\n"
    )
    moved = toolcrib("install", "cursor", "--replace")
    first = "moved good, off, unset, gone into "
    assert moved.stdout.startswith(first)
    assert "'gone' will not work: there is no program" in moved.stderr
    assert "toolcrib.toml` starts each of them" in moved.stderr
    config = moved.stdout.splitlines()[0].removeprefix(first)
    put(user / ".cursor" / "mcp.json", {"mcpServers": {"good": servers["good"]}})
    again = toolcrib("install", "cursor", "--replace").stdout
    assert again.startswith(f"good: already in {config}; removed from cursor\n")


def test_the_advice_after_an_import_is_about_the_file_that_was_changed(
    toolcrib: Any, user: Path, home: Path
) -> None:
    put(user / ".cursor" / "mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    doctor = f"`{this_command()} doctor"
    assert f"{doctor}` starts" in toolcrib("import", "cursor").stderr
    assert (
        f"{doctor} --config {home / 'toolcrib.toml'}` starts" in toolcrib("import", "cursor", "--user").stderr
    )


def test_everything_that_keeps_a_server_from_working_is_told_at_once(
    toolcrib: Any, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    both = {"command": "no-such-program", "env": {"TOKEN": "${NO_SUCH_TOKEN}"}}
    put(user / ".cursor" / "mcp.json", {"mcpServers": {"both": both}})
    (problems,) = json.loads(toolcrib("import", "cursor", "--json").stdout)["problems"].values()
    assert [word for each in problems for word in ("NO_SUCH_TOKEN", "no-such-program") if word in each] == [
        "NO_SUCH_TOKEN",
        "no-such-program",
    ]


def test_an_import_of_nothing_names_the_clients_that_are_here(toolcrib: Any, user: Path) -> None:
    nothing = toolcrib("import")
    assert (nothing.exit_code, "no known client has a file here" in nothing.stderr) == (2, True)
    file = put(user / ".cursor" / "mcp.json", {"mcpServers": {}})
    assert f"found here: cursor ({file})" in toolcrib("import").stderr


def test_a_variable_that_an_editor_would_ask_for_is_named_once(toolcrib: Any, tmp_path: Path) -> None:
    servers = {"gh": {"command": sys.executable, "env": {"T": "${input:asked-for}"}}}
    made = toolcrib("import", str(put(tmp_path / ".vscode" / "mcp.json", {"servers": servers})))
    assert made.stderr.count("'ASKED_FOR'") == 1


def test_a_file_is_imported_and_a_conflict_is_told(toolcrib: Any, tmp_path: Path, home: Path) -> None:
    file = put(tmp_path / "theirs.json", {"mcpServers": {"a": {"command": "theirs"}}})
    put(home / "mcp.json", {"mcpServers": {"a": {"command": "ours"}}})
    made = toolcrib("import", str(file), "--user")
    assert made.exit_code == 0
    assert (
        "'a' is left out: our configuration has another server of that name; --force replaces it"
        in made.stderr
    )
    toolcrib("import", str(file), "--user", "--force")
    assert load(home / "mcp.json").servers["a"].command == "theirs"


def test_a_client_that_is_not_known_or_not_there_is_told(toolcrib: Any) -> None:
    for args in (["import", "cursr"], ["export", "--to", "cursr"], ["install", "cursr"]):
        made = toolcrib(*args)
        assert made.exit_code == 3
        assert "there is no client 'cursr'; did you mean 'cursor'?" in made.stderr
    assert "there are claude, claude-desktop" in toolcrib("install", "zzzzzz").stderr
    for name in ("nosuch.json", "./cursor"):
        made = toolcrib("import", name)
        assert [made.exit_code, made.stderr] == [3, f"error: there is no file {name!r}\n"]
    absent = toolcrib("import", "cursor")
    assert (absent.exit_code, "Cursor has no configuration here" in absent.stderr) == (3, True)


def test_the_servers_are_exported(toolcrib: Any, config: Any) -> None:
    file = config(a={"command": "x"}, web={"url": "https://example.com/mcp"})
    made = toolcrib("export", "--to", "claude-desktop", "--config", file)
    assert json.loads(made.stdout) == {"mcpServers": {"a": {"command": "x", "args": []}}}
    assert "'web': Claude Desktop only starts commands, and does not connect to a url" in made.stderr
    facts = json.loads(toolcrib("export", "--to", "vscode", "--config", file, "--json").stdout)
    assert facts["servers"]["web"] == {"type": "http", "url": "https://example.com/mcp"}


def test_an_exported_server_with_relative_paths_runs_where_it_did(toolcrib: Any, tmp_path: Path) -> None:
    here = Path.cwd()
    (here / "notes").mkdir()
    servers = {"files": {"command": "x", "args": ["notes"]}, "other": {"command": "x", "args": ["-v"]}}
    put(here / "mcp.json", {"mcpServers": servers})

    def export_folders(*args: str) -> dict[str, str | None]:
        made = json.loads(toolcrib("export", "--to", "cursor", "--json", *args).stdout)["servers"]
        return {name: server.get("cwd") for name, server in made.items()}

    assert export_folders() == {"files": str(here), "other": None}
    assert export_folders("--output", str(tmp_path / "client.json")) == {"files": str(here), "other": None}
    assert export_folders("--output", ".cursor/mcp.json") == {"files": None, "other": None}


def test_an_export_goes_into_a_file_beside_what_is_there(toolcrib: Any, config: Any) -> None:
    file = config(a={"command": "x"})
    path = put(Path.cwd() / ".vscode" / "mcp.json", {"inputs": [], "servers": {"b": {"command": "y"}}})
    args = ["export", "--to", "vscode", "--config", file, "--output", str(path)]
    assert toolcrib(*args, "--dry-run").stdout.startswith(f"--- {path}\n")
    assert toolcrib(*args).stdout == f"wrote 1 server to {path}\n"
    assert list(json.loads(path.read_text())) == ["inputs", "servers"]
    assert list(load(path).servers) == ["b", "a"]


def test_toolcrib_is_installed_shown_and_taken_back(toolcrib: Any, config: Any, user: Path) -> None:
    file = config(ours={"command": "x"})
    path = put(user / ".cursor" / "mcp.json", {"mcpServers": {"theirs": {"command": "y"}}})
    args = ["install", "cursor", "--config", file]
    shown = toolcrib(*args, "--replace", "--dry-run")
    assert shown.exit_code == 0
    assert {f"+++ {file}", f"+++ {path}"} <= set(shown.stdout.splitlines())
    assert list(load(path).servers) == ["theirs"]
    served = f"toolcrib serves {file}: 1 server\n"
    made = toolcrib(*args)
    assert made.stdout == f"changed {path}; restart cursor to use toolcrib\n{served}"
    command = f"{this_command()} install cursor"
    assert f"cursor still starts 1 server itself; `{command} --replace` moves them behind" in made.stderr
    (backup,) = re.findall(rf"the old file is kept as (.+); `{re.escape(command)} --undo`", made.stderr)
    assert list(load(backup).servers) == ["theirs"]
    assert toolcrib(*args).stdout == f"{path} needs no change\n{served}"
    shown = toolcrib(*args, "--dry-run")
    assert (shown.stdout, f"note: {served}" in shown.stderr) == ("nothing would change\n", True)
    facts = json.loads(toolcrib(*args, "--replace", "--json").stdout)
    assert facts["moved"]["added"] == ["theirs"]
    assert facts["servers"] == ["ours", "theirs"]
    assert len(facts["backups"]) == 2
    assert list(load(path).servers) == ["toolcrib"]
    assert list(load(file).servers) == ["ours", "theirs"]
    assert "staying" not in facts
    assert toolcrib("install", "cursor", "--undo").exit_code == 0
    assert list(load(path).servers) == ["theirs"]


def test_an_installation_without_anything_to_serve_is_refused(toolcrib: Any) -> None:
    made = toolcrib("install", "cursor", "--json")
    assert made.exit_code == 2
    assert "make one with `toolcrib add" in json.loads(made.stdout)["error"]["message"]
    conflict = put(Path.cwd() / ".mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    made = toolcrib("install", "claude", "--scope", "project")
    assert (made.exit_code, str(conflict) in made.stderr) == (2, True)


def test_install_serves_the_file_of_the_folder_as_every_command_reads_it(toolcrib: Any, home: Path) -> None:
    def served(*args: str) -> Path:
        facts = json.loads(toolcrib("install", "cursor", "--json", *args).stdout)
        assert facts["config"] in Path(facts["file"]).read_text()
        return Path(facts["config"])

    one = {"mcpServers": {"a": {"command": "x"}}}
    own = put(home / "mcp.json", one)
    assert served() == own
    assert served("--scope", "project") == own
    for name in (".mcp.json", "mcp.json"):
        put(Path.cwd() / name, one)
        assert served() == Path.cwd() / name
    here = Path.cwd() / "toolcrib.toml"
    here.write_text('[servers.a]\ncommand = "x"\n')
    assert served() == here
    assert served("--config", str(own)) == own
    assert json.loads(toolcrib("list", "--json").stdout)["absent"][0]["name"] == "a"
    assert toolcrib("install", "cursor").stdout.endswith(f"toolcrib serves {here}: 1 server\n")


def test_install_counts_servers_that_are_enabled_and_apis(toolcrib: Any, tmp_path: Path) -> None:
    document = put(tmp_path / "api.json", {"openapi": "3.1.0"})
    here = Path("toolcrib.toml")
    here.write_text(
        '[servers.a]\ncommand = "x"\n[servers.b]\ncommand = "x"\n[servers.off]\ncommand = "x"\n'
        f'disabled = true\n[openapi.shop]\ndocument = "{document}"\n'
    )
    told = f"toolcrib serves {here.absolute()}: 2 servers and 1 API; off disabled\n"
    assert toolcrib("install", "cursor").stdout.endswith(told)
    here.write_text("")
    made = toolcrib("install", "cursor")
    assert "0 servers" in made.stdout
    assert "add` adds a server to it" in made.stderr


def test_install_reports_incomplete_steps(toolcrib: Any, config: Any, user: Path) -> None:
    file = config(a={"command": "x"})
    put(user / ".cursor" / "mcp.json", {"mcpServers": {"a": {"command": "y"}}})
    made = toolcrib("install", "cursor", "--config", file, "--replace")
    assert "'a' stays: our configuration has another server of that name" in made.stderr


@pytest.mark.parametrize("verb", ["import", "export", "install"])
def test_every_client_is_named(toolcrib: Any, verb: str) -> None:
    told = " ".join(toolcrib(verb, "--help").stdout.split())
    *first, last = CLIENTS
    assert f"The clients are {', '.join(first)} and {last}." in told


def test_another_server_of_the_name_is_written_over_only_by_force(
    toolcrib: Any, config: Any, user: Path
) -> None:
    path = put(user / ".cursor" / "mcp.json", {"mcpServers": {"toolcrib": {"command": "mine"}}})
    args = ["install", "cursor", "--config", config(a={"command": "x"})]
    assert toolcrib(*args).exit_code == 2
    assert load(path).servers["toolcrib"].command == "mine"
    assert toolcrib(*args, "--force").exit_code == 0
    assert load(path).servers["toolcrib"].command != "mine"


NOTE = "Claude Code gives its servers its whole environment, and toolcrib only a part of it"


@pytest.mark.parametrize("source", ["claude", ".mcp.json"])
def test_import_from_a_client_that_passes_its_environment_says_so(
    toolcrib: Any, tmp_path: Path, source: str
) -> None:
    put(Path.cwd() / ".mcp.json", {"mcpServers": {"a": {"command": "x"}}})
    config = str(tmp_path / "toolcrib.toml")
    told = toolcrib("import", source, "--dry-run", "--config", config).stderr
    assert NOTE in told
    assert """`inherit = ["*"]` all""" in told
    made = toolcrib("import", source, "--inherit", "*", "--inherit", "AWS_*", "--config", config)
    assert NOTE not in made.stderr
    assert load(config).servers["a"].inherit == ("*", "AWS_*")


@pytest.mark.parametrize(
    ("client", "server"), [("cursor", {"command": "x"}), ("claude", {"type": "http", "url": "http://x/mcp"})]
)
def test_import_says_nothing_of_the_environment_where_no_server_loses_any(
    toolcrib: Any, user: Path, client: str, server: dict[str, Any]
) -> None:
    put(CLIENTS[client].file(home=user), {"mcpServers": {"a": server}})
    made = toolcrib("import", client, "--inherit", "*")
    assert "whole environment" not in made.stderr
    assert ("inherit" in Path("toolcrib.toml").read_text()) is ("command" in server)


def test_export_says_which_clients_pass_on_nothing(toolcrib: Any) -> None:
    Path("toolcrib.toml").write_text('[servers.a]\ncommand = "x"\ninherit = ["AWS_*"]\n')
    assert "does not pass on its environment: write AWS_* into its `env`" in (
        toolcrib("export", "--to", "claude-desktop").stderr
    )
    assert "environment" not in toolcrib("export", "--to", "claude").stderr


@pytest.mark.usefixtures("needs_bubblewrap")
def test_imported_servers_get_a_wall_where_they_have_none(toolcrib: Any, user: Path, home: Path) -> None:
    data = user / "notes.db"
    data.touch()
    servers = {
        "bare": {"command": "/bin/true", "args": ["--db", str(data)]},
        "contained": {"command": "docker", "args": ["run", "-i", "mcp/time"]},
        "reached": {"url": "http://127.0.0.1:1/mcp"},
        "of-vscode": {"command": "/bin/true", "sandbox": {"network": {"allowedDomains": []}}},
        "walled": {"command": "/bin/true", "sandbox": "docker"},
    }
    put(user / ".cursor" / "mcp.json", {"mcpServers": servers})
    shown = toolcrib("import", "cursor", "--sandbox", "bubblewrap", "--dry-run")
    assert 'sandbox = "bubblewrap"' in shown.stdout
    assert not home.exists()
    made = toolcrib("import", "cursor", "--sandbox", "bubblewrap")
    taken = load("toolcrib.toml").servers
    assert {name: server.sandbox for name, server in taken.items()} == {
        "bare": "bubblewrap",
        "contained": None,
        "reached": None,
        "of-vscode": "bubblewrap",
        "walled": "docker",
    }
    assert f"'bare' does not see {data} in its sandbox; name it in read or write" in made.stderr
    assert "'contained' has no sandbox: it starts a container, which is one" in made.stderr
    assert "toolcrib does not read 'vscode.sandbox'" in made.stderr
    plain = toolcrib("import", "cursor", "--force")
    assert "behind its wall" not in plain.stderr


def test_export_says_that_a_server_loses_its_wall(toolcrib: Any) -> None:
    Path("toolcrib.toml").write_text('[servers.it]\ncommand = "true"\nsandbox = "bubblewrap"\n')
    made = toolcrib("export", "--to", "cursor")
    assert "Cursor starts it without its sandbox, with all rights of the user" in made.stderr

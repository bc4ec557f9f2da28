"""The verbs that change which servers there are: `add` and `remove`."""

import json
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from servers import launch
from servers.webapi import WebApi, served

from toolcrib.crib import load


def command(little: Any, *how: str) -> list[str]:
    settings = little(*how)
    return ["--", settings["command"], *settings["args"]]


def test_a_server_is_added_and_asked_for_its_tools(toolcrib: Any, little: Any) -> None:
    made = toolcrib("add", "little", "-e", "A=${HOME}", "-e", "B=x=y", *command(little))
    assert (made.exit_code, made.stderr) == (0, "")
    path = Path("toolcrib.toml").absolute()
    where = f"it runs in {path.parent}; --cwd names another folder"
    assert made.stdout == f"added 'little' to {path} (new file)\n{where}\nit works: 5 tools\n"
    assert load(path).servers["little"].env == {"A": "${HOME}", "B": "x=y"}


def test_tools_listed_when_a_server_is_added_are_stored(toolcrib: Any, little: Any, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    switch.touch()
    toolcrib("add", "some", *command(little, "unless", str(switch)))
    switch.unlink()
    assert "some:shout" in toolcrib("search", "capital letters").stdout


def test_stored_tools_do_not_prove_that_a_server_works(toolcrib: Any, little: Any, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    switch.touch()
    server = command(little, "unless", str(switch))
    toolcrib("add", "some", *server)
    assert toolcrib("add", "some", "--force", "-e", "A=b", *server).stdout.endswith("it works: 5 tools\n")
    switch.unlink()
    made = toolcrib("add", "some", "--force", "-e", "A=c", *server)
    assert made.exit_code == 4
    assert "the switch is off" in made.stderr


def test_a_server_that_does_not_work_stays_in_the_file(toolcrib: Any, little: Any) -> None:
    made = toolcrib("add", "bad", *command(little, "fail", "no licence"))
    assert made.exit_code == 4
    assert "note: it was added to the file, but does not work: " in made.stderr
    assert "no licence" in made.stderr
    assert list(load("toolcrib.toml").servers) == ["bad"]
    correction = made.stderr.partition("note: correct it and add it again: ")[2].strip()
    assert correction.partition(" add ")[2] == shlex.join(
        ["bad", "--force", *command(little, "fail", "no licence")]
    )


def test_adding_as_json_is_one_document(toolcrib: Any, little: Any) -> None:
    made = toolcrib("add", "little", "--json", *command(little, "odd"))
    facts = json.loads(made.stdout)
    assert (made.exit_code, facts["name"], facts["changed"], facts["check"]["ok"]) == (
        0,
        "little",
        True,
        True,
    )
    assert "shout" in facts["check"]["tools"]
    failed = toolcrib("add", "bad", "--json", *command(little, "fail"))
    facts = json.loads(failed.stdout)
    assert (failed.exit_code, facts["check"]["ok"]) == (4, False)
    assert Path(facts["backup"]).is_file()
    assert not list(Path.cwd().glob("*.bak"))


def test_a_server_that_is_reached_has_headers(toolcrib: Any, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    args = ["--header", "Authorization: Bearer ${T}", "--required", "--no-check", "--config", str(path)]
    made = toolcrib("add", "web", "--url", "https://example.com/mcp", "--transport", "sse", *args)
    assert (made.exit_code, made.stdout) == (0, f"added 'web' to {path} (new file)\n")
    assert json.loads(path.read_text())["mcpServers"]["web"] == {
        "type": "sse",
        "url": "https://example.com/mcp",
        "headers": {"Authorization": "Bearer ${T}"},
        "required": True,
    }


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["a"], "neither a command after `--` nor --url"),
        (["a", "--url", "http://x/mcp", "--", "x"], "both a command and --url"),
        (
            ["a", "--url", "http://x/mcp", "--cwd", "."],
            "--env, --inherit, --cwd and --sandbox are for a command",
        ),
        (["a", "--header", "A: b", "--", "x"], "--header is for a --url"),
        (["a", "-e", "A", "--", "x"], "--env takes NAME=VALUE"),
        (["a", "--url", "nowhere"], "must begin with http:// or https://"),
        (["a b", "--", "x"], "may contain only letters"),
        (["a", "--", "-m", "x"], "'-m' is not a command; was a shell variable before it empty"),
        (["a", "--", "", "-m", "x"], "the command is empty; was a shell variable before it empty"),
        (["a", "--user", "--config", "x.toml", "--", "x"], "--user and --config name two files"),
    ],
)
def test_invalid_server_is_refused(toolcrib: Any, args: list[str], said: str) -> None:
    made = toolcrib("add", "--no-check", *args)
    assert made.exit_code == 2
    assert said in made.stderr
    assert list(Path.cwd().iterdir()) == []


def test_nothing_is_changed_by_a_dry_run(toolcrib: Any) -> None:
    made = toolcrib("add", "a", "--dry-run", "--", "x")
    assert made.stdout.splitlines()[-2:] == ["+[servers.a]", '+command = "x"']
    facts = json.loads(toolcrib("add", "a", "--dry-run", "--json", "--", "x").stdout)
    assert facts["diff"].endswith('+command = "x"')
    assert list(Path.cwd().iterdir()) == []
    toolcrib("add", "a", "--no-check", "--", "x")
    assert toolcrib("remove", "a", "--dry-run").stdout.endswith('-[servers.a]\n-command = "x"\n')
    again = toolcrib("add", "a", "--dry-run", "--force", "--", "x")
    assert again.stdout == "nothing would change\n"
    assert list(load("toolcrib.toml").servers) == ["a"]


def test_a_server_of_the_same_name_is_replaced_only_by_force(toolcrib: Any) -> None:
    toolcrib("add", "a", "--no-check", "--", "x")
    refused = toolcrib("add", "a", "--no-check", "--", "y")
    assert (refused.exit_code, "--force replaces it" in refused.stderr) == (2, True)
    assert toolcrib("add", "a", "--no-check", "--force", "--disabled", "--", "y").exit_code == 0
    assert toolcrib("add", "a", "--force", "--disabled", "--", "y").stdout.endswith("already\n")
    server = load("toolcrib.toml").servers["a"]
    assert (server.command, server.disabled) == ("y", True)


def test_a_file_that_is_closed_to_others_because_of_a_secret_is_told(toolcrib: Any) -> None:
    Path("toolcrib.toml").touch(mode=0o644)
    made = toolcrib("add", "a", "--no-check", "-e", "TOKEN=sesame", "--", "x")
    assert made.stderr.startswith("note: ")
    assert "sesame" not in made.output
    facts = json.loads(toolcrib("add", "b", "--no-check", "--json", "-e", "A=${B}", "--", "x").stdout)
    assert "notes" not in facts


def test_the_users_own_file_is_changed_when_that_is_wanted(toolcrib: Any, home: Path) -> None:
    toolcrib("add", "a", "--user", "--no-check", "--", "x")
    assert list(load(home / "toolcrib.toml").servers) == ["a"]
    assert toolcrib("remove", "a", "--user").stdout == f"removed 'a' from {home / 'toolcrib.toml'}\n"


def test_a_folder_gets_its_own_file_although_the_user_has_one(toolcrib: Any, home: Path) -> None:
    toolcrib("add", "mine", "--user", "--no-check", "--", "x")
    users = (home / "toolcrib.toml").read_text()
    made = toolcrib("add", "here", "--no-check", "--", "x")
    local = Path("toolcrib.toml").absolute()
    assert made.stdout == (
        f"added 'here' to {local} (new file)\nit runs in {local.parent}; --cwd names another folder\n"
    )
    assert (home / "toolcrib.toml").read_text() == users
    local.unlink()
    gone = toolcrib("remove", "mine")
    assert gone.exit_code == 3
    assert "--user" in gone.stderr
    assert (home / "toolcrib.toml").read_text() == users


def test_a_server_runs_in_the_folder_of_its_file(toolcrib: Any, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(launch.LITTLE, project / "server.py")
    file = project / "toolcrib.toml"
    made = toolcrib("add", "text", "--config", str(file), "--", sys.executable, "-S", "-I", "server.py")
    assert made.exit_code == 0, made.output
    assert f"it runs in {project}; --cwd names another folder" in made.stdout
    assert "cwd" not in file.read_text()
    ran = toolcrib("run", "text:shout", "--args", '{"text": "a"}', "--config", str(file), "--json")
    assert json.loads(ran.stdout)["structured"] == {"result": "A"}
    exported = json.loads(toolcrib("export", "--to", "cursor", "--config", str(file)).stdout)
    assert exported["mcpServers"]["text"]["cwd"] == str(project)  # a client starts it somewhere else
    again = toolcrib("import", str(file), "--config", str(file))
    assert "'text' is left out" not in again.output


def test_the_file_in_force_is_changed(toolcrib: Any) -> None:
    Path("mcp.json").write_text('{"mcpServers": {}, "mine": 1}')
    toolcrib("add", "a", "--no-check", "--", "x")
    assert json.loads(Path("mcp.json").read_text()) == {"mcpServers": {"a": {"command": "x"}}, "mine": 1}
    facts = json.loads(toolcrib("remove", "a", "--json").stdout)
    assert (facts["name"], facts["changed"]) == ("a", True)
    assert json.loads(Path("mcp.json").read_text()) == {"mcpServers": {}, "mine": 1}


def test_removing_what_is_not_there_says_what_was_meant(toolcrib: Any) -> None:
    toolcrib("add", "time", "--no-check", "--", "x")
    made = toolcrib("remove", "tmie")
    assert made.exit_code == 3
    assert "there is no server 'tmie'; did you mean 'time'?" in made.stderr
    assert json.loads(toolcrib("remove", "tmie", "--json").stdout)["error"]["message"].endswith("'time'?")
    Path("toolcrib.toml").write_text("oops")
    assert toolcrib("remove", "time").exit_code == 2


def test_the_command_runs_as_a_module() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "toolcrib.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert made.stdout.startswith("toolcrib ")


DOCUMENT = {
    "openapi": "3.1.0",
    "servers": [{"url": "https://shop.example.com/v1"}],
    "paths": {"/orders": {"get": {"operationId": "list_orders", "security": [{"key": []}]}}},
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
}


def put_document(name: str = "shop.json", **changes: Any) -> Path:
    path = Path(name)
    path.write_text(json.dumps({**DOCUMENT, **changes}))
    return path


@pytest.fixture
def web_api() -> Iterator[str]:
    """Return the address of a running API whose document names no host."""
    with served(WebApi().app) as url:
        yield url


def test_api_is_added_from_a_file(toolcrib: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "k")
    put_document()
    made = toolcrib("add", "shop", "--openapi", "shop.json", "--secret", "key=${SHOP_KEY}", "--required")
    assert (made.exit_code, made.stderr) == (0, "")
    assert made.stdout == (
        f"added the API 'shop' to {Path('toolcrib.toml').absolute()} (new file)\nit works: 1 tool\n"
    )
    api = load("toolcrib.toml").openapi["shop"]
    assert (api.secrets, api.required, api.base_url) == ({"key": "${SHOP_KEY}"}, True, None)
    assert 'document = "shop.json"' in Path("toolcrib.toml").read_text()
    assert json.loads(toolcrib("list", "--json").stdout)["tools"][0]["id"] == "shop:list_orders"
    assert toolcrib("remove", "shop").exit_code == 0
    assert load("toolcrib.toml").openapi == {}


def test_api_is_added_to_the_file_of_a_client_and_to_the_users_own(toolcrib: Any, home: Path) -> None:
    document = put_document().absolute()
    Path("mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    assert toolcrib("add", "shop", "--openapi", "shop.json").exit_code == 0
    assert json.loads(Path("mcp.json").read_text()) == {
        "mcpServers": {"a": {"command": "x"}},
        "toolcrib": {"openapi": {"shop": {"document": "shop.json"}}},
    }
    assert toolcrib("remove", "shop").exit_code == 0
    toolcrib("add", "shop", "--user", "--openapi", "shop.json")
    assert load(home / "toolcrib.toml").openapi["shop"].document == str(document)


@pytest.mark.parametrize("how", ["--openapi", "--url", "command"])
def test_api_is_added_from_a_url_and_called_where_its_document_is_from(
    toolcrib: Any, web_api: str, how: str
) -> None:
    source = f"{web_api}/openapi.json"
    made = toolcrib("add", "web", *([] if how == "command" else [how]), source)
    assert made.exit_code == 0, made.output
    kept = Path("web.openapi.json").absolute()
    recognised = f"{source} is an OpenAPI document, so this is an HTTP API\n"
    assert made.stdout == (
        f"{'' if how == '--openapi' else recognised}downloaded {source} to {kept}\n"
        f"added the API 'web' to {Path('toolcrib.toml').absolute()} (new file)\n"
        f"it is called at {web_api}, a private address that is allowed; --base-url names another\n"
        "it works: 6 tools\n"
    )
    assert load("toolcrib.toml").openapi["web"].allow_private == ("127.0.0.1",)
    assert json.loads(toolcrib("run", "web:add", "a=1", "b=2").stdout) == {"sum": 3}


def test_api_is_recognised_where_a_file_stands_for_the_command(toolcrib: Any) -> None:
    put_document("shop.yaml")
    made = toolcrib("add", "shop", "shop.yaml")
    assert made.stdout.startswith("shop.yaml is an OpenAPI document, so this is an HTTP API\n")
    shown = toolcrib("add", "other", "--dry-run", "--", "shop.yaml")
    assert shown.stdout.endswith('+[openapi.other]\n+document = "shop.yaml"\n')
    assert "shop.yaml is an OpenAPI document" in shown.stderr
    facts = json.loads(toolcrib("add", "third", "--json", "shop.yaml").stdout)
    assert (facts["recognised"], facts["check"]) == ("shop.yaml", {"ok": True, "tools": ["list_orders"]})


def test_api_notes_say_which_options_a_document_needs(toolcrib: Any) -> None:
    put_document(servers=[{"url": "http://10.0.0.1/v1"}])
    made = toolcrib("add", "shop", "--openapi", "shop.json")
    assert "10.0.0.1 is a private address: calls are refused unless --allow-private 10.0.0.1" in made.stderr
    assert "the security schemes 'key': --secret key='${KEY}' fills one" in made.stderr
    again = toolcrib(
        "add",
        "shop",
        "--openapi",
        "shop.json",
        "--force",
        "--allow-private",
        "10.0.0.0/8",
        "--secret",
        "key=x",
    )
    assert again.exit_code == 0
    assert load("toolcrib.toml").openapi["shop"].allow_private == ("10.0.0.0/8",)


def test_api_that_is_not_there_offline_says_how_to_go_on(toolcrib: Any, web_api: str) -> None:
    nowhere = "http://127.0.0.1:9/openapi.json"
    for how in ("--openapi", "--url"):
        made = toolcrib("add", "web", how, nowhere)
        assert made.exit_code == 4
        assert "Connection refused; download the document yourself" in made.stderr
    assert "--transport http" in made.stderr
    assert "it answers 404" in toolcrib("add", "web", "--openapi", f"{web_api}/nosuch.json").stderr
    assert list(Path.cwd().iterdir()) == []


def test_url_of_an_mcp_server_is_not_taken_for_a_document(toolcrib: Any, web_api: str) -> None:
    for url in (f"{web_api}/mcp", f"{web_api}/openapi"):  # neither answers a GET with a document
        made = toolcrib("add", "web", "--force", url)
        assert (made.exit_code, "answered 404" in made.stderr) == (4, True)
        assert load("toolcrib.toml").servers["web"].url == url
    meant = toolcrib("add", "web", "--force", "--transport", "http", "--no-check", f"{web_api}/openapi.json")
    assert (meant.exit_code, load("toolcrib.toml").openapi) == (0, {})


def test_url_that_is_no_mcp_server_but_a_document_is_told(toolcrib: Any) -> None:
    with served(FastAPI(openapi_url="/spec")) as url:
        made = toolcrib("add", "web", "--url", f"{url}/spec")
    assert made.exit_code == 4
    assert "it is an OpenAPI document: `remove web`, and add it with --openapi" in made.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--openapi", "shop.json", "--url", "http://x/mcp"], "--openapi replaces a command or --url"),
        (["--openapi", "shop.json", "--disabled"], "--disabled are for MCP servers"),
        (
            ["--openapi", "shop.json", "--secret", "nosuch=1"],
            "no scheme 'nosuch' that a secret fills; it has 'key'",
        ),
        (["--openapi", "nosuch.json"], "the file 'nosuch.json' cannot be read"),
        (["--openapi", "old.json"], "only OpenAPI 3 is supported, and this is '2.0'"),
        (["--openapi", "bare.json"], "name the address with --base-url"),
        (["--openapi", "other.json"], "other.json is not an OpenAPI document: it has 'a', and no 'openapi'"),
        (["--base-url", "https://x", "--url", "http://x/mcp"], "are for --openapi"),
        (["nosuch.yaml"], "there is no file 'nosuch.yaml', and no program of that name"),
        (["other.json"], "neither a program nor an OpenAPI document"),
    ],
)
def test_api_that_cannot_be_added_is_refused(toolcrib: Any, args: list[str], message: str) -> None:
    put_document()
    put_document("bare.json", servers=[{"url": "/v1"}])
    Path("old.json").write_text('{"swagger": "2.0", "host": "a.example"}')
    Path("other.json").write_text('{"a": 1}')
    made = toolcrib("add", "shop", *args)
    assert made.exit_code == 2, made.output
    assert message in made.stderr
    assert not Path("toolcrib.toml").exists()


def test_api_of_the_same_name_is_replaced_only_by_force(toolcrib: Any, web_api: str) -> None:
    put_document()
    toolcrib("add", "time", "--no-check", "--", "x")
    assert (
        "there is a server 'time' already"
        in toolcrib("add", "time", "--force", "--openapi", "shop.json").stderr
    )
    toolcrib("add", "shop", "--openapi", "shop.json")
    refused = toolcrib("add", "shop", "--openapi", "shop.json")
    assert (refused.exit_code, "there is an API 'shop' already; --force" in refused.stderr) == (2, True)
    assert "cannot be both a server and an API" in toolcrib("add", "shop", "--no-check", "--", "x").stderr
    Path("web.openapi.json").write_text("mine")
    refused = toolcrib("add", "web", "--openapi", f"{web_api}/openapi.json")
    assert (refused.exit_code, "there is another document already" in refused.stderr) == (2, True)
    assert Path("web.openapi.json").read_text() == "mine"
    assert toolcrib("add", "web", "--force", "--openapi", f"{web_api}/openapi.json").exit_code == 0


@pytest.mark.parametrize(
    "how", [["add", "inherit", "--no-check", "--", "x"], ["import", "theirs.json"]], ids=["add", "import"]
)
def test_a_server_called_inherit_does_not_replace_what_all_servers_inherit(
    toolcrib: Any, how: list[str]
) -> None:
    Path("theirs.json").write_text('{"mcpServers": {"inherit": {"command": "x"}}}')
    Path("toolcrib.toml").write_text('[servers]\ninherit = ["UV_*"]\n')
    made = toolcrib(*how)
    assert made.exit_code == 2
    assert (
        "'inherit' names the variables that all servers inherit; give the server another name" in made.stderr
    )
    assert Path("toolcrib.toml").read_text() == '[servers]\ninherit = ["UV_*"]\n'


def test_a_server_is_added_with_the_variables_that_it_inherits(toolcrib: Any) -> None:
    Path("toolcrib.toml").write_text('[servers]\ninherit = ["UV_*"] # ours\n')
    toolcrib("add", "a", "--inherit", "AWS_*", "--no-check", "--", "x")
    toolcrib("add", "b", "--no-check", "--", "y")
    settings = load("toolcrib.toml")
    assert (settings.inherit, settings.servers["a"].inherit) == (("UV_*",), ("AWS_*",))
    toolcrib("remove", "a")
    toolcrib("remove", "b")
    assert 'inherit = ["UV_*"] # ours' in Path("toolcrib.toml").read_text()
    assert toolcrib("remove", "inherit").exit_code == 3


@pytest.mark.usefixtures("needs_bubblewrap")
def test_a_server_is_added_behind_a_wall(toolcrib: Any) -> None:
    Path("data").mkdir()
    walls = [
        "--sandbox",
        "bubblewrap",
        "--read",
        "data",
        "--write",
        "~/x",
        "--network",
        "a.example",
        "--network",
        "b",
    ]
    toolcrib("add", "it", "--no-check", *walls, "--", "true")
    server = load("toolcrib.toml").servers["it"]
    assert (server.sandbox, server.network) == ("bubblewrap", ("a.example", "b"))
    assert (server.read, server.write) == ((str(Path.cwd() / "data"),), ("~/x",))
    toolcrib("add", "all", "--no-check", "--sandbox", "docker", "--network", "all", "--", "true")
    assert load("toolcrib.toml").servers["all"].network == "all"
    command = ["--", sys.executable, str(Path(launch.__file__).with_name("intruder.py"))]
    made = toolcrib("add", "works", "--sandbox", "bubblewrap", *command)
    assert (made.exit_code, made.stdout.splitlines()[-1]) == (0, "it works: 1 tool")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--read", "x", "--", "true"], "add --sandbox"),
        (["--sandbox", "firejail", "--", "true"], "'firejail' is not one of"),
        (["--sandbox", "docker", "--url", "http://127.0.0.1:1/mcp"], "are for a command that is started"),
        (
            ["--sandbox", "docker", "--network", "all", "--network", "a", "--", "true"],
            "--network all must be the only one",
        ),
        (["--sandbox", "docker", "--network", "http://a", "--", "true"], "write only the host"),
    ],
)
def test_a_wall_that_cannot_be_is_not_added(toolcrib: Any, args: list[str], message: str) -> None:
    made = toolcrib("add", "it", "--no-check", *args)
    assert made.exit_code != 0
    assert message in made.stderr
    assert not Path("toolcrib.toml").exists()


def test_a_server_of_a_registry_is_added_as_the_registry_says(
    toolcrib: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"name": "KEY", "description": "Your key.", "isRequired": True}
    package = {"registryType": "npm", "identifier": "@acme/weather", "environmentVariables": [key]}
    server = {"name": "io.github.acme/weather", "version": "1.2.0", "packages": [package]}
    Path("registry.json").write_text(json.dumps({"servers": [{"server": server}]}))
    command = ("add", "weather", "--from", "io.github.acme/weather", "--no-check")
    refused = toolcrib(*command)
    assert (refused.exit_code, "no registry is known" in refused.stderr) == (2, True)
    Path("toolcrib.toml").write_text('registry = "registry.json"\n')
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")  # the registry is beside the configuration, wherever the command is given
    made = toolcrib(*command, "--json", "--config", "../toolcrib.toml")
    monkeypatch.chdir("..")
    assert made.exit_code == 0, made.stderr
    assert "set the environment variable KEY: Your key." in json.loads(made.stdout)["notes"]
    written = tomllib.loads(Path("toolcrib.toml").read_text())["servers"]["weather"]
    assert written == {"command": "npx", "args": ["-y", "@acme/weather@1.2.0"], "env": {"KEY": "${KEY}"}}
    both = toolcrib(*command, "--force", "--", "npx", "other")
    assert (both.exit_code, "leave out the command" in both.stderr) == (2, True)
    alone = toolcrib("add", "x", "--kind", "npm", "--", "npx", "other")
    assert (alone.exit_code, "add --from" in alone.stderr) == (2, True)

"""Finding the cause of a broken setup, and the advice to fix it."""

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from execution.mcp.web import serving
from servers.launch import LITTLE, closed_port

from toolcrib.crib import Settings
from toolcrib.execution.mcp import ServerConfig
from toolcrib.model import Tool
from toolcrib.paths import catalogue_file
from toolcrib.setup.doctor import Diagnosis, diagnose, probe
from toolcrib.setup.doctor.findings import error
from toolcrib.trust import Lock

pytestmark = pytest.mark.anyio
HERE = {"PATH": os.environ["PATH"]}


def put(path: Path, servers: dict[str, Any] | None = None, **settings: Any) -> Path:
    path.write_text(json.dumps({"mcpServers": servers or {}, "toolcrib": settings}))
    return path


def opened(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def odd_server(folder: Path, *tools: str) -> dict[str, Any]:
    """Return the settings of a little server with these tools; those called bad have no schema."""
    script = folder / "odd.py"
    schemas = {name: 5 if name.startswith("bad") else {"type": "object"} for name in tools}
    listed = f"little.tools |= {{name: ('A tool.', schema) for name, schema in {schemas!r}.items()}}"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(LITTLE).parent)!r})\nimport little\n"
        f"little.tools.clear()\n{listed}\nlittle.main()\n"
    )
    return {"command": sys.executable, "args": ["-S", "-I", "-B", str(script)]}


def said(found: Diagnosis, subject: str, severity: str | None = None) -> list[str]:
    return [
        each.what for each in found.findings if each.subject == subject and severity in {None, each.severity}
    ]


async def offline(config: Any, **environ: str) -> Diagnosis:
    return await diagnose(config, environ={**HERE, **environ}, offline=True)


async def test_all_is_well_with_a_server_that_works(tmp_path: Path, little: Any, home: Path) -> None:
    told: list[str] = []
    path = put(tmp_path / "mcp.json", {"little": little()}, toolsets={"every": {"namespaces": ["little"]}})
    found = await diagnose(path, environ={**HERE, "TOOLCRIB_HOME": str(home)}, on_server=told.append)
    assert (found.errors, found.warnings, found.healthy) == ((), (), True)
    assert said(found, "server 'little'")[0].startswith("5 tools in ")
    assert said(found, "configuration") == [f"{path}: 1 server"]
    assert said(found, "python")[0].endswith(sys.executable)
    assert told == ["little"]
    assert found.to_json()["findings"][0]["severity"] == "ok"


async def test_every_problem_of_a_configuration_is_told(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text('timeot = 5\n[servers.a]\ncommand = "x"\nargz = []\n[servers.b]\n')
    found = await offline(path)
    assert not found.healthy
    assert {each.what for each in found.errors} == {
        "/servers/a/argz: is not a setting; did you mean 'args'?",
        "/timeot: is not a setting; did you mean 'timeout'?",
        "/servers/b: it needs a 'command' to start, or a 'url' to reach",
    }
    assert all(each.why == f"in {path}" for each in found.errors)


async def test_without_a_configuration_it_says_how_to_begin() -> None:
    found = await offline(None)
    assert found.healthy
    (begin,) = found.warnings
    assert begin.remedy == "add one: toolcrib add NAME -- COMMAND, or toolcrib import CLIENT"


@pytest.mark.parametrize(
    ("server", "what"),
    [
        ({"command": "no-such-program-here"}, "there is no program 'no-such-program-here' on the PATH"),
        ({"command": "uvxx"}, "there is no program 'uvxx' on the PATH; did you mean 'uvx'?"),
        ({"command": "pythn3"}, "there is no program 'pythn3' on the PATH; did you mean 'python3'?"),
        ({"command": "npx -y thing"}, "there is no program 'npx -y thing'"),
        ({"command": "/nowhere/x"}, "'/nowhere/x' is not there"),
        ({"command": "sh", "cwd": "/nowhere"}, "its folder '/nowhere' does not exist"),
        (
            {"command": "sh", "env": {"A": "${NOT_SET}"}},
            "env.A: the variable 'NOT_SET' is not set; set it, or write ${NOT_SET:-default}",
        ),
        ({"command": "toolcrib", "args": ["serve"]}, "it is toolcrib itself"),
    ],
)
async def test_obstacles_to_a_start_are_reported_beforehand(server: dict[str, Any], what: str) -> None:
    found = await diagnose({"mcpServers": {"a": server}}, environ=HERE)
    (finding,) = found.errors
    assert finding.what == what
    assert finding.remedy


async def test_a_program_that_is_known_is_told_how_to_install() -> None:
    found = await diagnose(
        {"mcpServers": {"a": {"command": "uvx"}}}, environ={"PATH": "/nowhere"}, offline=True
    )
    assert found.errors[0].what == "there is no program 'uvx' on the PATH"
    assert found.errors[0].remedy == "install uv, which includes uvx: pip install uv"


async def test_a_program_beside_its_folder_is_found(tmp_path: Path) -> None:
    program = tmp_path / "run"
    program.write_text("#!/bin/sh\n")
    server = {"command": "./run", "cwd": str(tmp_path)}
    found = await offline({"mcpServers": {"a": server}})
    assert said(found, "server 'a'") == [f"{str(program)!r} is there, and cannot be run"]
    program.chmod(0o755)
    assert said(await offline({"mcpServers": {"a": server}}), "server 'a'") == []


async def test_a_server_that_fails_is_shown_with_its_last_words_and_without_secrets(little: Any) -> None:
    words = "cannot log in with token=sk-abcdef1234567890abcd"
    found = await diagnose({"mcpServers": {"a": little("fail", words), "b": little()}}, environ=HERE)
    (finding,) = found.errors
    assert (finding.subject, finding.what) == ("server 'a'", "it does not work")
    assert finding.details["stderr"].strip() == "cannot log in with token=[secret]"
    assert said(found, "server 'b'", "ok")


async def test_doctor_advises_to_inherit_missing_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cret")
    shop = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('SHOP_TOKEN is not set')"]}
    found = await diagnose({"mcpServers": {"shop": shop}})
    (finding,) = found.errors
    assert (finding.why, finding.details["stderr"].strip()) == (
        "it exited with status 1",
        "SHOP_TOKEN is not set",
    )
    assert finding.remedy.startswith(
        "it may need SHOP_TOKEN, which is set here but not passed on; add inherit"
    )


async def test_a_server_that_says_nothing_has_a_deadline(little: Any) -> None:
    found = await diagnose({"mcpServers": {"a": little("hang")}}, environ=HERE, limit=0.3)
    (finding,) = found.errors
    assert "within 0.3 s" in finding.why
    assert "start_timeout" in finding.remedy


async def test_a_program_that_does_not_speak_mcp_is_told_as_that() -> None:
    server = {"command": "sh", "args": ["-c", "while echo garbage; do :; done"]}
    found = await diagnose({"mcpServers": {"a": server}}, environ=HERE)
    (finding,) = found.errors
    assert "that is not MCP, such as 'garbage'" in finding.why
    assert finding.remedy.startswith("correct `command`: it is not an MCP server")


async def test_a_slow_start_is_told(little: Any) -> None:
    found = await diagnose({"mcpServers": {"a": little()}}, environ=HERE, slow=0.0)
    assert said(found, "server 'a'", "warning") == ["it is slow to start"]


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ("python3", "the machine is busy, or the server is slow to start"),
        ("uvx", "install it beforehand"),
    ],
)
async def test_doctor_advises_to_install_beforehand_only_what_is_downloaded(
    tmp_path: Path, little: Any, command: str, remedy: str
) -> None:
    server = little()
    program = tmp_path / command
    program.write_text(f"#!/bin/sh\nexec {shlex.join([server['command'], *server['args']])}\n")
    program.chmod(0o755)
    found = await diagnose(
        {"mcpServers": {"a": {"command": str(program), "args": ["notes"]}}}, environ=HERE, slow=0.0
    )
    (finding,) = found.warnings
    assert finding.remedy.startswith(remedy)


async def test_doctor_names_the_command_to_start_by_hand_without_its_secrets() -> None:
    args = ["-c", "import sys; sys.exit('boom')", "--api-key", "sesame1234", "two words"]
    found = await diagnose({"mcpServers": {"a": {"command": sys.executable, "args": args}}}, environ=HERE)
    assert found.errors[0].remedy.endswith(
        f"start it by hand to see what it says: {sys.executable} -c "
        "'import sys; sys.exit('\"'\"'boom'\"'\"')' --api-key '[secret]' 'two words'"
    )


NODE_FAILURE = """\
node:internal/modules/package_json_reader:255
  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /x/index.js
    at packageResolve (node:internal/modules/esm/resolve:764:81)
    at moduleResolve (node:internal/modules/esm/resolve:845:18)
    at defaultResolve (node:internal/modules/esm/resolve:975:11)
    at ModuleLoader.resolve (node:internal/modules/esm/loader:394:12)
    at link (node:internal/modules/esm/module_job:89:32) {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v20.19.0
"""


async def test_doctor_shows_the_error_of_node_and_advises_to_delete_an_incomplete_download(
    tmp_path: Path,
) -> None:
    (tmp_path / "stderr").write_text(NODE_FAILURE)
    program = tmp_path / "npx"
    program.write_text(f"#!/bin/sh\ncat {shlex.quote(str(tmp_path / 'stderr'))} >&2\nexit 1\n")
    program.chmod(0o755)
    server = {"command": str(program), "args": ["-y", "notes"]}
    found = await diagnose({"mcpServers": {"a": server}}, environ=HERE)
    (finding,) = found.errors
    assert finding.remedy.startswith("delete ~/.npm/_npx")
    assert "Cannot find package 'zod'" in finding.details["stderr"]
    assert "    at " not in finding.details["stderr"]
    assert "Node.js" not in finding.details["stderr"]


@pytest.mark.parametrize("path", ["mcp", "401/mcp", "document"])
async def test_an_address_where_nothing_listens_is_told(path: str) -> None:
    with closed_port() as port:
        server = {"url": f"http://127.0.0.1:{port}/{path}"}
        found = await diagnose({"mcpServers": {"a": server}}, environ=HERE)
    assert found.errors[0].remedy == "start it, or correct the address"


async def test_the_digits_of_a_path_are_no_answer(tmp_path: Path) -> None:
    missing = str(tmp_path / "404" / "openapi.json")
    found = await diagnose({"openapi": {"a": {"document": missing}}}, environ=HERE)
    assert found.errors[0].remedy == "correct the path or the document"


async def test_a_server_that_wants_a_token_is_told_where_to_write_it() -> None:
    async def refusing(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with serving(refusing) as address:
        found = await diagnose({"mcpServers": {"a": {"url": f"{address}/mcp"}}}, environ=HERE)
    assert found.errors[0].remedy == 'give it a token: in `headers`, Authorization is "Bearer ${TOKEN}"'


async def test_a_tool_that_cannot_be_used_is_told(little: Any) -> None:
    found = await diagnose({"mcpServers": {"a": little("odd")}}, environ=HERE)
    (finding,) = found.warnings
    assert finding.why.startswith("odd: ")
    assert finding.remedy == "report it to the author of the server; the other tools work"


@pytest.mark.parametrize("levels", ["80", "300"])
async def test_a_tool_whose_schema_is_nested_too_deep_is_told_and_the_others_are_counted(
    little: Any, levels: str
) -> None:
    found = await diagnose({"mcpServers": {"a": little("deep", levels)}}, environ=HERE)
    (finding,) = found.warnings
    assert re.match(r"deep: .*nested more than \d+ levels deep", finding.why)
    assert finding.remedy == "report it to the author of the server; the other tools work"


async def test_invalid_tool_is_reported(tmp_path: Path) -> None:
    names = [f"bad_{number}" for number in range(7)]
    found = await diagnose({"mcpServers": {"a": odd_server(tmp_path, *names, "good")}}, environ=HERE)
    assert said(found, "server 'a'", "warning") == ["some of its tools cannot be used"]
    assert found.warnings[0].why.endswith("and 2 more")


async def test_a_server_without_tools_is_told(tmp_path: Path) -> None:
    found = await diagnose({"mcpServers": {"a": odd_server(tmp_path)}}, environ=HERE)
    assert said(found, "server 'a'", "warning") == ["it has no tools"]


async def test_keys_that_are_nearly_known_are_told_and_those_of_others_are_not() -> None:
    server = {"command": "sh", "alwaysAllow": [], "start_timout": 5, "whatever": 1}
    found = await offline({"mcpServers": {"a": server}})
    (finding,) = [each for each in found.warnings if each.subject == "server 'a'"]
    assert finding.what == "the key 'start_timout' is not read; did you mean 'start_timeout'?"


async def test_servers_that_are_switched_off_are_named_and_left_alone() -> None:
    found = await diagnose({"mcpServers": {"a": {"command": "no-such", "disabled": True}}}, environ=HERE)
    assert found.healthy
    assert said(found, "servers") == ["switched off: a"]


async def test_names_that_are_nearly_the_same_are_told() -> None:
    found = await offline({"mcpServers": {"My-App": {"command": "sh"}, "my_app": {"command": "sh"}}})
    assert said(found, "servers") == ["the names 'My-App', 'my_app' are nearly the same"]


@pytest.mark.parametrize(
    ("search", "severity", "why"),
    [
        ({"model": "minlm"}, "warning", "did you mean 'minilm'?"),
        ({"model": "minlm", "searcher": "hybrid"}, "error", "there are static"),
        ({"model": "./no/model"}, "error", "there is no such folder"),
    ],
)
async def test_a_model_that_cannot_be_used_is_told(search: dict[str, str], severity: str, why: str) -> None:
    (finding,) = [each for each in (await offline({"search": search})).findings if each.subject == "search"]
    assert (finding.severity, finding.what) == (severity, f"the model {search['model']!r} cannot be used")
    assert why in finding.why
    assert finding.remedy == "install it, or correct search.model"


@pytest.mark.parametrize("search", [{}, {"model": "minilm"}, {"model": "minlm", "searcher": "bm25"}])
async def test_nothing_is_said_of_a_model_that_serves_or_is_not_wanted(search: dict[str, str]) -> None:
    assert said(await offline({"search": search}), "search") == []


@pytest.mark.proof
def test_the_extra_of_a_model_is_told_where_it_is_missing(tmp_path: Path) -> None:
    code = (
        "import sys, anyio; sys.modules['onnxruntime'] = None\n"
        "from toolcrib.setup.doctor import diagnose\n"
        "async def main():\n"
        "    found = await diagnose({'search': {'model': 'minilm'}}, environ={}, offline=True)\n"
        "    print(*(each.remedy for each in found.warnings if each.subject == 'search'))\n"
        "anyio.run(main)\n"
    )
    told = subprocess.check_output([sys.executable, "-c", code], text=True, cwd=tmp_path)
    assert told == "pip install 'toolcrib[semantic]'\n"


async def test_the_document_of_an_api_must_be_there(tmp_path: Path) -> None:
    found = await offline({"openapi": {"pets": {"document": str(tmp_path / "none.json")}}})
    assert said(found, "API 'pets'") == ["it does not work"]
    get = {"get": {"operationId": "listPets", "summary": "List the pets.", "responses": {}}}
    info, servers = {"title": "Pets", "version": "1"}, [{"url": "https://example.com"}]
    document = {"openapi": "3.1.0", "info": info, "servers": servers, "paths": {"/pets": get}}
    path = tmp_path / "pets.json"
    path.write_text(json.dumps(document))
    config = {"openapi": {"pets": {"document": str(path)}}, "toolsets": {"x": {"namespaces": ["pets"]}}}
    found = await diagnose(config, environ=HERE)
    assert (found.errors, found.warnings) == ((), ())
    assert said(found, "API 'pets'")[0].startswith("1 tool in ")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such pipes")
async def test_a_pipe_is_no_document_of_an_api(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pets.json")
    found = await offline({"openapi": {"pets": {"document": str(tmp_path / "pets.json")}}})
    (finding,) = [each for each in found.errors if each.subject == "API 'pets'"]
    assert "is a pipe or a device, not a document" in finding.why


@pytest.mark.parametrize(
    ("gateway", "what", "severity"),
    [
        ({"host": "0.0.0.0"}, "there is no token", "error"),  # noqa: S104 - that is the point
        ({"host": "crib.example.com"}, "there is no token", "error"),
        ({"tokens": {}}, "nobody can call it over HTTP", "warning"),
        ({"tokens": {}, "host": "0.0.0.0"}, "nobody can call it over HTTP", "warning"),  # noqa: S104
        (
            {"tokens": {"a": {"hash": f"sha256:{'0' * 64}", "expires": "2020-01-01T00:00:00Z"}}},
            "nobody can call it over HTTP",
            "warning",
        ),
        ({"token": "short"}, "the token is short", "warning"),
        ({"token": "${NO_TOKEN}"}, "token: the variable 'NO_TOKEN' is not set; set it, or write", "error"),
        ({"allowed_origins": ["*"]}, "allowed_origins lets everything in", "warning"),
        ({"allowed_hosts": ["*"]}, "allowed_hosts has '*', which is not a host name", "error"),
        ({"allowed_hosts": ["https://a.example.com"]}, "allowed_hosts has 'https://a.example.com'", "error"),
        ({"token": "käse" * 8}, "token: must be printable ASCII", "error"),
        ({"token": "${EMPTY}", "host": "0.0.0.0"}, "token: must be printable ASCII", "error"),  # noqa: S104
    ],
)
async def test_unsafe_gateway_settings_are_reported(
    gateway: dict[str, Any], what: str, severity: str
) -> None:
    found = await offline({"mcpServers": {"a": {"command": "sh"}}, "gateway": gateway}, EMPTY="")
    (told,) = said(found, "gateway", severity)
    assert told.startswith(what)


async def test_a_gateway_that_is_well_guarded_is_well() -> None:
    gateway = {"host": "0.0.0.0", "token": "${T}"}  # noqa: S104 - the token guards it
    config = {"mcpServers": {"a": {"command": "sh"}}, "gateway": gateway}
    assert said(await offline(config, T="x" * 32), "gateway") == []
    for safe in (
        {"host": "LocalHost"},
        {"host": "[::1]"},
        {"host": "0.0.0.0", "tokens": {"a": {"hash": f"sha256:{'0' * 64}"}}},  # noqa: S104 - it asks for one
        {"host": "0.0.0.0", "auth": {"issuer": "https://i.example", "audience": "https://c.example/mcp"}},  # noqa: S104
        {"allowed_hosts": ["crib.example.com", "crib.example.com:8443", "[2001:db8::1]"]},
        {"allowed_origins": ["https://*.example.com"]},
    ):
        local = {"mcpServers": {"a": {"command": "sh"}}, "gateway": safe}
        assert said(await offline(local), "gateway") == []


async def test_a_token_in_plain_sight_is_told(tmp_path: Path) -> None:
    path = put(tmp_path / "mcp.json", {"a": {"command": "sh"}}, gateway={"token": "x" * 32})
    path.chmod(0o644)
    assert said(await offline(path), "gateway") == ["the token is in plain sight"]
    path.chmod(0o600)
    assert said(await offline(path), "gateway") == []


async def test_toolcrib_itself_is_an_error_at_the_port_that_it_has() -> None:
    servers = {"me": {"url": "http://127.0.0.1:9000/mcp"}}
    found = await offline({"mcpServers": servers, "gateway": {"port": 9000}})
    (finding,) = found.errors
    assert (finding.subject, finding.what) == ("server 'me'", "it is toolcrib itself")
    assert finding.why.startswith("it would start itself")


async def test_servers_and_apis_are_counted(tmp_path: Path) -> None:
    apis = {name: {"document": str(tmp_path / "none.json")} for name in "pq"}
    found = await offline({"mcpServers": {"a": {"command": "sh"}, "b": {"command": "sh"}}, "openapi": apis})
    assert said(found, "configuration") == ["no file: 2 servers, 2 APIs"]


async def test_shape_of_no_tool_is_told_with_the_tool_that_was_meant(little: Any) -> None:
    shape = {"description": "Another."}
    tools = {"little:shuot": shape, "little:shout": shape, "little:shot": {"pin": True}, "far:away": shape}
    toolsets = {
        "t": {"tools": tools},
        "none": {"exclude": ["little:shout"], "tools": {"little:shout": shape}},
    }
    found = await diagnose({"mcpServers": {"little": little()}, "toolsets": toolsets}, environ=HERE)
    told = {each.why for each in found.findings if each.subject == "toolset 't'"}
    assert told == {
        "there is no tool 'little:shuot'; did you mean 'little:shout'?",
        "there is no tool 'little:shot'; did you mean 'little:shout'?",
        "there is no tool 'far:away'",
    }
    (excluded, *_) = (each for each in found.findings if each.subject == "toolset 'none'")
    assert excluded.why == "little:shout is not in the toolset by its other settings"


async def test_names_that_two_tools_share_in_a_toolset_are_told_offline_too() -> None:
    toolset = {"ids": ["notes:send", "notes:wipe"], "tools": {"notes:send": {"name": "wipe"}}}
    config = {"servers": {"notes": {"command": "sh"}}, "toolsets": {"team": toolset}}
    found = [each for each in (await offline(config)).findings if each.subject == "toolset 'team'"]
    assert [each.severity for each in found] == ["warning"]
    assert "'notes:send'" in str(found[0])
    assert "'notes:wipe'" in str(found[0])


async def test_a_toolset_of_nothing_is_told(little: Any) -> None:
    toolsets = {
        "far": {"namespaces": ["litle"], "ids": ["little:shout", "other:x"]},
        "none": {"ids": ["little:shut"]},
        "some": {"ids": ["little:shout"]},
    }
    found = await diagnose({"mcpServers": {"little": little()}, "toolsets": toolsets}, environ=HERE)
    assert said(found, "toolset 'far'") == [
        "there is no namespace 'litle'; did you mean 'little'?",
        "there is no namespace 'other'",
        "it has no tools",
    ]
    assert said(found, "toolset 'none'") == ["it has no tools"]
    assert said(found, "toolset 'some'") == []


async def test_a_catalogue_that_is_corrupt_or_locked_is_told(tmp_path: Path, home: Path) -> None:
    path = put(tmp_path / "mcp.json", {"a": {"command": "sh"}})
    environ = {"TOOLCRIB_HOME": str(home)}
    assert said(await offline(path, **environ), "catalogue") == ["nothing is stored yet"]
    file = catalogue_file(path, environ)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no database at all" * 100)
    assert said(await offline(path, **environ), "catalogue", "error") == [f"{file} is corrupt"]
    file.unlink()
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("CREATE TABLE t (x)")
        assert "are stored" in said(await offline(path, **environ), "catalogue", "ok")[0]
        database.execute("BEGIN EXCLUSIVE")
        assert said(await offline(path, **environ), "catalogue", "warning") == [f"{file} is locked"]


async def test_file_in_place_of_a_folder_is_reported(tmp_path: Path, home: Path) -> None:
    path = put(tmp_path / "mcp.json", {"a": {"command": "sh"}})
    put(home)
    found = await offline(path, TOOLCRIB_HOME=str(home))
    assert said(found, "data") == [f"{home} is not a folder"]
    assert said(found, "catalogue", "error") == [
        f"{catalogue_file(path, {'TOOLCRIB_HOME': str(home)}).parent} cannot be made"
    ]
    found = await offline(path, TOOLCRIB_HOME="a\0b")
    assert said(found, "data") == ["there is no folder for persistent state"]
    found = await offline(path, TOOLCRIB_HOME=str(home / "below"))
    assert said(found, "data", "error")


async def test_lock_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = put(tmp_path / "mcp.json")
    assert said(await offline(path), "lock") == []
    lock = tmp_path / "tools.lock"
    Lock.of([Tool(name="a", namespace="s", input_schema={"type": "object"})]).save(lock)
    assert said(await offline(path), "lock", "ok") == ["1 approved tool"]
    lock.write_text("[")
    (found,) = (await offline(path)).errors
    assert found.what == f"{lock} cannot be read, so nothing that it governs is used"
    assert "it is not TOML" in found.why
    assert "`toolcrib lock --force`" in found.remedy


async def test_a_folder_that_others_may_write_to_is_told(tmp_path: Path) -> None:
    path = put(tmp_path / "mcp.json", {"a": {"command": "sh"}})
    home = opened(tmp_path / "open")
    assert said(await offline(path, TOOLCRIB_HOME=str(home)), "data") == [f"others may write to {home}"]


async def test_a_store_or_an_audit_that_is_a_folder_is_told(tmp_path: Path) -> None:
    config = {
        "mcpServers": {"a": {"command": "sh"}},
        "store": str(tmp_path),
        "audit": {"path": str(tmp_path)},
    }
    found = await offline(config)
    assert said(found, "catalogue") == [f"{tmp_path} is a folder"]
    assert said(found, "audit") == [f"{tmp_path} is a folder"]
    (tmp_path / "file").touch()
    found = await offline({**config, "store": "memory", "audit": {"path": str(tmp_path / "file" / "log")}})
    assert said(found, "catalogue") == ["it is not stored between runs"]
    assert said(found, "audit") == [f"{tmp_path / 'file'} cannot be made"]
    found = await offline({**config, "store": "memory", "audit": {"path": str(tmp_path / "log")}})
    assert said(found, "audit") == []


@pytest.mark.skipif(os.name != "posix", reason="files have no such rights there")
def test_unwritable_path_is_reported(tmp_path: Path, unprivileged: list[str]) -> None:
    log, store = tmp_path / "log", tmp_path / "store.db"
    for file in (log, store):
        file.touch(mode=0o400)
    path = put(tmp_path / "mcp.json", store=str(store), audit={"path": str(log)})
    command = [*unprivileged, sys.executable, "-m", "toolcrib.cli", "doctor", "--offline", "--json"]
    done = subprocess.run([*command, "--config", str(path)], capture_output=True, text=True, check=False)
    told = {each["subject"]: each["what"] for each in json.loads(done.stdout or done.stderr)["findings"]}
    assert told["audit"] == f"{log} cannot be written"
    assert told["catalogue"] == f"{store} cannot be written"


async def test_a_sandbox_that_nobody_has_is_an_error() -> None:
    found = await offline({"mcpServers": {"a": {"command": "sh"}}, "code": {"backend": "moon"}})
    assert said(found, "code", "error") == ["the sandbox 'moon' cannot run here"]
    quiet = {"mcpServers": {"a": {"command": "sh"}}, "code": {"backend": "moon"}, "gateway": {"code": False}}
    assert said(await offline(quiet), "code", "error") == []


async def test_sandboxes_that_are_not_here_are_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    lines = said(await offline({"mcpServers": {"a": {"command": "sh"}}}), "code", "ok")
    for kind in ("docker", "gvisor"):
        assert any(line.startswith(f"to have '{kind}' too: ") and "install" in line for line in lines)


async def test_a_probe_tells_how_long_a_server_took(little: Any) -> None:
    found = await probe("a", ServerConfig(**little(disabled=True)))
    assert found.error is None
    assert found.seconds > 0
    assert {tool.name for tool in found.tools} >= {"shout", "learn"}
    assert (await diagnose(Settings(), environ=HERE, offline=True)).healthy


def test_a_finding_leaves_out_what_is_empty_and_hides_secrets() -> None:
    finding = error("a", "b", "token=sk-abcdef1234567890abcd", nothing="")
    assert finding.to_json() == {"severity": "error", "subject": "a", "what": "b", "why": "token=[secret]"}


async def test_an_audit_with_missing_calls_or_a_pipe_that_nobody_reads_is_told(tmp_path: Path) -> None:
    log, pipe = tmp_path / "log", tmp_path / "pipe"
    log.write_text('{"time":"a","toolId":"lost"}\n{"time":"2026-01-01T00:00:00.000Z","lost":3}\n' * 2)
    found = await offline({"store": "memory", "audit": {"path": str(log)}})
    assert said(found, "audit") == [f"6 calls are missing in {log}"]
    os.mkfifo(pipe)
    found = await offline({"store": "memory", "audit": {"path": str(pipe)}})
    assert said(found, "audit") == [f"nobody reads {pipe}"]


async def test_servers_without_a_wall_are_named_as_a_hint_with_what_to_do() -> None:
    servers = {
        "bare": {"command": "true"},
        "contained": {"command": "docker", "args": ["run", "-i", "mcp/time"]},
        "reached": {"url": "http://127.0.0.1:1/mcp"},
        "walled": {"command": "true", "sandbox": "bubblewrap"},
        "off": {"command": "true", "disabled": True},
    }
    found = await offline({"mcpServers": servers})
    (shown,) = [each for each in found.findings if each.subject == "walls"]
    assert (shown.severity, shown.what) == ("ok", "servers without one, with all rights of this user: bare")
    assert "sandbox = 'bubblewrap'" in shown.remedy


async def test_a_wall_that_cannot_stand_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    server = {"command": "/bin/true", "sandbox": "bubblewrap", "read": [str(gone)]}
    found = await offline({"mcpServers": {"it": server}})
    assert said(found, "server 'it'", "error") == [
        f"the setting 'read' names {str(gone)!r}, which does not exist; create it, or correct 'read'"
    ]
    monkeypatch.setenv("PATH", str(tmp_path))
    found = await offline({"mcpServers": {"it": server}})
    assert "install it: apt install bubblewrap" in said(found, "server 'it'", "error")[0]


@pytest.mark.usefixtures("needs_bubblewrap")
async def test_paths_hidden_by_a_wall_are_reported(tmp_path: Path) -> None:
    data = tmp_path / "notes.db"
    data.touch()
    server = {"command": "/bin/true", "args": ["--db", str(data), "-v", "words"], "sandbox": "bubblewrap"}
    found = await offline({"mcpServers": {"it": server}})
    assert said(found, "server 'it'", "warning") == [f"it does not see {data}"]
    seen = await offline({"mcpServers": {"it": {**server, "write": [str(tmp_path)]}}})
    assert said(seen, "server 'it'", "warning") == []

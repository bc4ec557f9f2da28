"""Changing the servers of a configuration file, and nothing else in it."""

import json
import os
import stat
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import PATIENCE

from toolcrib.crib import load
from toolcrib.crib.config.reading import parse_jsonc
from toolcrib.errors import ConfigError
from toolcrib.redaction import secrets_in
from toolcrib.setup.editing import ABSENT, Edit, add_server, backups, edit_servers, remove_server
from toolcrib.setup.editing.edit import lock_path
from toolcrib.setup.editing.jsonc import remove_json, set_json
from toolcrib.setup.editing.secrets import without_secrets
from toolcrib.setup.editing.servers import own_entry
from toolcrib.setup.editing.toml import remove_toml, set_toml

UVX = {"command": "uvx", "args": ["mcp-server-time"]}
JSONC = """\
{
    // what I use
    "mcpServers": {
        "a": {"command": "x"}, // the first
        "b": {
            "url": "http://127.0.0.1/mcp" /* why */
        } // the last
    },
    "inputs": [1, 2,], /* theirs */
}
"""
TOML = """\
# mine
timeout = 5.0  # short

# about a
[servers.a]
command = "x"
[servers.a.env]
KEY = "1"

# about b
[servers.b]
url = "http://127.0.0.1/mcp"
# the end
"""


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_a_server_is_added_to_a_json_file_and_all_else_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "mcp.json", JSONC)
    edit = add_server(path, "time", UVX)
    assert edit.after == JSONC.replace(
        "        } // the last\n",
        '        }, // the last\n        "time": {\n            "command": "uvx",\n            "args": [\n'
        '                "mcp-server-time"\n            ]\n        }\n',
    )
    assert path.read_text() == JSONC
    edit.write()
    assert list(load(path).servers) == ["a", "b", "time"]


def test_a_server_is_added_to_a_toml_file_and_all_else_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "toolcrib.toml", TOML)
    edit = add_server(path, "time", {**UVX, "env": {"A B": 'say "hi"\n'}, "required": True})
    assert edit.after.startswith(TOML)
    assert edit.after[len(TOML) :] == (
        '\n[servers.time]\ncommand = "uvx"\nargs = ["mcp-server-time"]\n'
        'env = {"A B" = "say \\"hi\\"\\n"}\nrequired = true\n'
    )
    edit.write()
    assert load(path).servers["time"].env == {"A B": 'say "hi"\n'}


def test_a_server_is_removed_from_a_json_file_and_comments_stay(tmp_path: Path) -> None:
    path = written(tmp_path / "mcp.json", JSONC)
    assert remove_server(path, "b").after == (
        '{\n    // what I use\n    "mcpServers": {\n        "a": {"command": "x"} // the first\n'
        '         // the last\n    },\n    "inputs": [1, 2,], /* theirs */\n}\n'
    )
    remove_server(path, "b").write()
    remove_server(path, "a").write()
    assert parse_jsonc(path.read_text()) == {"mcpServers": {}, "inputs": [1, 2]}
    assert path.read_text().count("//") == 3


def test_a_server_is_removed_from_a_toml_file_with_its_tables_and_comments_stay(tmp_path: Path) -> None:
    path = written(tmp_path / "toolcrib.toml", TOML)
    edit = remove_server(path, "a")
    assert edit.after == (
        '# mine\ntimeout = 5.0  # short\n\n# about a\n\n# about b\n[servers.b]\nurl = "http://127.0.0.1/mcp"\n# the end\n'
    )
    edit.write()
    remove_server(path, "b").write()
    assert tomllib.loads(path.read_text()) == {"timeout": 5.0}


def test_a_server_is_replaced_in_its_place_when_that_is_wanted(tmp_path: Path) -> None:
    for name, text in {"mcp.json": JSONC, "toolcrib.toml": TOML}.items():
        path = written(tmp_path / name, text)
        with pytest.raises(ConfigError, match="there is a server 'a' already; --force replaces it"):
            add_server(path, "a", UVX)
        add_server(path, "a", UVX, replace=True).write()
        servers = load(path).servers
        assert list(servers) == ["a", "b"]
        assert (servers["a"].command, servers["a"].env) == ("uvx", {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}', '{"a":1, "mcpServers": {"t": {"command": "c"}}}'),
        ('{"mcpServers":{}}', '{"mcpServers":{"t": {"command": "c"}}}'),
        ("{}\n", '{\n  "mcpServers": {\n    "t": {\n      "command": "c"\n    }\n  }\n}\n'),
        ("", '{\n  "mcpServers": {\n    "t": {\n      "command": "c"\n    }\n  }\n}\n'),
        (
            '{\n\t"servers": {\n\t\t// none yet\n\t}\n}',
            '{\n\t"servers": {\n\t\t// none yet\n\t\t"t": {\n\t\t\t"command": "c"\n\t\t}\n\t}\n}',
        ),
        (
            '{\n  "mcp": {"servers": {"a": {"command": "x"},}}\n}',
            '{\n  "mcp": {"servers": {"a": {"command": "x"}, "t": {"command": "c"},}}\n}',
        ),
        (
            '{\n  "a": {"command": "x"}\n}',
            '{\n  "a": {"command": "x"},\n  "t": {\n    "command": "c"\n  }\n}',
        ),
    ],
    ids=["one line", "empty section", "empty object", "empty file", "a comment alone", "trailing", "bare"],
)
def test_every_style_of_json_is_kept(tmp_path: Path, text: str, expected: str) -> None:
    path = written(tmp_path / "mcp.json", text)
    assert add_server(path, "t", {"command": "c"}).after == expected


def test_the_ends_of_lines_and_the_mark_of_windows_are_kept(tmp_path: Path) -> None:
    for name, text in {"mcp.json": JSONC, "toolcrib.toml": TOML}.items():
        dos = text.replace("\n", "\r\n")
        path = written(tmp_path / name, dos)
        after = add_server(path, "time", UVX).after
        assert after.count("\r\n") == after.count("\n") > dos.count("\n")
    path = written(tmp_path / "mcp.json", "\ufeff" + JSONC)
    assert add_server(path, "time", UVX).after.startswith("\ufeff{")
    path = written(tmp_path / "mcp.json", JSONC.replace("\n", "\r\n", 1))
    assert add_server(path, "time", UVX).after.count("\r\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        '[servers]\na = { command = "x" }\nb = { command = "y" }\n',
        '[servers]\na.command = "x"\n[servers.b]\ncommand = "y"\n',
        '[servers.a]\ncommand = "x"\nargs = [\n  "1",\n  # two\n  "2",\n]\n[servers.b]\ncommand = "y"\n',
        '[mcpServers.a]\ncommand = "x"\n[mcpServers.b]\ncommand = "y"',
        '[servers."a"]\ncommand = """\nx"""\n[servers.b]\ncommand = "y"\n[servers.b.env]\n',
    ],
    ids=["inline tables", "dotted keys", "long arrays", "the other name", "quoted"],
)
def test_every_style_of_toml_is_edited_or_left_alone(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "toolcrib.toml", text)
    remove_server(path, "a").write()
    assert list(load(path).servers) == ["b"]
    add_server(path, "b", UVX, replace=True).write()
    add_server(path, "c", UVX).write()
    assert {name: server.command for name, server in load(path).servers.items()} == {"b": "uvx", "c": "uvx"}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("toolcrib.toml", 'servers = { a = { command = "x" } }\n', "edited without harm"),
        (
            "mcp.json",
            '{"mcpServers": [{"name": "a", "command": "x"}]}',
            "is not an object of servers by name",
        ),
        ("mcp.json", "{oops", "it is not JSON: "),
        ("mcp.json", "[]", "it must be a JSON object, not list"),
        ("toolcrib.toml", "a = ", "it is not TOML"),
        ("mcp.json", '{"mcpServers": {,}}', "edited without harm"),
    ],
)
def test_unsafe_edit_is_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = written(tmp_path / name, text)
    with pytest.raises(ConfigError, match=said):
        add_server(path, "t", UVX)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "text",
    [
        'servers = { a = { command = "x" } }\n',
        f'[servers.a]\ncommand = "x"\nargs = [{"[" * 50}{"]" * 50}]\n' + "# long\n" * 20_000,
        '[servers.a]\ncommand = "x"\n' + "".join(f"{'a.' * 20}b{n} = 1\n" for n in range(1_000)),
        f'[servers.a]\ncommand = "x"\n{"a." * 3_000}a = 1\n',
    ],
    ids=["inline", "large", "many deep keys", "one very deep key"],
)
def test_a_server_that_cannot_be_cut_out_stays(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "toolcrib.toml", text)
    with pytest.raises(ConfigError, match="cannot be edited without harm, and is left as it is"):
        remove_server(path, "a")
    with pytest.raises(ConfigError, match="cannot be edited without harm, and is left as it is"):
        add_server(path, "a", UVX, replace=True)
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "without", "replaced"),
    [
        (
            'servers.a.command = "x"\nservers.b.command = "a"\nservers.a.args = []\n',
            'servers.b.command = "a"\n',
            'servers.a = {command = "uvx"}\nservers.b.command = "a"\n',
        ),
        (
            '[servers.b]\nargs = ["""\n[servers.a]\n"""]\n[servers.a] # mine\ncommand = "x"\n',
            '[servers.b]\nargs = ["""\n[servers.a]\n"""]\n',
            '[servers.b]\nargs = ["""\n[servers.a]\n"""]\n[servers.a]\ncommand = "uvx"\n',
        ),
        (
            "[servers.a]\nx = 1\n\n# theirs\n[theirs]\n\n[servers.a.env]\nA = 'b'\n# end\n\n[servers.b]\n",
            "# theirs\n[theirs]\n\n# end\n\n[servers.b]\n",
            '[servers.a]\ncommand = "uvx"\n\n# theirs\n[theirs]\n\n# end\n\n[servers.b]\n',
        ),
        (
            "[servers]\na = 1 # one\n# two\nb = 2\n",
            "[servers]\n# two\nb = 2\n",
            '[servers]\na = {command = "uvx"}\n# two\nb = 2\n',
        ),
        (
            "[servers.a]\n\n[servers.b]\n\n[servers.c]\n",
            "[servers.b]\n\n[servers.c]\n",
            '[servers.a]\ncommand = "uvx"\n\n[servers.b]\n\n[servers.c]\n',
        ),
        (
            "x = 1\n[[servers.a]]\ny = 1\n# end",
            "x = 1\n# end\n",
            'x = 1\n[servers.a]\ncommand = "uvx"\n# end',
        ),
    ],
    ids=["scattered", "text like a table", "apart", "a line", "the first", "an array"],
)
def test_a_table_is_cut_out_and_replaced_in_its_place(text: str, without: str, replaced: str) -> None:
    assert remove_toml(text, ("servers", "a")) == without
    assert set_toml(text, ("servers", "a"), {"command": "uvx"}) == replaced


def test_text_like_a_table_in_an_array_is_not_a_table(tmp_path: Path) -> None:
    text = "[servers.a]\ncommand = \"x\"\nenv = { A = '''\n[not a table\n''' }\n"
    assert remove_server(written(tmp_path / "toolcrib.toml", text), "a").after == ""


def test_a_broken_edit_never_lands(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    with pytest.raises(ConfigError, match="NUL character") as caught:
        add_server(path, "t", {"command": "a\0b"})
    assert caught.value.source == str(path)
    with pytest.raises(ConfigError, match="may contain only letters"):
        add_server(path, "my server", UVX)
    broken = written(tmp_path / "mcp.json", '{"mcpServers": {"a": {}}}')
    with pytest.raises(ConfigError, match="needs a 'command'"):
        add_server(broken, "t", UVX)
    assert not path.exists()


def test_a_server_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    path = written(tmp_path / "mcp.json", '{"mcpServers": {"time": {"command": "x"}}}')
    with pytest.raises(ConfigError, match="there is no server 'tiem'; did you mean 'time'") as caught:
        remove_server(path, "tiem")
    assert caught.value.problems[0].keyword == ABSENT
    with pytest.raises(ConfigError, match="there is none at all"):
        remove_server(tmp_path / "other.json", "time")


def test_a_server_is_removed_by_the_name_that_its_tools_carry(tmp_path: Path) -> None:
    path = written(tmp_path / "mcp.json", '{"mcpServers": {"My Server": {"command": "x"}}}')
    assert remove_server(path, "My-Server").after == '{"mcpServers": {}}'


def test_a_name_that_would_be_read_as_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the name 'a-' would become 'a' when this file is read"):
        add_server(tmp_path / "mcp.json", "a-", UVX)
    add_server(tmp_path / "toolcrib.toml", "a-", UVX).write()
    assert list(load(tmp_path / "toolcrib.toml").servers) == ["a-"]


def test_a_server_is_replaced_by_the_name_that_its_tools_carry(tmp_path: Path) -> None:
    path = written(tmp_path / "mcp.json", '{"mcpServers": {"My Server": {"command": "x"}}}')
    with pytest.raises(ConfigError, match="there is a server 'My Server' already"):
        add_server(path, "My-Server", UVX)
    add_server(path, "My-Server", UVX, replace=True).write()
    assert list(json.loads(path.read_text())["mcpServers"]) == ["My Server"]
    assert load(path).servers["My-Server"].command == "uvx"


def test_the_servers_of_opencode_are_edited_in_its_shape(tmp_path: Path) -> None:
    server = {"type": "local", "command": ["docs", "-v"]}
    path = written(tmp_path / "mcp.json", json.dumps({"theme": "x", "mcp": {"docs": server}}))
    env = {"A": "${A}"}
    add_server(path, "time", {**UVX, "env": env, "disabled": True}).write()
    assert json.loads(path.read_text())["mcp"]["time"] == {
        "type": "local",
        "command": ["uvx", "mcp-server-time"],
        "environment": env,
        "enabled": False,
    }
    assert load(path).servers["time"].disabled
    with pytest.raises(ConfigError, match="opencode's format, which cannot express 'required'"):
        add_server(path, "more", {**UVX, "required": True})
    remove_server(path, "docs").write()
    remove_server(path, "time").write()
    assert json.loads(path.read_text()) == {"theme": "x", "mcp": {}}


def test_a_server_is_found_in_every_place_that_a_file_has(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}}}'
    path = written(tmp_path / "mcp.json", text)
    assert remove_server(path, "b").after == '{"mcpServers": {"a": {"command": "x"}}, "servers": {}}'
    with pytest.raises(ConfigError, match="there is a server 'b' already"):
        add_server(path, "b", UVX)


def test_nothing_is_written_anywhere_before_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    assert add_server(tmp_path / "mcp.json", "a", UVX).changes
    assert list(tmp_path.iterdir()) == []


def test_many_inline_tables_are_edited_in_no_time(tmp_path: Path) -> None:
    lines = "".join(f'a{number} = {{ command = "a", args = ["a299"] }}\n' for number in range(300))
    path = written(tmp_path / "toolcrib.toml", f"[servers]\n{lines}")
    remove_server(path, "a299").write()
    assert len(load(path).servers) == 299


def test_backups_are_kept_once_a_day_and_before_the_last_change(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    assert add_server(path, "a", UVX).write() is None
    first = path.read_text()
    day = add_server(path, "b", UVX).write()
    second = path.read_text()
    last = add_server(path, "c", UVX).write()
    assert day is not None
    assert last is not None
    assert backups(path) == [day, last]
    assert day.is_relative_to(home)
    assert (day.read_text(), last.read_text()) == (first, second)
    earlier = day.rename(day.with_name("2020-01-31"))
    today = add_server(path, "d", UVX).write()
    assert today == day
    assert backups(path) == [earlier, day, last]
    assert (earlier.read_text(), day.read_text()) == (first, last.read_text())
    assert add_server(path, "a", UVX, replace=True).write() is None
    assert backups(tmp_path / "nowhere" / "x") == []
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["toolcrib.toml"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name != "posix", reason="rights of files are another thing there")
def test_a_file_with_secrets_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    add_server(path, "a", {**UVX, "env": {"KEY": "${KEY}", "TOOLCRIB_HOME": "/srv"}}).write()
    path.chmod(0o640)
    open_edit = add_server(path, "b", UVX)
    assert open_edit.notes == ()
    open_edit.write()
    assert mode(path) == 0o640
    edit = add_server(path, "c", {**UVX, "env": {"KEY": "s3cret"}})
    assert edit.notes == (
        f"{path}: this change makes it readable by its owner only, because it writes secrets into it",
    )
    edit.write()
    assert mode(path) == 0o600
    other = tmp_path / "other.json"
    add_server(other, "c", {"url": "http://127.0.0.1/mcp", "headers": {"X-Key": "s3cret"}}).write()
    assert mode(other) == 0o600
    assert {mode(backup) for backup in backups(path)} == {0o640}
    path.chmod(0o644)
    kept = remove_server(path, "b")
    kept.write()
    assert (kept.notes, mode(path)) == ((), 0o644)


@pytest.mark.skipif(os.name != "posix", reason="rights of files are another thing there")
def test_a_file_without_secrets_is_made_as_others_are(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        add_server(tmp_path / "toolcrib.toml", "a", UVX).write()
    finally:
        os.umask(mask)
    assert mode(tmp_path / "toolcrib.toml") == 0o644


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = written(tmp_path / "dotfiles.json", JSONC)
    link = tmp_path / "mcp.json"
    link.symlink_to(real)
    backup = add_server(link, "time", UVX).write()
    assert link.is_symlink()
    assert "time" in load(real).servers
    assert backup is not None
    assert backup in backups(real)
    assert backup.read_text() == JSONC


def test_a_change_by_somebody_else_is_not_lost(tmp_path: Path) -> None:
    path = written(tmp_path / "mcp.json", JSONC)
    edit = add_server(path, "time", UVX)
    path.write_text('{"mcpServers": {"theirs": {"command": "x"}}}')
    edit.write()
    assert list(load(path).servers) == ["theirs", "time"]
    again = add_server(path, "more", UVX)
    path.write_text('{"mcpServers": {"more": {"command": "another"}}}')
    with pytest.raises(ConfigError, match="it has changed since it was read"):
        again.write()
    assert load(path).servers["more"].command == "another"
    bare = Edit(path, "{}", '{"a": 1}')
    with pytest.raises(ConfigError, match="it has changed since it was read"):
        bare.write()


@pytest.mark.parametrize("name", ["mcp.json", "toolcrib.toml"])
def test_servers_that_are_added_at_once_are_all_there(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    ready = Barrier(8, timeout=PATIENCE)

    def put(number: int) -> None:
        edit = add_server(path, f"s{number}", UVX)
        ready.wait()
        edit.write()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(put, range(8)))
    assert sorted(load(path).servers) == [f"s{number}" for number in range(8)]


def test_a_lock_that_is_never_given_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit = add_server(tmp_path / "mcp.json", "a", UVX)
    hours = count(step=3600)
    with lock_path(tmp_path), monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: next(hours))  # an hour goes by between two looks
        with pytest.raises(ConfigError, match="another process is changing it, and does not finish"):
            edit.write()
    assert not edit.path.exists()
    edit.write()
    assert [*load(edit.path).servers] == ["a"]


def test_unreadable_or_unwritable_file_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "mcp.json"
    folder.mkdir()
    with pytest.raises(ConfigError, match="it cannot be read"):
        add_server(folder, "time", UVX)
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        add_server(tmp_path / "latin.json", "time", UVX)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="it cannot be"):
        Edit(tmp_path / "file" / "mcp.json", None, "{}").write()
    with pytest.raises(ConfigError, match="it cannot be written"):
        Edit(tmp_path / "half.json", None, '"\ud800"').write()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "latin.json", "mcp.json"]


def test_a_diff_shows_what_would_change_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.toml"
    edit = add_server(path, "a", {**UVX, "env": {"TOKEN": "ghp_0123456789abcdefghij0123456789abcdef"}})
    assert edit.diff.startswith(f"--- /dev/null\n+++ {path}\n")
    assert "+[servers.a]" in edit.diff
    assert "ghp_" not in edit.diff


@pytest.mark.parametrize("name", ["mcp.json", "toolcrib.toml"])
def test_a_diff_tells_secrets_apart_and_shows_none(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    args = ["--api-key", "abc", "--pwd=xyz", "--verbose", "shown"]
    old = {
        "command": "uvx",
        "args": args,
        "env": {"A_TOKEN": 'p"w', "B": "${B}", "N": 123456, "M": "line-1\nline-2"},
    }
    add_server(path, "a", old).write()
    edit = add_server(path, "a", {**old, "env": {**old["env"], "A_TOKEN": "qw"}}, replace=True)
    for secret in ('"abc"', "xyz", 'p\\"w', '"qw"', "123456", "line-1", "line-2"):
        assert secret not in edit.diff
    assert "shown" in edit.diff
    removed, added = (
        next(line for line in edit.diff.splitlines() if line.startswith(sign) and "[secret" in line)
        for sign in "-+"
    )
    assert removed[1:] != added[1:]


def test_a_secret_is_known_however_it_is_written() -> None:
    value = "a/b\u00e9c"
    for text in ('"a\\/b\\u00e9c"', '"a/b\\u00e9c"', "'a/b\u00e9c'", '"--key=a\\/b\\u00e9c"', '"\\q"'):
        shown = without_secrets(text, [value, "x"])
        assert shown == text if "q" in text else "[secret] 1" in shown
    deep: Any = {"env": {"A": "s"}}
    for _ in range(200):
        deep = [deep]
    assert list(secrets_in(deep)) == []
    assert (
        list(secrets_in({"env": {"A": "", "B": True, "C": None}, "args": ["--token", "--x", "--key"]})) == []
    )


def test_diff_shows_variables_and_headers_that_are_plainly_settings(tmp_path: Path) -> None:
    plain = {
        "REGION": "eu-central-1", "LOG_LEVEL": "info", "DATA_DIR": "/home/anna/data2", "LANG": "en_US.UTF-8",
        "ENDPOINT": "https://api.example.com/v2", "MODEL": "gpt-4o", "AUTHOR": "Anna", "RETRIES": 3,
    }  # fmt: skip
    secret = {
        "GITHUB_TOKEN": "sesame", "DB_PASS": "abracadabra", "AUTH": "please", "DATABASE_URL": "postgres://me:pw@db/x",
        "HOOK": "https://hooks.example.com/services/T02/B7XYZ9Q4", "ID": "550e8400-e29b-41d4-a716-446655440000",
        "PLAIN": "hunter2", "NUMBER": 123456,
    }  # fmt: skip
    edit = add_server(tmp_path / "toolcrib.toml", "a", {**UVX, "env": {**plain, **secret}})
    assert [name for name, value in plain.items() if str(value) not in edit.diff] == []
    assert [name for name, value in secret.items() if str(value) in edit.diff] == []


def test_a_diff_hides_what_is_called_a_secret_wherever_it_stands(tmp_path: Path) -> None:
    text = """{"toolcrib": {"gateway": {"token": "k\\u00e4se"}}, "projects": {"x": {"mcpServers": {"a":
        {"url": "https://x", "headers": {"X": "hunter2"}, "bearer_token_env_var": "NAME"}}}}}"""
    edit = add_server(written(tmp_path / "mcp.json", text), "a", UVX)
    assert "u00e4se" not in edit.diff
    assert "hunter2" not in edit.diff
    assert "NAME" in edit.diff


def test_a_backup_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "mcp.json", JSONC)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left on device"):
        add_server(path, "time", UVX).write()
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["mcp.json"]
    assert path.read_text() == JSONC


KILLED = """
import os, sys
from pathlib import Path
from toolcrib.setup.editing import add_server
os.fsync = lambda _: os._exit(9)  # as if killed: nothing is cleaned up
add_server(Path(sys.argv[1]), "time", {"command": "x"}).write()
"""


@pytest.mark.proof
def test_leftovers_of_a_killed_edit_are_removed_by_the_next_one(tmp_path: Path) -> None:
    path = written(tmp_path / "mcp.json", JSONC)
    others = written(tmp_path / ".mcp.json.k3_x81qz", "of somebody else")
    for _ in range(2):
        killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
        assert killed.returncode == 9
    assert path.read_text() == JSONC
    assert len(list(tmp_path.iterdir())) > 2
    add_server(path, "time", UVX).write()
    assert {each.name for each in tmp_path.iterdir()} == {"mcp.json", "home", others.name}


def test_a_server_in_json_is_written_as_other_clients_read_it() -> None:
    entry = {"url": "http://127.0.0.1/sse", "transport": "sse", "start_timeout": 3}
    assert own_entry(Path("toolcrib.toml"), entry) == entry
    expected = {"type": "sse", "url": "http://127.0.0.1/sse", "startTimeout": 3}
    assert own_entry(Path(".mcp.json"), entry) == expected


def test_taking_out_what_is_not_there_changes_nothing(tmp_path: Path) -> None:
    for name, text in {"mcp.json": JSONC, "toolcrib.toml": TOML}.items():
        assert not edit_servers(written(tmp_path / name, text), {"zzz": None}).changes


def test_toml_has_no_way_to_write_nothing() -> None:
    made = set_toml("", ("a",), {"env": {}, "odd": [1.5, "\x7f"]})
    assert tomllib.loads(made) == {"a": {"env": {}, "odd": [1.5, "\x7f"]}}
    with pytest.raises(ValueError, match="NoneType"):
        set_toml("", ("a",), {"a": None})
    with pytest.raises(KeyError):
        remove_toml("", ("servers", "a"))
    with pytest.raises(KeyError):
        remove_json("{}", ("a",))
    with pytest.raises(ValueError, match="at least one key"):
        set_json("{}", (), 1)


NAMES = st.text(min_size=1, max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4), NAMES, VALUES, st.sampled_from([None, 1, "\t", 4]))
def test_setting_and_removing_a_member_changes_just_that(
    document: dict[str, Any], key: str, value: Any, indent: Any
) -> None:
    text = json.dumps(document, indent=indent)
    made = set_json(text, (key,), value)
    assert parse_jsonc(made) == {**document, key: value}
    assert list(parse_jsonc(made))[: len(document)] == list(document)
    assert parse_jsonc(remove_json(made, (key,))) == {k: v for k, v in document.items() if k != key}
    if key not in document and document:
        assert remove_json(made, (key,)) == text


PLAIN = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
TABLES = st.dictionaries(
    PLAIN, st.integers(-9, 9) | st.booleans() | PLAIN | st.lists(PLAIN, max_size=2), max_size=3
)


@given(st.dictionaries(PLAIN, TABLES, max_size=4), PLAIN, TABLES)
def test_setting_and_removing_a_table_changes_just_that(
    tables: dict[str, Any], name: str, table: dict[str, Any]
) -> None:
    text = ""
    for each, value in tables.items():
        text = set_toml(text, ("servers", each), value)
    assert tomllib.loads(text).get("servers", {}) == tables
    made = set_toml(text, ("servers", name), table)
    assert tomllib.loads(made)["servers"] == {**tables, name: table}
    left = tomllib.loads(remove_toml(made, ("servers", name))).get("servers", {})
    assert left == {each: value for each, value in tables.items() if each != name}

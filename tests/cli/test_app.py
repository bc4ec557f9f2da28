"""The command as a whole: its verbs, its help, and how it fails."""

import json
import logging
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from toolcrib.cli.app import ALIASES, LAZY, SECTIONS, app


def test_help_names_every_verb(toolcrib: Any) -> None:
    told = toolcrib("--help")
    assert told.exit_code == 0
    assert {name for section in SECTIONS.values() for name in section} == set(LAZY)
    assert all(name in told.stdout for name in LAZY)
    assert toolcrib("-h").stdout == told.stdout


@pytest.mark.requirement("command.verbs")
def test_the_promised_verbs_are_there() -> None:
    promised = "serve search describe run chain code exec list convert lint add remove doctor status eval"
    assert set(promised.split()) - {*LAZY, *ALIASES} == set()


def test_help_loads_no_verb_and_nothing_heavy() -> None:
    code = (
        "import sys\nfrom toolcrib.cli.app import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert loaded.isdisjoint({"anyio", "mcp", "numpy", "pydantic", "rich", "toolcrib.crib", "uvicorn"})
    assert not any(place.partition(":")[0] in loaded for place in LAZY.values())


@pytest.mark.parametrize("name", sorted(LAZY))
def test_every_verb_says_of_itself_what_the_list_says(toolcrib: Any, name: str) -> None:
    module, _, attribute = LAZY[name].partition(":")
    command = getattr(import_module(module), attribute)
    said = next(section[name] for section in SECTIONS.values() if name in section)
    assert [command.name, command.help.splitlines()[0]] == [name, said]
    told = toolcrib(name, "--help")
    assert told.exit_code == 0
    assert "--config FILE" in told.stdout
    assert "--json" in told.stdout
    assert "Example" in told.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["serch", "x"], "there is no verb 'serch'; did you mean 'search'?"),
        (["ls"], "there is no verb 'ls'; did you mean 'list'?"),
        (["init"], "there is no verb 'init'; did you mean 'add'?"),
        (["auth", "github"], "there is no verb 'auth'; did you mean '"),
        (["search"], "Missing argument 'QUERY...'"),
        (["search", "x", "--limt", "3"], "No such option"),
        (["--nosuch"], "No such option"),
        (["list", "--limit", "many"], "'many' is not a valid integer range"),
    ],
    ids=["verb", "ls", "init", "auth", "argument", "option", "early", "type"],
)
def test_a_wrong_command_line_exits_with_2(toolcrib: Any, args: list[str], message: str) -> None:
    told = toolcrib(*args)
    assert told.exit_code == 2
    assert told.stdout == ""
    assert message in told.stderr
    assert "Usage: toolcrib" in told.stderr
    as_json = toolcrib("--json", *args)
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout)["error"]["code"] == "usage"
    assert as_json.stderr == ""


def test_an_option_without_its_value_exits_with_2(toolcrib: Any) -> None:
    told = toolcrib("--config")
    assert told.exit_code == 2
    assert told.stderr == "error: Option '--config' requires an argument.\n"


def test_examples_are_shown_a_line_to_a_line(toolcrib: Any) -> None:
    told = toolcrib("add", "--help").stdout
    assert (
        "\n  Examples:\n    toolcrib add time -- uvx mcp-server-time\n    toolcrib add notes --sandbox"
        in told
    )
    assert not {"\b", "\\b"} & {told[at : at + size] for size in (1, 2) for at in range(len(told))}


def test_a_broken_configuration_exits_with_2(toolcrib: Any, tmp_path: Any) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text("timeuot = 3\n")
    told = toolcrib("list", "--config", str(path))
    assert told.exit_code == 2
    assert "/timeuot: is not a setting; did you mean 'timeout'?" in told.stderr


def test_a_configuration_that_is_not_there_is_told_before_anything_is_loaded() -> None:
    code = (
        "import sys\nfrom toolcrib.cli.app import app\n"
        "try:\n    app(['--config', 'nosuch.toml', 'list'])\nexcept SystemExit as end:\n    assert end.code == 2\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "error: there is no configuration 'nosuch.toml'\n" in done.stderr
    assert set(done.stdout.split()).isdisjoint({"mcp", "numpy", "pydantic", "toolcrib.crib"})


@pytest.mark.proof
def test_a_model_that_is_not_there_is_told_though_another_one_answers(tmp_path: Any) -> None:
    (tmp_path / "toolcrib.toml").write_text('[search]\nmodel = "minlm"\n')
    code = "from toolcrib.cli import main; main()"
    command = [sys.executable, "-c", code, "--config", str(tmp_path / "toolcrib.toml"), "search", "weather"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "tools are found with the built-in model: " in done.stderr
    assert "did you mean 'minilm'?" in done.stderr


def test_the_configuration_of_this_folder_is_found(toolcrib: Any, tmp_path: Any, little: Any) -> None:
    servers = {"mcpServers": {"here": little()}}
    (tmp_path / "here" / ".mcp.json").write_text(json.dumps(servers))
    assert "here:shout" in toolcrib("list").stdout


def test_debug_shows_where_an_error_comes_from(toolcrib: Any) -> None:
    level = logging.getLogger().level
    try:
        assert "Traceback" in toolcrib("describe", "math:nosuch", "--demo", "--debug").stderr
    finally:
        logging.getLogger().setLevel(level)
    assert "Traceback" not in toolcrib("describe", "math:nosuch", "--demo").stderr


def test_the_version_is_told(toolcrib: Any) -> None:
    assert toolcrib("--version").stdout.startswith("toolcrib ")
    assert toolcrib("version").stdout.startswith("toolcrib ")
    assert json.loads(toolcrib("version", "--json").stdout).keys() == {"version", "python", "platform"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_taught_to_complete(toolcrib: Any, shell: str) -> None:
    script = toolcrib("completion", shell)
    assert script.exit_code == 0
    assert "_TOOLCRIB_COMPLETE" in script.stdout
    assert json.loads(toolcrib("completion", shell, "--json").stdout)["shell"] == shell


def test_a_shell_that_nobody_knows_exits_with_2(toolcrib: Any) -> None:
    assert toolcrib("completion", "csh").exit_code == 2


@pytest.mark.parametrize(
    ("words", "place", "offered"),
    [
        ("toolcrib sea", "1", "plain,search\n"),
        ("toolcrib nosuch x", "2", ""),
        ("toolcrib serve --trans", "2", "--transport"),
    ],
    ids=["verb", "no-verb", "option"],
)
def test_verbs_and_options_are_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, words: str, place: str, offered: str
) -> None:
    monkeypatch.setenv("_TOOLCRIB_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", place)
    with pytest.raises(SystemExit):
        app([], prog_name="toolcrib")
    assert offered in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ('[[policy]]\nname = "nothing"\neffect = "deny"\n', "with its rules"),
        (f'[gateway.tokens.ann]\nhash = "sha256:{"0" * 64}"\n', "with its tokens"),
        ('[gateway]\ntoken = "t"\n[[policy]]\nname = "all"\neffect = "allow"\n', "with its rules and tokens"),
        ('[gateway.auth]\nissuer = "https://a.test"\naudience = "https://b.test"\n', "with its logins"),
        ("[policy", "which cannot be read"),
    ],
    ids=["rules", "tokens", "both", "logins", "broken"],
)
def test_the_demo_names_a_configuration_whose_protection_it_leaves_out(
    toolcrib: Any, text: str, left_out: str
) -> None:
    Path("toolcrib.toml").write_text(text, encoding="utf-8")
    shown = toolcrib("list", "--demo")
    assert shown.exit_code == 0
    assert f"--demo leaves out {Path('toolcrib.toml').absolute()}, {left_out};" in shown.stderr
    assert "leaves out" not in toolcrib("list", "--demo", "--config", "toolcrib.toml").stderr


def test_the_demo_has_nothing_to_say_about_a_configuration_without_rules(toolcrib: Any) -> None:
    Path("toolcrib.toml").write_text('[servers.a]\nurl = "http://127.0.0.1:1/mcp"\n', encoding="utf-8")
    assert toolcrib("list", "--demo").stderr == ""


@pytest.mark.parametrize("group", ["audit", "policy", "sandbox", "saved", "token"])
def test_a_group_without_a_command_shows_its_help_once(toolcrib: Any, group: str) -> None:
    told, helped = toolcrib(group), toolcrib(group, "--help")
    assert (told.exit_code, told.stdout, told.stderr) == (2, "", helped.stdout)
    names = [line.split()[0] for line in helped.stdout.partition("Commands:\n")[2].splitlines()]
    error = json.loads(toolcrib(group, "--json").stdout)["error"]
    assert error["message"] == f"choose a command: {', '.join(names)}"
    mistyped = toolcrib(group, f"{names[0]}s")
    assert (mistyped.exit_code, f"there is no command '{names[0]}s'; did you mean" in mistyped.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("args", "missing", "choices"),
    [
        (["convert"], "Missing option '--to'. Choose from ", ["a2a", "anthropic", "gemini", "mcp", "openai"]),
        (["export"], "Missing option '--to'. Choose from ", ["claude", "cursor", "vscode"]),
        (["install"], "Missing argument 'CLIENT'. Choose from ", ["claude", "cursor", "vscode"]),
        (["completion"], "Missing argument '{bash|zsh|fish}'. Choose from", ["bash", "zsh", "fish"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_choice_that_is_missing_lists_what_there_is(
    toolcrib: Any, args: list[str], missing: str, choices: list[str]
) -> None:
    told = toolcrib(*args)
    assert told.exit_code == 2
    assert missing in told.stderr
    assert all(each in told.stderr.partition(missing)[2] for each in choices)

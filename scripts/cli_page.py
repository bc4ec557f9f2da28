"""Writes docs/command-line.md from the command itself; `--check` only compares."""

import inspect
import re
import sys
from pathlib import Path

import click

from toolcrib.cli.app import SECTIONS, app
from toolcrib.cli.exits import EXITS

PAGE = Path(__file__).parent.parent / "docs" / "command-line.md"
WIDTH = 75
"""Columns of a code block that every screen shows without scrolling."""
SHARED = ("config", "json", "demo", "debug", "toolset", "no_daemon", "help")
"""Options described once for all commands."""
BEGINNING = """\
# Command line

`pip install 'toolcrib[cli]'` installs the `toolcrib` command. This page is generated from the command itself;
`toolcrib VERB --help` shows the same text.

{verbs}## Global options

{options}

They can be given before or after the verb. `--toolset` and `--no-daemon` are for verbs that work with tools.
`--config` defaults to `toolcrib.toml`, `mcp.json` or `.mcp.json` in the current folder, or else to the user's
`toolcrib.toml` or `mcp.json`. State, such as the catalogue, is kept in `$TOOLCRIB_HOME`, or else in the
user's data folder; if that variable is set, the user's configuration is there too.

`run`, `describe`, `chain`, `code` and similar verbs start only the servers whose tools they name; for
example, the id `github:create_issue` names the server `github`. `search` and `list` start only servers whose
tools are not stored yet.

If a gateway runs with the same configuration ([`up`](#up), or `serve --transport http`), it runs `search`,
`list`, `describe`, `run`, `chain`, `code`, `resume`, `saved`, `resources`, `read`, `prompts`, `prompt`,
`convert`, `stubs` and `status` for the command, which then starts no server and loads next to nothing. Calls
are validated, checked against the policy, timed out and audited in the same way. The command finds the
gateway through a socket in `$TOOLCRIB_HOME/run`, or else in `$XDG_RUNTIME_DIR/toolcrib`, which only the same
user can open. The gateway must have the same version and the same configuration as the command: the same
path, the same text, and the same values of the environment variables that the text names. Otherwise, and with
`--no-daemon` or `--debug`, the command starts servers itself. `Crib` and `SyncCrib` always do.

On a terminal, the output has colours, and tables are as wide as the terminal; `NO_COLOR` is respected. In a
pipe, it is plain aligned text, one row per line. Notes, progress and errors go to standard error. With
`--json`, standard output holds exactly one JSON document, even if something failed:

```json
{{
  "error": {{
    "code": "tool_not_found",
    "message": "no tool named 'a'",
    "retryable": false,
    "tool_id": "a"
  }}
}}
```

## Exit codes

{exits}

A file with arguments, steps or code that cannot be read counts as wrong input, and so does a `--config` file
that does not exist. A tool may be named by its id, or by its name alone if only one tool has that name.

`search`, `list`, `convert`, `stubs` and `lint` work even if servers are missing: those that are starting,
have failed, or did not answer last time are reported on standard error, and in JSON as
`"absent": [{{"name": "github", "state": "failed", "reason": "...", "kept": false}}]`, where `kept` is true if
their tools are listed as they were last seen. A chain exits with the code of the step that failed. `--debug`
shows log messages and the tracebacks of errors.
"""


def page() -> str:
    """Return the page in Markdown."""
    verbs = "".join(
        f"**{title}**: {', '.join(f'[`{name}`](#{name})' for name in section)}\n\n"
        for title, section in SECTIONS.items()
    )
    shared = {option.name: option for option in app.params if isinstance(option, click.Option)}
    options = table([shared[name] for name in SHARED if name in shared])
    exits = "\n".join(
        ["| code | meaning |", "|---|---|", *(f"| {code} | {said} |" for code, said in EXITS.items())]
    )
    parts = [BEGINNING.format(verbs=verbs, options=options, exits=exits)]
    parts += [verb(name) for section in SECTIONS.values() for name in section]
    return "\n".join(parts)


def verb(name: str) -> str:
    """Return the part of the page about one verb."""
    context = click.Context(app, info_name="toolcrib")
    command = app.get_command(context, name)
    assert command is not None
    if isinstance(command, click.Group):
        text, _ = split_help(command)
        parts = [
            command_section(f"{name} {each}", inner, "###")
            for each, inner in sorted(command.commands.items())
        ]
        return "\n".join([f"## {name}", "", text, "", *parts])
    return command_section(name, command)


def command_section(name: str, command: click.Command, heading: str = "##") -> str:
    """Return the part of the page about one command."""
    text, examples = split_help(command)
    usage = " ".join(["toolcrib", name, *command.collect_usage_pieces(click.Context(command))])
    lines = [f"{heading} {name}", "", text, "", "```text", usage, "```", ""]
    own = [
        option for option in command.params if isinstance(option, click.Option) and option.name not in SHARED
    ]
    if own:
        lines += [table(own), ""]
    if examples:
        lines += ["For example:", "", "```sh", *map(break_line, examples), "```", ""]
    return "\n".join(lines)


def break_line(example: str) -> str:
    """Break a long command where an option begins, so that it fits the width of a code block."""
    lines = [""]
    for part in re.split(r" (?=--? |--\w|> )", example):
        if lines[-1] and len(lines[-1]) + len(part) + 3 > WIDTH:
            lines[-1] += " \\"
            lines.append(f"  {part}")
        else:
            lines[-1] += f" {part}" if lines[-1] else part
    return "\n".join(lines)


def split_help(command: click.Command) -> tuple[str, list[str]]:
    """Return the description of a verb, and its examples."""
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    body, _, examples = text.partition("Example")
    shown = [line.strip() for line in examples.partition(":")[2].splitlines() if line.strip()]
    paragraphs = [" ".join(each.split()) for each in body.strip().split("\n\n")]
    paragraphs += [command.epilog] if command.epilog else []
    return "\n\n".join(escape_markdown(each) for each in paragraphs), shown


def table(options: list[click.Option]) -> str:
    """Return a table of options with their descriptions."""
    lines = ["| option | |", "|---|---|"]
    for option in options:
        names = ", ".join(f"`{name}{metavar(option)}`" for name in (*option.opts, *option.secondary_opts))
        default = f" Default: `{option.default}`." if option.show_default and option.default else ""
        said = escape_markdown(" ".join((option.help or "").split()))
        lines.append(f"| {names} | {said}{default} |")
    return "\n".join(lines)


def metavar(option: click.Option) -> str:
    """Return the placeholder for the value of an option."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        said = "\\|".join(map(str, option.type.choices))
    else:
        said = (option.metavar or option.type.name.upper().removesuffix(" RANGE")).replace("|", "\\|")
    return f" {said}"


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows as it is, outside of code."""
    parts = text.split("`")
    parts[::2] = [
        part.replace("<", "&lt;").replace("*", "\\*").replace("__", "\\_\\_") for part in parts[::2]
    ]
    return "`".join(parts)


def main() -> int:
    """Write the page, or report that it is out of date."""
    fresh = page()
    if "--check" in sys.argv:
        return 0 if PAGE.exists() and fresh == PAGE.read_text() else 1
    PAGE.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())

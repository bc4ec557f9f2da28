"""The command itself: its verbs by name, each loaded when it is used."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

import toolcrib
from toolcrib.cli.exits import exit_code, ignore_broken_pipe, report
from toolcrib.cli.state import State, shared

SECTIONS: dict[str, dict[str, str]] = {
    "Find tools": {
        "search": "Find the tools that match a query.",
        "list": "List the tools.",
        "describe": "Show the documentation of a tool.",
        "learned": "List and delete the questions that were learned from use.",
        "enrich": "Have a model write example questions for tools.",
    },
    "Run tools": {
        "run": "Run a tool.",
        "chain": "Run the steps in a file one after another.",
        "code": "Run code that calls tools, in a sandbox.",
        "runs": "List the durable runs, latest first.",
        "resume": "Resume a durable run.",
        "cancel": "Cancel a durable run in the running gateway.",
        "worker": "Execute durable runs as a worker of a Temporal server.",
        "saved": "List and delete the tools saved from runs.",
    },
    "Read and prompt": {
        "resources": "List the resources that servers offer, such as files and pages.",
        "read": "Read a resource.",
        "prompts": "List the prompts that servers offer.",
        "prompt": "Fill in a prompt and print its messages.",
    },
    "Serve and convert": {
        "serve": "Serve all tools to MCP clients at one endpoint.",
        "console": "Open the console in the browser.",
        "up": "Keep a gateway running in the background to speed up commands.",
        "down": "Stop the gateway that runs in the background.",
        "server": "Start and stop servers of the running gateway.",
        "approvals": "List, approve and deny calls waiting for approval.",
        "convert": "Write tools in the format of a model provider.",
        "stubs": "Write tools as Python signatures.",
    },
    "Set up": {
        "add": "Add a server or an HTTP API to the configuration.",
        "remove": "Remove a server or an HTTP API from the configuration.",
        "import": "Import the servers of an MCP client.",
        "export": "Write the servers in the format of an MCP client.",
        "install": "Add toolcrib to an MCP client.",
        "login": "Log in to a server that requires OAuth.",
        "logout": "Delete the login of a server.",
        "shape": "Change how a toolset shows a tool to its callers.",
        "token": "Manage the named tokens of a gateway's clients.",
        "sandbox": "Build the image or the module that a sandbox needs.",
        "completion": "Print the completion script for a shell.",
    },
    "Check": {
        "status": "Show the tokens saved, what needs attention, and the servers.",
        "inventory": "List the MCP servers that the clients on this machine use.",
        "doctor": "Find what is broken, and say how to fix it.",
        "audit": "Verify and show the audit log of calls.",
        "policy": "Check, explain and simulate the rules about who may run what.",
        "scan": "Look for tools that are designed to mislead a model.",
        "lint": "Check the tools for portability and good descriptions.",
        "lock": "Write the lock file, which approves the tools as they are now.",
        "verify": "Check that the tools still match what was approved.",
        "diff": "Show what has changed since the tools were approved.",
        "approve": "Approve tools as they are now.",
        "block": "Block a tool for everybody, whatever its definition says.",
        "require": "Check that tools exist, are approved, and have the right version.",
        "eval": "Measure search with questions whose answers are known.",
        "version": "Show the version.",
    },
}
"""What `--help` says of each verb without loading it."""
LAZY = {
    "add": "toolcrib.cli.commands.servers:add",
    "approvals": "toolcrib.cli.commands.live:approvals",
    "approve": "toolcrib.cli.commands.trust:approve",
    "audit": "toolcrib.cli.commands.audit:audit",
    "block": "toolcrib.cli.commands.trust:block",
    "cancel": "toolcrib.cli.commands.live:cancel",
    "chain": "toolcrib.cli.commands.chaining:chain",
    "code": "toolcrib.cli.commands.code:code",
    "completion": "toolcrib.cli.commands.about:completion",
    "console": "toolcrib.cli.commands.serving:console",
    "convert": "toolcrib.cli.commands.writing:convert",
    "describe": "toolcrib.cli.commands.describing:describe",
    "diff": "toolcrib.cli.commands.trust:diff",
    "doctor": "toolcrib.cli.commands.doctor:doctor",
    "down": "toolcrib.cli.commands.resident:down",
    "enrich": "toolcrib.cli.commands.enriching:enrich",
    "eval": "toolcrib.cli.commands.measuring:eval_",
    "export": "toolcrib.cli.commands.clients:export",
    "import": "toolcrib.cli.commands.clients:import_",
    "install": "toolcrib.cli.commands.clients:install",
    "inventory": "toolcrib.cli.commands.inventory:inventory",
    "learned": "toolcrib.cli.commands.learning:learned",
    "lint": "toolcrib.cli.commands.lint:lint",
    "list": "toolcrib.cli.commands.finding:list_",
    "lock": "toolcrib.cli.commands.trust:lock",
    "login": "toolcrib.cli.commands.servers:login",
    "logout": "toolcrib.cli.commands.servers:logout",
    "policy": "toolcrib.cli.commands.policy:policy",
    "prompt": "toolcrib.cli.commands.content:prompt",
    "prompts": "toolcrib.cli.commands.content:prompts",
    "read": "toolcrib.cli.commands.content:read",
    "remove": "toolcrib.cli.commands.servers:remove",
    "require": "toolcrib.cli.commands.trust:require",
    "resources": "toolcrib.cli.commands.content:resources",
    "resume": "toolcrib.cli.commands.code:resume",
    "run": "toolcrib.cli.commands.running:run",
    "runs": "toolcrib.cli.commands.code:runs",
    "sandbox": "toolcrib.cli.commands.code:sandbox",
    "saved": "toolcrib.cli.commands.code:saved",
    "scan": "toolcrib.cli.commands.scan:scan",
    "search": "toolcrib.cli.commands.finding:search",
    "serve": "toolcrib.cli.commands.serving:serve",
    "server": "toolcrib.cli.commands.live:server",
    "shape": "toolcrib.cli.commands.shaping:shape",
    "status": "toolcrib.cli.commands.status:status",
    "stubs": "toolcrib.cli.commands.writing:stubs",
    "token": "toolcrib.cli.commands.tokens:token",
    "up": "toolcrib.cli.commands.resident:up",
    "verify": "toolcrib.cli.commands.trust:verify",
    "version": "toolcrib.cli.commands.about:version",
    "worker": "toolcrib.cli.commands.worker:worker",
}
"""The module and the function of each command."""
ALIASES = {"exec": "code"}
"""Other names of verbs, which `--help` does not list."""
_OTHER_WORDS = {
    "auth": ("login",),
    "call": ("run",),
    "find": ("search",),
    "init": ("add",),
    "ls": ("list",),
    "rm": ("remove",),
    "start": ("serve",),
}
"""Names of commands in other tools, too different from ours for the spelling suggestions."""


class Verbs(click.Group):
    """The verbs of the command; an error of any of them becomes a few words and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the verbs, as `--help` orders them."""
        return [name for section in SECTIONS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Return a verb, loading its module; None where there is none of that name."""
        place = LAZY.get(ALIASES.get(cmd_name, cmd_name))
        if place is None:
            return None
        module, _, name = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that arguments begin with, or say which may have been meant."""
        if args and args[0] not in {**LAZY, **ALIASES} and not args[0].startswith("-"):
            from toolcrib.model.suggest import did_you_mean  # noqa: PLC0415 - only for who mistypes

            meant = next((verb for verb in _OTHER_WORDS.get(args[0], ()) if verb in LAZY), None)
            hint = f"; did you mean {meant!r}?" if meant else did_you_mean(args[0], LAZY)
            ctx.fail(f"there is no verb {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Write the commands by their sections."""
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([*verbs.items()], col_max=12)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb."""
        with ignore_broken_pipe():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, *_: Any, **settings: Any) -> NoReturn:
        """Run the command, and end with an exit code."""
        sys.exit(self.run(list(sys.argv[1:] if args is None else args), **settings))

    def run(self, args: list[str], **settings: Any) -> int:
        """Run the command, and return its exit code."""
        state = State()
        try:
            fixed = {"standalone_mode": False, "complete_var": "_TOOLCRIB_COMPLETE"}
            ended = super().main(args, obj=state, **{**settings, **fixed})
        except Exception as error:  # noqa: BLE001 - the boundary to people, who get everything in a few words
            options = args[: args.index("--")] if "--" in args else args
            with ignore_broken_pipe():
                report(error, as_json=state.json or "--json" in options, debug=state.debug)
            return exit_code(error)
        return ended if isinstance(ended, int) else 0


@click.group(
    cls=Verbs,
    name="toolcrib",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 the tool failed, 2 bad input, 3 not found, 4 server unavailable, 5 refused.",
)
@shared
@click.version_option(toolcrib.__version__, message="toolcrib %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Keep, find and run the tools of AI agents: MCP servers, HTTP APIs and Python functions alike.

    Without a command it says what is set up here, and what to do next.
    """
    if ctx.invoked_subcommand is None:
        from toolcrib.cli.commands.welcome import show_welcome  # noqa: PLC0415 - the other verbs do not need it

        show_welcome(ctx.obj)

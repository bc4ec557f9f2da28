"""Global options, and the Crib they select."""

import logging
import re
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toolcrib.cli.completing import toolset_names
from toolcrib.cli.exits import UnavailableError
from toolcrib.cli.interrupt import leave_in_order
from toolcrib.cli.resident.terminal import REMOTE
from toolcrib.cli.screen import note

if TYPE_CHECKING:
    from toolcrib.crib import Crib, View
    from toolcrib.execution import CallContext, Principal
    from toolcrib.gateway import Gateway

T = TypeVar("T")
_Command = TypeVar("_Command", bound=Callable[..., Any])
PATIENCE = 60.0
"""Seconds that commands wait for servers to list their tools."""
_NOTHING = (
    "no configuration: there is no toolcrib.toml, mcp.json or .mcp.json here, and the user has none; "
    "`toolcrib add` makes one, --config names one, and --demo needs none"
)


@dataclass
class State:
    """The global options of a command line."""

    config: str | None = None
    json: bool = False
    toolset: str | None = None
    demo: bool = False
    debug: bool = False
    no_daemon: bool = False
    yes: bool = False

    def call_context(self) -> "CallContext":
        """Return the context of this command's calls: made by the local user, who consents with `--yes`."""
        from toolcrib.errors import PolicyDeniedError  # noqa: PLC0415 - only verbs that run tools need it
        from toolcrib.execution import CallContext  # noqa: PLC0415 - the same
        from toolcrib.execution.call import Approval, Decision, Request  # noqa: PLC0415 - the same

        async def ask(request: Request, decision: Decision) -> None:
            rule = decision.rule
            if self.yes or rule is None:
                return
            reason = "; ".join(filter(None, [rule.reason, "run it again with --yes if you agree"]))
            raise PolicyDeniedError(tool_id=request.tool_id, reason=reason, rule=rule.name)

        return CallContext(principal=local_principal(), approval=Approval(ask=ask, may_suspend=False))

    def config_file(self) -> str | None:
        """Return the path of the named configuration, else of the one found; None without any."""
        if self.config is not None or self.demo:
            return self.config
        from toolcrib.paths import find_config  # noqa: PLC0415 - only verbs that need a crib load it

        found = find_config()
        return None if found is None else str(found)

    def source(self) -> str | None:
        """Return the path of the configuration to read; without any, print a note and return None.

        Raises:
            UsageError: the named file does not exist.
        """
        if self.config is not None and not Path(self.config).expanduser().exists():
            raise click.UsageError(f"there is no configuration {self.config!r}")
        config = self.config_file()
        if config is None and not self.demo:
            note(_NOTHING)
        found = State().config_file() if config is None and self.demo else None
        if found is not None and (protection := _describe_protection(found)):
            note(f"--demo leaves out {found}, {protection}; --config {found} includes it")
        return config

    @asynccontextmanager
    async def crib(self) -> "AsyncIterator[Crib]":
        """Open the crib of the configuration, or use that of the gateway that runs the command."""
        terminal = REMOTE.get()
        if terminal is not None:
            yield terminal.gateway(self.config, demo=self.demo).crib
            return
        config = self.source()
        from toolcrib.crib import Crib  # noqa: PLC0415 - heavy, and not needed to ask for help

        crib = Crib(config, on_demand=True)
        async with self.enter(crib, crib):
            yield crib

    def running_gateway(self) -> "Gateway":
        """Return the gateway that runs the command.

        Raises:
            UnavailableError: none does.
        """
        terminal = REMOTE.get()
        if terminal is None:
            raise UnavailableError(
                "no gateway runs this configuration; `toolcrib up` or `toolcrib serve --transport http` "
                "starts one"
            )
        return terminal.gateway(self.config, demo=self.demo)

    @asynccontextmanager
    async def enter(self, crib: "Crib", door: AbstractAsyncContextManager[object]) -> AsyncIterator[None]:
        """Enter `door`, which opens a crib; with `--demo`, add the built-in catalogue."""
        if not self.demo:
            async with door:
                yield
            return
        from toolcrib.setup.demo import open_with_demo  # noqa: PLC0415 - only where it is asked for

        async with open_with_demo(crib, door):
            yield

    @asynccontextmanager
    async def view(self) -> "AsyncIterator[View]":
        """Open the view of `--toolset`, or of the whole crib."""
        async with self.crib() as crib:
            yield crib if self.toolset is None else crib.view(self.toolset)

    @asynccontextmanager
    async def visible_view(self) -> "AsyncIterator[View]":
        """Open the same view, limited to what the rules and the logins let the local user find."""
        async with self.view() as view:
            yield self.limit_to_user(view)

    @staticmethod
    def limit_to_user(view: "View") -> "View":
        """Return a view limited to what the rules and the logins let the local user find."""
        is_personal = any(config.is_personal for config in view.settings.servers.values())
        return view.seen_by(local_principal()) if view.settings.policy or is_personal else view


def _describe_protection(config: str) -> str:
    """Describe the rules, tokens and logins of a configuration; empty if it has none."""
    from toolcrib.crib import load  # noqa: PLC0415 - heavy, and not needed to ask for help
    from toolcrib.errors import ToolcribError  # noqa: PLC0415

    try:
        settings = load(config)
    except ToolcribError:
        return "which cannot be read"
    gateway = settings.gateway
    kinds = {"rules": settings.policy, "tokens": gateway.token or gateway.tokens, "logins": gateway.auth}
    named = [name for name, value in kinds.items() if value]
    return f"with its {' and '.join(named)}" if named else ""


def wait_for(work: Callable[[], Awaitable[T]]) -> T:
    """Run an asynchronous function; an interrupt cancels it."""
    terminal = REMOTE.get()
    if terminal is not None:
        return terminal.run(work)
    import anyio  # noqa: PLC0415 - not needed to ask for help

    with leave_in_order():
        return anyio.run(work)


def _store_option(context: click.Context, option: click.Parameter, value: Any) -> None:
    state = context.ensure_object(State)
    if value:
        setattr(state, option.name or "", value)


def _store_debug(context: click.Context, option: click.Parameter, value: Any) -> None:
    _store_option(context, option, value)
    if value:
        logging.getLogger().setLevel(logging.DEBUG)


def _shared_option(*names: str, **settings: Any) -> Callable[[_Command], _Command]:
    return click.option(*names, expose_value=False, **{"callback": _store_option, **settings})


_CONFIG = _shared_option(
    "--config", metavar="FILE", help="The configuration file, instead of the one found automatically."
)
_JSON = _shared_option(
    "--json", is_flag=True, help="Write one JSON document to standard output, even on failure."
)
_TOOLSET = _shared_option(
    "--toolset", metavar="NAME", shell_complete=toolset_names, help="Use only the tools in this toolset."
)
_DEMO = _shared_option(
    "--demo",
    is_flag=True,
    help="Use a small built-in catalogue, and no configuration unless --config names one.",
)
_DEBUG = _shared_option(
    "--debug", is_flag=True, callback=_store_debug, help="Show log messages, and the tracebacks of errors."
)
_NO_DAEMON = _shared_option("--no-daemon", is_flag=True, help="Start servers even if a gateway is running.")

YES = _shared_option("--yes", is_flag=True, help="Approve calls that a rule asks about.")
"""Option of verbs that run tools."""


def common(command: _Command) -> _Command:
    """Add the options that every verb takes, also before its name; their values are in `State`.

    Examples in the docstring of a verb keep their line breaks in the help.
    """
    command.__doc__ = re.sub(r"^( *)(Examples?:)", "\\1\b\n\\1\\2", command.__doc__ or "", flags=re.MULTILINE)
    return _CONFIG(_JSON(_DEMO(_DEBUG(command))))


def shared(command: _Command) -> _Command:
    """Add the options of `common`, and those of verbs that use tools."""
    return _TOOLSET(_NO_DAEMON(common(command)))


def local_principal() -> "Principal":
    """Return the principal of the user who runs this command."""
    from toolcrib.execution.principal import local_user  # noqa: PLC0415 - as above

    return local_user("cli")


def this_command(*, absolute: bool = False) -> str:
    """Return the shell command of this program, valid in the current folder, or with `absolute` in any.

    That is its name if it is on the PATH, else its path, as in a virtual environment that is not activated.
    """
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m toolcrib.cli"
    found = shutil.which("toolcrib")
    if started.stem != "toolcrib" or (found is not None and Path(found).samefile(started)):
        return "toolcrib"
    path, here = started.absolute(), Path.cwd()
    near = path.is_relative_to(here) and not absolute
    return shlex.quote(str(path.relative_to(here) if near else path))

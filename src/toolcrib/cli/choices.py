"""Groups of verbs, and parameters with few values; their errors list the possible ones."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class VerbGroup(click.Group):
    """Verbs of one subject, such as `policy check` and `policy explain`; alone it shows its help."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Accept the parameters of click's group."""
        fixed = {"invoke_without_command": True, "no_args_is_help": True}
        super().__init__(*args, **{**settings, **fixed, "subcommand_metavar": "COMMAND [ARGS]..."})

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb of the group; options alone name none."""
        result = super().invoke(ctx)
        if ctx.invoked_subcommand is None:
            ctx.fail(f"choose a command: {', '.join(self.list_commands(ctx))}")
        return result

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that arguments begin with, or say which there are."""
        if args[0] not in self.commands and not args[0].startswith("-"):
            from toolcrib.model.suggest import choose  # noqa: PLC0415 - only for who mistypes

            ctx.fail(f"there is no command {args[0]!r}{choose(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


class OneOf(click.types.StringParamType):
    """One of a few names, which are loaded when it is missing or completed; the verb refuses others."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        """Return the possible values."""
        return f"Choose from {', '.join(self._names())}."

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002 - the same
        incomplete: str,
    ) -> "list[CompletionItem]":
        """Return the names that complete the input."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - for this alone

        return [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]

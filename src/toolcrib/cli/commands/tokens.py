"""The verbs about named tokens of a gateway: `token add`, `token list` and `token revoke`."""

import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolcrib.cli.choices import VerbGroup
from toolcrib.cli.commands.servers import carry_out, own_file
from toolcrib.cli.exits import NotFoundError
from toolcrib.cli.screen import note, show_json, show_table, show_text
from toolcrib.cli.state import State, common

if TYPE_CHECKING:
    from toolcrib.crib.config.gateway import GatewaySettings, TokenSettings

_PLACE = ("gateway", "tokens")


@click.group(cls=VerbGroup)
@common
def token() -> None:
    """Manage the named tokens of a gateway's clients.

    A token is shown only once, when it is created. The configuration keeps its digest, the groups of its
    owner, which rules can name, and its expiry. A running gateway applies changes without a restart.

    Example: toolcrib token add ann --group staff --days 90
    """


@token.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="A group of its owner; may be repeated."
)
@click.option(
    "--for",
    "toolsets",
    multiple=True,
    metavar="NAME",
    help="A toolset that it is valid for, instead of all; may be repeated.",
)
@click.option(
    "--days", type=click.IntRange(1, 3650), metavar="N", help="Days until it expires; by default never."
)
@click.option("--force", is_flag=True, help="Replace the token of that name.")
@common
@click.pass_obj
def add(
    state: State,
    name: str,
    groups: tuple[str, ...],
    toolsets: tuple[str, ...],
    days: int | None,
    force: bool,  # noqa: FBT001 - as above
) -> None:
    """Create a token and show it once.

    Example: toolcrib token add ann --group staff --days 90
    """
    path, gateway = _read_gateway(state)
    if name in (gateway.tokens or {}) and not force:
        raise click.UsageError(f"there is a token {name!r} already; --force replaces it")
    secret = secrets.token_urlsafe(32)
    entry: dict[str, Any] = {"hash": f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}"}
    entry |= {"groups": list(groups)} if groups else {}
    entry |= {"toolsets": list(toolsets)} if toolsets else {}
    if days is not None:
        end = datetime.now(UTC) + timedelta(days=days)
        entry["expires"] = end.isoformat(timespec="seconds").replace("+00:00", "Z")
    facts = _write_token(path, name, entry)
    if state.json:
        show_json({"name": name, "token": secret, **facts})
        return
    note(f"the token of {name!r}, not shown again; clients send it as 'Authorization: Bearer TOKEN'")
    show_text(secret)


@token.command("list")
@common
@click.pass_obj
def list_(state: State) -> None:
    """List the tokens: names, groups, toolsets and expiry.

    Example: toolcrib token list
    """
    _, gateway = _read_gateway(state)
    known = gateway.tokens or {}
    if state.json:
        closed = gateway.closed_reason()
        facts = {"tokens": [_facts(name, each) for name, each in known.items()]}
        show_json(facts if closed is None else {**facts, "closed": closed})
        return
    rows = [
        (name, ", ".join(each.groups), ", ".join(each.toolsets or ("all",)), _expiry_of(each))
        for name, each in known.items()
    ]
    show_table(("NAME", "GROUPS", "TOOLSETS", "EXPIRES"), rows)
    if not _warn_if_closed(gateway) and not rows:
        note("there are no tokens; `toolcrib token add NAME` makes one")


def _warn_if_closed(gateway: "GatewaySettings") -> bool:
    """Warn if no client can reach the gateway over HTTP; return whether that is so."""
    closed = gateway.closed_reason()
    if closed is not None:
        note(f"nobody can call a gateway of this file over HTTP: {closed}; {gateway.opening_remedy}")
    return closed is not None


def _facts(name: str, settings: "TokenSettings") -> dict[str, Any]:
    expires = None if settings.expires is None else settings.expires.isoformat()
    return {"name": name, "groups": settings.groups, "toolsets": settings.toolsets, "expires": expires}


def _expiry_of(settings: "TokenSettings") -> str:
    if settings.expires is None:
        return "never"
    day = settings.expires.date().isoformat()
    return f"{day} (expired)" if settings.expires < datetime.now(UTC) else day


@token.command()
@click.argument("name", metavar="NAME")
@common
@click.pass_obj
def revoke(state: State, name: str) -> None:
    """Revoke a token, which is refused from then on.

    Example: toolcrib token revoke ann
    """
    from toolcrib.model.suggest import choose  # noqa: PLC0415 - not needed to ask for help

    path, gateway = _read_gateway(state)
    known = gateway.tokens or {}
    if name not in known:
        raise NotFoundError(f"there is no token {name!r}{choose(name, known)}")
    facts = _write_token(path, name, None) if len(known) > 1 else _write_empty_table(path)
    _, left = _read_gateway(state)
    if state.json:
        closed = left.closed_reason()
        facts |= {} if closed is None else {"closed": closed}
        show_json({"name": name, "revoked": True, **facts})
        return
    note(f"the token {name!r} is revoked; a running gateway refuses it as soon as it reads the file again")
    _warn_if_closed(left)


def _read_gateway(state: State) -> "tuple[Path, GatewaySettings]":
    """Return the file of the tokens, and its gateway settings."""
    from toolcrib.crib.config.files import load  # noqa: PLC0415 - not needed to ask for help

    path = own_file(state, user=False)
    if path.suffix != ".toml":
        raise click.UsageError(f"tokens are kept in a toolcrib.toml; {path.name} holds servers only")
    return path, load(path if path.exists() else None).gateway


def _write_token(path: Path, name: str, entry: dict[str, Any] | None) -> dict[str, Any]:
    from toolcrib.crib.config.files import load_text  # noqa: PLC0415 - as above
    from toolcrib.setup.editing import edit_servers  # noqa: PLC0415

    return carry_out(edit_servers(path, {name: entry}, place=_PLACE, check=load_text), dry_run=False)


def _write_empty_table(path: Path) -> dict[str, Any]:
    """Write the table without tokens: if it were missing, the gateway would ask for none."""
    from toolcrib.crib.config.files import load_text  # noqa: PLC0415 - as above
    from toolcrib.setup.editing import edit_servers  # noqa: PLC0415

    edit = edit_servers(path, {_PLACE[-1]: {}}, place=_PLACE[:-1], check=load_text)
    return carry_out(edit, dry_run=False)

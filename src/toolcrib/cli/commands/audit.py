"""The verbs about the audit: `audit verify`, `audit show` and `audit key`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from toolcrib.cli.choices import VerbGroup
from toolcrib.cli.exits import FailedError
from toolcrib.cli.screen import note, show_json, show_table, show_text
from toolcrib.cli.state import State, common
from toolcrib.errors.base import count_noun

_MAX_SHOWN = 20
_FILES = click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(exists=True, dir_okay=False))


@click.group(cls=VerbGroup)
@common
def audit() -> None:
    """Verify and show the audit log of calls.

    Each line of an audit log contains the digest of the previous line, and some lines sign all lines so far.
    Changed, removed and inserted lines are therefore detected.

    Example: toolcrib audit verify
    """


@audit.command()
@_FILES
@click.option(
    "--key", metavar="TEXT", help="The public key, as `audit key` shows it; by default that of this user."
)
@click.option(
    "--no-key",
    is_flag=True,
    help="Check only the digests, for an audit log without signatures (`audit.sign = false`).",
)
@click.option(
    "--head",
    metavar="DIGEST",
    help="The digest `last` of an earlier `audit verify --json`, which must be in the log.",
)
@common
@click.pass_obj
def verify(state: State, files: tuple[str, ...], key: str | None, no_key: bool, head: str | None) -> None:  # noqa: FBT001 - an option of the command
    """Check that the lines of an audit log are unchanged.

    Without FILE, it checks `audit.path` and the rotated files beside it. Several files are read as one,
    oldest first; lines missing before the first are reported. With a key, a line that no signature follows is
    reported as unproven. If anything is wrong, the exit code is 1.

    Example: toolcrib audit verify
    """
    from toolcrib.execution.audit.hash_chain import FIRST_PREVIOUS, read_chain  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.execution.audit.signing import make_verifier, public_key  # noqa: PLC0415
    from toolcrib.paths import audit_key  # noqa: PLC0415

    if key is not None and no_key:
        raise click.UsageError("--key and --no-key cannot be combined")
    own = audit_key()
    if key is None and not no_key and own.exists():
        key = public_key(own)
    paths = _find_files(state, files, with_rotated=True)
    report = read_chain(_read_lines(paths), None if key is None else make_verifier(key), head)
    if state.json:
        problems = [{"line": line, "problem": problem} for line, problem in report.problems]
        facts = {"lines": report.lines, "checkpoints": report.checkpoints, "unsigned": report.unsigned}
        ends = {"whole": report.first == FIRST_PREVIOUS, "first": report.first, "last": report.last}
        show_json({"intact": not problems, **facts, "problems": problems, **ends})
    else:
        for line, problem in report.problems[:_MAX_SHOWN]:
            note(f"line {line}: {problem}")
        if report.first != FIRST_PREVIOUS:
            note(f"the lines before line 1 are missing; the last of them has the digest {report.first}")
        if key is not None and not report.checkpoints and report.problems:
            note("for an audit that is not signed (audit.sign = false): --no-key")
        signed = f"{count_noun(report.checkpoints, 'signature')} valid, {report.unsigned} lines unproven"
        found = count_noun(len(report.problems), "problem") if report.problems else "all as they were written"
        signature = signed if key else "without a key, no signature was checked"
        show_text(f"{count_noun(report.lines, 'line')}: {found}; {signature}")
    if report.problems:
        raise FailedError(1)


@audit.command()
@_FILES
@click.option("--tool", metavar="ID", help="Only calls of this tool.")
@click.option("--subject", metavar="NAME", help="Only calls of this subject.")
@click.option("--failed", is_flag=True, help="Only calls that failed or were refused.")
@click.option(
    "-n", "count", type=click.IntRange(1), default=20, show_default=True, help="The number of calls to show."
)
@common
@click.pass_obj
def show(
    state: State,
    files: tuple[str, ...],
    tool: str | None,
    subject: str | None,
    failed: bool,  # noqa: FBT001 - as above
    count: int,
) -> None:
    """Show the newest recorded calls.

    Example: toolcrib audit show --failed -n 50
    """
    wanted = {"gen_ai.tool.name": tool, "user.id": subject}
    found = [
        record
        for record in _read_records(_find_files(state, files))
        if all(record.get(name) == value for name, value in wanted.items() if value is not None)
        and not (failed and "error.type" not in record)
    ][-count:]
    if state.json:
        show_json({"calls": found})
        return
    rows = [
        (
            str(record.get("time", "")),
            str(record.get("user.id") or record.get("toolcrib.client") or "-"),
            str(record.get("gen_ai.tool.name", "")),
            str(record.get("error.type", "ok")),
            str(record.get("toolcrib.policy.rule") or "-"),
        )
        for record in found
    ]
    show_table(("TIME", "WHO", "TOOL", "OUTCOME", "RULE"), rows)


@audit.command("key")
@common
@click.pass_obj
def key_(state: State) -> None:
    """Show the public key for the signatures in this user's audit logs.

    Keep a copy elsewhere: anyone who can change an audit log here could also create another key.

    Example: toolcrib audit key
    """
    from toolcrib.execution.audit.signing import public_key  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.paths import audit_key  # noqa: PLC0415

    shown = public_key(audit_key())
    if state.json:
        show_json({"key": shown})
    else:
        show_text(shown)


def _find_files(state: State, files: tuple[str, ...], *, with_rotated: bool = False) -> list[Path]:
    """Return the given files, or that of the configuration after its rotated ones."""
    if files:
        return [Path(each) for each in files]
    from toolcrib.crib import load  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.execution.audit.hash_chain import rotated_files  # noqa: PLC0415

    settings = load(state.source())
    if settings.audit is None:
        raise click.UsageError("the configuration has no [audit], and no FILE is given")
    path = Path(settings.audit.path).expanduser()
    rotated = rotated_files(path) if with_rotated else []
    found = [*rotated, *([path] if path.exists() else ())]
    if not found:
        raise click.UsageError(f"nothing has been written to {str(path)!r} yet")
    return found


def _read_lines(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            for line in file:
                yield line.rstrip("\n")


def _read_records(paths: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield the records of calls; invalid lines are skipped, as `verify` reports them."""
    for line in _read_lines(paths):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "gen_ai.tool.name" in record:
            yield record

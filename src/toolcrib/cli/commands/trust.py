"""The verbs about the lock of approved tools: `lock`, `verify`, `diff`, `approve`, `block` and `require`."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toolcrib.cli.completing import tool_ids
from toolcrib.cli.exits import NOT_FOUND, UNAVAILABLE, FailedError, NotFoundError
from toolcrib.cli.screen import clean, note, show_json, waiting
from toolcrib.cli.state import PATIENCE, State, common, local_principal, wait_for
from toolcrib.errors import ServerUnavailableError, ToolNotFoundError
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.crib import Trust, TrustDrift, TrustEdit, TrustFinding, TrustReport, TrustRequirement

T = TypeVar("T")
LEVELS = {"none": 0, "patch": 10, "minor": 11, "major": 12}
"""Exit codes by how much has changed."""
POISONED = 13
_STATES = {"missing": NOT_FOUND, "unavailable": UNAVAILABLE, "poisoned": POISONED}
_UNREADY = {"withheld", "other"}
_COLOURS = {"patch": "cyan", "minor": "yellow", "major": "red"}
_LINES = {"+": "green", "-": "red", "@": "cyan"}
_BY = click.option(
    "--by", metavar="NAME", help="The approver's name for the lock file; by default that of this user."
)


def _ask(state: State, work: "Callable[[Trust], Awaitable[T]]", *, needs_servers: bool = True) -> T:
    """Run a function with the trust of the configuration's crib, whose servers have listed their tools."""

    async def run() -> T:
        async with state.crib() as crib:
            if needs_servers:
                with waiting("asking the servers"), suppress(ServerUnavailableError):
                    await crib.ready(PATIENCE)  # what has not answered is reported
            return await work(crib.trust)

    return wait_for(run)


def _name_decider(by: str | None) -> str:
    """Return who decides: the name that was given, or that of this user."""
    name = by or local_principal().subject
    if not name:
        raise click.UsageError("this user has no name, and the lock records who decided: add --by NAME")
    return name


def _report(state: State) -> "TrustReport":
    """Return the report of a configuration that has a lock."""
    report = _ask(state, lambda trust: trust.report())
    if not report.is_locked:
        raise NotFoundError(f"there is no lock {report.lock or 'tools.lock'!r}; `toolcrib lock` writes it")
    return report


def _note_unanswered(names: Iterable[str]) -> None:
    for name in names:
        note(f"{name!r} has not listed its tools; nothing is known about them")


def _show_edit(state: State, edit: "TrustEdit", did: str) -> None:
    if state.json:
        show_json(edit.to_json())
        return
    shown = ", ".join(map(clean, edit.subjects))
    click.echo(f"{edit.lock}: {did} {shown}" if shown else f"{edit.lock}: nothing to change")
    _show_findings(edit.findings)
    for subject in edit.poisoned:
        note(
            f"{subject} is not approved, because the scan calls it poisoned: read what it says, and "
            f"`toolcrib approve {quote(subject)}` approves it all the same"
        )
    if left := len(edit.left):
        shown = "1 differs from the lock; `toolcrib diff` shows it"
        note(shown if left == 1 else f"{left:,} differ from the lock; `toolcrib diff` shows them")
    _note_unanswered(edit.unanswered)


@click.command()
@click.option("--force", is_flag=True, help="Also approve all changes, and replace a damaged lock file.")
@_BY
@common
@click.pass_obj
def lock(state: State, force: bool, by: str | None) -> None:  # noqa: FBT001 - click gives it by name
    """Write the lock file, which approves the tools as they are now.

    The lock file is tools.lock beside the configuration: commit it. From then on, a tool that changes is
    withheld until somebody approves it. If there is a lock file already, new tools are added to it, and
    changed ones stay as they were approved. Tools that the scan classifies as poisoned are left out, and the
    exit code is then 13; `toolcrib approve ID` approves them individually.

    Example: toolcrib lock
    """
    who = _name_decider(by)
    edit = _ask(state, lambda trust: trust.lock(by=who, force=force))
    _show_edit(state, edit, "approved")
    _refuse_poison(edit)


def _refuse_poison(edit: "TrustEdit") -> None:
    if edit.poisoned:
        raise FailedError(POISONED)


@click.command()
@common
@click.pass_obj
def verify(state: State) -> None:
    """Check that the tools still match what was approved.

    The exit code is 0 if they do, 10 if only wording has changed, 11 for changes that break no call, 12 for
    changes that may break calls, and 13 if a definition is designed to mislead a model. It is 4 if a server
    did not answer.

    Example: toolcrib verify || toolcrib diff
    """
    report = _report(state)
    if state.json:
        show_json(
            {**report.to_json(), "drifts": [{"id": each.id, "level": each.level} for each in report.drifts]}
        )
    else:
        for drift in report.drifts:
            _show_heading(drift)
        _show_findings(report.findings)
        for name, reason in report.blocked.items():
            click.echo(f"{click.style('blocked', fg='yellow', bold=True)} {clean(name)}: {clean(reason)}")
        _note_unanswered(report.unanswered)
        click.echo(f"{count_noun(report.tools, 'tool')}: {_summarize(report)}")
    _exit(report)


def _summarize(report: "TrustReport") -> str:
    """Return a one-line summary of the differences from the lock."""
    count = len(report.drifts)
    verb = "differs" if count == 1 else "differ"
    differing = f"{count:,} {verb} from the lock (greatest change: {report.level})"
    parts = [differing if count else "unchanged" if report.findings else "as approved"]
    for verdict in ("poisoned", "suspicious"):
        found = len({each.id for each in report.findings if each.verdict == verdict})
        parts += [f"{found:,} {verdict}"] if found else []
    parts += [f"{len(report.blocked):,} blocked"] if report.blocked else []
    return ", ".join(parts)


def _exit(report: "TrustReport") -> None:
    code = POISONED if report.is_poisoned else LEVELS[report.level]
    if code or report.unanswered:
        raise FailedError(code or UNAVAILABLE)


def _show_heading(drift: "TrustDrift") -> None:
    level = click.style(f"{drift.level:5}", fg=_COLOURS[drift.level], bold=True)
    click.echo(f"{level} {click.style(clean(drift.id), bold=True)}: {clean(drift.changes[0].message)}")


def _show_findings(findings: "Iterable[TrustFinding]") -> None:
    for each in findings:
        verdict = click.style(each.verdict, fg="red" if each.verdict == "poisoned" else "yellow", bold=True)
        click.echo(f"{verdict} {clean(each.id)} {each.rule} {clean(each.path)}: {clean(each.message)}")


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=tool_ids)
@common
@click.pass_obj
def diff(state: State, ids: tuple[str, ...]) -> None:
    """Show what has changed since the tools were approved.

    Each change is shown in words, and then as the lines of the lock file that `toolcrib approve` would
    change. The exit codes are those of `verify`.

    Example: toolcrib diff github:list_issues
    """
    report = _report(state)
    if ids:
        drifts = tuple(drift for drift in report.drifts if _is_named(drift.id, ids))
        level = max((drift.level for drift in drifts), key=LEVELS.__getitem__, default="none")
        report = report.replace(drifts=drifts, findings=(), level=level)
    if state.json:
        show_json(report.to_json())
    else:
        for drift in report.drifts:
            _show_drift(drift)
        _show_findings(report.findings)
        _note_unanswered(report.unanswered)
    _exit(report)


def _is_named(subject: str, ids: Iterable[str]) -> bool:
    return any(subject == each or subject.startswith(f"{each}:") for each in ids)


def _show_drift(drift: "TrustDrift") -> None:
    _show_heading(drift)
    for each in drift.changes:
        where = click.style(f"{clean(each.path)} " if each.path else "", dim=True)
        click.echo(
            f"  {click.style(each.level, fg=_COLOURS[each.level])} {each.kind} {where}{clean(each.message)}"
        )
    for line in drift.lines:
        click.echo("    " + click.style(clean(line), fg=_LINES.get(line[:1])))


@click.command()
@click.argument("subjects", nargs=-1, metavar="[ID]...", shell_complete=tool_ids)
@click.option("--all", "everything", is_flag=True, help="Approve everything that differs from the lock file.")
@click.option(
    "--suppress",
    "rules",
    multiple=True,
    metavar="RULE",
    help="Instead of approving, accept what this scan rule finds in the tool; may be repeated.",
)
@click.option("--reason", metavar="TEXT", help="The reason, with --suppress.")
@_BY
@common
@click.pass_obj
def approve(state: State, /, subjects: tuple[str, ...], **options: Any) -> None:
    """Approve tools as they are now.

    An ID is the id of a tool, server/NAME, prompt/SERVER/NAME or template/SERVER/URI, as `verify` and `diff`
    show them. If it no longer exists, it is removed from the lock file. Naming a tool unblocks it.
    Definitions that the scan classifies as poisoned are approved only by name, not by --all; the exit code is
    13 if something was left out.

    Examples:
      toolcrib approve github:list_issues
      toolcrib approve server/github
      toolcrib approve github:list_issues --suppress injection --reason "it quotes an attack"
    """
    by, rules, reason = _name_decider(options["by"]), options["rules"], options["reason"]
    if not subjects and not options["everything"]:
        raise click.UsageError("name what you approve, or use --all; `toolcrib diff` shows what has changed")
    if bool(rules) != (reason is not None) or (rules and len(subjects) != 1):
        raise click.UsageError("--suppress and --reason must be given together, for one tool")
    if rules:
        edit = _ask(
            state,
            lambda trust: trust.suppress(subjects[0], *rules, reason=reason, by=by),
            needs_servers=False,
        )
        _show_edit(state, edit, f"suppressed {', '.join(rules)} of")
        return
    edit = _ask(state, lambda trust: trust.approve(*subjects, by=by, everything=options["everything"]))
    _show_edit(state, edit, "approved")
    _refuse_poison(edit)


@click.command()
@click.argument("tool_id", metavar="ID", shell_complete=tool_ids)
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    help="The reason, for the lock file and for callers of the tool.",
)
@click.option("--absent", is_flag=True, help="Block it even if no tool with this id is known yet.")
@_BY
@common
@click.pass_obj
def block(state: State, tool_id: str, *, reason: str, absent: bool, by: str | None) -> None:
    """Block a tool for everybody, whatever its definition says.

    `toolcrib approve` unblocks it. The servers are asked only if no tool with this id is known, because the
    id may be mistyped.

    Example: toolcrib block github:delete_repo --reason "use the web page instead"
    """
    who = _name_decider(by)

    def decide(trust: "Trust") -> "Awaitable[TrustEdit]":
        return trust.block(tool_id, reason=reason, by=who, absent=absent)

    try:
        edit = _ask(state, decide, needs_servers=False)
    except ToolNotFoundError:
        try:
            edit = _ask(state, decide)
        except ToolNotFoundError as error:
            if not error.reason:
                error.reason = "use --absent to block it before it exists"
            raise
    _show_edit(state, edit, "blocked")


@click.command()
@click.argument("wanted", nargs=-1, required=True, metavar="TOOL...")
@common
@click.pass_obj
def require(state: State, wanted: tuple[str, ...]) -> None:
    """Check that tools exist, are approved, and have the right version.

    A TOOL is an id, alone or with `@` and a version, a range or the digest of its definition, which --json
    shows. The exit codes are those of `verify`; 3 means that a tool does not exist, and 4 that its server
    does not answer. A tool that is withheld, or has another version or digest, counts as a major change.

    Examples:
      toolcrib require github:list_issues time:now
      toolcrib require github:list_issues@1.2 github:close@sha256:0123456789ab
    """
    found = _ask(state, lambda trust: trust.require(*wanted))
    codes = [_code_of(each) for each in found]
    if state.json:
        show_json({"ready": not any(codes), "tools": [each.to_json() for each in found]})
    else:
        for each, code in zip(found, codes, strict=True):
            mark = click.style(each.state, fg="red" if code else "green", bold=True)
            click.echo(f"{mark} {clean(each.wanted)}{': ' if each.reason else ''}{clean(each.reason)}")
    if any(codes):
        raise FailedError(
            min((code for code in codes if code in {NOT_FOUND, UNAVAILABLE}), default=max(codes))
        )


def _code_of(found: "TrustRequirement") -> int:
    if found.state in _UNREADY:
        return LEVELS["major"]
    return _STATES.get(found.state, LEVELS[found.level])

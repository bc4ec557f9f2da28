"""The verb that looks for definitions made to mislead a model: `scan`."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from toolcrib.cli.completing import tool_ids
from toolcrib.cli.exits import FINDINGS, FailedError
from toolcrib.cli.naming import resolve_ids, tell_absent
from toolcrib.cli.screen import clean, note, show_json, waiting
from toolcrib.cli.state import PATIENCE, State, shared, wait_for
from toolcrib.errors import ServerUnavailableError
from toolcrib.errors.base import count_noun

if TYPE_CHECKING:
    from toolcrib.crib import View
    from toolcrib.model import Tool
    from toolcrib.trust import ScanReport

_COLOURS = {"poisoned": "red", "suspicious": "yellow"}
_LISTS = ("tools", "prompts", "resourceTemplates", "resources")
"""Keys of the definitions in a file, as in the responses of MCP."""
_MAX_FILE = 64 * 2**20


class _Scanned(NamedTuple):
    name: str
    """The id of a tool, or the file and the name of a definition."""
    report: "ScanReport"


@click.command()
@click.argument("what", nargs=-1, metavar="[ID|FILE]...", shell_complete=tool_ids)
@click.option("--quiet", is_flag=True, help="Show only poisoned definitions, not suspicious ones.")
@shared
@click.pass_obj
def scan(state: State, what: tuple[str, ...], quiet: bool) -> None:  # noqa: FBT001 - click gives it by name
    """Look for tools that are designed to mislead a model.

    It checks all tools, prompts, templates and instructions of the configured servers, including those that
    are withheld; or the tools that you name; or files with definitions as servers list them, which needs no
    configuration. It runs on this machine and sends nothing anywhere. If anything is found that no
    `toolcrib approve ID --suppress RULE` has accepted, the exit code is 13.

    Examples:
      toolcrib scan
      toolcrib scan github:create_issue
      toolcrib scan tools.json --json
    """
    files = [each for each in what if _is_file(each)]
    if files and len(files) < len(what):
        other = next(each for each in what if each not in files)
        raise click.UsageError(f"{other!r} is not a file: give either files or tools")
    absent: dict[str, Any] = {}
    if files:
        scanned = [each for name in files for each in _scan_file(Path(name))]
    else:
        scanned, absent = wait_for(lambda: _scan_servers(state, what))
    found = [each for each in scanned if each.report.verdict == "poisoned" or each.report.findings]
    found = [each for each in found if not quiet or each.report.verdict == "poisoned"]
    verdicts: list[str] = [each.report.verdict for each in found]
    counts = Counter(verdicts)
    if state.json:
        reports = [{"id": each.name, **each.report.to_json()} for each in found]
        numbers = {"poisoned": counts["poisoned"], "suspicious": counts["suspicious"]}
        show_json({"scanned": len(scanned), **numbers, "reports": reports, **absent})
    else:
        _show(found, len(scanned), counts)
    if found:
        raise FailedError(FINDINGS)


def _is_file(name: str) -> bool:
    return os.path.isfile(name)  # noqa: PTH113 - Path.is_file raises where a name is too long


async def _scan_servers(state: State, ids: tuple[str, ...]) -> tuple[list[_Scanned], dict[str, Any]]:
    """Scan the definitions of the configured servers, withheld or not, or of the named tools."""
    async with state.crib() as crib:
        view = crib if state.toolset is None else crib.view(state.toolset)
        with waiting("asking the servers"), suppress(ServerUnavailableError):
            await crib.ready(PATIENCE)  # what has not answered is reported
        with waiting("looking at what they list"):
            reports = await crib.trust.scan()
        if state.toolset is not None:
            members = {each.id for each in view.index.list_all()}
            reports = {name: report for name, report in reports.items() if name in members}
        wanted = [name for each in ids for name in await _find(view, each, reports)] if ids else reports
        return [_Scanned(name, reports[name]) for name in wanted], tell_absent(view)


async def _find(view: "View", named: str, reports: Mapping[str, "ScanReport"]) -> list[str]:
    """Return the subjects with an id, or with an id without its version.

    Raises:
        ToolNotFoundError: there is no such tool, or several tools have that name.
    """
    from toolcrib.model.toolid import without_version  # noqa: PLC0415 - not needed to ask for help

    found = [each for each in reports if named in {each, without_version(each)}]
    if found:
        return found
    (name,) = await resolve_ids(view, [named])
    return [str(view[name].id)]


def _scan_file(path: Path) -> Iterator[_Scanned]:
    """Scan the definitions of a file."""
    from toolcrib.errors import ToolcribError  # noqa: PLC0415 - not needed to ask for help
    from toolcrib.trust import KnownTools, scan_definition, scan_text  # noqa: PLC0415 - the same
    from toolcrib.trust import scan as scan_tool  # noqa: PLC0415 - the same

    tools: list[tuple[str, Tool]] = []
    for place, definition in enumerate(_definitions(path)):
        name = f"{path.name}: {definition.get('name') or place}"
        if not _is_tool(definition):
            if "instructions" in definition and "name" not in definition:
                yield _Scanned(f"{path.name}: instructions", scan_text(str(definition["instructions"])))
            else:
                yield _Scanned(name, scan_definition(definition))
            continue
        try:
            tools.append((name, _read_tool(definition)))
        except ToolcribError:  # it cannot be used, and is looked at all the same
            yield _Scanned(name, scan_definition(definition))
    known = KnownTools(tool for _, tool in tools)
    yield from (_Scanned(name, scan_tool(tool, others=known)) for name, tool in tools)


def _is_tool(definition: Mapping[str, Any]) -> bool:
    return "inputSchema" in definition or "input_schema" in definition


def _read_tool(definition: Mapping[str, Any]) -> "Tool":
    from toolcrib.model import Tool  # noqa: PLC0415 - not needed to ask for help

    given = {key: value for key, value in definition.items() if key != "server"}
    server = definition.get("server")
    if isinstance(server, str) and "namespace" not in given:
        given["namespace"] = server
    return Tool.from_json(given)


def _definitions(path: Path) -> Iterable[Mapping[str, Any]]:
    """Return the definitions in a file: one, a list, an answer of MCP, or one on each line."""
    try:
        if path.stat().st_size > _MAX_FILE:
            raise click.UsageError(f"{path} is larger than {_MAX_FILE // 2**20} MiB")
        text = path.read_text(encoding="utf-8-sig")
        document = _parse(text)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise click.UsageError(f"{path} cannot be read as JSON: {error}") from error
    found: list[Any] = document if isinstance(document, list) else [document]
    if isinstance(document, Mapping):
        answer = document["result"] if isinstance(document.get("result"), Mapping) else document
        lists = [answer[name] for name in _LISTS if isinstance(answer.get(name), list)]
        if lists:
            found = [each for part in lists for each in part]
            found += [{"instructions": answer["instructions"]}] if answer.get("instructions") else []
    definitions = [each for each in found if isinstance(each, Mapping)]
    if not definitions:
        raise click.UsageError(f"{path} has no definitions; it needs an object, or a list of them")
    return definitions


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:  # noqa: PLR2004 - one line that is no JSON is no list of lines
            raise
        return [json.loads(line) for line in lines]


def _show(found: list[_Scanned], count: int, counts: "Counter[str]") -> None:
    for each in found:
        verdict = click.style(each.report.verdict, fg=_COLOURS[each.report.verdict])
        click.echo(f"{click.style(clean(each.name), bold=True)} {verdict}")
        for finding in each.report.findings:
            where = click.style(f" {clean(finding.path)}", dim=True) if finding.path else ""
            click.echo(f"  {finding.rule}{where}: {clean(finding.message)}")
            if finding.excerpt:
                click.echo(f"    {clean(finding.excerpt)}")
    if not count:
        note("there are no tools to look at")
    scanned = count_noun(count, "definition")
    click.echo(f"{scanned}: {counts['poisoned']} poisoned, {counts['suspicious']} suspicious")

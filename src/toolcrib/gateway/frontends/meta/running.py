"""The meta-tools that run tools: one, several, or those that code calls."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from time import perf_counter
from typing import Any

from anyio import to_thread
from anyio.lowlevel import cancel_shielded_checkpoint

from toolcrib.crib import View
from toolcrib.crib.config.gateway import GatewaySettings
from toolcrib.errors import ChainError, InvalidChainError, PolicyDeniedError
from toolcrib.execution import Principal
from toolcrib.execution.chains import ChainProgress, Plan
from toolcrib.execution.chains.plan import PlannedStep
from toolcrib.execution.chains.results import StepResult
from toolcrib.execution.mcp.results import read_text
from toolcrib.gateway.frontends.meta.catalog_summary import CatalogSummary
from toolcrib.gateway.frontends.meta.reply import MetaCall, Part, Reply, ResultLimiter
from toolcrib.gateway.frontends.shared.failures import describe_error
from toolcrib.gateway.frontends.shared.frontend import CallingClient
from toolcrib.gateway.request.confirm import MAX_QUESTION, ConfirmedCalls, progress_sender
from toolcrib.gateway.resources.addresses import place_blocks, result_server
from toolcrib.gateway.results import KeptResults, encoded
from toolcrib.model import RunResult, Tool, ToolCallRecord
from toolcrib.runtime.stubs.naming import identifier
from toolcrib.runtime.surface import find_mentions

_MS = 1000
_DIGITS = 3
_ID = re.compile(r"[\w.-]++(?::[\w.-]++)?+", re.ASCII)
_NO_BODY = "\n    pass"
_BATCH = 100
"""Parts of a step that are serialized between two turns of the event loop."""


class RunHandlers:
    """Runs tools of a view for clients."""

    def __init__(
        self,
        view: View,
        settings: GatewaySettings,
        catalog: CatalogSummary,
        limiter: ResultLimiter,
        code: str,
        kept: KeptResults | None = None,
    ) -> None:
        """Run tools of a view; `code` is the reason why code cannot run, empty if it can.

        Arguments may stand for results in `kept`.
        """
        self._view = view
        self._confirm, self._max_timeout = settings.confirm, settings.max_timeout
        self._catalog = catalog
        self._limiter = limiter
        self._no_code = code
        self._calls = ConfirmedCalls(view, confirm=settings.confirm, kept=kept)

    async def run_tool(self, call: MetaCall) -> Reply:
        """Run one tool."""
        args = call.args
        given = args.get("args", {})
        timeout = self._timeout_of(call) if "timeout_ms" in args else None
        ran = await self._calls.run(args["tool_id"], given, call.client, timeout)
        return self.make_reply(ran, call.client.principal, call.notes)

    def make_reply(self, ran: RunResult, principal: Principal, repairs: Iterable[str] = ()) -> Reply:
        """Return the reply of `run_tool`: the value, and the tool's own content if that says more."""
        raw = ran.mcp_result if isinstance(ran.mcp_result, Mapping) else {}
        is_own = raw.get("structuredContent") is None
        value, blocks = ran.structured, _select_blocks(raw, ran.structured, is_own=is_own)
        text = None if is_own else _find_plain_text(value, blocks)
        if text is not None:
            blocks = []
        if is_own or blocks:  # a structured value names no pages
            pages = result_server(self._view.settings, ran.backend)
            value = place_blocks(pages, value) if is_own else value
            blocks = place_blocks(pages, blocks)
        payload: dict[str, Any] = {
            "structured": _replace_by_pointers(value, blocks) if is_own and blocks else value,
            "toolId": str(ran.tool.id),
            **_duration_and_notes(ran.duration, [*repairs, *ran.notes]),
        }
        if ran.findings:
            payload["findings"] = [each.to_json() for each in ran.findings]
        if ran.tool.annotations is not None:
            payload["annotations"] = ran.tool.annotations.to_json()
        reply = Reply(payload, blocks, text, held=is_own)
        return self._limiter.limit_value(reply, "structured", principal)

    async def run_chain(self, call: MetaCall) -> Reply:
        """Run tools one after another."""
        args, client = call.args, call.client
        named = await self._ask_about_chain(call)
        timeout = self._timeout_of(call) or self._max_timeout  # else it would be as long as all its steps
        began = perf_counter()
        try:
            result = await self._view.run_chain(
                args["steps"],
                timeout=timeout,
                progress=_step_progress(client),
                context=self._calls.context(client, named),
            )
        except InvalidChainError:
            raise
        except ChainError as error:
            return await self._reply_to_failure(error, call)
        steps = await self._steps(result.results)
        is_last = bool(result.results) and result.final is result.results[-1].structured
        payload = {
            "results": steps,
            "final": steps[-1]["structured"] if is_last else result.final,
            **_duration_and_notes(perf_counter() - began, call.notes),
        }
        return await self._limiter.limit_parts(payload, *_without_values(payload), client.principal)

    async def execute_code(self, call: MetaCall) -> Reply:
        """Run code that calls tools."""
        if self._no_code:
            raise PolicyDeniedError(tool_id="execute_code", reason=self._no_code)
        args, client = call.args, call.client
        named = await self._ask_about_code(call)
        most = self._view.settings.code.limits.max_tool_calls
        ran = await self._view.execute(
            args["code"],
            timeout=self._timeout_of(call),
            limits={"max_tool_calls": min(args.get("max_tool_calls", most), most)},
            context=self._calls.context(client, named),
        )
        payload = {
            "value": ran.value,
            "stdout": ran.stdout,
            "stderr": ran.stderr,
            "toolCalls": [_call(record) for record in ran.tool_calls],
            **_duration_and_notes(ran.duration, [*call.notes, *ran.notes]),
        }
        smaller = payload | {"toolCalls": [], "value": None, "stdout": "", "stderr": ""}
        parts = [(smaller, name, payload[name]) for name in ("toolCalls", "value", "stdout", "stderr")]
        return await self._limiter.limit_parts(payload, smaller, parts, client.principal)

    def _timeout_of(self, call: MetaCall) -> float | None:
        """Return the timeout of a call in seconds, limited to the maximum with a note."""
        if "timeout_ms" not in call.args:
            return None
        seconds: float = call.args["timeout_ms"] / _MS
        if seconds <= self._max_timeout:
            return seconds
        most = f"{self._max_timeout * _MS:,.0f}"
        call.notes.append(f"timeout_ms was cut to {most}, the most that this gateway lets a client ask for")
        return self._max_timeout

    async def _ask_about_chain(self, call: MetaCall) -> list[Tool]:
        """Obtain consent to the destructive tools of a chain, and return them."""
        client = call.client
        if not (self._may_ask and client.can_ask):
            return []
        plan = await self._view.run_chain(call.args["steps"], dry_run=True)
        named = dict.fromkeys(step.tool_id for step in _calls_of(plan) if step.tool_id is not None)
        found = self._calls.filter_needing_consent(client, map(self._view.index.resolve, named))
        steps = call.args["steps"]
        places = calls_in_chain(steps, plan, found) if found else []
        await self._calls.obtain_consent(client, found, steps, "chain", places)
        return found

    @property
    def _may_ask(self) -> bool:
        """Whether a person may be asked at all."""
        return self._confirm or self._view.rules is not None

    async def _ask_about_code(self, call: MetaCall) -> list[Tool]:
        """Obtain consent to the destructive tools that code names, and return them."""
        client = call.client
        if not (self._may_ask and client.can_ask):
            return []
        await self._view.namespaces()  # by then the servers have listed their tools
        index = self._view.index
        tools: Iterable[Tool] = self._catalog.destructive()
        if self._view.rules is not None:
            tools = (index.get(each.id) for each in index.list_all())
        code = call.args["code"]
        found, places = await to_thread.run_sync(
            _find_mentions, code, self._calls.filter_needing_consent(client, tools)
        )
        await self._calls.obtain_consent(client, found, code, "program", places)
        return found

    async def _reply_to_failure(self, error: ChainError, call: MetaCall) -> Reply:
        """Return the reply for a chain that failed, with the results of the steps before."""
        principal = call.client.principal
        payload: dict[str, Any] = {
            "error": describe_error(error, principal),
            "results": await self._steps(error.results),
        }
        if call.notes:
            payload["notes"] = [*call.notes]
        reply = await self._limiter.limit_parts(payload, *_without_values(payload), principal)
        reply.is_error = True
        return reply

    async def _steps(self, results: Iterable[Any], *, values: bool = True) -> list[dict[str, Any]]:
        """Return the results of steps as JSON, with turns of the event loop between many of them.

        The values of parts are left out, since they are in the value of the whole, unless that failed.
        """
        steps = []
        for place, result in enumerate(results):
            if not isinstance(result, StepResult):
                continue
            if place % _BATCH == 0:
                await cancel_shielded_checkpoint()
            step = _step(result)
            if values:
                step["structured"] = place_blocks(
                    result_server(self._view.settings, result.backend), result.structured
                )
            if result.parts:
                step["parts"] = await self._steps(result.parts, values=result.error is not None)
            steps.append(step)
        return steps


def _find_mentions(code: str, tools: Sequence[Tool]) -> tuple[list[Tool], list[str]]:
    """Return the tools that code names, with their lines unless the code is too long to show."""
    found = mentioned_in(code, tools)
    return found, calls_in_code(code, found) if found and len(code) <= MAX_QUESTION else []


def _step_progress(client: CallingClient) -> ChainProgress | None:
    """Return a callback that sends the number of finished steps; None if the client wants no progress.

    The beginning is no progress, and the end is the answer: a notification just before that may reach a
    client which no longer waits for any. So neither the last step nor one that failed is reported.
    """
    if not client.wants_progress:
        return None
    send = progress_sender(client)

    async def report(done: int, total: int, event: str) -> None:
        if 0 < done < total and event != "step_error":
            await send(done, total, event)

    return report


def _duration_and_notes(seconds: float, notes: Iterable[str] = ()) -> dict[str, Any]:
    """Return the fields of a reply for how long it took, and for remarks if there are any."""
    fields: dict[str, Any] = {"durationMs": round(seconds * _MS, _DIGITS)}
    if parts := list(notes):
        fields["notes"] = parts
    return fields


def _select_blocks(raw: Mapping[str, Any], value: Any, *, is_own: bool) -> list[Mapping[str, Any]]:
    """Return the blocks of a result to send; none if the value as JSON contains all."""
    blocks = raw.get("content")
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        return []
    if len(blocks) != 1 or blocks[0].get("type") != "text" or isinstance(value, str):
        return blocks
    is_json = is_own or read_text(str(blocks[0].get("text"))) == value
    return [] if is_json else blocks


def _find_plain_text(value: Any, blocks: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the only block of a result if it is the text of `{"result": ...}`, which it need not accompany.

    The SDKs wrap so whatever is no object, and send its text as well.
    """
    if len(blocks) != 1 or blocks[0].keys() != {"type", "text"}:
        return None
    if not isinstance(value, dict) or value.keys() != {"result"}:
        return None
    text, wrapped = blocks[0]["text"], value["result"]
    return text if isinstance(text, str) and wrapped in (text, read_text(text)) else None


def _replace_by_pointers(value: Any, blocks: list[Mapping[str, Any]]) -> Any:
    """Return a value whose images and the like are replaced by their place in the content, not sent twice."""
    if len(blocks) == 1:
        return _pointer(value, blocks[0], 0)
    if not isinstance(value, list) or len(value) != len(blocks):
        return value
    return [_pointer(each, blocks[at], at) for at, each in enumerate(value)]


def _pointer(value: Any, block: Mapping[str, Any], at: int) -> Any:
    if block.get("type") == "text" or value != block:
        return value
    pointer = {name: member for name, member in block.items() if name != "data"}
    if isinstance(pointer.get("resource"), Mapping):
        pointer["resource"] = {
            name: part for name, part in pointer["resource"].items() if name not in {"blob", "text"}
        }
    return pointer | {"content": at}


def _step(result: StepResult) -> dict[str, Any]:
    payload = result.to_json(without={"args", "backend", "structured", "parts"})
    named: dict[str, Any] = {"index": payload.pop("index")}
    if "toolId" in payload:
        named["toolId"] = payload.pop("toolId")
    return named | _duration_and_notes(payload.pop("duration", 0.0)) | payload


def _without_values(payload: dict[str, Any]) -> tuple[dict[str, Any], list[Part]]:
    """Return the reply of a chain without what makes it large, and the values that were left out."""
    smaller, parts = dict(payload), list[Part]()
    if "final" in payload:
        smaller["final"] = None
        parts.append((smaller, "final", payload["final"]))
    smaller["results"] = []
    for given in payload["results"]:
        step = _without(given, "parts") | {"structured": None}
        smaller["results"].append(step)
        parts.append((step, "structured", given["structured"]))
        if "error" in given and "parts" in given:
            ran = [_without(part, "structured", "parts") for part in given["parts"]]
            parts += [(step, "parts", ran), (step, "parts", given["parts"])]
    return smaller, parts


def _without(step: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in step.items() if name not in names}


def _call(record: ToolCallRecord) -> dict[str, Any]:
    payload = record.to_json()
    return payload | _duration_and_notes(payload.pop("duration"))


def _calls_of(plan: Plan) -> Iterable[PlannedStep]:
    """Yield the steps of a chain, those within others too."""
    pending: list[PlannedStep] = [*plan.steps]
    while pending:
        step = pending.pop(0)
        pending = [*step.parts, *pending]
        yield step


def mentioned_in(code: str, tools: Sequence[Tool]) -> list[Tool]:
    """Return those tools that code names, by their ids or by the names that stand for them in code.

    The code is scanned once, however many tools there are; at worst it names one too many.

    >>> shop = Tool(name="drop-all", namespace="shop", input_schema={})
    >>> [tool.name for tool in mentioned_in("await shop.drop_all()", [shop])]
    ['drop-all']
    >>> mentioned_in("await other.drop_all()", [shop])
    []
    """
    paths = {_path(tool) for tool in tools}
    if not paths:
        return []
    ids = frozenset(_ID.findall(code))
    words = find_mentions(code)
    spaces, names = {space for space, _ in paths}, {name for _, name in paths}
    reached = {
        (space, name)
        for first, attributes in words.items()
        for space, found in (("", (first,)), *((space, attributes) for space in _spelt(first)))
        if space in spaces
        for each in found
        for name in _spelt(each)
        if name in names
    }
    return [tool for tool in tools if _base(tool) in ids or _path(tool) in reached]


def calls_in_code(code: str, tools: Sequence[Tool]) -> list[str]:
    r"""Return the statements of code that name one of these tools, and those that set what they use.

    Comments are no statements. Where code cannot be read there are none: the whole of it is shown anyway.

    >>> drop = Tool(name="drop", namespace="shop", input_schema={})
    >>> calls_in_code("# shop.drop(1)\nn = 7  # one\nm = 8\nawait shop.drop(\n  n)", [drop])
    ['line 2: n = 7', 'line 4: await shop.drop(n)']
    """
    try:
        tree = ast.parse(code)
        parts = [_header(each) for each in ast.walk(tree) if isinstance(each, ast.stmt)]
        texts = {part: ast.unparse(part).removesuffix(_NO_BODY) for part in parts}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    chosen = {part for part in parts if mentioned_in(texts[part], tools)}
    while True:
        used = {each.id for part in chosen for each in ast.walk(part) if isinstance(each, ast.Name)}
        setting = {part for part in parts if part not in chosen and used & _names_set(part)}
        if not setting:
            break
        chosen |= setting
    return [f"line {part.lineno}: {texts[part]}" for part in sorted(chosen, key=lambda each: each.lineno)]


def _header(statement: ast.stmt) -> ast.stmt:
    """Return a statement; of one with statements in it, its beginning, as the others count by themselves."""
    if not hasattr(statement, "body"):
        if not isinstance(statement, ast.Match):
            return statement
        return ast.copy_location(ast.Expr(statement.subject), statement)
    if isinstance(statement, ast.Try | ast.TryStar):
        return ast.copy_location(ast.Pass(), statement)
    header = copy(statement)
    header.body = [ast.Pass()]
    if hasattr(header, "orelse"):
        header.orelse = []
    return header


def _names_set(part: ast.AST) -> set[str]:
    return {
        each.id for each in ast.walk(part) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def calls_in_chain(steps: Any, plan: Plan, tools: Iterable[Tool]) -> list[str]:
    """Return the steps that call one of these tools, each with the steps whose results it uses."""
    asked = {str(tool.id) for tool in tools}
    written = {place: (step, planned) for place, step, planned in _written_steps(steps, plan.steps)}
    by_name = {f"steps.{planned.id or place}": place for place, (_, planned) in written.items()}
    by_name |= {f"steps.{place}": place for place in written}
    shown: list[str] = []
    for place, (step, planned) in written.items():
        if planned.tool_id not in asked:
            continue
        shown.append(f"step {place}: {encoded(step)}")
        top, _, _ = place.partition(".")
        pending, seen = [*planned.depends_on, *written[top][1].depends_on], set[str]()
        while pending:
            source = by_name.get(pending.pop(0))
            if source is None or source in seen:
                continue
            seen.add(source)
            shown.append(f"  it uses the result of step {source}: {encoded(written[source][0])}")
            pending += written[source][1].depends_on
    return shown


def _written_steps(
    steps: Any, planned: Sequence[PlannedStep], within: str = ""
) -> Iterator[tuple[str, Any, PlannedStep]]:
    """Yield each step as it was written, with its place (`2`, or `2.0` in a group) and what it would do."""
    for place, plan in enumerate(planned):
        step = steps[place] if isinstance(steps, list) and place < len(steps) else None
        yield f"{within}{place}", step, plan
        if plan.parts:
            inner = step.get("parallel") if isinstance(step, dict) else None
            yield from _written_steps(inner, plan.parts, f"{within}{place}.")


def _base(tool: Tool) -> str:
    return f"{tool.namespace}:{tool.name}" if tool.namespace else tool.name


def _path(tool: Tool) -> tuple[str, str]:
    return identifier(tool.namespace) if tool.namespace else "", identifier(tool.name)


def _spelt(word: str) -> Iterator[str]:
    """Yield what a word in code may stand for: itself, or what got a number or a dash so as to be another."""
    yield word
    base, dash, number = word.rpartition("_")
    if dash and (not number or number.isdecimal()):
        yield base

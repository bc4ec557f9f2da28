"""Toolbox: the tools of a crib as the modules of the frameworks list, find and call them.

A toolbox has chosen tools, all tools, or a search on demand. With a search the agent has `search_tools`, and
what it finds is either called by its own name from the next turn on, where the framework asks for the tools
before each turn, or by `run_tool`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

import anyio
from anyio import from_thread, lowlevel

from toolcrib.adapter.results import read_outcome
from toolcrib.adapter.rewrite.codec import to_text
from toolcrib.crib import Crib, SyncCrib, View
from toolcrib.crib.code import Named
from toolcrib.discovery import Page, Result, explain_no_match
from toolcrib.errors import (
    CribStateError,
    InputValidationError,
    InvalidToolError,
    Problem,
    ToolcribError,
    ToolNotFoundError,
    explain,
)
from toolcrib.execution import CallContext, Principal
from toolcrib.execution.call import Approval, CallSuspendedError, Decision, Request
from toolcrib.execution.progress import Progress
from toolcrib.model import Tool, ToolId
from toolcrib.model.public_names import public_name
from toolcrib.model.schemas import integer, object_, string
from toolcrib.model.shape import original_of
from toolcrib.model.suggest import did_you_mean

T = TypeVar("T")
F = TypeVar("F")
Consent: TypeAlias = Literal["needed", "given"]
SEARCH_TOOLS: Final = "search_tools"
RUN_TOOL: Final = "run_tool"
MAX_FOUND = 32
"""The maximum number of tools from earlier searches that stay listed: those found last."""
_CORRECTABLE = frozenset({"validation_input", "execution_failed", "tool_not_found", "limit_exceeded"})
_LIMIT = 5
_MAX_LIMIT = 20
_LATER = (
    "Find tools by what you want to do, in plain words. From your next turn on you can call what it returns."
)
_AT_ONCE = "Find tools by what you want to do, in plain words. Call one that it returns with run_tool."
_RUN = "Run a tool that search_tools has found, with arguments as its inputSchema says."


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool as an agent is offered it."""

    name: str
    """The name by which the agent calls it: at most 64 letters, digits, `_` and `-`."""
    description: str
    """What it does."""
    parameters: dict[str, Any]
    """The JSON Schema of its arguments, an object with `properties`."""
    tool: Tool | None = None
    """The tool of the crib; None for `search_tools` and `run_tool`."""

    @property
    def tool_id(self) -> str:
        """The id of the tool in the crib; its name for `search_tools` and `run_tool`."""
        return self.name if self.tool is None else str(self.tool.id)

    @property
    def annotations(self) -> dict[str, Any]:
        """The hints about what it may do, such as `readOnlyHint`."""
        hints = None if self.tool is None else self.tool.annotations
        if self.tool is None:
            return {"readOnlyHint": True} if self.name == SEARCH_TOOLS else {}
        return {} if hints is None else hints.to_json()


@dataclass(frozen=True, slots=True)
class AgentReply:
    """The reply to a call, for an agent."""

    text: str
    """The result as text."""
    value: Any
    """The result as JSON."""
    blocks: tuple[dict[str, Any], ...]
    """MCP content: text, images, audio, resources; a single text where the tool gave none."""
    found: tuple[str, ...] = ()
    """The ids of the tools that a search found, which `Toolbox.tools_of` lists."""

    @property
    def media(self) -> tuple[tuple[str, str, str], ...]:
        """The images and audio, each as its type (`image`, `audio`), media type and base64."""
        media = (block for block in self.blocks if block["type"] in {"image", "audio"})
        return tuple((block["type"], block.get("mimeType", ""), block.get("data", "")) for block in media)


class Toolbox:
    """The tools of a crib that an agent may use.

    With a `Crib` the calls run in the event loop of the caller, with a `SyncCrib` in that of the crib.
    """

    def __init__(
        self,
        crib: View | SyncCrib,
        tools: Iterable[Named] | None = None,
        *,
        search: bool = False,
        has_turns: bool = False,
        timeout: float | None = None,
        principal: Principal | None = None,
    ) -> None:
        """Take a crib or a view, and which of its tools the agent has.

        Args:
            crib: where the tools are.
            tools: those that are listed; None for all, or, with a search, for none.
            search: whether the agent finds further tools by `search_tools`.
            has_turns: whether tools that were found can be listed from the next turn on; else `run_tool` runs
            them.
            timeout: seconds for each call, as for `crib.run`.
            principal: the caller, for the rules and the audit.
        """
        self.crib, self.search, self.has_turns = crib, search, has_turns
        self.timeout, self.principal = timeout, principal
        self.chosen = None if tools is None else tuple(tools)
        self._loop = _running_loop()
        """The event loop in which this toolbox was made."""

    # What is listed

    def list_tools(self) -> tuple[AgentTool, ...]:
        """Return the tools in the beginning, without waiting for the servers of a `Crib`.

        Raises:
            ToolNotFoundError: a chosen tool is not there.
            BackendUnavailableError: its server has not listed its tools.
            CribStateError: all tools are asked for, and a server has not listed its own.
            InvalidToolError: two tools would have the same name.
        """
        crib = self.crib
        return crib.call_in_loop(self._list_later) if isinstance(crib, SyncCrib) else self._list_now(crib)

    async def list_tools_later(self) -> tuple[AgentTool, ...]:
        """Do as `list_tools`, and wait for servers that have not listed their tools."""
        crib = self.crib
        if isinstance(crib, SyncCrib):
            return await crib.await_in_loop(self._list_later)
        return await self._list_later(crib)

    def tool_of(self, tool_id: str) -> AgentTool | None:
        """Return a tool by its id; None if it is not there any more. Does not wait."""
        crib = self.crib
        index = crib.discovery.index if isinstance(crib, SyncCrib) else crib.seen_by(self.principal).index
        try:
            return offer(index.resolve(tool_id))
        except ToolcribError:
            return None

    def tools_of(self, tool_ids: Iterable[str]) -> tuple[AgentTool, ...]:
        """Return the tools of ids that earlier searches found; the last `MAX_FOUND` of them."""
        latest = list(dict.fromkeys(reversed(list(tool_ids))))[:MAX_FOUND]
        return tuple(tool for tool_id in reversed(latest) if (tool := self.tool_of(tool_id)) is not None)

    async def _list_later(self, crib: View) -> tuple[AgentTool, ...]:
        seen = crib.seen_by(self.principal)
        if self.chosen is None and not self.search:
            await seen.namespaces()
        for each in self.chosen or ():
            await seen.describe(each, "summary")  # type: ignore[arg-type]  # it takes results, too
        return self._list_now(crib)

    def _list_now(self, crib: View) -> tuple[AgentTool, ...]:
        seen = crib.seen_by(self.principal)
        if self.chosen is not None:
            return self._offer([seen[each] for each in self.chosen])  # type: ignore[index]  # as above
        if not self.search and isinstance(crib, Crib) and crib.needs_start:
            raise CribStateError("the servers are not running: list the tools inside 'async with crib:'")
        return self._offer([] if self.search else _list_all(seen))

    def _offer(self, tools: Iterable[Tool]) -> tuple[AgentTool, ...]:
        offered = [offer(tool) for tool in tools]
        if self.search:
            offered.append(_search_tool(has_turns=self.has_turns))
            if not self.has_turns:
                offered.append(_RUN_TOOL)
        by_name: dict[str, AgentTool] = {}
        for each in offered:
            other = by_name.setdefault(each.name, each)
            if other is not each:
                reason = (
                    f"is offered under the name {each.name!r}, as {other.tool_id!r} is; choose one of them"
                )
                raise InvalidToolError((Problem("/name", "unique", reason),), each.tool_id)
        return tuple(offered)

    # What is called

    async def call(
        self,
        tool: AgentTool,
        args: Any,
        *,
        progress: Progress | None = None,
        consent: Consent | None = None,
    ) -> AgentReply:
        """Run a tool and return its output, for `search_tools` the tools found.

        Args:
            tool: the tool.
            args: its arguments, as JSON.
            progress: takes the progress that the tool reports.
            consent: what the framework knows of the consent of a person, where a rule asks for it and the
            crib has
                no `approve` of its own: `needed` raises `ConsentNeededError`, `given` is a yes. None: nobody
                can be asked.

        Raises:
            CallFailedError: the call failed, or was refused.
            ConsentNeededError: the framework has to ask a person.
            CribStateError: the crib is closed.
        """
        crib = self.crib
        try:
            if isinstance(crib, SyncCrib):
                return await crib.await_in_loop(
                    lambda inner: self._call(inner, tool, args, progress, consent)
                )
            return await self._call(crib, tool, args, progress, consent)
        except CribStateError:  # a mistake of the program, which no model can do anything about
            raise
        except ToolcribError as error:
            raise CallFailedError(error) from error

    @property
    def may_need_consent(self) -> bool:
        """Whether there are rules, one of which may ask for the consent of a person."""
        return bool(self.crib.settings.policy)

    async def needs_consent(self, tool: AgentTool, args: Any) -> bool:
        """Return whether a rule asks for consent, and the crib has no `approve` of its own."""
        crib = self.crib
        if isinstance(crib, SyncCrib):
            return await crib.await_in_loop(lambda inner: self._needs_consent(inner, tool, args))
        return await self._needs_consent(crib, tool, args)

    async def _needs_consent(self, crib: View, tool: AgentTool, args: Any) -> bool:
        rules, record, given = crib.rules, tool.tool, args
        if record is None and tool.name == RUN_TOOL:
            tool_id, given = _read_run(args)
            with suppress(ToolcribError):
                record = crib[tool_id]
        if rules is None or rules.has_approver or record is None or not isinstance(given, dict):
            return False
        request = Request(tool=record, args=given, context=CallContext(principal=self.principal))
        return rules.decide(request).effect == "ask"

    def call_sync(
        self,
        tool: AgentTool,
        args: Any,
        *,
        progress: Progress | None = None,
        consent: Consent | None = None,
    ) -> AgentReply:
        """Do as `call` without an event loop.

        With a `Crib` the loop in which the toolbox was made runs the call, for a thread that it is not in.

        Raises:
            CallFailedError: as `call` does.
            ConsentNeededError: likewise.
            CribStateError: this is the event loop of a `Crib`, or its servers live in a loop that is not
            known.
        """
        return self._wait_for(lambda: self.call(tool, args, progress=progress, consent=consent))

    def _wait_for(self, ask: Callable[[], Awaitable[T]]) -> T:
        here, home = _running_loop(), self._loop
        is_elsewhere = here is None or home is None or here.native_token is not home.native_token
        if home is not None and is_elsewhere and not isinstance(self.crib, SyncCrib):
            return from_thread.run(ask, token=home)  # type: ignore[arg-type]  # any awaitable can be awaited there
        if here is not None:
            reason = (
                "the tool is called synchronously in an event loop, which would wait for itself; await it"
            )
            raise CribStateError(
                f"{reason}, call it in a thread, or use SyncCrib in a program without a loop"
            )
        return anyio.run(ask)

    async def _call(
        self,
        crib: View,
        tool: AgentTool,
        args: Any,
        progress: Progress | None,
        consent: Consent | None,
    ) -> AgentReply:
        if tool.tool is None and tool.name == SEARCH_TOOLS:
            return await self._search(crib, args)
        tool_id = tool.tool_id
        if tool.tool is None:
            tool_id, args = _read_run(args)
        context = None
        if consent is not None:
            is_given = consent == "given" and tool_id in crib
            granted = frozenset({str(original_of(crib[tool_id]).id)}) if is_given else frozenset[str]()
            ask = None if consent == "given" else _asker(crib)
            context = CallContext(principal=self.principal, approval=Approval(ask=ask, granted=granted))
        result = await crib.run(
            tool_id,
            args,
            timeout=self.timeout,
            progress=progress,
            frame_progress=False,
            principal=self.principal,
            context=context,
        )
        output = read_outcome(result)
        return AgentReply(output.text, output.value, output.blocks)

    async def _search(self, crib: View, args: Any) -> AgentReply:
        query, limit = _read_search(args)
        seen = crib.seen_by(self.principal)
        page = await seen.search(query, limit=limit)
        found = [offer(seen.index.get(result.id)) for result in page.items]
        note = _note(page, query, seen)
        described = [
            {"name": each.name, "description": each.description}
            if self.has_turns
            else {"tool_id": each.tool_id, "description": each.description, "inputSchema": each.parameters}
            for each in found
        ]
        payload: dict[str, Any] = {"tools": described} | ({"note": note} if note else {})
        text = to_text(payload)
        return AgentReply(
            text, payload, ({"type": "text", "text": text},), tuple(each.tool_id for each in found)
        )


class FoundTools(list[F]):
    """The list of an agent's tools, to which searches add.

    For frameworks that read the list before each turn, and give a tool no way to the messages of the
    conversation. Of what was found, the last `MAX_FOUND` stay.
    """

    def __init__(self, toolbox: Toolbox, make: "Callable[[AgentTool, FoundTools[F]], F]") -> None:
        """Take a function that makes a tool of the framework."""
        self._toolbox, self._make = toolbox, make
        self._found: dict[str, F] = {}
        self._first = toolbox.list_tools()
        super().__init__(make(each, self) for each in self._first)

    def add(self, tool_ids: Iterable[str]) -> None:
        """Add tools that a search has found."""
        listed = {each.tool_id for each in self._first}
        for each in self._toolbox.tools_of(tool_ids):
            if each.tool_id in listed:
                continue
            if (known := self._found.pop(each.tool_id, None)) is not None:
                self._found[each.tool_id] = known
                continue
            self._found[each.tool_id] = made = self._make(each, self)
            self.append(made)
        while len(self._found) > MAX_FOUND:
            oldest = self._found.pop(next(iter(self._found)))
            self[:] = [each for each in self if each is not oldest]


def _list_all(crib: View) -> list[Tool]:
    """Return the highest version of each tool."""
    missing = [each.name for each in crib.absent() if each.state != "failed" and not each.kept]
    if missing:
        reason = f"the tools of {', '.join(missing)} are not known yet"
        raise CribStateError(f"{reason}: enter the crib, and 'await crib.ready()' before you list them")
    found = []
    for namespace, name in dict.fromkeys((each.namespace, each.name) for each in crib.index.list_all()):
        with suppress(ToolNotFoundError):  # it has gone meanwhile
            found.append(crib.index.resolve(ToolId(namespace, name)))
    return found


class CallFailedError(Exception):
    """A call that failed, in the words that a model gets; the cause is the error of the crib."""

    def __init__(self, error: ToolcribError) -> None:
        explained = explain(error)
        super().__init__(explained["message"])
        self.code = str(explained["code"])
        """The code of the error, such as `validation_input`."""

    @property
    def is_correctable(self) -> bool:
        """Whether the model may do better by calling again, with other arguments or another tool."""
        return self.code in _CORRECTABLE


class ConsentNeededError(CallSuspendedError):
    """A person has to agree to a call, and the framework can ask; the tool was not run."""

    def __init__(self, tool_id: str, args: Mapping[str, Any], reason: str) -> None:
        super().__init__(f"{tool_id} needs the consent of a person")
        self.tool_id = tool_id
        self.request = {"tool_id": tool_id, "args": dict(args), "reason": reason}
        """What to show to the person, as JSON."""


def _asker(crib: View) -> Callable[[Request, Decision], Awaitable[None]]:
    """Return the handler of a rule that asks: `approve` decides, else the framework asks."""

    async def ask(request: Request, decision: Decision) -> None:
        rule, rules = decision.rule, crib.rules
        if rule is not None and rules is not None and rules.has_approver:
            await rules.approve(request, rule)
        else:
            tool_id, args = request.tool_id, request.args
            if request.shaped is not None:
                tool_id, args = str(request.shaped.id), request.shaped.seen_args(args)
            raise ConsentNeededError(tool_id, args, (rule and rule.reason) or "")

    return ask


def offer(tool: Tool) -> AgentTool:
    """Return a tool of a crib as an agent is offered it."""
    schema = {key: value for key, value in tool.input_schema.items() if key != "$schema"}
    parameters = {**schema, "type": "object", "properties": schema.get("properties", {})}
    description = tool.description or tool.title or ""
    return AgentTool(public_name(tool.namespace, tool.name), description, parameters, tool)


def _search_tool(*, has_turns: bool) -> AgentTool:
    return AgentTool(SEARCH_TOOLS, _LATER if has_turns else _AT_ONCE, _SEARCH_PARAMETERS)


_SEARCH_PARAMETERS: Final = object_(
    {
        "query": string(description="What you want to do, such as 'open an issue in a repository'."),
        "limit": integer(
            description="How many tools to return.", minimum=1, maximum=_MAX_LIMIT, default=_LIMIT
        ),
    },
    required=["query"],
)
_RUN_TOOL: Final = AgentTool(
    RUN_TOOL,
    _RUN,
    object_(
        {
            "tool_id": string(description="The tool_id that search_tools returned."),
            "args": {"type": "object", "description": "The arguments of the tool.", "properties": {}},
        },
        required=["tool_id"],
    ),
)


def _read_search(args: Any) -> tuple[str, int]:
    given = args if isinstance(args, Mapping) else {}
    query, limit = given.get("query"), given.get("limit", _LIMIT)
    if not isinstance(query, str) or not query.strip():
        problem = Problem("/query", "required", "say in words what you want to do")
        raise InputValidationError((problem,), tool_id=SEARCH_TOOLS)
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        limit = _LIMIT
    return query, min(max(int(limit), 1), _MAX_LIMIT)


def _read_run(args: Any) -> tuple[str, Any]:
    given = args if isinstance(args, Mapping) else {}
    tool_id = given.get("tool_id")
    if not isinstance(tool_id, str) or not tool_id:
        meant = did_you_mean("tool_id", [str(key) for key in given])
        problem = Problem("/tool_id", "required", f"name the tool that search_tools has found{meant}")
        raise InputValidationError((problem,), tool_id=RUN_TOOL)
    return tool_id, given.get("args") or {}


def _note(page: Page[Result], query: str, crib: View) -> str:
    """Return a note about poor results, and about servers whose tools are missing."""
    notes = []
    unsure = explain_no_match(page, query)
    if unsure is not None:
        notes.append("these are guesses: nothing clearly fits" if unsure.guesses else "no tool fits")
        notes[0] += "; ask in other words, or tell the user that there is no such tool"
    if absent := [each.name for each in crib.absent() if not each.kept]:
        notes.append(f"not available at the moment: {', '.join(absent)}")
    return ". ".join(notes)


def _running_loop() -> lowlevel.EventLoopToken | None:
    try:
        return lowlevel.current_token()
    except RuntimeError:
        return None

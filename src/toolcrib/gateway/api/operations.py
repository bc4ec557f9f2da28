"""What each operation of the API does, by the same `View` and `Runner` as requests of MCP."""

import csv
import io
import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

import anyio
from anyio import to_thread

from toolcrib import __version__
from toolcrib.adapter import default_registry
from toolcrib.crib import Crib, Settings, load
from toolcrib.crib.access import decide_again, explain_access
from toolcrib.crib.trust import TrustEdit, TrustReport
from toolcrib.discovery import Summary, explain_no_match
from toolcrib.errors import (
    ConfigError,
    LoginRequiredError,
    Problem,
    ServerUnavailableError,
    ToolcribError,
    ToolNotFoundError,
    ToolWithheldError,
    ValidationError,
    explain,
)
from toolcrib.execution import CallContext, ChainResult, Principal, Rule
from toolcrib.execution.call import Approval
from toolcrib.execution.mcp import ServerStatus
from toolcrib.execution.oauth.flows import log_out
from toolcrib.execution.oauth.persons import login_command
from toolcrib.execution.oauth.vault import LoginVault
from toolcrib.execution.policy.rules import Rules
from toolcrib.execution.principal import LOCAL, local_user
from toolcrib.gateway.api import records
from toolcrib.gateway.api.approvals import Approvals
from toolcrib.gateway.api.caller import (
    ApiCaller,
    ApiFile,
    ApiStream,
    ConsoleClient,
    QuestionForPersonError,
    SendEvent,
)
from toolcrib.gateway.api.calls import CallFilter, CallLog, CallRow, Running, is_same_account
from toolcrib.gateway.api.measures import count_by_minute, count_by_tool, quantile
from toolcrib.gateway.api.routes import ApiOperation, Handle
from toolcrib.gateway.api.runs import describe_calls, describe_steps
from toolcrib.gateway.app.connect import LoginPages
from toolcrib.gateway.frontends.meta import MetaTools
from toolcrib.gateway.frontends.meta.token_usage import TokenUsage, tool_tokens
from toolcrib.gateway.request.confirm import ConfirmedCalls
from toolcrib.gateway.workers.fleet import Fleet
from toolcrib.model import ToolDoc
from toolcrib.model.record import Record
from toolcrib.model.results import RunResult
from toolcrib.runtime import ExecuteResult

_MIRRORED = frozenset({"summary"})
"""Has the same text as the short description."""
_State = tuple[list[dict[str, Any]], int, tuple[int, int]]
"""The servers, the version of the catalogue, and how many calls wait and run."""
_TICK = 0.25
"""Seconds between two looks at what has changed, for a console that listens."""
_SERVERS_EVERY = 4
"""Ticks between two looks at the servers."""
_ALIVE_EVERY = 60
"""Ticks after which a stream without news sends a sign of life."""
_BURST = 200
"""Calls that one tick sends; of more, the console is told to read the list."""
_HIDDEN = "(hidden)"
_WELL = frozenset({"ready", "stopped", "starting", "disabled"})
_WARNINGS = 50
_APART = frozenset({"servers", "openapi", "toolsets", "others", "policy", "source"})
"""Settings that are sections of their own, or are shown elsewhere."""


class ApiOperations:
    """The operations, for the crib of one gateway."""

    def __init__(
        self,
        crib: Crib,
        calls: CallLog,
        approvals: Approvals,
        pages: LoginPages,
        sessions: Callable[[], int],
        fleet: Fleet,
    ) -> None:
        """Answer for a crib; `sessions` returns the number of connected clients of the handshake era.

        `fleet` acts on all workers.
        """
        self._fleet = fleet
        self._crib, self._calls, self._approvals = crib, calls, approvals
        self._pages, self._sessions = pages, sessions
        self._usage: tuple[tuple[object, ...], TokenUsage, list[dict[str, Any]]] | None = None

    def all(self) -> tuple[ApiOperation, ...]:
        """Return the operations, as the document lists them."""

        def get(path: str, summary: str, handle: Handle, **more: Any) -> ApiOperation:
            return ApiOperation(method="GET", path=path, summary=summary, handle=handle, **more)

        def post(path: str, summary: str, handle: Handle, **more: Any) -> ApiOperation:
            return ApiOperation(method="POST", path=path, summary=summary, handle=handle, **more)

        return (
            get("/me", "Who is logged in.", self.me, answer=records.Me),
            get(
                "/overview",
                "The state of everything at a glance.",
                self.overview,
                query=records.OverviewQuery,
                answer=records.Overview,
            ),
            get("/tokens", "The tokens that definitions take, by tool, and how many are saved.", self.tokens),
            get(
                "/servers",
                "The servers and APIs, and their problems.",
                self.servers,
                answers_items_of=records.ServerLine,
            ),
            get(
                "/servers/{name}/log",
                "The last lines of a server's standard error.",
                self.server_log,
                answer=records.LogTail,
                needs="operator",
            ),
            post(
                "/servers/{name}/start",
                "Start a server, or start it again.",
                self.start_server,
                answer=records.ServerLine,
                needs="operator",
            ),
            post(
                "/servers/{name}/stop",
                "Stop a server until it is started again.",
                self.stop_server,
                answer=records.ServerLine,
                needs="operator",
            ),
            post(
                "/servers/{name}/login",
                "Make the page on which the caller logs in to a server.",
                self.server_login,
                answer=records.LoginPage,
            ),
            post(
                "/servers/{name}/revoke",
                "Delete somebody's login to a server, and revoke its tokens.",
                self.revoke_login,
                body=records.RevokeBody,
                needs="operator",
            ),
            get(
                "/tools",
                "The tools, in the order of their ids.",
                self.tools,
                query=records.ToolsQuery,
                answers_items_of=Summary,
            ),
            get("/namespaces", "The namespaces of the tools.", self.namespaces),
            get(
                "/search",
                "The tools that fit a question, best first.",
                self.search,
                query=records.SearchQuery,
            ),
            get(
                "/tools/{id}",
                "The documentation of a tool.",
                self.describe,
                query=records.LevelQuery,
                answer=ToolDoc,
            ),
            post(
                "/convert", "Write tools in the format of a provider.", self.convert, body=records.ConvertBody
            ),
            post(
                "/run",
                "Run a tool: progress, then a result, an error, or a question to agree to.",
                self.run,
                body=records.RunBody,
                streams=True,
            ),
            get("/calls", "The latest calls, the newest first.", self.calls, query=records.CallsQuery),
            get("/calls/running", "The calls that have not ended.", self.running),
            get("/calls/callers", "Who has called which tools, with what outcome.", self.callers),
            get("/calls/export", "The latest calls as a file.", self.export, query=records.ExportQuery),
            get("/calls/{id}", "A call, with its arguments and its result.", self.call),
            get(
                "/changes",
                "What has changed since it was approved, what is withheld, and what the scan finds.",
                self.changes,
                answer=TrustReport,
                needs="auditor",
            ),
            post(
                "/changes/lock",
                "Write the lock of all that servers and APIs offer.",
                self.write_lock,
                answer=TrustEdit,
                needs="operator",
            ),
            post(
                "/changes/approve",
                "Approve tools and servers as they are now.",
                self.approve_changes,
                body=records.ApproveBody,
                answer=TrustEdit,
                needs="operator",
            ),
            post(
                "/changes/block",
                "Block a tool for everybody.",
                self.block_tool,
                body=records.BlockBody,
                answer=TrustEdit,
                needs="operator",
            ),
            post(
                "/changes/suppress",
                "Accept what a rule of the scan finds in a tool or a server's words.",
                self.suppress_finding,
                body=records.SuppressBody,
                answer=TrustEdit,
                needs="operator",
            ),
            get("/approvals", "The calls waiting for approval.", self.approvals, needs="auditor"),
            post(
                "/approvals/{id}",
                "Answer a call that waits.",
                self.answer_approval,
                body=records.AnswerBody,
                needs="operator",
            ),
            post(
                "/approvals/{id}/webhook",
                "Answer a call that waits, with a signature of the webhook's secret.",
                self.answer_webhook,
                body=records.WebhookAnswerBody,
                is_signed=True,
            ),
            post(
                "/approvals/{id}/link",
                "See a call that waits, or answer it, with the token of its link.",
                self.answer_link,
                body=records.LinkAnswerBody,
                is_open=True,
            ),
            post(
                "/access",
                "Whether somebody may call a tool, and by which rule.",
                self.access,
                body=records.AccessBody,
                needs="auditor",
            ),
            get("/access/rules", "The rules of the configuration.", self.rules, needs="auditor"),
            post(
                "/access/simulate",
                "What rules decide about the latest calls.",
                self.simulate,
                body=records.SimulateBody,
                needs="auditor",
            ),
            get("/runs", "The durable runs, latest first.", self.runs),
            post(
                "/runs",
                "Run code or a chain durably: a result, or an error. It is suspended if the caller leaves.",
                self.begin_run,
                body=records.BeginRunBody,
                streams=True,
            ),
            get("/runs/{id}", "A durable run: its steps or its code, with the calls.", self.run_details),
            post("/runs/{id}/resume", "Resume a durable run.", self.resume, body=records.ResumeBody),
            post("/runs/{id}/cancel", "Cancel a durable run, which can be resumed.", self.cancel_run),
            get("/access/tokens", "The named tokens of the gateway.", self.access_tokens, needs="operator"),
            get(
                "/config",
                "The settings in effect, and the problems of the file.",
                self.config,
                needs="operator",
            ),
            get(
                "/events",
                "What changes, as it happens: calls, servers, approvals, the catalogue.",
                self.events,
                streams=True,
            ),
        )

    async def me(self, caller: ApiCaller) -> records.Me:
        """Return who is logged in."""
        who, settings = caller.principal, self._crib.settings
        return records.Me(
            issuer=who.issuer,
            subject=who.subject,
            client=who.client,
            groups=tuple(sorted(who.groups)),
            operator=caller.is_operator,
            auditor=caller.sees_all,
            version=__version__,
            config=settings.source if caller.is_operator else None,
            toolsets=tuple(sorted(settings.toolsets)),
            formats=default_registry().names(),
        )

    async def overview(self, caller: ApiCaller) -> records.Overview:
        """Return how everything is doing."""
        minutes = caller.query.minutes
        since = (time.time() // 60 - minutes + 1) * 60
        rows = list(self._calls.newest(CallFilter(viewer=caller.viewer, since=since)))
        durations = [row.duration for row in rows]
        servers = self._server_lines(caller)
        return records.Overview(
            servers=dict(Counter("paused" if each.paused else each.state for each in servers)),
            unhealthy=tuple(each.name for each in servers if not each.healthy),
            tools=len(caller.view.index),
            running=len(await self._list_running(caller)),
            waiting=len(self._approvals.waiting()) if caller.sees_all else 0,
            calls=len(rows),
            failed=sum(row.outcome != "ok" for row in rows),
            p50=quantile(durations, 0.5),
            p95=quantile(durations, 0.95),
            series=count_by_minute(rows, minutes),
            top=count_by_tool(rows),
            sessions=self._sessions() if caller.sees_all else None,
        )

    async def tokens(self, caller: ApiCaller) -> dict[str, Any]:
        """Return the tokens of all definitions, of those that are listed in their place, and by tool."""
        view = caller.view
        rules = None if view.rules is None else view.rules.grants(caller.principal).key
        key = (view.index.version, id(view.settings), rules)
        if self._usage is None or self._usage[0] != key:
            usage, rows = await to_thread.run_sync(lambda: _measure_tokens(caller))
            self._usage = key, usage, rows
        _, usage, rows = self._usage
        return {**usage._asdict(), "saved": round(usage.saved, 4), "items": rows}

    async def servers(self, caller: ApiCaller) -> dict[str, Any]:
        """Return the servers and APIs."""
        lines = self._server_lines(caller)
        if caller.is_operator:
            grants = await to_thread.run_sync(self._read_logins)
            lines = [each.replace(logins=grants.get(each.name, ())) for each in lines]
        return {"items": [each.to_json() for each in lines], "total": len(lines)}

    def _server_lines(self, caller: ApiCaller) -> list[records.ServerLine]:
        return [self._server_line(each) for each in caller.view.status().values()]

    def _server_line(self, status: ServerStatus) -> records.ServerLine:
        name, problem = status.name, None if status.paused else status.last_error
        healthy = status.state in _WELL and (status.state != "stopped" or problem is None)
        repair, hint = None, None
        if status.needs_login:
            repair, hint = "login", login_command(name)
        elif status.state == "disabled":
            repair, hint = "config", f"it is switched off: remove 'disabled' of [servers.{name}]"
        elif status.paused or not healthy or problem is not None:
            repair = "start" if name in self._crib.settings.servers else "config"
            hint = f"toolcrib doctor {name}" if not status.paused else None
        return records.ServerLine(
            name=name,
            state=status.state,
            transport=status.transport,
            healthy=healthy and not status.needs_login,
            why=status.describe_failure() if problem else None,
            repair=repair,
            hint=hint,
            paused=bool(status.paused),
            tools=status.tools,
            kept=status.kept,
            in_flight=status.in_flight,
            pid=status.pid,
            starts=status.starts,
            listed_ago=status.listed_ago,
            next_try_in=status.next_try_in,
            protocol_version=status.protocol_version,
            server_info=status.server_info,
            refused=status.refused,
        )

    def _read_logins(self) -> dict[str, tuple[records.LoginHolder, ...]]:
        """Return who has logged in to which server."""
        found: dict[str, tuple[records.LoginHolder, ...]] = {}
        with suppress(ToolcribError):  # without a home there is no vault; with another key it cannot be read
            vault = LoginVault()
            for name, config in self._crib.settings.servers.items():
                if config.url is None:
                    continue
                own = [] if vault.get(name, config.url) is None else [records.LoginHolder()]
                persons = [
                    records.LoginHolder(issuer=issuer, subject=subject)
                    for issuer, subject in vault.owners(name, config.url)
                ]
                found[name] = (*own, *persons)
        return found

    def _status_of(self, caller: ApiCaller) -> ServerStatus:
        name = caller.path["name"]
        status = caller.view.status().get(name)
        if status is None:
            raise ServerUnavailableError(name, f"there is no server named {name!r}")
        return status

    async def server_log(self, caller: ApiCaller) -> records.LogTail:
        """Return the end of a server's standard error."""
        status = self._status_of(caller)
        return records.LogTail(name=status.name, text=status.stderr)

    async def start_server(self, caller: ApiCaller) -> records.ServerLine:
        """Start a server, after stopping it where it runs."""
        name = self._status_of(caller).name
        with suppress(ServerUnavailableError):  # its line says why
            await self._fleet.start_server(name)
        return self._server_line(self._status_of(caller))

    async def stop_server(self, caller: ApiCaller) -> records.ServerLine:
        """Stop a server until it is started again."""
        await self._fleet.stop_server(self._status_of(caller).name)
        return self._server_line(self._status_of(caller))

    async def server_login(self, caller: ApiCaller) -> records.LoginPage:
        """Make the page on which the caller logs in to a server with an account of their own."""
        name = self._status_of(caller).name
        link = self._pages.link(caller.principal, name)
        if link is None:
            raise LoginRequiredError(name, f"there is no page for it; in a terminal: {login_command(name)}")
        return records.LoginPage(url=link.url)

    async def revoke_login(self, caller: ApiCaller) -> dict[str, Any]:
        """Forget a login to a server: a person's, or that of this machine's user."""
        name, who = self._status_of(caller).name, caller.body
        config = self._crib.settings.servers.get(name)
        if config is None:
            raise ServerUnavailableError(name, "only MCP servers have logins of persons")
        owner = (who.issuer, who.subject) if who.subject else None
        known, revoked = await log_out(name, config, owner=owner)
        if not known:
            raise ServerUnavailableError(name, f"{who.subject or 'nobody'} is not logged in to it")
        return {"revoked": revoked}

    async def tools(self, caller: ApiCaller) -> dict[str, Any]:
        """Return a page of the tools."""
        asked = caller.query
        page = await caller.view.tools(
            limit=asked.limit,
            cursor=asked.cursor,
            namespace=asked.namespace,
            tags=asked.tags or None,
            backend=asked.backend,
        )
        items = [each.to_json(without=_MIRRORED) for each in page]
        more = {} if page.next_cursor is None else {"nextCursor": page.next_cursor}
        return {"items": items, "total": page.total, **more, **self._absent(caller)}

    def _absent(self, caller: ApiCaller) -> dict[str, Any]:
        absent = [each.to_json() for each in caller.view.absent()]
        return {"absent": absent} if absent else {}

    async def namespaces(self, caller: ApiCaller) -> dict[str, Any]:
        """Return the namespaces."""
        return {"items": [name for name in await caller.view.namespaces() if name]}

    async def search(self, caller: ApiCaller) -> dict[str, Any]:
        """Return the tools that fit a question, each with the reasons for its score."""
        asked = caller.query
        options = {"limit": asked.limit, "namespace": asked.namespace, "tags": asked.tags or None}
        options["explain"] = True
        page = await caller.view.search(
            asked.query, context=CallContext(principal=caller.principal), **options
        )
        reason = explain_no_match(page, asked.query) if page.items else "nothing fits"
        items = [each.summary.to_json(without=_MIRRORED) | each.to_json(without={"summary"}) for each in page]
        note = (
            {}
            if reason is None
            else {"note": "nothing clearly fits; these are guesses" if items else "nothing fits"}
        )
        return {"items": items, "total": page.total, **note, **self._absent(caller)}

    async def describe(self, caller: ApiCaller) -> ToolDoc:
        """Return what is known of a tool."""
        context = CallContext(principal=caller.principal)
        return await caller.view.describe(caller.path["id"], caller.query.level, context=context)

    async def convert(self, caller: ApiCaller) -> dict[str, Any]:
        """Return tools in the format of a provider, with what it cannot express."""
        asked = caller.body
        found = caller.view.convert(asked.to, tools=asked.ids, **asked.options)
        return {
            "items": [
                {
                    "id": each.tool_id,
                    "name": each.name,
                    "payload": each.payload,
                    "warnings": [
                        {"feature": one.feature, "path": one.path, "message": one.message, "part": one.part}
                        for one in each.warnings[:_WARNINGS]
                    ],
                }
                for each in found
            ]
        }

    async def run(self, caller: ApiCaller) -> ApiStream:
        """Run a tool, and report its progress and how it ended."""

        async def produce(send: SendEvent) -> None:
            async def report(facts: dict[str, Any]) -> None:
                await send("progress", facts)

            asked = caller.body
            client = ConsoleClient(caller.principal, caller.open.subject_token, asked.confirmed, report)
            calls = ConfirmedCalls(caller.view, confirm=self._crib.settings.gateway.confirm)
            try:
                result = await calls.run(asked.tool_id, asked.args, client, asked.timeout)
            except QuestionForPersonError as needed:
                await send("question", {"key": needed.question.key, "text": needed.question.text})
            except ToolcribError as error:
                await send("error", explain(error))
            else:
                await send("result", _run_json(result))

        return ApiStream(produce)

    def _conditions(self, caller: ApiCaller) -> CallFilter:
        asked = caller.query
        return CallFilter(
            viewer=caller.principal if asked.mine else caller.viewer,
            tool=asked.tool or None,
            who=asked.who or None,
            outcome=asked.outcome or None,
            since=asked.since,
            until=asked.until,
            text=asked.text or None,
        )

    async def calls(self, caller: ApiCaller) -> dict[str, Any]:
        """Return a page of the latest calls."""
        asked, conditions = caller.query, self._conditions(caller)
        found = list(islice(self._calls.newest(conditions, before=asked.cursor), asked.limit + 1))
        shown = found[: asked.limit]
        more = {"nextCursor": str(shown[-1].id)} if len(found) > len(shown) else {}
        return {"items": [each.to_json() for each in shown], "total": self._calls.count(conditions), **more}

    async def _list_running(self, caller: ApiCaller) -> list[Running]:
        viewer = caller.viewer
        running = await self._fleet.list_running()
        return [each for each in running if viewer is None or is_same_account(viewer, each.principal)]

    async def running(self, caller: ApiCaller) -> dict[str, Any]:
        """Return the calls that have not ended."""
        return {
            "items": [
                {
                    "id": each.id,
                    "toolId": each.tool_id,
                    "subject": each.principal.subject,
                    "client": each.principal.client,
                    "began": each.began,
                }
                for each in await self._list_running(caller)
            ]
        }

    async def callers(self, caller: ApiCaller) -> dict[str, Any]:
        """Return what the calls can be filtered by, the most frequent first."""
        tools, who, outcomes = Counter[str](), Counter[str](), Counter[str]()
        for row in self._calls.newest(CallFilter(viewer=caller.viewer)):
            tools[row.tool_id] += 1
            who[row.principal.subject or row.principal.client or ""] += 1
            outcomes[row.outcome] += 1
        return {
            "tools": [name for name, _ in tools.most_common(500)],
            "who": [name for name, _ in who.most_common(500) if name],
            "outcomes": [name for name, _ in outcomes.most_common()],
        }

    async def call(self, caller: ApiCaller) -> dict[str, Any]:
        """Return a call with its payload."""
        number = caller.path["id"]
        found = self._calls.find(int(number)) if number.isdecimal() and len(number) < 20 else None  # noqa: PLR2004 - digits
        if found is None or not CallFilter(viewer=caller.viewer).admits(found[0]):
            raise ToolNotFoundError(number, reason="no call with this id is remembered")
        row, payload = found
        conditions = CallFilter(viewer=caller.viewer)
        traced = [each for each in self._calls.of_trace(row.trace) if conditions.admits(each)]
        return (
            row.to_json()
            | {"request": [{**each.to_json(), "began": each.began} for each in traced]}
            | ({} if payload is None else {"payload": payload.to_json()})
        )

    async def export(self, caller: ApiCaller) -> ApiFile:
        """Return all calls that meet the conditions as a file."""
        rows = list(self._calls.newest(self._conditions(caller)))
        is_csv = caller.query.format == "csv"
        body = await to_thread.run_sync(_write_csv if is_csv else _write_json, rows)
        if is_csv:
            return ApiFile(body, "text/csv; charset=utf-8", "calls.csv")
        return ApiFile(body, "application/json", "calls.json")

    async def changes(self, caller: ApiCaller) -> dict[str, Any]:  # noqa: ARG002 - of all operations
        """Return the state of what was approved."""
        report = await self._crib.trust.report()
        return {"lock": report.lock, **report.to_json()}

    async def write_lock(self, caller: ApiCaller) -> TrustEdit:
        """Write the lock, or add what is new to it."""
        return await self._crib.trust.lock(by=_name_of(caller))

    async def approve_changes(self, caller: ApiCaller) -> TrustEdit:
        """Approve subjects, or all that has changed."""
        asked = caller.body
        return await self._crib.trust.approve(
            *asked.subjects, by=_name_of(caller), everything=asked.everything
        )

    async def block_tool(self, caller: ApiCaller) -> TrustEdit:
        """Block a tool."""
        asked = caller.body
        return await self._crib.trust.block(asked.id, reason=asked.reason, by=_name_of(caller))

    async def suppress_finding(self, caller: ApiCaller) -> TrustEdit:
        """Accept what a rule finds."""
        asked = caller.body
        return await self._crib.trust.suppress(asked.id, asked.rule, reason=asked.reason, by=_name_of(caller))

    async def approvals(self, caller: ApiCaller) -> dict[str, Any]:  # noqa: ARG002 - of all operations
        """Return the calls waiting for approval."""
        return {"items": [each.to_json() for each in self._approvals.waiting()]}

    async def answer_approval(self, caller: ApiCaller) -> dict[str, Any]:
        """Approve or decline a call that waits."""
        answered = self._approvals.answer(caller.path["id"], approve=caller.body.approve, by=_name_of(caller))
        if not answered:
            raise ToolNotFoundError(caller.path["id"], reason="it is no longer waiting")
        return {"approved": caller.body.approve}

    async def answer_webhook(self, caller: ApiCaller) -> dict[str, Any]:
        """Approve or decline a call that waits, by a signed message."""
        asked, call_id = caller.body, caller.path["id"]
        if asked.id != call_id:  # the address is not signed
            raise ValidationError((Problem("/id", "const", "must be the id in the address"),))
        if not self._approvals.answer(call_id, approve=asked.approve, by=f"{asked.by}, by the webhook,"):
            raise ToolNotFoundError(call_id, reason="it is no longer waiting")
        return {"approved": asked.approve}

    async def answer_link(self, caller: ApiCaller) -> dict[str, Any]:
        """Return the call of a link that was sent to a person, or approve or decline it."""
        asked, call_id = caller.body, caller.path["id"]
        call = self._approvals.find_by_link(call_id, asked.token)
        if call is None:
            raise ToolNotFoundError(call_id, reason="it is no longer waiting, or this is not its link")
        if asked.approve is None:
            return call.to_json()
        self._approvals.answer(call_id, approve=asked.approve, by="somebody with the link of the call")
        return {"approved": asked.approve}

    async def access(self, caller: ApiCaller) -> dict[str, Any]:
        """Explain what the rules decide about a call."""
        asked, view = caller.body, self._crib
        with suppress(ToolWithheldError):  # which is explained too
            await view.describe(asked.tool_id, "summary")  # waits for its server
        return explain_access(
            view, asked.tool_id, asked.args, subject=asked.subject, client=asked.client, groups=asked.groups
        )

    async def rules(self, caller: ApiCaller) -> dict[str, Any]:  # noqa: ARG002 - of all operations
        """Return the rules of the configuration."""
        return {"items": [rule.to_json() for rule in self._crib.settings.policy]}

    async def simulate(self, caller: ApiCaller) -> dict[str, Any]:
        """Decide the latest calls again: by the rules that hold, or by others."""
        given, rules = caller.body.rules, self._crib.rules
        if given is not None:
            made = [Rule.from_json(each) for each in given]
            issuers = None if rules is None else rules.issuers
            rules = Rules(made, validator=self._crib.validator, issuers=issuers) if made else None
        rows = list(self._calls.newest(CallFilter()))
        decided = await to_thread.run_sync(
            lambda: Counter(
                (decide_again(self._crib, rules, row.to_json()), row.failure is None) for row in rows
            )
        )
        ordered = sorted(decided.items(), key=lambda item: (item[0][0][0], -item[1]))
        decisions = [
            {"calls": count, "effect": effect, "rule": rule or None, "toolId": tool, "ran": ran}
            | ({"reason": reason} if reason else {})
            for ((effect, rule, tool, reason), ran), count in ordered
        ]
        return {"calls": len(rows), "decisions": decisions}

    async def access_tokens(self, caller: ApiCaller) -> dict[str, Any]:  # noqa: ARG002 - of all operations
        """Return the named tokens, without what is secret."""
        settings = self._crib.settings.gateway
        items = [
            {
                "name": name,
                "groups": each.groups,
                "toolsets": each.toolsets,
                "expires": None if each.expires is None else each.expires.isoformat(),
            }
            for name, each in (settings.tokens or {}).items()
        ]
        closed = settings.closed_reason()
        return {"items": items} | ({} if closed is None else {"closed": closed})

    async def runs(self, caller: ApiCaller) -> dict[str, Any]:
        """Return the durable runs of the caller."""
        owners = _owners(caller.principal)
        found = [each for owner in owners for each in await caller.view.runs(principal=owner)]
        return {"items": [each.to_json() for each in sorted(found, key=lambda run: -run.changed)]}

    async def _owner_of(self, caller: ApiCaller) -> Principal:
        """Return the owner of a run, one of those that the caller may be."""
        run_id = caller.path["id"]
        for owner in _owners(caller.principal):
            if any(each.id == run_id for each in await caller.view.runs(principal=owner)):
                return owner
        return caller.principal  # whatever asks for it says that there is none

    def _context_of_run(self, caller: ApiCaller, owner: Principal) -> CallContext:
        """Return the context of a run: operators are asked about its destructive calls."""
        confirm = self._crib.settings.gateway.confirm
        approval = Approval(ask=self._approvals.ask, may_suspend=False, confirm_destructive=confirm)
        return CallContext(principal=owner, approval=approval, subject_token=caller.open.subject_token)

    async def begin_run(self, caller: ApiCaller) -> ApiStream:
        """Run code or a chain durably."""
        asked, view = caller.body, caller.view
        if (asked.code is None) == (asked.steps is None):
            raise ValidationError((Problem("/code", "required", "give either code or steps"),))
        context = self._context_of_run(caller, caller.principal)

        async def produce(send: SendEvent) -> None:
            try:
                result: ExecuteResult | ChainResult
                if asked.code is not None:
                    result = await view.execute(asked.code, context=context, durable=True)
                else:
                    result = await view.run_chain(asked.steps, context=context, durable=True)
            except ToolcribError as error:
                await send("error", explain(error))
            else:
                await send("result", result.to_json())

        return ApiStream(produce)

    async def run_details(self, caller: ApiCaller) -> dict[str, Any]:
        """Return a run with its steps or its code."""
        owner = await self._owner_of(caller)
        details = await caller.view.describe_run(caller.path["id"], principal=owner)
        found: dict[str, Any] = {"run": details.run.to_json()}
        if details.result is not None:
            found["result"] = details.result
        if details.message is not None:
            found["message"] = details.message
        if details.run.kind == "code":
            return found | {"code": details.request["code"], "calls": describe_calls(details)}
        steps = details.request["steps"]
        try:
            plan = await caller.view.run_chain(steps, dry_run=True)
        except ToolcribError as error:  # such as a tool that is not there any more
            return found | {"steps": steps, "problem": str(error)}
        return found | {"steps": steps, "graph": describe_steps(plan, details)}

    async def resume(self, caller: ApiCaller) -> Any:
        """Resume a durable run, and return its result."""
        owner, asked = await self._owner_of(caller), caller.body
        context = self._context_of_run(caller, owner)
        answers = asked.answers or None
        result = await caller.view.resume(
            caller.path["id"], repeat=asked.repeat, answers=answers, context=context
        )
        return result.to_json()

    async def cancel_run(self, caller: ApiCaller) -> dict[str, Any]:
        """Cancel a durable run."""
        await self._fleet.cancel_run(caller.path["id"], principal=await self._owner_of(caller))
        return {}

    async def config(self, caller: ApiCaller) -> dict[str, Any]:  # noqa: ARG002 - of all operations
        """Return the settings without secrets, and what is wrong with the file as it is now."""
        settings = self._crib.settings
        problems = (
            () if settings.source is None else await to_thread.run_sync(_find_problems, settings.source)
        )
        return {
            "source": settings.source,
            "sections": _sections(settings),
            "problems": [{"path": each.path, "message": each.message} for each in problems],
        }

    async def events(self, caller: ApiCaller) -> ApiStream:
        """Send what changes while the caller listens and its login holds."""

        async def produce(send: SendEvent) -> None:
            known = _Known(self, caller, await self.state_of(caller))
            await send("hello", {"version": __version__})
            quiet = 0
            while caller.is_valid is None or await caller.is_valid():
                news = known.changes(await self.state_of(caller))
                for kind, data in news:
                    await send(kind, data)
                quiet = 0 if news else quiet + 1
                if quiet >= _ALIVE_EVERY:
                    await send("alive", {})
                    quiet = 0
                await anyio.sleep(_TICK)
            await send("over", {})

        return ApiStream(produce, is_endless=True)

    def changed_calls(self, caller: ApiCaller, after: int) -> tuple[int, list[dict[str, Any]], bool]:
        """Return the last id, the calls after another for a caller, and whether there are too many."""
        last, conditions = self._calls.last_id, CallFilter(viewer=caller.viewer)
        if last == after:
            return last, [], False
        rows = [row for row in self._calls.since(after) if conditions.admits(row)]
        return last, [row.to_json() for row in rows[-_BURST:]], len(rows) > _BURST

    async def state_of(self, caller: ApiCaller) -> _State:
        """Return the servers of a caller, the version of the catalogue, and what waits and runs."""
        lines = [each.to_json(without={"listed_ago", "next_try_in"}) for each in self._server_lines(caller)]
        waiting = self._approvals.version if caller.sees_all else 0
        return lines, caller.view.index.version, (waiting, len(await self._list_running(caller)))

    def waiting(self, caller: ApiCaller) -> list[dict[str, Any]]:
        """Return the calls that wait, for those who see all."""
        return [each.to_json() for each in self._approvals.waiting()] if caller.sees_all else []


class _Known:
    """What a console that listens has been told."""

    def __init__(self, operations: ApiOperations, caller: ApiCaller, state: _State) -> None:
        self._operations, self._caller = operations, caller
        self._last, _, _ = operations.changed_calls(caller, 0)
        self._servers, self._catalogue, self._counts = state
        self._ticks = 0

    def changes(self, state: _State) -> "list[tuple[str, Any]]":
        """Return what has changed since it was last asked, where this is the state."""
        found: list[tuple[str, Any]] = []
        self._last, rows, is_cut = self._operations.changed_calls(self._caller, self._last)
        if rows:
            found.append(("calls", {"items": rows, "cut": is_cut}))
        self._ticks += 1
        servers, catalogue, counts = state
        if servers != self._servers and self._ticks % _SERVERS_EVERY == 0:
            self._servers = servers
            found.append(("servers", {"items": servers}))
        if catalogue != self._catalogue:
            self._catalogue = catalogue
            found.append(("catalogue", {"tools": len(self._caller.view.index)}))
        if counts[0] != self._counts[0]:
            found.append(("approvals", {"items": self._operations.waiting(self._caller)}))
        if counts[1] != self._counts[1]:
            found.append(("running", {"count": counts[1]}))
        self._counts = counts
        return found


def _name_of(caller: ApiCaller) -> str:
    """Return the name of a person for records of their decisions."""
    return caller.principal.subject or str(caller.principal)


def _owners(principal: Principal) -> tuple[Principal, ...]:
    """Return the owners of somebody's runs: the user of this machine has those of the command too."""
    return (principal, local_user("cli")) if principal.issuer == LOCAL else (principal,)


def _run_json(result: RunResult) -> dict[str, Any]:
    """Return a result as `toolcrib run --json` writes it."""
    payload = result.to_json(without={"tool", "mcp_result"})
    return {"toolId": str(result.tool.id), "structured": None, **payload}


def _write_json(rows: list[CallRow]) -> bytes:
    return json.dumps({"calls": [row.to_json() for row in rows]}).encode()


def _write_csv(rows: list[CallRow]) -> bytes:
    records = [row.to_json() for row in rows]
    names = list(dict.fromkeys(name for row in records for name in row))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(names)
    writer.writerows([_cell(row.get(name)) for name in names] for row in records)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """Return a value for a cell of a table; a program that opens it must not take it for a formula."""
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return f"'{text}" if isinstance(text, str) and text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def _measure_tokens(caller: ApiCaller) -> tuple[TokenUsage, list[dict[str, Any]]]:
    view = caller.view
    usage = MetaTools(view, view.settings.gateway).measure_tokens()
    rows = []
    for summary in view.index.list_all():
        with suppress(ToolcribError):  # removed while the others are counted
            rows.append({"toolId": summary.id, "tokens": tool_tokens(view.index.get(summary.id))})
    return usage, sorted(rows, key=lambda row: -row["tokens"])


def _find_problems(source: str) -> tuple[Problem, ...]:
    try:
        load(source)
    except ConfigError as error:
        return error.problems
    return ()


def _sections(settings: Settings) -> list[dict[str, Any]]:
    """Return the settings by section, with those that were set marked; what may be secret is hidden."""
    sections = [{"name": "", "settings": _settings_of(settings, apart=True)}]
    for name, value in settings:
        if isinstance(value, Record):
            sections.append({"name": name, "settings": _settings_of(value)})
        elif name in {"servers", "openapi", "toolsets"}:
            sections += [
                {"name": f"{name}.{each}", "settings": _settings_of(one)} for each, one in value.items()
            ]
    return sections


def _settings_of(section: Record, *, apart: bool = False) -> list[dict[str, Any]]:
    """Return the fields of a section; `apart`: those that are no sections of their own."""
    shown = _shown_fields(section)
    return [
        {"name": name, "value": shown[name], "set": name in section.model_fields_set}
        for name in type(section).model_fields
        if not (apart and (isinstance(section.shared(name), Record) or name in _APART))
    ]


def _shown_fields(section: Record) -> dict[str, Any]:
    """Return the fields of a section as its repr shows them, without what may be secret."""
    printed = {name: _shown(value) for name, value in section.__repr_args__() if name is not None}
    return {
        name: printed.get(name, _HIDDEN if section.shared(name) else None)
        for name in type(section).model_fields
    }


def _shown(value: Any) -> Any:
    if isinstance(value, Record):
        shown = _shown_fields(value)
        return {name: shown[name] for name in type(value).model_fields if name in value.model_fields_set}
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_shown(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)

"""Acts on all workers of a gateway: approvals, and commands to servers, runs and logins."""

import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import anyio

from toolcrib.crib import Crib
from toolcrib.errors import RunStateError
from toolcrib.execution import Principal
from toolcrib.execution.oauth.vault import Owner
from toolcrib.gateway.api.approvals import Approvals, Question
from toolcrib.gateway.api.calls import CallLog, Running, pack_account, pack_running, unpack_running
from toolcrib.gateway.app.connect import LoginPages
from toolcrib.gateway.workers.links import Links

_PATIENCE = 60.0
"""Seconds that another worker may take for a command, such as to start a server."""
_GLANCE = 1.0
"""Seconds that another worker may take for what is shown again soon."""
_PAUSE = 0.1
"""Seconds between two attempts to reach the first worker, which may be being started."""


class Fleet:
    """Acts on all workers of a gateway; where there is one process, on that."""

    def __init__(
        self, crib: Crib, approvals: Approvals, calls: CallLog, logins: LoginPages, links: Links | None
    ) -> None:
        self._calls = calls
        self._crib, self._approvals, self._logins, self._links = crib, approvals, logins, links
        if links is not None and links.worker.number != 0:
            approvals.ask_elsewhere = partial(self._ask_first, links)
            calls.send_rows = partial(self._send_rows, links)
        if links is not None:
            logins.on_login = self.note_login

    async def start_server(self, name: str) -> None:
        """Start a server in each worker, after stopping it where it runs.

        Raises:
            ServerUnavailableError: there is no server of this name, or it cannot be started in this worker.
        """
        await self._tell_others({"do": "start", "server": name})
        await self._crib.start_server(name)

    async def stop_server(self, name: str) -> None:
        """Stop a server in each worker, until it is started again.

        Raises:
            ServerUnavailableError: there is no server of this name, or it is disabled.
        """
        self._crib.stop_server(name)
        await self._tell_others({"do": "stop", "server": name})

    async def cancel_run(self, run_id: str, *, principal: Principal | None = None) -> None:
        """Cancel a durable run, in whichever worker it runs.

        Raises:
            RunNotFoundError: there is none, or it belongs to another principal.
            RunStateError: it does not run, or another process runs it.
        """
        try:
            await self._crib.cancel_run(run_id, principal=principal)
        except RunStateError:
            found = await self._crib.describe_run(run_id, principal=principal)
            if found.run.state != "running":
                raise
            whose = None if principal is None else pack_account(principal)
            if not await self._tell_others({"do": "cancel", "run": run_id, "principal": whose}):
                raise

    async def list_running(self) -> list[Running]:
        """Return the calls that run in all workers that answer, the oldest first."""
        found = self._calls.running()
        for rows in (await self._tell_others({"do": "running"}, within=_GLANCE)).values():
            found += unpack_running(rows)
        return sorted(found, key=lambda each: each.began)

    async def describe_workers(self) -> list[dict[str, Any]]:
        """Return the process and the servers' states of each worker that answers; empty for one process."""
        if self._links is None:
            return []
        own = {self._links.worker.number: await self.run_command({"do": "describe"})}
        found = own | await self._tell_others({"do": "describe"})
        return [{"number": number, **facts} for number, facts in sorted(found.items())]

    async def note_login(self, server: str, owner: Owner) -> None:
        """Have the calls of all workers go on that wait for a login."""
        await self._tell_others({"do": "login", "server": server, "owner": owner})

    async def run_command(self, command: Mapping[str, Any]) -> Any:
        """Run a command of another worker here, and return its result."""
        known: dict[str, Callable[[], Any]] = {
            "approve": lambda: self._approvals.ask_here(Question(**command["question"])),
            "start": lambda: self._crib.start_server(command["server"]),
            "stop": lambda: self._stop_here(command["server"]),
            "cancel": lambda: self._cancel_run_here(command["run"], command["principal"]),
            "calls": lambda: self._take_rows(command["rows"], command["worker"]),
            "describe": self._describe_here,
            "running": self._list_running_here,
            "login": lambda: self._note_login_here(command["server"], tuple(command["owner"])),
        }
        return await known[command["do"]]()

    async def _take_rows(self, rows: str, worker: int) -> None:
        self._calls.take_rows(b64decode(rows), worker)

    @staticmethod
    async def _send_rows(links: Links, rows: bytes) -> None:
        """Have the first worker keep the rows of calls; while it is being started they are lost."""
        command = {"do": "calls", "worker": links.worker.number, "rows": b64encode(rows).decode()}
        await links.ask(0, command, within=_PATIENCE)

    async def _stop_here(self, name: str) -> None:
        self._crib.stop_server(name)

    async def _cancel_run_here(self, run_id: str, whose: dict[str, Any] | None) -> None:
        await self._crib.cancel_run(run_id, principal=None if whose is None else Principal(**whose))

    async def _note_login_here(self, server: str, owner: Owner) -> None:
        self._logins.end_wait(server, owner)

    async def _list_running_here(self) -> list[Any]:
        worker = 0 if self._links is None else self._links.worker.number
        return pack_running(self._calls.running(), worker)

    async def _describe_here(self) -> dict[str, Any]:
        servers = {
            name: "paused" if each.paused else each.state for name, each in self._crib.status().items()
        }
        return {"pid": os.getpid(), "servers": servers}

    async def _tell_others(self, command: Mapping[str, Any], *, within: float = _PATIENCE) -> dict[int, Any]:
        """Return what came of a command at each worker that could carry it out."""
        found: dict[int, Any] = {}
        links = self._links
        if links is None:
            return found

        async def tell(number: int) -> None:
            answer = await links.ask(number, command, within=within)
            if answer is not None and "done" in answer:
                found[number] = answer["done"]

        async with anyio.create_task_group() as tasks:
            for number in links.others:
                tasks.start_soon(tell, number)
        return found

    @staticmethod
    async def _ask_first(links: Links, question: Question) -> bool | str:
        """Ask about a call in the first worker; where that has ended, again in the one that follows it."""
        with anyio.move_on_after(question.patience):
            while True:
                answer = await links.ask(0, {"do": "approve", "question": asdict(question)})
                if answer is not None:
                    return answer["done"] if "done" in answer else str(answer["failed"])
                await anyio.sleep(_PAUSE)
        return f"no operator of the console answered within {question.patience:g} s"

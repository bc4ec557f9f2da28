"""One object that keeps tools, finds them and runs them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Self, TypeVar, Unpack, overload

import anyio
from anyio import to_thread

from toolcrib.crib.code import Sandboxes
from toolcrib.crib.compose import Hooks
from toolcrib.crib.config.files import Config, load
from toolcrib.crib.config.gateway import ToolsetSettings
from toolcrib.crib.engine import Engine
from toolcrib.crib.reload import Reload
from toolcrib.crib.saved import SavedTools
from toolcrib.crib.trust import Trust
from toolcrib.crib.view import SharedState, View
from toolcrib.crib.visible import scope_of
from toolcrib.discovery import Discovery, Embedder, PostgresStore, Scope, Searcher, Store, StoreStatus
from toolcrib.errors import CribStateError, InvalidToolError, Problem
from toolcrib.errors.base import count_noun
from toolcrib.execution import Middleware, Observer, Policy
from toolcrib.execution.audit import AuditStatus
from toolcrib.execution.chains import ChainResult
from toolcrib.execution.mcp import McpServers, ServerStatus
from toolcrib.execution.mcp.config import OnInput
from toolcrib.execution.oauth.shared import SharedLogins
from toolcrib.execution.policy.rules import Approver
from toolcrib.model import LocalBackend, LocalTool, SchemaValidator, Tool, ToolOptions, tool
from toolcrib.model.decorator import check_options, replace_options
from toolcrib.runs import RunStore
from toolcrib.runtime import ExecuteResult, Sandbox

if TYPE_CHECKING:
    from toolcrib.adapter import Adapter

P = ParamSpec("P")
R = TypeVar("R")


class Crib(View):
    """Keeps tools, finds them and runs them: Python functions, MCP servers and HTTP APIs alike.

    >>> import anyio
    >>> crib = Crib()
    >>> @crib.add
    ... def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> async def main() -> int:
    ...     found = await crib.search("sum of two numbers")
    ...     return (await crib.run(found[0].id, {"a": 1, "b": 2})).structured
    >>> anyio.run(main)
    3

    Servers and APIs need `async with crib:`. Tools stored by an earlier run are available at once, and all
    servers and APIs are asked for their tools in the background; a call that needs one whose tools are not
    known yet waits for its first answer. A crib is safe to use from many tasks of one event loop.
    """

    _way_in: ClassVar[str] = "async with crib:"

    def __init__(  # noqa: PLR0913 - what a program may replace, each by its name
        self,
        config: Config = None,
        *,
        policy: Policy | None = None,
        approve: Approver | None = None,
        middleware: Sequence[Middleware] = (),
        observers: Sequence[Observer] = (),
        environ: Mapping[str, str] | None = None,
        on_input: OnInput | None = None,
        validator: SchemaValidator | None = None,
        searcher: Searcher | None = None,
        embedder: Embedder | None = None,
        store: Store | None = None,
        run_store: RunStore | None = None,
        sandboxes: Sequence[Sandbox] = (),
        adapters: "Sequence[Adapter]" = (),
        on_demand: bool = False,
    ) -> None:
        """Read a configuration; nothing is started.

        Args:
            config: a file, a dict with `mcpServers`, `Settings`, or None for nothing at all.
            policy: decides whether a call may run, in addition to the rules of the configuration.
            approve: requests approval of a call if a rule of the configuration requires it.
            middleware: wraps each call, inside the middleware of the configuration.
            observers: are notified when a call begins and when it ends.
            environ: the values of variables in the configuration, instead of the process's environment.
            on_input: answers requests for input that a server makes during a call.
            validator: checks arguments and results against their schemas, instead of a `DefaultValidator`.
            searcher: ranks tools, instead of the searcher in the configuration.
            embedder: computes the vectors for hybrid search, instead of the built-in model.
            store: stores the catalogue, instead of a file; the caller must close it, after the crib.
            run_store: stores durable runs, instead of a file; the caller must close it, after the crib.
            sandboxes: run code; each replaces the built-in one of the same kind.
            adapters: formats for `convert`; each replaces the built-in one of the same name.
            on_demand: start a server when a call needs it, instead of all of them in the background: for a
                program that makes a few calls and exits. A search or a list starts the servers that have no
                stored tools.

        Raises:
            ConfigError: the configuration is invalid; the error lists every problem.
        """
        hooks = Hooks(
            policy=policy,
            approve=approve,
            middleware=middleware,
            observers=observers,
            environ=environ,
            on_input=on_input,
            validator=validator,
            searcher=searcher,
            embedder=embedder,
            store=store,
            run_store=run_store,
            sandboxes=sandboxes,
            adapters=adapters,
            on_demand=on_demand,
        )
        self._engine = Engine(load(config), hooks, self._way_in)
        super().__init__(SharedState(self._engine, Sandboxes(hooks.sandboxes)))
        self._saved_tools = SavedTools(self._engine, self)
        self._engine.on_texts = self._saved_tools.follow

    def __repr__(self) -> str:
        source = self.settings.source or "no file"
        return f"<Crib {source}, {self._shared.state}, {count_noun(len(self.index), 'tool')}>"

    @property
    def discovery(self) -> Discovery:
        """The catalogue and its documentation; entering a crib replaces it if it is stored in a file."""
        return self._engine.discovery

    @property
    def audit_status(self) -> AuditStatus | None:
        """The status of the audit file; None if calls are not recorded."""
        audit = self._engine.audit
        return None if audit is None else audit.status

    @property
    def catalogue_status(self) -> StoreStatus | None:
        """The status of the catalogue's file; None if the catalogue is not stored."""
        store = self._engine.store
        return None if store is None else store.status

    @property
    def shared_logins(self) -> SharedLogins | None:
        """The logins that this gateway shares with others; None if it does not share them."""
        servers = self._engine.servers
        return None if servers is None else servers.logins

    @property
    def shared_store(self) -> PostgresStore | None:
        """The database that this gateway shares with others; None if there is none."""
        store = self._engine.store
        return None if store is None else store.shared

    @property
    def shared_key(self) -> bytes | None:
        """A key that all gateways on one database share; None without a database or `TOOLCRIB_VAULT_KEY`."""
        return self._engine.shared_key

    @property
    def trust(self) -> Trust:
        """Approvals of the tools of servers and APIs, changes since then, and decisions about them."""
        self._check_open()
        return Trust(self._engine)

    @property
    def needs_start(self) -> bool:
        """Whether there are servers or APIs, and this crib has not been entered yet."""
        return self._shared.state == "fresh" and bool(self._engine.names)

    async def __aenter__(self) -> Self:
        if self._shared.state != "fresh":
            raise CribStateError(f"this crib is {self._shared.state} already; make another")
        self._shared.state = "open"
        try:
            await self._engine.open()
            await to_thread.run_sync(self._saved_tools.load)
        except BaseException:
            self._shared.state = "closed"
            with anyio.CancelScope(shield=True):
                await self._engine.close()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._shared.state = "closed"
        try:
            await self._shared.sandboxes.close()
        finally:
            await self._shared.durable.close()
            await self._engine.close()

    @overload
    def add(self, function: Tool, /, **options: Unpack[ToolOptions]) -> Tool: ...

    @overload
    def add(self, function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> LocalTool[P, R]: ...

    @overload
    def add(
        self, function: None = None, /, **options: Unpack[ToolOptions]
    ) -> Callable[[Callable[P, R]], LocalTool[P, R]]: ...

    def add(self, function: Any = None, /, **options: Any) -> Any:
        """Add a typed function, or a tool made from one, and return the tool; also works as a decorator.

        The options are those of `tool`: name, title, description, annotations, arguments and the like. They
        override the tool's own values. A `Tool` without a function can be added if its `backend` names what
        runs it. A tool with the same id replaces the one that was added before.

        Raises:
            InvalidToolError: it cannot be made into a tool.
            InvalidSchemaError: a schema of the tool cannot be used.
        """
        check_options(options)
        labels: Any = options.get("tags")
        if isinstance(labels, Iterable) and not isinstance(labels, str):
            options["tags"] = tuple(labels)  # it may give them once only, and a decorator be used again
        changes: Any = {
            name: value
            for name, value in options.items()
            if value or (name == "arguments" and value is not None)
        }
        if function is None:
            return lambda decorated: self.add(decorated, **changes)
        self._check_open()
        if isinstance(function, Tool):
            return self._add_record(replace_options(function, changes))
        made = function.replace(**changes) if isinstance(function, LocalTool) else tool(function, **changes)
        backend = LocalBackend(name=str(made.tool.id))
        self._engine.register(made.tool, backend)
        self._engine.handlers.add(backend.name, made)
        return made

    def _add_record(self, record: Tool) -> Tool:
        if record.backend is None:
            reason = (
                "does not say what runs it; add a function, LocalTool(function, tool), or set its backend"
            )
            raise InvalidToolError((Problem("/backend", "missing", reason),), record.name)
        self._engine.register(record, record.backend)
        return record

    async def ready(self, timeout: float | None = None) -> dict[str, ServerStatus]:  # noqa: ASYNC109 - optional servers may be late
        """Wait until all servers and APIs have listed their tools or failed, and return their status.

        After `timeout` seconds, those that are not required may still be missing.

        Raises:
            ServerUnavailableError: a required one has failed, or was not ready in time.
        """
        await self._tools.wait_for_all(timeout)
        return self.status()

    async def run_worker(self, *, on_started: Callable[[], object] | None = None) -> None:
        """Run a Temporal worker for the durable runs of all principals, until cancelled.

        Any number of workers may run, on any number of machines, with the same configuration. Functions that
        a program has added are called only by its own workers. Call it inside `async with crib:`.

        Raises:
            ConfigError: the settings have no section `engine`.
            EngineUnavailableError: Temporal cannot be reached.
            MissingExtraError: temporalio is not installed.
        """
        engine = self._durable.engine
        connected = await self._durable.connect()
        kinds = await to_thread.run_sync(self._shared.sandboxes.list_available, ("monty", "docker"))
        queues = [engine.queue, *(f"{engine.queue}-{kind}" for kind in kinds)]
        async with connected.serve_pieces(
            queues,
            self._do_piece,
            self._release_piece,
            heartbeat=engine.heartbeat,
            shutdown_timeout=engine.shutdown_timeout,
        ):
            if on_started is not None:
                on_started()
            await anyio.sleep_forever()

    def stop_server(self, name: str) -> None:
        """Stop an MCP server when its calls have ended, and refuse further calls until `start_server`.

        Raises:
            ServerUnavailableError: there is no server of this name, or it is disabled.
        """
        self._servers.pause(name)

    async def start_server(self, name: str) -> None:
        """Start an MCP server, or restart it if it is running, and list its tools.

        Raises:
            ServerUnavailableError: there is no server of this name, or it cannot be started.
        """
        await self._servers.restart(name)

    @property
    def _servers(self) -> McpServers:
        self._check_open()
        if self._engine.servers is None:
            raise CribStateError(f"the servers are not running: use them inside '{self._way_in}'")
        return self._engine.servers

    async def reload(self, config: Config, *, on_switched: Callable[[], object] | None = None) -> Reload:
        """Apply another configuration without dropping calls, and return the differences.

        Servers and APIs that differ are stopped when their calls are done; the others are not touched.
        Existing views keep the old definitions of their toolsets: get new ones from `view` once `on_switched`
        is called, which happens as soon as the settings are in force; the tools of removed servers disappear
        later.

        Raises:
            ConfigError: the configuration cannot be used; nothing is changed.
        """
        self._check_open()
        return await self._engine.reload(load(config), on_switched or (lambda: None))

    def view(self, toolset: str | ToolsetSettings | Scope) -> View:
        """Return a view of the tools in a toolset: one from the settings, by name, or any other.

        Each call returns a new view, with the toolset as it is defined at that time; views are cheap, and all
        of them share the servers and the sandboxes of the crib. Views cannot be nested.

        Raises:
            ConfigError: there is no toolset of that name, or it contains a name that no tool can have.
        """
        name = toolset if isinstance(toolset, str) else None
        return View(self._shared, scope_of(toolset, self.settings), toolset=name)

    def save_as_tool(
        self,
        result: ExecuteResult | ChainResult,
        *,
        name: str,
        version: str = "1.0.0",
        namespace: str | None = None,
        description: str = "",
        parameters: Collection[str] | Mapping[str, str] | None = None,
    ) -> Tool:
        """Make a tool from a successful run, add it to the catalogue, and return it.

        It runs the same code in the same kind of sandbox, or the same chain, on behalf of its caller: all its
        calls are made in the caller's name, and the policy is applied to each. Its input schema has the
        parameters, with the values of the run as their defaults; its output schema describes the result of
        the run. The tool is stored if the catalogue is; it replaces an earlier one of the same name and
        version.

        Args:
            result: the result of `execute` or `run_chain`.
            name: the name of the tool.
            version: its version.
            namespace: its namespace.
            description: its purpose, which searches use.
            parameters: for code, the names of the constants that callers may set: assignments of a literal at
                the top of the code, to a name that is assigned once; None means all of them. For a chain, the
                place of each parameter in its steps, such as `{"city": "/0/args/city"}`.

        Raises:
            InvalidToolError: there is nothing to save, or a parameter does not exist.
        """
        return self._saved_tools.save(
            result,
            name=name,
            version=version,
            namespace=namespace,
            description=description,
            parameters=parameters,
        )

    def saved_tools(self) -> tuple[Tool, ...]:
        """Return the tools that were made with `save_as_tool`, in the order of their ids."""
        return self._saved_tools.list_all()

    def delete_saved_tool(self, tool_id: str) -> None:
        """Delete a saved tool from the catalogue; calls in progress continue.

        Raises:
            ToolNotFoundError: there is no such tool.
            InvalidToolError: it was not made with `save_as_tool`.
        """
        self._saved_tools.delete(tool_id)

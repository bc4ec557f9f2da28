"""The tools of a crib for agents of CrewAI, and tools of CrewAI in a crib."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from toolcrib.crib import Crib, SyncCrib, View
from toolcrib.crib.code import Named
from toolcrib.errors import MissingPackageError
from toolcrib.execution import Principal
from toolcrib.integrations.adopting import adopt
from toolcrib.integrations.toolbox import AgentReply, AgentTool, CallFailedError, Toolbox
from toolcrib.model import LocalTool

try:
    from crewai.tools import BaseTool
except ImportError as error:
    raise MissingPackageError("toolcrib.integrations.crewai", "crewai") from error


def tools(
    crib: View | SyncCrib,
    tools: Iterable[Named] | None = None,
    *,
    search: bool = False,
    timeout: float | None = None,
    principal: Principal | None = None,
) -> "list[BaseTool]":
    """Return tools of a crib for `Agent(tools=...)` and `Task(tools=...)`: all, or those named.

    With `search` the agent has `search_tools` and `run_tool` beside those named: CrewAI gives a model its
    tools at the beginning of a task. `crew.kickoff` calls tools synchronously: use a `SyncCrib`, or a `Crib`
    with `kickoff_async` or in a thread of its loop. A call that fails is a text that says why.
    """
    toolbox = Toolbox(crib, tools, search=search, timeout=timeout, principal=principal)
    return [_make(toolbox, each) for each in toolbox.list_tools()]


def _make(toolbox: Toolbox, offered: AgentTool) -> "BaseTool":
    made = _CribTool(
        name=offered.name,
        description=offered.description or offered.name,
        args_schema=_arguments(offered),
        cache_function=_never,
    )
    made.bind(toolbox, offered)
    return made


def _never(*_: Any) -> bool:
    """Never cache a result: the crib has a cache of its own, with the right rules."""
    return False


def _arguments(offered: AgentTool) -> type[BaseModel]:
    """Return a model that accepts any arguments, with the tool's schema; the crib validates them."""

    class Arguments(BaseModel):
        model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", title=offered.name)

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return offered.parameters

    return Arguments


class _CribTool(BaseTool):
    """A tool of a crib in CrewAI."""

    def bind(self, toolbox: Toolbox, offered: AgentTool) -> None:
        """Store the functions to call; fields of the framework's tools would be serialized."""
        object.__setattr__(self, "_call", partial(toolbox.call_sync, offered))
        object.__setattr__(self, "_acall", partial(toolbox.call, offered))

    def _run(self, **args: Any) -> str:
        try:
            return _text(self._call(args))
        except CallFailedError as failure:
            return f"Error: {failure}"

    async def _arun(self, **args: Any) -> str:
        try:
            return _text(await self._acall(args))
        except CallFailedError as failure:
            return f"Error: {failure}"


def _text(reply: AgentReply) -> str:
    return reply.text


def register(
    crib: Crib | SyncCrib, tools: "Iterable[BaseTool]", *, namespace: str | None = None
) -> list[LocalTool[..., Any]]:
    """Add tools of CrewAI to a crib, and return them; a space in a name becomes `_`."""
    return [
        adopt(
            crib,
            _caller(each),
            name=each.name,
            namespace=namespace,
            description=each.description,
            input_schema=each.args_schema.model_json_schema(),
        )
        for each in tools
    ]


def _caller(tool: "BaseTool") -> Callable[..., Any]:
    def call(**args: Any) -> Any:
        return tool.run(**args)

    return call

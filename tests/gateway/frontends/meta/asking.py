"""A client with scripted answers to elicitations, and a crib with tools of every kind."""

from collections.abc import Sequence
from typing import Any

from mcp_types import CallToolResult

from toolcrib import Crib, tool
from toolcrib.crib import GatewaySettings
from toolcrib.execution import CallContext, Principal
from toolcrib.execution.call import Approval
from toolcrib.gateway import Confirmation, ConfirmationResult
from toolcrib.gateway.frontends.meta import MetaTools
from toolcrib.gateway.frontends.meta.definitions import DEFINITIONS
from toolcrib.model import DefaultValidator

VALIDATOR = DefaultValidator()


class Asking:
    """The client behind a request."""

    principal = Principal(client="mcp:test")

    def context(self, approval: Approval = Approval()) -> CallContext:  # noqa: B008 - it is frozen
        return CallContext(principal=self.principal, approval=approval)

    def __init__(
        self,
        verdict: ConfirmationResult | Exception = ConfirmationResult.ACCEPTED,
        *,
        can_ask: bool = True,
        wants_progress: bool = False,
    ) -> None:
        self.verdict, self.can_ask, self.wants_progress = verdict, can_ask, wants_progress
        self.questions: list[Confirmation] = []
        self.told: list[tuple[float, float | None, str | None]] = []

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.told.append((progress, total, message))

    async def confirm(self, question: Confirmation) -> ConfirmationResult:
        self.questions.append(question)
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


def crib_of_tools(config: Any = None, **options: Any) -> Crib:
    """Return a crib with tools that are read-only, destructive, failing, or without annotations."""
    crib = Crib(config, **options)

    @crib.add(namespace="shop")
    async def order(number: int) -> dict[str, Any]:
        """Return an order of the shop by its number."""
        return {"number": number, "total": 5.0}

    @crib.add(namespace="shop")
    @tool(annotations={"destructiveHint": True})
    async def drop_order(number: int) -> str:
        """Delete an order for ever."""
        return f"dropped {number}"

    @crib.add(namespace="shop", version="1.2.0")
    @tool(annotations={"readOnlyHint": True, "destructiveHint": True})
    async def prices() -> list[int]:
        """List all prices."""
        return [1, 2, 3]

    @crib.add
    @tool(name="wipe-all", annotations={"destructiveHint": True})
    async def wipe() -> None:
        """Wipe everything."""

    @crib.add
    async def nothing() -> None:
        """Do nothing at all."""

    @crib.add
    async def breaks() -> None:
        """Break."""
        raise RuntimeError("the drill is broken")

    return crib


async def call_tool(
    face: MetaTools, name: str, args: Any = None, client: Asking | None = None
) -> CallToolResult:
    """Call a meta-tool, validate its result against the published output schema, and return it."""
    result = await face.call(name, args, Asking(can_ask=False) if client is None else client)
    schema = DEFINITIONS[name].tool.output_schema
    VALIDATOR.validate(schema, result.structured_content)
    assert bool(result.is_error) == ("error" in result.structured_content)
    return result


async def given(face: MetaTools, name: str, args: Any = None, client: Asking | None = None) -> dict[str, Any]:
    """Return the structured content of a successful meta-tool call."""
    result = await call_tool(face, name, args, client)
    assert not result.is_error, result.structured_content
    said: dict[str, Any] = result.structured_content
    return said


async def call_refused(
    face: MetaTools, name: str, args: Any = None, client: Asking | None = None
) -> dict[str, Any]:
    """Return the error that a meta-tool gives."""
    result = await call_tool(face, name, args, client)
    assert result.is_error, result.structured_content
    said: dict[str, Any] = result.structured_content["error"]
    return said


def face_of(crib: Crib, **settings: Any) -> MetaTools:
    """Return the face of a crib."""
    return MetaTools(crib, GatewaySettings(**settings))


def texts(result: CallToolResult) -> Sequence[str]:
    """Return the texts of a result."""
    return [block.text for block in result.content if block.type == "text"]

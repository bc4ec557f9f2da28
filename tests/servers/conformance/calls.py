"""One call of the fixture: its parameters, and requests to the client in either era of the protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
TASKS = "io.modelcontextprotocol/tasks"
NEEDED = {
    "sampling/createMessage": types.ClientCapabilities(sampling=types.SamplingCapability()),
    "elicitation/create": types.ClientCapabilities(elicitation=types.ElicitationCapability()),
    "roots/list": types.ClientCapabilities(roots=types.RootsCapability()),
}
"""The capability that a client must have declared to receive the request."""
RESULTS: dict[str, Any] = {
    "sampling/createMessage": types.CreateMessageResult,
    "elicitation/create": types.ElicitResult,
    "roots/list": types.ListRootsResult,
}


class InputNeededError(Exception):
    """The call cannot go on before the client has answered, which it does by calling again."""

    def __init__(self, requests: types.InputRequests, state: str | None) -> None:
        super().__init__(list(requests))
        self.result = types.InputRequiredResult(input_requests=requests, request_state=state)


@dataclass(frozen=True)
class Call:
    """A call of a tool or a request for a prompt."""

    ctx: Context
    args: Json
    answers: Mapping[str, Any] = field(default_factory=dict)
    """The client's answers to the requests of an earlier round."""
    state: str | None = None
    """The state that the earlier round gave the client."""

    @property
    def modern(self) -> bool:
        """Whether the call came in the stateless era."""
        return self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def can_have_tasks(self) -> bool:
        """Whether the client supports tasks."""
        declared = self.ctx.session.client_capabilities
        return self.modern and declared is not None and TASKS in (declared.extensions or {})

    def declares(self, method: str) -> bool:
        """Return whether the client accepts requests with this method."""
        return self.ctx.session.check_client_capability(NEEDED[method])

    async def ask(self, *, state: str | None = None, **questions: types.InputRequest) -> Mapping[str, Any]:
        """Return the client's answers, by question; in the stateless era a further call brings them."""
        for question in questions.values():
            if not self.declares(question.method):
                raise missing(NEEDED[question.method])
        if not self.modern:
            return {name: await self._request(question) for name, question in questions.items()}
        if questions.keys() - self.answers.keys():
            raise InputNeededError(questions, state)
        return self.answers

    async def _request(self, question: types.InputRequest) -> Any:
        related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        return await self.ctx.session.send_request(question, RESULTS[question.method], metadata=related)

    async def log(self, text: str) -> None:
        """Send a log message beside the answer."""
        await self.ctx.session.send_log_message("info", text, "conformance", self.ctx.request_id)


def missing(capabilities: types.ClientCapabilities) -> MCPError:
    """Return the error that tells a client which capability it lacks."""
    data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=capabilities)
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        "the client has not declared a capability that this needs",
        data.model_dump(mode="json", by_alias=True, exclude_none=True),
    )


def form(message: str, required: bool = True, **properties: Json) -> types.ElicitRequest:
    """Return a question to the user, with one field for each property."""
    schema: Json = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(properties)
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str, max_tokens: int = 100) -> types.CreateMessageRequest:
    """Return a question to the model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


def text(message: str, *, is_error: bool = False) -> types.CallToolResult:
    """Return a result that is text."""
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=is_error)

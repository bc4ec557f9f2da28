"""Tool sessions: the tools for a model's requests, and the results of the calls in its responses."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from toolcrib.discovery import Page, Result, explain_no_match
from toolcrib.errors import CribStateError, InputValidationError, Problem, ToolcribError, ValidationError
from toolcrib.errors.base import count_noun
from toolcrib.execution.arguments import fill_defaults, read_arguments, validate_arguments
from toolcrib.model import DefaultValidator, LocalBackend, RunResult, Tool
from toolcrib.model.schemas import integer, object_, string

if TYPE_CHECKING:
    from toolcrib.adapter import Bundle, Conversion, FeatureLossWarning

_MAX_FOUND = 32
"""The maximum number of tools from earlier searches that stay listed: those found last."""
_LIMIT = 5
_MAX_LIMIT = 20
SEARCH_TOOL: Final = Tool(
    name="search_tools",
    namespace="toolcrib",
    description="Find tools by what you want to do, in plain words. From your next turn on you can call what "
    "it returns.",
    input_schema=object_(
        {
            "query": string(description="What you want to do, such as 'open an issue in a repository'."),
            "limit": integer(
                description="How many tools to return.", minimum=1, maximum=_MAX_LIMIT, default=_LIMIT
            ),
        },
        required=["query"],
    ),
)
"""The tool by which a model finds others."""
_VALIDATOR = DefaultValidator()


class SearchOnDemand:
    """The search of a session, and the tools that it has found."""

    def __init__(
        self,
        search: Callable[[str, int], Awaitable[Page[Result]]],
        convert: "Callable[[Sequence[str]], list[Conversion]]",
    ) -> None:
        """Take a search, and the conversion of all tools of the session: the first ones and those found."""
        self._search, self._convert = search, convert
        self._found: dict[str, None] = {}

    def convert(self) -> "list[Conversion]":
        """Return the tools that are listed now."""
        return self._convert(tuple(self._found))

    async def run(self, args: Any) -> RunResult:
        """Return the tools that fit, which are listed from then on.

        Raises:
            InputValidationError: the arguments are not those of `search_tools`.
        """
        read, _ = read_arguments(args, str(SEARCH_TOOL.id))
        given = await validate_arguments(_VALIDATOR, SEARCH_TOOL, fill_defaults(SEARCH_TOOL, read))
        query: str = given["query"]
        if not query.strip():
            problem = Problem("/query", "required", "say in words what you want to do")
            raise InputValidationError((problem,), tool_id=str(SEARCH_TOOL.id))
        page = await self._search(query, given["limit"])
        for result in page.items:
            self._found.pop(result.id, None)
            self._found[result.id] = None
        for tool_id in list(self._found)[:-_MAX_FOUND]:
            del self._found[tool_id]
        names = {each.tool_id: each.name for each in self.convert()}
        listed = [
            {"name": names[each.id], "description": each.summary.short_description}
            for each in page.items
            if each.id in names
        ]
        value: dict[str, Any] = {"tools": listed}
        if explain_no_match(page, query) is not None:
            value["note"] = "nothing clearly fits; ask in other words, or say that there is no such tool"
        backend = LocalBackend(name=SEARCH_TOOL.name)
        return RunResult.from_valid(tool=SEARCH_TOOL, backend=backend, structured=value, duration=0.0)


class ToolSession:
    """The converted tools of a conversation, and the function that runs its calls; see `Crib.session`.

    It does not store the conversation, so one session may serve many at once. With a search, it stores the
    tools that were found, so each conversation needs its own session.
    """

    def __init__(
        self,
        conversions: "Iterable[Conversion]",
        run: Callable[..., Any],
        adapter: str,
        options: dict[str, Any],
        search: SearchOnDemand | None = None,
    ) -> None:
        """Take converted tools, the function that runs a tool by its id, and a search for more tools."""
        from toolcrib.adapter import Bundle  # noqa: PLC0415 - as costly as in `convert`
        from toolcrib.adapter.turns import turn_format  # noqa: PLC0415 - as above

        self._format = turn_format(adapter, options)
        self._bundle = Bundle(conversions)
        self._adapter = adapter
        self._make_bundle = Bundle
        self._run, self._search = run, search

    @property
    def tools(self) -> list[Any]:
        """The value of `tools` in a request, including tools found so far; a copy, which may be changed."""
        return self._bundle.tools

    @property
    def warnings(self) -> "tuple[tuple[str, FeatureLossWarning], ...]":
        """The losses and rewrites of the conversions, each with the id of its tool."""
        return self._bundle.warnings

    def __repr__(self) -> str:
        return f"<ToolSession {self._adapter}, {count_noun(len(self._bundle.conversions), 'tool')}>"

    def join(self, chunks: Iterable[Any]) -> Any:
        """Combine the chunks of a stream into a response, for `run`.

        The chunks are those that the provider's SDK yields with `stream=True`, or their JSON. A call that was
        cut off is not run, and is answered with an error.

        Raises:
            ConversionError: the stream contains an error from the provider.
        """
        return self._format.join(chunks)

    async def run(self, response: Any) -> list[Any]:
        """Run every call in a model's response, and return the messages to append; empty if it has no calls.

        They are the model's own message and the results, in the order of the calls, which run concurrently. A
        call that fails has a result with the error, for the model to read.

        Raises:
            ConversionError: it is not a response (for example, it is an error body), a call has no id,
                or there are no tools in this session.
            CribStateError: the crib is closed.
        """
        turn = self._format.read(response)
        if not turn.calls:
            return []
        results: list[Any] = [None] * len(turn.calls)
        failures: list[ToolcribError] = []
        bundle = self._bundle

        async def answer(place: int, payload: Any) -> None:
            try:
                if place in turn.cut_off:
                    results[place] = self._answer_cut_off(bundle, payload)
                else:
                    results[place] = await self._run_call(bundle, payload)
            except ToolcribError as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            for place, payload in enumerate(turn.calls):
                tasks.start_soon(answer, place, payload)
        if failures:
            raise failures[0]
        if self._search is not None:
            self._bundle = self._make_bundle(self._search.convert())
        return [*turn.messages, *self._format.answer(results)]

    def _answer_cut_off(self, bundle: "Bundle", payload: Any) -> Any:
        """Return the error for a call that is not whole, in the provider's format."""
        problem = Problem("", "cut-off", "the call was cut off before its end and was not run; make it again")
        return bundle.encode_failure(self._format.without_args(payload), ValidationError((problem,)))

    async def _run_call(self, bundle: "Bundle", payload: Any) -> Any:
        """Run a call, and return its result or its error in the provider's format."""
        try:
            call = bundle.decode_call(payload)
            if self._search is not None and call.tool_id == str(SEARCH_TOOL.id):
                return bundle.encode_result(call, await self._search.run(call.args))
            result: RunResult = await self._run(call.tool_id, call.args)
            return bundle.encode_result(call, result)
        except CribStateError:
            raise
        except ToolcribError as error:
            return bundle.encode_failure(self._format.without_args(payload), error)


class SyncToolSession:
    """A `ToolSession` whose `run` blocks; see `SyncCrib.session`."""

    def __init__(self, session: ToolSession, ask: Callable[[Callable[[], Any]], Any]) -> None:
        """Take a session, and a function that runs an asynchronous function and waits for its result."""
        self._session = session
        self._ask = ask

    def __repr__(self) -> str:
        return f"<Sync{repr(self._session)[1:]}"

    @property
    def tools(self) -> list[Any]:
        """The value of `tools` in a request; a copy, which may be changed."""
        return self._session.tools

    @property
    def warnings(self) -> "tuple[tuple[str, FeatureLossWarning], ...]":
        """The losses and rewrites of the conversions, each with the id of its tool."""
        return self._session.warnings

    def join(self, chunks: Iterable[Any]) -> Any:
        """Combine the chunks of a stream into a response, for `run`.

        The chunks are those that the provider's SDK yields with `stream=True`, or their JSON. A call that was
        cut off is answered with an error.
        """
        return self._session.join(chunks)

    def run(self, response: Any) -> list[Any]:
        """Run every call in a model's response, as `ToolSession.run` does."""
        messages: list[Any] = self._ask(partial(self._session.run, response))
        return messages

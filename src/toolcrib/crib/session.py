"""Tool sessions: the tools for a model's requests, and the results of the calls in its responses."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from toolcrib.errors import CribStateError, ToolcribError

if TYPE_CHECKING:
    from toolcrib.adapter import Conversion, FeatureLossWarning
    from toolcrib.execution import RunResult


class ToolSession:
    """The converted tools of a conversation, and the function that runs its calls; see `Crib.session`.

    It keeps nothing of the conversation: one session may serve many at once.
    """

    def __init__(
        self,
        conversions: "Iterable[Conversion]",
        run: Callable[..., Any],
        adapter: str,
        options: dict[str, Any],
    ) -> None:
        """Take converted tools, and what runs a tool by its id with arguments."""
        from toolcrib.adapter import Bundle  # noqa: PLC0415 - as costly as in `convert`
        from toolcrib.adapter.turns import turn_format  # noqa: PLC0415 - as above

        self._format = turn_format(adapter, options)
        self._bundle = Bundle(conversions)
        self._run = run

    @property
    def tools(self) -> list[Any]:
        """The value of `tools` in a request; a copy, which may be changed."""
        return self._bundle.tools

    @property
    def warnings(self) -> "tuple[tuple[str, FeatureLossWarning], ...]":
        """Everything that the provider's format has lost or rewritten, with the id of its tool."""
        return self._bundle.warnings

    def join(self, chunks: Iterable[Any]) -> Any:
        """Return the response that the chunks of a stream make together, for `run`.

        They are what the provider's SDK yields with `stream=True`, or their JSON. A call that was cut off is
        answered with an error.
        """
        return self._format.join(chunks)

    async def run(self, response: Any) -> list[Any]:
        """Run every call in a model's response, and return the messages to append; none without a call.

        They are the model's own message and the results, in the order of the calls, which run side by side.
        What goes wrong with a call is a result that says so to the model.

        Raises:
            ConversionError: a call has no id, or there are no tools in this session.
            CribStateError: the crib is closed.
        """
        turn = self._format.read(response)
        if not turn.calls:
            return []
        results: list[Any] = [None] * len(turn.calls)
        failures: list[ToolcribError] = []

        async def answer(place: int, payload: Any) -> None:
            try:
                results[place] = await self._run_call(payload)
            except ToolcribError as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            for place, payload in enumerate(turn.calls):
                tasks.start_soon(answer, place, payload)
        if failures:
            raise failures[0]
        return [*turn.messages, *self._format.answer(results)]

    async def _run_call(self, payload: Any) -> Any:
        """Run a call, and return its result or its error in the provider's format."""
        try:
            call = self._bundle.decode_call(payload)
            result: RunResult = await self._run(call.tool_id, call.args)
            return self._bundle.encode_result(call, result)
        except CribStateError:
            raise
        except ToolcribError as error:
            return self._bundle.encode_failure(self._format.without_args(payload), error)


class SyncToolSession:
    """A `ToolSession` whose `run` blocks; see `SyncCrib.session`."""

    def __init__(self, session: ToolSession, ask: Callable[[Callable[[], Any]], Any]) -> None:
        """Take a session, and what runs an asynchronous function."""
        self._session = session
        self._ask = ask

    @property
    def tools(self) -> list[Any]:
        """The value of `tools` in a request; a copy, which may be changed."""
        return self._session.tools

    @property
    def warnings(self) -> "tuple[tuple[str, FeatureLossWarning], ...]":
        """Everything that the provider's format has lost or rewritten, with the id of its tool."""
        return self._session.warnings

    def join(self, chunks: Iterable[Any]) -> Any:
        """Return the response that the chunks of a stream make together, for `run`.

        They are what the provider's SDK yields with `stream=True`, or their JSON. A call that was cut off is
        answered with an error.
        """
        return self._session.join(chunks)

    def run(self, response: Any) -> list[Any]:
        """Run every call in a model's response, as `ToolSession.run` does."""
        messages: list[Any] = self._ask(partial(self._session.run, response))
        return messages

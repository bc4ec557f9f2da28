"""Tools made of runs: code or a chain that worked, kept in the catalogue under a name and a version."""

import json
import logging
from collections.abc import Collection, Mapping
from typing import Any, Literal

from toolcrib.crib.engine import Engine
from toolcrib.crib.view import View
from toolcrib.discovery.docs import ObservedShape
from toolcrib.errors import InvalidToolError, Problem, ToolcribError
from toolcrib.execution import Request
from toolcrib.execution.chains import ChainResult, ChainStep
from toolcrib.execution.chains.from_code import constants, with_constants
from toolcrib.execution.local import RunningCall
from toolcrib.model import LocalBackend, Tool
from toolcrib.model.context import Context
from toolcrib.model.record import JsonObject, Record
from toolcrib.model.schema.references import parse_pointer
from toolcrib.runtime import ExecuteResult

_LOG = logging.getLogger("toolcrib.crib")
_COLLECTION = "saved_tools"
"""Where a store keeps them, by id."""


class _Saved(Record):
    """A tool and what it does."""

    tool: Tool
    kind: Literal["code", "chain"]
    code: str = ""
    backend: str | None = None
    """The kind of sandbox that the code ran in."""
    steps: tuple[JsonObject, ...] = ()
    parameters: dict[str, str] = {}  # noqa: RUF012 - a field, which pydantic copies
    """Of a chain, where in the steps each parameter stands, as a JSON Pointer."""


class SavedTools(View):
    """A view of all tools that also makes tools of runs."""

    _engine: Engine
    _saved: set[str]
    """The ids of those that are served."""

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
        """Make a tool of a run that went well, add it to the catalogue, and return it.

        It runs the same code in the same kind of sandbox, or the same chain, as whoever calls it: all its
        calls are theirs, and the policy is asked about each. Its input schema has the parameters, with what
        the run used as their defaults; its output schema is what the run gave. Where the catalogue is kept,
        so is the tool; under the same name and version it takes the place of an earlier one.

        Args:
            result: what `execute` or `run_chain` returned.
            name: the name of the tool.
            version: its version.
            namespace: its namespace.
            description: what it is for, for those who search.
            parameters: of code, the names of the constants that callers may set: assignments of a literal
                at the top of the code, to a name that is assigned once; None means all of them. Of a chain,
                where in its steps each parameter stands, such as `{"city": "/0/args/city"}`.

        Raises:
            InvalidToolError: there is nothing to save, or a parameter is not there.
        """
        if isinstance(result, ChainResult):
            if parameters is not None and not isinstance(parameters, Mapping):
                raise _refused("say where the parameters stand: {'city': '/0/args/city'}", name)
            saved, defaults = _of_chain(result, dict(parameters or {}))
            value = result.final
        else:
            saved, defaults = _of_code(result, None if parameters is None else list(parameters))
            value = result.value
        called = _called(result)
        tool = Tool(
            name=name,
            namespace=namespace,
            version=version,
            description=description or f"Made of a run that called {', '.join(called) or 'no tools'}.",
            input_schema={
                "type": "object",
                "properties": {key: _parameter(default) for key, default in defaults.items()},
                "additionalProperties": False,
            },
            output_schema=_promised(ObservedShape.of(value).json_schema()),
            annotations=self._annotations(called),
        )
        if str(tool.id) in called:
            raise _refused(f"it calls {tool.id} itself, which it would replace", name)
        self._serve(_Saved(tool=tool, **saved))
        store = self._engine.index.store
        if store is not None:
            kept = _Saved(tool=tool, **saved).to_json()
            store.write_texts(_COLLECTION, {str(tool.id): json.dumps(kept)}, ())
        return tool

    def saved_tools(self) -> tuple[Tool, ...]:
        """Return the tools that were made with `save_as_tool`, in the order of their ids."""
        return tuple(self._engine.index.get(found) for found in sorted(self._saved))

    def delete_saved_tool(self, tool_id: str) -> None:
        """Take a saved tool out of the catalogue, and forget it; a call of it that runs goes on.

        Raises:
            ToolNotFoundError: there is no such tool.
            InvalidToolError: it was not made with `save_as_tool`.
        """
        tool = self._engine.index.resolve(tool_id)
        found = str(tool.id)
        if found not in self._saved:
            raise _refused(f"{found} was not saved from a run, and goes with what added it", tool.name)
        store = self._engine.index.store
        if store is not None:
            store.write_texts(_COLLECTION, delete=[found])
        self._engine.index.unregister(found, LocalBackend(name=found))
        self._engine.handlers.remove(found)
        self._saved.remove(found)

    def _load_saved(self) -> None:
        """Serve the tools that were saved in the store."""
        store = self._engine.index.store
        for tool_id, text in () if store is None else store.texts(_COLLECTION):
            try:
                self._serve(_Saved.from_json(text))
            except ToolcribError as error:
                _LOG.warning("the saved tool %s is left out: %s", tool_id, error)

    def _serve(self, saved: _Saved) -> None:
        async def run(saved_tool_arguments: dict[str, Any], context: Context) -> Any:
            nested = context.nested if isinstance(context, RunningCall) else None
            if saved.kind == "code":
                code = with_constants(saved.code, saved_tool_arguments)
                return (await self.execute(code, backend=saved.backend, context=nested)).value
            steps = _filled(list(saved.steps), saved.parameters, saved_tool_arguments)
            return (await self.run_chain(steps, context=nested)).final

        backend = LocalBackend(name=str(saved.tool.id))
        self._engine.register(saved.tool, backend)
        self._engine.handlers.add(backend.name, run)
        self._saved.add(backend.name)

    def _annotations(self, called: Collection[str]) -> dict[str, bool]:
        """Return what holds of all the tools that are called."""
        requests = []
        for tool_id in called:
            try:
                requests.append(Request(tool=self._engine.index.resolve(tool_id), args={}))
            except ToolcribError:
                return {}
        return {
            "readOnlyHint": all(request.read_only for request in requests),
            "idempotentHint": all(request.repeatable for request in requests),
            "destructiveHint": any(request.destructive for request in requests),
        }


def _of_code(result: ExecuteResult, chosen: list[str] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is kept of code, and the defaults of its parameters."""
    if not result.code:
        raise _refused("the run did not end well, so that there is nothing to save")
    found = constants(result.code)
    if unknown := sorted(set(chosen or ()) - found.keys()):
        known = ", ".join(map(repr, found)) or "none"
        raise _refused(f"{unknown[0]!r} is not the name of a constant in the code; there are {known}")
    kept = {"kind": "code", "code": result.code, "backend": result.backend.kind}
    return kept, {name: value for name, value in found.items() if chosen is None or name in chosen}


def _of_chain(result: ChainResult, places: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is kept of a chain, and the defaults of its parameters."""
    steps = [step.to_json() for step in result.steps]
    if not steps:
        raise _refused("it has no steps")
    defaults = {}
    for name, place in places.items():
        try:
            parent, key = _place(steps, place)
            defaults[name] = parent[key]
        except (LookupError, TypeError, ValueError) as error:
            raise _refused(f"{place!r} leads to nothing in the steps, for the parameter {name!r}") from error
    return {"kind": "chain", "steps": steps, "parameters": places}, defaults


def _filled(steps: list[Any], places: Mapping[str, str], values: Mapping[str, Any]) -> list[ChainStep]:
    made = json.loads(json.dumps(steps))
    for name, value in values.items():
        parent, key = _place(made, places[name])
        parent[key] = {"$literal": value}
    return [ChainStep.from_json(step) for step in made]


def _place(steps: Any, place: str) -> tuple[Any, Any]:
    """Return what a pointer leads into, and the key there."""
    *path, last = parse_pointer(place)
    whole = steps
    for part in path:
        whole = whole[int(part) if isinstance(whole, list) else part]
    return whole, int(last) if isinstance(whole, list) else last


def _called(result: ExecuteResult | ChainResult) -> list[str]:
    if isinstance(result, ExecuteResult):
        return list(dict.fromkeys(call.tool_id for call in result.tool_calls))
    steps = [part for step in result.results for part in (step, *step.parts)]
    return list(dict.fromkeys(step.tool_id for step in steps if step.tool_id))


def _parameter(default: Any) -> dict[str, Any]:
    return {**_promised(ObservedShape.of(default).json_schema()), "default": default}


def _promised(schema: Any) -> Any:
    """Return what one value shows of those to come: their types, but not what is required or null."""
    if isinstance(schema, list):
        return [_promised(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "null":
        return {}
    looser = {name: _promised(member) for name, member in schema.items() if name != "required"}
    if "additionalProperties" in looser or looser.get("type") == "object":
        looser["additionalProperties"] = True
    return looser | ({"type": "number"} if looser.get("type") == "integer" else {})


def _refused(reason: str, name: str | None = None) -> InvalidToolError:
    return InvalidToolError((Problem("", "run", reason),), name)

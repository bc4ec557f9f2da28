"""Tools made of runs: code or a chain that succeeded, stored in the catalogue under a name and a version."""

import json
import logging
from collections.abc import Collection, Mapping
from threading import Lock
from typing import Any, Literal

from toolcrib.crib.engine import Engine
from toolcrib.crib.view import View
from toolcrib.discovery.docs import ObservedShape
from toolcrib.errors import InvalidToolError, Problem, ToolcribError
from toolcrib.execution import Request
from toolcrib.execution.chains import ChainResult, ChainStep
from toolcrib.execution.chains.from_code import read_constants, replace_constants
from toolcrib.execution.local import RunningCall
from toolcrib.model import LocalBackend, Tool
from toolcrib.model.context import Context
from toolcrib.model.record import JsonObject, Record
from toolcrib.model.schema.references import parse_pointer
from toolcrib.runtime import ExecuteResult

_LOG = logging.getLogger("toolcrib.crib")
_COLLECTION = "saved_tools"
"""The name of the collection of texts in a store that has them, by id."""


class _Saved(Record):
    """A tool, and the code or the chain that it runs."""

    tool: Tool
    kind: Literal["code", "chain"]
    code: str = ""
    backend: str | None = None
    """The kind of sandbox that the code ran in."""
    steps: tuple[JsonObject, ...] = ()
    parameters: dict[str, str] = {}  # noqa: RUF012 - a field, which pydantic copies
    """Of a chain, where in the steps each parameter stands, as a JSON Pointer."""


class SavedTools:
    """The tools of a crib that were made of runs; each repeats its run, as its caller."""

    def __init__(self, engine: Engine, view: View) -> None:
        """Take the engine that serves the tools, and the view in which they run."""
        self._engine = engine
        self._view = view
        self._ids: set[str] = set()
        self._texts: dict[str, str] = {}
        """The texts that were read of the store, by id."""
        self._lock = Lock()
        self._changes = 0
        """The number of tools saved or deleted here, by which `follow` sees that it has read old texts."""

    def save(
        self,
        result: ExecuteResult | ChainResult,
        *,
        name: str,
        version: str,
        namespace: str | None,
        description: str,
        parameters: Collection[str] | Mapping[str, str] | None,
    ) -> Tool:
        """Make a tool of a run, serve it, and store it; see `Crib.save_as_tool`."""
        if isinstance(result, ChainResult):
            if parameters is not None and not isinstance(parameters, Mapping):
                raise _refusal("say where the parameters are: {'city': '/0/args/city'}", name)
            saved, defaults = _read_chain(result, dict(parameters or {}))
            value = result.final
        else:
            saved, defaults = _read_code(result, None if parameters is None else list(parameters))
            value = result.value
        called = _called_tools(result)
        tool = Tool(
            name=name,
            namespace=namespace,
            version=version,
            description=description or f"Made from a run that called {', '.join(called) or 'no tools'}.",
            input_schema={
                "type": "object",
                "properties": {key: _parameter_schema(default) for key, default in defaults.items()},
                "additionalProperties": False,
            },
            output_schema=_loosen(ObservedShape.of(value).json_schema()),
            annotations=self._combine_annotations(called),
        )
        if str(tool.id) in called:
            raise _refusal(f"it calls {tool.id} itself, which it would replace", name)
        store = self._engine.index.store
        with self._lock:
            self._changes += 1
            self._serve(_Saved(tool=tool, **saved))
            if store is not None:
                kept = _Saved(tool=tool, **saved).to_json()
                text = self._texts[str(tool.id)] = json.dumps(kept)
                store.write_texts(_COLLECTION, {str(tool.id): text}, ())
        return tool

    def list_all(self) -> tuple[Tool, ...]:
        """Return the tools in the order of their ids."""
        return tuple(self._engine.index.get(found) for found in sorted(self._ids))

    def delete(self, tool_id: str) -> None:
        """Remove a tool from the catalogue and from the store; see `Crib.delete_saved_tool`."""
        tool = self._engine.index.resolve(tool_id)
        found = str(tool.id)
        if found not in self._ids:
            raise _refusal(f"{found} was not saved from a run, and is removed with what added it", tool.name)
        store = self._engine.index.store
        with self._lock:
            self._changes += 1
            if store is not None:
                store.write_texts(_COLLECTION, delete=[found])
            self._stop_serving(found)

    def load(self) -> None:
        """Serve the tools of the store; one that cannot be read is logged and left out."""
        store = self._engine.index.store
        for tool_id, text in () if store is None else store.texts(_COLLECTION):
            self._load(tool_id, text)

    def follow(self, collections: Collection[str]) -> None:
        """Take over the tools that another gateway has saved or deleted, if it has.

        Raises:
            StoreError: the store cannot be read.
        """
        store = self._engine.index.store
        if store is None or _COLLECTION not in collections:
            return
        while True:
            before = self._changes
            stored = dict(store.texts(_COLLECTION))
            with self._lock:
                if before == self._changes:
                    self._serve_only(stored)
                    return

    def _serve_only(self, stored: Mapping[str, str]) -> None:
        """Serve these tools, and no others."""
        for tool_id in self._ids - stored.keys():
            self._stop_serving(tool_id)
        for tool_id, text in stored.items():
            if self._texts.get(tool_id) != text:
                self._load(tool_id, text)

    def _load(self, tool_id: str, text: str) -> None:
        try:
            self._serve(_Saved.from_json(text))
        except ToolcribError as error:
            _LOG.warning("the saved tool %s is left out: %s", tool_id, error)
        self._texts[tool_id] = text

    def _stop_serving(self, tool_id: str) -> None:
        self._engine.index.register_many((), remove=[(tool_id, LocalBackend(name=tool_id))])
        self._engine.handlers.remove(tool_id)
        self._ids.discard(tool_id)
        self._texts.pop(tool_id, None)

    def _serve(self, saved: _Saved) -> None:
        """Register a tool, and the function that runs it."""

        async def run(saved_tool_arguments: dict[str, Any], context: Context) -> Any:
            nested = context.nested if isinstance(context, RunningCall) else None
            if saved.kind == "code":
                code = replace_constants(saved.code, saved_tool_arguments)
                return (await self._view.execute(code, backend=saved.backend, context=nested)).value
            steps = _fill_in(list(saved.steps), saved.parameters, saved_tool_arguments)
            return (await self._view.run_chain(steps, context=nested)).final

        backend = LocalBackend(name=str(saved.tool.id))
        self._engine.register(saved.tool, backend)
        self._engine.handlers.add(backend.name, run)
        self._ids.add(backend.name)

    def _combine_annotations(self, called: Collection[str]) -> dict[str, bool]:
        """Return the annotations that hold for all tools that a run has called."""
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


def _read_code(result: ExecuteResult, chosen: list[str] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a `_Saved` that runs code, and the defaults of its parameters."""
    if not result.code:
        raise _refusal("the run did not succeed, so there is nothing to save")
    found = read_constants(result.code)
    if unknown := sorted(set(chosen or ()) - found.keys()):
        known = ", ".join(map(repr, found)) or "none"
        raise _refusal(f"{unknown[0]!r} is not the name of a constant in the code; there are {known}")
    kept = {"kind": "code", "code": result.code, "backend": result.backend.kind}
    return kept, {name: value for name, value in found.items() if chosen is None or name in chosen}


def _read_chain(result: ChainResult, places: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a `_Saved` that runs a chain, and the defaults of its parameters."""
    steps = [step.to_json() for step in result.steps]
    if not steps:
        raise _refusal("it has no steps")
    defaults = {}
    for name, place in places.items():
        try:
            parent, key = _locate(steps, place)
            defaults[name] = parent[key]
        except (LookupError, TypeError, ValueError) as error:
            raise _refusal(f"{place!r} points to nothing in the steps, for the parameter {name!r}") from error
    return {"kind": "chain", "steps": steps, "parameters": places}, defaults


def _fill_in(steps: list[Any], places: Mapping[str, str], values: Mapping[str, Any]) -> list[ChainStep]:
    """Return the steps of a chain with values for its parameters."""
    made = json.loads(json.dumps(steps))
    for name, value in values.items():
        parent, key = _locate(made, places[name])
        parent[key] = {"$literal": value}
    return [ChainStep.from_json(step) for step in made]


def _locate(steps: Any, place: str) -> tuple[Any, Any]:
    """Return the container that a pointer leads into, and the key in it."""
    *path, last = parse_pointer(place)
    whole = steps
    for part in path:
        whole = whole[int(part) if isinstance(whole, list) else part]
    return whole, int(last) if isinstance(whole, list) else last


def _called_tools(result: ExecuteResult | ChainResult) -> list[str]:
    if isinstance(result, ExecuteResult):
        return list(dict.fromkeys(call.tool_id for call in result.tool_calls))
    steps = [part for step in result.results for part in (step, *step.parts)]
    return list(dict.fromkeys(step.tool_id for step in steps if step.tool_id))


def _parameter_schema(default: Any) -> dict[str, Any]:
    return {**_loosen(ObservedShape.of(default).json_schema()), "default": default}


def _loosen(schema: Any) -> Any:
    """Return the schema of a value without constraints that others may break: required, null, integers."""
    if isinstance(schema, list):
        return [_loosen(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "null":
        return {}
    looser = {name: _loosen(member) for name, member in schema.items() if name != "required"}
    if "additionalProperties" in looser or looser.get("type") == "object":
        looser["additionalProperties"] = True
    return looser | ({"type": "number"} if looser.get("type") == "integer" else {})


def _refusal(reason: str, name: str | None = None) -> InvalidToolError:
    return InvalidToolError((Problem("", "run", reason),), name)

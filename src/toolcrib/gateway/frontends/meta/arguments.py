"""Repairs and validates the arguments that a model wrote for a meta-tool."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from toolcrib.errors import Problem, ValidationError
from toolcrib.errors.base import MAX_PROBLEMS, short_repr
from toolcrib.gateway.frontends.meta.definitions import Definition
from toolcrib.model import DefaultValidator
from toolcrib.model.plain import parse_json, pointer
from toolcrib.model.suggest import did_you_mean

_MEANT = {
    **dict.fromkeys(("arguments", "params", "parameters", "input", "inputs", "tool_args"), "args"),
    **dict.fromkeys(("id", "name", "tool", "toolId", "tool_name", "toolName", "ref"), "tool_id"),
    **dict.fromkeys(("q", "text", "question", "search", "keywords", "task"), "query"),
    **dict.fromkeys(("count", "k", "n", "max_results", "size", "top_k", "page_size", "max"), "limit"),
    **dict.fromkeys(("next_cursor", "nextCursor", "page", "offset"), "cursor"),
    **dict.fromkeys(("level", "detail", "detailLevel"), "detail_level"),
    **dict.fromkeys(("timeout", "timeoutMs", "timeout_s", "timeout_seconds"), "timeout_ms"),
    **dict.fromkeys(("chain", "tools", "calls"), "steps"),
    **dict.fromkeys(("script", "source", "python", "program"), "code"),
    **dict.fromkeys(("maxToolCalls", "max_calls"), "max_tool_calls"),
    **dict.fromkeys(("server", "ns"), "namespace"),
    "limit": "max",
}
"""Other names of arguments, for suggestions if the tool has the argument."""
_MAX_DIGITS = 9
_MAX_TEXT = 10_000
"""Longest text, in characters, if the schema sets no limit."""


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "object": Mapping,
    "array": list,
    "number": (int, float),
    "boolean": bool,
}
"""The types of arguments that need no repair, by their JSON type."""


class Arguments:
    """Reads the arguments of the meta-tools; their schemas are compiled once."""

    def __init__(self) -> None:
        self._validator = DefaultValidator()

    def read(self, definition: Definition, given: Any) -> tuple[dict[str, Any], list[str]]:
        """Return the arguments, and remarks about their repairs.

        Raises:
            ValidationError: with every problem found.
        """
        notes: list[str] = []
        arguments = given if isinstance(given, Mapping) else _read_object(given, notes)
        known = definition.arguments
        args = {name: value for name, value in arguments.items() if name in known and value is not None}
        unknown = islice((name for name in arguments if name not in known), MAX_PROBLEMS)
        problems = [_describe_unknown(name, definition, arguments) for name in unknown]
        for name, value in args.items():
            if name == "steps" or not isinstance(value, _TYPES[known[name].get("type", "string")]):
                args[name] = _Repairs(notes, problems).repair(name, value, known[name])
        if too_large := [*_find_too_large(args, known)]:  # looking at what is in them would take long
            problems = [*too_large, *problems]
            raise ValidationError(
                tuple(problems[:MAX_PROBLEMS]), _describe_problems(definition.tool.name, problems)
            )
        try:
            self._validator.validate_input(definition.tool, args)
        except ValidationError as error:
            broken = {problem.path for problem in problems}
            problems += [
                problem for problem in error.problems if problem.path not in broken or not problem.path
            ]
        if problems:
            raise ValidationError(
                tuple(problems[:MAX_PROBLEMS]), _describe_problems(definition.tool.name, problems)
            )
        return args, notes


def _find_too_large(args: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    for name, value in args.items():
        schema = known[name]
        if isinstance(value, list) and len(value) > (most := schema.get("maxItems", len(value))):
            yield Problem(f"/{name}", "maxItems", f"must have at most {most:,} items, not {len(value):,}")
        if isinstance(value, str) and len(value) > (most := schema.get("maxLength", _MAX_TEXT)):
            yield Problem(
                f"/{name}", "maxLength", f"must be at most {most:,} characters long, not {len(value):,}"
            )


def _describe_problems(name: str, problems: list[Problem]) -> str:
    return f"{name} was not called: {'; '.join(map(str, problems[:MAX_PROBLEMS]))}"


def _read_object(given: Any, notes: list[str]) -> Mapping[str, Any]:
    """Return arguments that came as text, or not at all."""
    if given is None:
        return {}
    if isinstance(given, str):
        given = _parse_json(given, "arguments", notes) if given.strip() else {}
    if not isinstance(given, Mapping):
        raise ValidationError((Problem("", "type", f"arguments must be an object, not {short_repr(given)}"),))
    return given


def _parse_json(text: str, name: str, notes: list[str]) -> Any:
    """Parse a JSON text.

    Raises:
        ValidationError: it is not JSON.
    """
    try:
        value = parse_json(text)
    except ValueError as error:
        message = f"is text that is not JSON: {error}; pass it as JSON itself, not as text"
        raise ValidationError((Problem(f"/{name}", "json", message[:500]),)) from error
    notes.append(f"{name} came as text, and was read as JSON")
    return value


class _Repairs:
    """Repairs arguments that came as text, with a note for each repair, and a problem for each failure."""

    def __init__(self, notes: list[str], problems: list[Problem]) -> None:
        self._notes = notes
        self._problems = problems

    def repair(self, name: str, value: Any, schema: Mapping[str, Any]) -> Any:
        """Return an argument in the type of its schema, if its meaning is clear; else unchanged."""
        kind = schema.get("type")
        if isinstance(value, str):
            if kind == "integer":
                value = self._repair_count(name, value)
            elif kind == "object":
                value = self._repair_json(value, name) if value.strip() else {}
            elif kind == "array":
                value = self._repair_list(name, value, schema)
        elif kind == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)
        return self._repair_steps(value, schema["maxItems"]) if name == "steps" else value

    def _repair_count(self, name: str, text: str) -> Any:
        digits = text.strip()
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
            return text
        self._notes.append(f"{name} came as text, and was read as a number")
        return int(digits)

    def _repair_list(self, name: str, text: str, schema: Mapping[str, Any]) -> Any:
        if schema["items"] != {"type": "string"} or text.lstrip().startswith("["):
            return self._repair_json(text, name)
        if len(text) > _MAX_TEXT:
            return text
        self._notes.append(f"{name} came as one text, and was read as a list")
        return [part.strip() for part in text.split(",") if part.strip()]

    def _repair_json(self, text: str, name: str) -> Any:
        """Parse a JSON text; return the text itself if it is not JSON."""
        try:
            return _parse_json(text, name, self._notes)
        except ValidationError as error:
            self._problems += error.problems
            return text

    def _repair_steps(self, steps: Any, most: int) -> Any:
        """Repair the steps of a chain: a step or its arguments may be text."""
        if isinstance(steps, dict):
            self._notes.append("steps came as one step, and was read as a list of it")
            steps = [steps]
        if not isinstance(steps, list) or len(steps) > most:
            return steps
        return [self._repair_step(step, at) for at, step in enumerate(steps)]

    def _repair_step(self, step: Any, at: int) -> Any:
        read = self._repair_json(step, f"steps/{at}") if isinstance(step, str) else step
        if not isinstance(read, dict) or "args" not in read:
            return read
        args = read["args"]
        if isinstance(args, str) and args.strip():
            return read | {"args": self._repair_json(args, f"steps/{at}/args")}
        return read | {"args": args or {}} if args is None or isinstance(args, str) else read


def _describe_unknown(name: str, definition: Definition, payload: Mapping[str, Any]) -> Problem:
    """Return the problem of an argument that the tool does not have."""
    tool, known = definition.tool.name, definition.arguments
    meant = _MEANT.get(name)
    if meant in known and meant not in payload:
        hint = f"; did you mean {meant!r}?"
    elif "args" in known and name not in _MEANT:
        hint = "; the arguments of the tool that is to run go into 'args'"
    else:
        hint = did_you_mean(str(name), known) or (
            f"; it takes {', '.join(known)}" if known else "; it takes none"
        )
    return Problem(pointer([str(name)[:100]]), "additionalProperties", f"is not an argument of {tool}{hint}")

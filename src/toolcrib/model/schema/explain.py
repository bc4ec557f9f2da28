"""Messages for validation errors that a person or a model can act on."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import jsonschema_rs

from toolcrib.errors import Problem
from toolcrib.errors.base import MAX_MESSAGE, MAX_PROBLEMS
from toolcrib.errors.text import fit
from toolcrib.model.plain import pointer
from toolcrib.model.suggest import did_you_mean, nearest

_MAX_PATH = 1_000
_MAX_OF_NEAREST = 3
_MAX_SHOWN = 60

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_ARTICLES = {"array": "an array", "integer": "an integer", "object": "an object", "null": "null"}

_Error = jsonschema_rs.ValidationError
_Kind = jsonschema_rs.ValidationErrorKind


def explain(errors: Iterable[_Error], value: Any, schema: Any) -> tuple[Problem, ...]:
    """Return the problems of a value, at most `MAX_PROBLEMS`, in the engine's order."""
    problems: dict[Problem, None] = {}
    for error in errors:
        place = _value_at(value, error.instance_path)
        for path, keyword, message in _describe(error, place, schema):
            where = fit(pointer(path), _MAX_PATH)
            problems[Problem(where, keyword, fit(message, MAX_MESSAGE))] = None
            if len(problems) == MAX_PROBLEMS:
                return tuple(problems)
    return tuple(problems)


_Described = tuple[list[str | int], str, str]


def _describe(error: _Error, place: Any, schema: Any) -> Iterator[_Described]:
    """Yield the path, keyword and message of each problem in one error."""
    path, kind = error.instance_path, error.kind
    keyword = _keyword(error)
    match kind:
        case _Kind.AdditionalProperties() | _Kind.UnevaluatedProperties():
            yield from _unexpected_properties(path, keyword, kind.unexpected, _siblings(error, schema))
        case _Kind.FalseSchema() if keyword == "additionalProperties" and isinstance(place, dict):
            yield from _unexpected_properties(path, keyword, list(place), ())
        case _Kind.Required():
            yield (
                path,
                keyword,
                _required_message(kind.property, place, because=keyword == "dependentRequired"),
            )
        case _Kind.PropertyNames():
            [(_, _, reason)] = list(_describe(kind.error, kind.error.instance, schema))[:1]
            yield path, keyword, f"the property name {show(kind.error.instance)} does not fit: it {reason}"
        case _Kind.AnyOf() | _Kind.OneOfNotValid():
            yield _alternatives_problem(path, keyword, kind.context, place, schema)
        case _:
            yield path, keyword, _MESSAGES.get(type(kind), _engine_message)(error, place)


def _keyword(error: _Error) -> str:
    """Return the keyword that the value violates."""
    named = [part for part in error.schema_path[-2:] if isinstance(part, str)]
    if isinstance(error.kind, _Kind.FalseSchema):
        return next((part for part in reversed(named) if part in _FALSE_MEANS_NONE), "false")
    return "dependentRequired" if "dependentRequired" in named else error.kind.name


_FALSE_MEANS_NONE = {"additionalProperties", "properties", "patternProperties", "items", "additionalItems"}


def _unexpected_properties(
    path: list[str | int], keyword: str, names: list[str], known: Iterable[str]
) -> Iterator[_Described]:
    unknown = set(names)
    known = [name for name in known if name not in unknown]
    for name in names:
        hint = did_you_mean(name, known) or "; remove it"
        yield path, keyword, f"unexpected property {show(name)}{hint}"


def _siblings(error: _Error, schema: Any) -> list[str]:
    """Return the property names that the schema has beside an unexpected one."""
    place = _value_at(schema, error.schema_path[:-1])
    properties = place.get("properties") if isinstance(place, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def _required_message(name: str, place: Any, *, because: bool) -> str:
    near = nearest(name, place) if isinstance(place, dict) and name not in place else None
    hint = f"; did you write {show(near)}?" if near else ""
    return f"required property {show(name)} is missing{' beside those given' if because else ''}{hint}"


def _alternatives_problem(
    path: list[str | int], keyword: str, context: list[list[_Error]], place: Any, schema: Any
) -> _Described:
    """Return the problem of the nearest alternative, or of the types if all alternatives ask for a type."""
    wanted = [_wanted_types(branch, path) for branch in context]
    if wanted and all(wanted):
        types = list(dict.fromkeys(kind for kinds in wanted for kind in kinds))
        return path, keyword, f"must be {_join_types(types)}, not {show(place)}"
    closest = min(context, key=lambda branch: _rank_branch(branch, path), default=[])
    nearest = islice(_flatten(closest, place, schema), _MAX_OF_NEAREST)
    asks = "; ".join(
        f"{fit(pointer(where), _MAX_SHOWN)}: {what}" if where else what for where, _, what in nearest
    )
    return path, keyword, f"fits none of the {len(context)} alternatives; the nearest one says: {asks}"


def _flatten(branch: list[_Error], place: Any, schema: Any) -> Iterator[_Described]:
    for error in branch:
        yield from _describe(error, error.instance if error.instance_path else place, schema)


def _wanted_types(branch: list[_Error], path: list[str | int]) -> list[str]:
    """Return the types that a branch asks for, if the type is its first problem; else none."""
    first = branch[0] if branch else None
    if first is not None and isinstance(first.kind, _Kind.Type) and first.instance_path == path:
        return first.kind.types
    return []


def _rank_branch(branch: list[_Error], path: list[str | int]) -> tuple[bool, int, int]:
    """Return a sort key of branches: the right type first, then the fewest and the deepest errors."""
    wrong_type = any(error.kind.name == "type" and error.instance_path == path for error in branch)
    return wrong_type, len(branch), -max((len(error.instance_path) for error in branch), default=0)


def _join_types(types: Iterable[str]) -> str:
    named = [_ARTICLES.get(kind, f"a {kind}") for kind in types]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} or {named[-1]}"


def _pluralize(count: int, noun: str) -> str:
    plural = {"property": "properties"}.get(noun, f"{noun}s")
    return f"{count:,} {noun if count == 1 else plural}"


def _enum_message(error: _Error, place: Any) -> str:
    options = error.kind.as_dict()["options"]
    hint = did_you_mean(place, [o for o in options if isinstance(o, str)]) if isinstance(place, str) else ""
    shown = ", ".join(map(show, options[:12])) + (", …" if len(options) > 12 else "")  # noqa: PLR2004
    return f"must be one of {shown}, not {show(place)}{hint}"


def _engine_message(error: _Error, _place: Any) -> str:
    return error.message


def _fact_message(name: str, sentence: str) -> Callable[[_Error, Any], str]:
    """Return a function that fills one fact of an error, and the value, into a sentence."""
    return lambda error, place: sentence.format(show(error.kind.as_dict()[name]), show(place))


def _count_message(sentence: str, noun: str) -> Callable[[_Error, Any], str]:
    return lambda error, place: sentence.format(_pluralize(error.kind.as_dict()["limit"], noun), show(place))


_MESSAGES: dict[type, Callable[[_Error, Any], str]] = {
    _Kind.Type: lambda error, place: (
        f"must be {_join_types(error.kind.as_dict()['types'])}, not {show(place)}"
    ),
    _Kind.Enum: _enum_message,
    _Kind.Constant: _fact_message("expected_value", "must be {}, not {}"),
    _Kind.Minimum: _fact_message("limit", "must be at least {}, not {}"),
    _Kind.Maximum: _fact_message("limit", "must be at most {}, not {}"),
    _Kind.ExclusiveMinimum: _fact_message("limit", "must be greater than {}, not {}"),
    _Kind.ExclusiveMaximum: _fact_message("limit", "must be less than {}, not {}"),
    _Kind.MultipleOf: _fact_message("multiple_of", "must be a multiple of {}, not {}"),
    _Kind.Pattern: _fact_message("pattern", "must match the pattern {}, and {} does not"),
    _Kind.MinLength: _count_message("must have at least {}, and {} has fewer", "character"),
    _Kind.MaxLength: _count_message("must have at most {}, and {} has more", "character"),
    _Kind.MinItems: _count_message("must have at least {}, and {} has fewer", "item"),
    _Kind.MaxItems: _count_message("must have at most {}, and {} has more", "item"),
    _Kind.MinProperties: _count_message("must have at least {}, and {} has fewer", "property"),
    _Kind.MaxProperties: _count_message("must have at most {}, and {} has more", "property"),
    _Kind.UniqueItems: lambda _error, _place: "must not contain the same item twice",
    _Kind.Contains: lambda _error, _place: "does not have the right number of items of the required kind",
    _Kind.AdditionalItems: _count_message("must have no more than {}", "item"),
    _Kind.UnevaluatedItems: lambda _error, _place: "holds items that the schema does not allow; remove them",
    _Kind.FalseSchema: lambda _error, _place: "is not allowed here; remove it",
    _Kind.Not: lambda _error, place: f"must not be of the kind that the schema forbids, and {show(place)} is",
    _Kind.OneOfMultipleValid: lambda _error, _place: (
        "fits more than one of the alternatives, and must fit just one"
    ),
}


def show(value: Any) -> str:
    """Return a value as short text: a scalar as in Python, a container as its type."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return repr(fit(value, _MAX_SHOWN))
    return fit(f"{value}", _MAX_SHOWN)


def _value_at(value: Any, path: list[str | int]) -> Any:
    """Return the value at a path; None if there is none."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value

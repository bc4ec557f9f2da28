"""Compiled schemas: checked, bounded in cost and compiled once, for validation of any number of values.

The engine cannot be interrupted, so the cost of each validation is bounded before it starts, in three steps
from the cheapest to the most exact: a flat object of simple values is always cheap (`_is_flat`); else the
size of the value times the bounds of the schema; and if these are too high, the steps are counted for this
value (`SchemaCost.count_steps`).
"""

from math import isfinite
from typing import Any, NoReturn

import jsonschema_rs

from toolcrib.errors import InvalidSchemaError, Problem, SchemaTooComplexError, ValidationError
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.model.plain import MAX_INT, MIN_INT, copy_json, longest_key, measure, pointer
from toolcrib.model.schema.cost import assess_cost
from toolcrib.model.schema.engine import Documents, Schema, compile_engine, dialect_of, meta_engine
from toolcrib.model.schema.explain import TYPES, explain, show
from toolcrib.model.schema.graph import MAX_SCHEMA_NODES, build_graph
from toolcrib.model.schema.meter import MAX_STEPS
from toolcrib.model.schema.weight import Node
from toolcrib.model.suggest import nearest

_MAX_EXPLAINED = 10_000
"""With more steps, or a larger value, errors are not listed: each would have a copy of the value."""
_MAX_KEY = 10_000
"""With a longer key, errors are not listed: each below it would repeat the key in its path."""
_MAX_SCHEMA_CHARS = 4 << 20
_MAX_WIDE_INTEGERS = 100

_TYPE_ALIASES = {
    "dict": "object", "map": "object", "mapping": "object", "struct": "object", "json": "object",
    "list": "array", "tuple": "array", "set": "array",
    "float": "number", "double": "number", "decimal": "number",
    "int": "integer", "long": "integer",
    "str": "string", "text": "string", "char": "string", "date": "string",
    "bool": "boolean", "none": "null", "nil": "null", "nonetype": "null",
}  # fmt: skip


class CompiledSchema:
    """A schema that is ready to validate values; thread-safe."""

    __slots__ = (
        "_bounds",
        "_cost",
        "_engine",
        "_max_flat_members",
        "_raise_if_invalid",
        "_schema",
        "estimated_bytes",
        "owner",
    )

    def __init__(self, schema: Schema, documents: Documents, *, owner: object = None) -> None:
        """Check a schema, bound its cost and compile a copy of it; `owner` is kept alive with it.

        Raises:
            InvalidSchemaError: the schema cannot be used; it may be a subclass, and has the problems.
        """
        self.owner = owner
        self._schema = copy_json(plain_schema(schema))
        dialect = dialect_of(self._schema, documents)
        registry, nodes = None, [Node()]
        if isinstance(self._schema, dict):
            if self._schema.get("$schema") not in documents:
                check_against(meta_engine(dialect), self._schema)
            registry = documents.make_registry(self._schema, dialect)
            nodes = build_graph(self._schema, dialect, documents, registry)
        self._cost = assess_cost(nodes)
        self._bounds = self._cost.bounds_by_depth()
        self.estimated_bytes = _estimate_bytes(self._schema) + 3 * sum(node.pattern_bytes for node in nodes)
        self._max_flat_members = min(_MAX_EXPLAINED // self._bounds[1][0], 256) if self._cost.is_flat else 0
        try:
            self._engine = compile_engine(self._schema, dialect, registry)
            self._raise_if_invalid = self._engine.validate  # faster than is_valid, unless errors are large
        except jsonschema_rs.ValidationError as error:
            raise InvalidSchemaError("invalid schema", (_compiler_problem(error),)) from error
        except ValueError as error:
            raise InvalidSchemaError(f"the schema cannot be compiled: {error}"[:500]) from error

    def validate(self, value: Any) -> None:
        """Validate a value.

        Raises:
            ValidationError: the value does not fit, or is not JSON.
            SchemaTooComplexError: this schema cannot be checked against this value in reasonable time.
        """
        if self._is_flat(value):
            try:
                self._raise_if_invalid(value)
            except jsonschema_rs.ValidationError:
                self._raise_problems(value)
            return
        nodes, levels, chars, wide = measure(value)
        per_node, per_char = self._bounds[levels]
        steps = nodes * per_node + chars * per_char
        if steps > MAX_STEPS or wide:
            self._cost.count_steps(value, levels)
        try:
            if steps <= _MAX_EXPLAINED and nodes + chars <= _MAX_EXPLAINED:
                self._raise_if_invalid(value)
                return
            if self._engine.is_valid(value):
                return
        except jsonschema_rs.ValidationError:
            pass
        self._raise_problems(value)

    def is_valid(self, value: Any) -> bool:
        """Return whether a value fits, without the cost of listing errors.

        Raises:
            SchemaTooComplexError: as for `validate`.
        """
        if self._is_flat(value):
            return self._engine.is_valid(value)
        try:
            nodes, levels, chars, wide = measure(value)
        except ValidationError:
            return False
        per_node, per_char = self._bounds[levels]
        if nodes * per_node + chars * per_char > MAX_STEPS or wide:
            self._cost.count_steps(value, levels)
        return self._engine.is_valid(value)

    def _is_flat(self, value: Any) -> bool:
        """Return whether a value is an object of a few simple values, which need not be measured.

        This is the fast path of nearly all tool calls.
        """
        if type(value) is not dict or len(value) >= self._max_flat_members:
            return False
        # Exact types and ASCII only: everything else needs the checks of `measure`.
        for name, member in value.items():
            kind = type(member)
            if not (
                (kind is str and member.isascii())
                or (kind is int and MIN_INT <= member <= MAX_INT)
                or kind is bool
                or member is None
                or (kind is float and isfinite(member))
            ):
                return False
            if type(name) is not str or not name.isascii():
                return False
        return True

    def _raise_problems(self, value: Any) -> NoReturn:
        """Raise the error of a value that the engine refused, with the problems if listing them is cheap."""
        if self._cost.count_looks(value) <= _MAX_EXPLAINED and longest_key(value) <= _MAX_KEY:
            raise ValidationError(explain(self._engine.iter_errors(value), value, self._schema))
        reason = "does not fit the schema, and is too large to list the reasons; check its parts one by one"
        raise ValidationError((Problem("", "schema", reason),))


def _estimate_bytes(schema: Schema) -> int:
    """Return the approximate memory of a compiled schema, in bytes."""
    nodes, _, chars, _ = measure(schema)
    return 2_000 * nodes + 3 * chars


def plain_schema(schema: Any) -> Schema:
    """Check that a schema is plain JSON of a reasonable size, and return it.

    Raises:
        InvalidSchemaError: it is not JSON.
        SchemaTooComplexError: it is too large.
    """
    if isinstance(schema, bool):
        return schema
    if type(schema) is not dict:
        raise InvalidSchemaError(f"a schema must be an object or a boolean, not {type(schema).__name__}")
    try:
        nodes, _, chars, wide = measure(schema)
    except ValidationError as error:
        too_large = error.problems[0].keyword == "size"
        raise (SchemaTooComplexError if too_large else InvalidSchemaError)(
            "invalid schema", error.problems
        ) from None
    for count, limit, what in (
        (nodes, MAX_SCHEMA_NODES, "values"),
        (chars, _MAX_SCHEMA_CHARS, "characters"),
        (wide, _MAX_WIDE_INTEGERS, "integers of more than 64 bits"),
    ):
        if count > limit:
            raise SchemaTooComplexError(f"the schema holds {count:,} {what}, and {limit:,} is the limit")
    return schema


def check_against(meta_schema: jsonschema_rs.Validator, schema: dict[str, Any]) -> None:
    """Validate a schema against its meta-schema; raise an `InvalidSchemaError` with all problems."""
    if meta_schema.is_valid(schema):
        return
    errors = list(meta_schema.iter_errors(schema))
    # Unknown types first: they are the commonest mistake, and cause further errors in the meta-schema.
    types = [problem for error in errors if (problem := _unknown_type_problem(error))]
    others = [error for error in errors if not _unknown_type_problem(error)]
    raise InvalidSchemaError("invalid schema", (*types, *explain(others, schema, None))[:MAX_PROBLEMS])


def _unknown_type_problem(error: jsonschema_rs.ValidationError) -> Problem | None:
    """Return the problem of an unknown type name, with the type that was probably meant; else None."""
    if error.schema_path[-3:] != ["properties", "type", "anyOf"]:
        return None
    named = error.instance if isinstance(error.instance, list) else [error.instance]
    wrong = next((name for name in named if name not in TYPES), error.instance)
    meant = nearest(wrong, TYPES) if isinstance(wrong, str) else None
    meant = _TYPE_ALIASES.get(str(wrong).lower(), meant)
    hint = f"; did you mean {meant!r}?" if meant else f"; use one of {', '.join(map(repr, TYPES))}"
    if wrong == "any":
        hint = f"; leave 'type' out to allow any value, or use one of {', '.join(map(repr, TYPES))}"
    return Problem(pointer(error.instance_path), "type", f"{show(wrong)} is not a JSON Schema type{hint}")


def _compiler_problem(error: jsonschema_rs.ValidationError) -> Problem:
    if error.kind.name == "format":
        return Problem(
            pointer(error.instance_path), "pattern", f"{show(error.instance)} is not a regular expression"
        )
    return Problem(pointer(error.instance_path), error.kind.name, error.message[:500])

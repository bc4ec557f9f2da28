"""One schema, checked, priced and compiled once, ready for any number of values."""

from math import isfinite
from typing import Any, NoReturn

import jsonschema_rs

from toolcrib.errors import InvalidSchemaError, Problem, SchemaTooComplexError, ValidationError
from toolcrib.errors.base import MAX_PROBLEMS
from toolcrib.model.plain import MAX_INT, MIN_INT, copy_json, longest_key, measure, pointer
from toolcrib.model.schema.cost import assess
from toolcrib.model.schema.engine import Documents, Schema, dialect_of, engine_for, meta_engine
from toolcrib.model.schema.explain import TYPES, explain, show
from toolcrib.model.schema.graph import MAX_SCHEMA_NODES, build_graph
from toolcrib.model.schema.meter import MAX_STEPS
from toolcrib.model.schema.weight import Node
from toolcrib.model.suggest import nearest

_MAX_LISTED = 10_000
"""Above this many looks, or for larger values, the engine would spend its time on writing errors."""
_MAX_KEY = 10_000
"""Errors below a longer key would each spell it out."""
_MAX_SCHEMA_CHARS = 4 << 20
_MAX_WIDE = 100

_TYPE_ALIASES = {
    "dict": "object", "map": "object", "mapping": "object", "struct": "object", "json": "object",
    "list": "array", "tuple": "array", "set": "array",
    "float": "number", "double": "number", "decimal": "number",
    "int": "integer", "long": "integer",
    "str": "string", "text": "string", "char": "string", "date": "string",
    "bool": "boolean", "none": "null", "nil": "null", "nonetype": "null",
}  # fmt: skip


class CompiledSchema:
    """A schema that values can be validated against; safe to share between threads."""

    __slots__ = ("_bounds", "_cost", "_engine", "_flat", "_quick", "_schema", "owner", "weight")

    def __init__(self, schema: Schema, documents: Documents, *, owner: object = None) -> None:
        """Check, price and compile a schema, which is copied; the owner is kept as it is.

        Raises:
            InvalidSchemaError: or one of its leaves, with what is wrong and where.
        """
        self.owner = owner
        self._schema = copy_json(plain_schema(schema))
        dialect = dialect_of(self._schema, documents)
        registry, nodes = None, [Node()]
        if isinstance(self._schema, dict):
            if self._schema.get("$schema") not in documents:
                check_against(meta_engine(dialect), self._schema)
            registry = documents.registry(self._schema, dialect)
            nodes = build_graph(self._schema, dialect, documents, registry)
        self._cost = assess(nodes)
        self._bounds = self._cost.bounds()
        self.weight = _weight(self._schema) + 3 * sum(node.pattern_bytes for node in nodes)
        self._flat = min(_MAX_LISTED // self._bounds[1][0], 256) if self._cost.flat else 0
        try:
            self._engine = engine_for(self._schema, dialect, registry)
            self._quick = self._engine.validate  # faster than is_valid, unless it has much to say
        except jsonschema_rs.ValidationError as error:
            raise InvalidSchemaError("invalid schema", (_from_compiler(error),)) from error
        except ValueError as error:
            raise InvalidSchemaError(f"the schema cannot be compiled: {error}"[:500]) from error

    def validate(self, value: Any) -> None:
        """Return if the value fits.

        Raises:
            ValidationError: it does not, or is not JSON.
            SchemaTooComplexError: this schema cannot be checked against this value in reasonable time.
        """
        if self._is_flat(value):
            try:
                self._quick(value)
            except jsonschema_rs.ValidationError:
                self._explain(value)
            return
        nodes, levels, chars, wide = measure(value)
        per_node, per_char = self._bounds[levels]
        steps = nodes * per_node + chars * per_char
        if steps > MAX_STEPS or wide:
            self._cost.meter(value, levels)
        try:
            if steps <= _MAX_LISTED and nodes + chars <= _MAX_LISTED:
                self._quick(value)
                return
            if self._engine.is_valid(value):
                return
        except jsonschema_rs.ValidationError:
            pass
        self._explain(value)

    def fits(self, value: Any) -> bool:
        """Return whether the value fits, without the time that it takes to say why not.

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
            self._cost.meter(value, levels)
        return self._engine.is_valid(value)

    def _is_flat(self, value: Any) -> bool:
        """Return whether a value need not be measured: arguments of simple values, as most are."""
        if type(value) is not dict or len(value) >= self._flat:
            return False
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

    def _explain(self, value: Any) -> NoReturn:
        """Say what is wrong with a value that the engine refused."""
        if self._cost.looks(value) <= _MAX_LISTED and longest_key(value) <= _MAX_KEY:
            raise ValidationError(explain(self._engine.iter_errors(value), value, self._schema))
        reason = "does not fit the schema, and is too large to list why; check its parts one by one"
        raise ValidationError((Problem("", "schema", reason),))


def _weight(schema: Schema) -> int:
    """Return about how many bytes a compiled schema keeps."""
    nodes, _, chars, _ = measure(schema)
    return 2_000 * nodes + 3 * chars


def plain_schema(schema: Any) -> Schema:
    """Return a schema that is plain JSON of a reasonable size, or raise.

    Raises:
        InvalidSchemaError: it is not JSON, or `SchemaTooComplexError`: it is too large.
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
        (wide, _MAX_WIDE, "integers of more than 64 bits"),
    ):
        if count > limit:
            raise SchemaTooComplexError(f"the schema holds {count:,} {what}, and {limit:,} is the limit")
    return schema


def check_against(meta_schema: jsonschema_rs.Validator, schema: dict[str, Any]) -> None:
    """Raise an `InvalidSchemaError` with all problems of a schema that its meta-schema finds."""
    if meta_schema.is_valid(schema):
        return
    errors = list(meta_schema.iter_errors(schema))
    types = [problem for error in errors if (problem := _bad_type(error))]
    others = [error for error in errors if not _bad_type(error)]
    raise InvalidSchemaError("invalid schema", (*types, *explain(others, schema, None))[:MAX_PROBLEMS])


def _bad_type(error: jsonschema_rs.ValidationError) -> Problem | None:
    """Say which type was meant, where a `type` keyword names none of the seven."""
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


def _from_compiler(error: jsonschema_rs.ValidationError) -> Problem:
    if error.kind.name == "format":
        return Problem(
            pointer(error.instance_path), "pattern", f"{show(error.instance)} is not a regular expression"
        )
    return Problem(pointer(error.instance_path), error.kind.name, error.message[:500])

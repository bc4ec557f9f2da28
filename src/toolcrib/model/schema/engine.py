"""The validation engine, `jsonschema-rs`, configured without I/O and without assertion of formats."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal

import jsonschema_rs

from toolcrib.errors import (
    ExternalRefError,
    InvalidSchemaError,
    UnknownMetaSchemaError,
    UnsupportedDialectError,
)
from toolcrib.model.plain import walk
from toolcrib.model.suggest import did_you_mean

DRAFT_2020_12: Final = "https://json-schema.org/draft/2020-12/schema"
DRAFT_7: Final = "http://json-schema.org/draft-07/schema"
ROOT_URI: Final = "json-schema:///"
"""The engine's base URI of a schema without `$id`."""

Schema = dict[str, Any] | bool
Dialect = Literal["2020-12", "draft-07"]
META_SCHEMAS: Final[Mapping[Dialect, str]] = {"2020-12": DRAFT_2020_12, "draft-07": DRAFT_7}
_DRAFTS: Final = {"2020-12": jsonschema_rs.Draft202012, "draft-07": jsonschema_rs.Draft7}

_BACKTRACK_LIMIT = 10_000
MAX_PATTERN_BYTES: Final = 64 << 20
"""The maximum memory of all compiled patterns of one schema, in bytes."""
_PATTERN_SIZE_LIMITS = (16 << 10, 128 << 10, 1 << 20, 8 << 20, 32 << 20)
"""Size limits, in bytes, at which a pattern is compiled to estimate its size; the last one is the maximum."""


class _Annotation:
    """A custom keyword that asserts nothing.

    The engine asserts `contentEncoding` and `contentMediaType` in draft-07; here they are annotations.
    """

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        """Accept the arguments that the engine passes to every keyword."""

    def validate(self, instance: Any) -> None:
        """Accept anything."""


class Documents:
    """Preloaded schemas by URI; every other URI is refused, never fetched."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        by_id = {schema["$id"]: schema for schema in documents.values() if _has_id(schema)}
        self._documents = {uri.rstrip("#"): schema for uri, schema in {**by_id, **documents}.items()}

    def __contains__(self, uri: object) -> bool:
        return isinstance(uri, str) and uri.rstrip("#") in self._documents

    def make_registry(self, schema: dict[str, Any], dialect: Dialect) -> jsonschema_rs.Registry:
        """Build the engine's registry of a schema and all documents that it refers to.

        Raises:
            ExternalRefError: a reference, even in an unused branch, leaves the schema and the documents.
            InvalidSchemaError: a reference is not a URI.
        """
        missing: list[str] = []

        def retrieve(uri: str) -> Any:
            name = uri.removeprefix(ROOT_URI).rstrip("#")
            if name not in self._documents:
                missing.append(name)
                raise LookupError(uri)
            return self._documents[name]

        resources = [(ROOT_URI, schema)]
        if dialect == "2020-12" and _refers_to_draft_7(schema):
            resources.append((DRAFT_7, _draft_7_meta_schema()))
        try:
            return jsonschema_rs.Registry(resources, draft=_DRAFTS[dialect], retriever=retrieve)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            if missing:
                raise self.external_error(missing[0]) from None
            raise InvalidSchemaError(f"a reference in the schema cannot be read: {error}"[:500]) from error

    def external_error(self, uri: str) -> ExternalRefError:
        """Return the error for a reference that leaves the schema and the documents."""
        hint = did_you_mean(uri, self._documents)
        return ExternalRefError(
            f"the schema refers to {uri[:200]!r}, which is outside of it and is never fetched{hint}; "
            "put the target under '$defs', or pass it in documents="
        )


def _has_id(schema: Any) -> bool:
    return isinstance(schema, dict) and isinstance(schema.get("$id"), str)


def _refers_to_draft_7(schema: dict[str, Any]) -> bool:
    references = (member.get("$ref") for member in walk(schema) if isinstance(member, dict))
    return any(isinstance(reference, str) and reference.startswith(DRAFT_7) for reference in references)


@cache
def _draft_7_meta_schema() -> Any:
    """Return the meta-schema of draft-07, which the engine leaves out of a registry for 2020-12."""
    registry = jsonschema_rs.Registry([(ROOT_URI, {"$ref": DRAFT_7})], draft=jsonschema_rs.Draft7)
    return registry.resolver(ROOT_URI).lookup(DRAFT_7).contents


def dialect_of(schema: Schema, documents: Documents) -> Dialect:
    """Return the dialect that a schema declares; by default 2020-12.

    Raises:
        UnsupportedDialectError: the dialect is not supported, and not a meta-schema among the documents.
    """
    uri = schema.get("$schema", DRAFT_2020_12) if isinstance(schema, dict) else DRAFT_2020_12
    if not isinstance(uri, str):
        raise UnsupportedDialectError(f"'$schema' must be a string, such as {DRAFT_2020_12!r}")
    bare = uri.removesuffix("#")
    if bare == DRAFT_2020_12:
        return "2020-12"
    if bare in {DRAFT_7, DRAFT_7.replace("http:", "https:")}:
        return "draft-07"
    if uri in documents:
        return "2020-12"
    official = "//json-schema.org/" in uri
    hint = "" if official else ", or pass that meta-schema in documents="
    raise (UnsupportedDialectError if official else UnknownMetaSchemaError)(
        f"'$schema' is {uri[:200]!r}, and only 2020-12 ({DRAFT_2020_12}) and draft-07 ({DRAFT_7}) are known; "
        f"rewrite the schema for one of them{hint}"
    )


def compile_engine(
    schema: Schema, dialect: Dialect, registry: jsonschema_rs.Registry | None = None
) -> jsonschema_rs.Validator:
    """Compile a schema with the engine.

    Raises:
        ValueError: the engine refuses it; a `jsonschema_rs.ValidationError`, which is one, has the place.
    """
    # The limits make a pattern fail to compile, or to match, instead of taking all memory or time.
    options: dict[str, Any] = {
        "offline": True,
        "validate_formats": False,
        "mask": "value",
        "pattern_options": jsonschema_rs.FancyRegexOptions(
            backtrack_limit=_BACKTRACK_LIMIT, size_limit=_PATTERN_SIZE_LIMITS[-1], dfa_size_limit=1 << 20
        ),
    }
    if registry is not None:
        options |= {"registry": registry, "base_uri": ROOT_URI}
    if dialect == "2020-12":
        return jsonschema_rs.Draft202012Validator(schema, **options)
    options["keywords"] = {"contentEncoding": _Annotation, "contentMediaType": _Annotation}
    return jsonschema_rs.Draft7Validator(schema, **options)


@cache
def meta_engine(dialect: Dialect) -> jsonschema_rs.Validator:
    """Return the compiled meta-schema of a dialect."""
    return compile_engine({"$ref": META_SCHEMAS[dialect]}, dialect)


def compile_pattern(pattern: str) -> jsonschema_rs.Validator | None:
    """Compile a schema with one pattern alone; return None if the pattern is malformed or too large."""
    try:
        return compile_engine({"pattern": pattern}, "2020-12")
    except ValueError:
        return None


def linear_pattern_size(pattern: str) -> int | None:
    """Return the approximate size of a compiled pattern in bytes, for the engine that never backtracks.

    None if that engine does not support the pattern, or it would be too large.
    """
    # The engine does not tell the size, so the pattern is compiled under growing limits until it fits.
    for size in _PATTERN_SIZE_LIMITS:
        options = jsonschema_rs.RegexOptions(size_limit=size)
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, offline=True, pattern_options=options)
        except ValueError:
            continue
        return size
    return None

"""The validation engine, `jsonschema-rs`, set up so that it never does I/O and never asserts a format."""

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
"""The engine's own base for a schema without `$id`."""

Schema = dict[str, Any] | bool
Dialect = Literal["2020-12", "draft-07"]
META_SCHEMAS: Final[Mapping[Dialect, str]] = {"2020-12": DRAFT_2020_12, "draft-07": DRAFT_7}
_DRAFTS: Final = {"2020-12": jsonschema_rs.Draft202012, "draft-07": jsonschema_rs.Draft7}

_BACKTRACK_LIMIT = 10_000
MAX_PATTERN_BYTES: Final = 64 << 20
"""What all compiled patterns of one schema may take together."""
_PATTERN_SIZES = (16 << 10, 128 << 10, 1 << 20, 8 << 20, 32 << 20)
"""What a compiled pattern may take, in bytes, from the ordinary to the largest allowed."""


class _Annotation:
    """A keyword that is kept but asserts nothing."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        """Take what the engine gives every keyword."""

    def validate(self, instance: Any) -> None:
        """Accept anything."""


class Documents:
    """Schemas loaded beforehand, by URI; every other address is refused, never fetched."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        by_id = {schema["$id"]: schema for schema in documents.values() if _names_itself(schema)}
        self._documents = {uri.rstrip("#"): schema for uri, schema in {**by_id, **documents}.items()}

    def __contains__(self, uri: object) -> bool:
        return isinstance(uri, str) and uri.rstrip("#") in self._documents

    def registry(self, schema: dict[str, Any], dialect: Dialect) -> jsonschema_rs.Registry:
        """Return the engine's view of a schema and all that it refers to.

        Raises:
            ExternalRefError: a reference, in a used branch or not, leaves the schema and the documents.
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
                raise self.external(missing[0]) from None
            raise InvalidSchemaError(f"a reference in the schema cannot be read: {error}"[:500]) from error

    def external(self, uri: str) -> ExternalRefError:
        """Return the error for a reference that leaves the schema and the documents."""
        hint = did_you_mean(uri, self._documents)
        return ExternalRefError(
            f"the schema refers to {uri[:200]!r}, which is outside of it and is never fetched{hint}; "
            "put the target under '$defs', or pass it in documents="
        )


def _names_itself(schema: Any) -> bool:
    return isinstance(schema, dict) and isinstance(schema.get("$id"), str)


def _refers_to_draft_7(schema: dict[str, Any]) -> bool:
    references = (member.get("$ref") for member in walk(schema) if isinstance(member, dict))
    return any(isinstance(reference, str) and reference.startswith(DRAFT_7) for reference in references)


@cache
def _draft_7_meta_schema() -> Any:
    """Return what the engine knows, but leaves out of a registry for 2020-12."""
    registry = jsonschema_rs.Registry([(ROOT_URI, {"$ref": DRAFT_7})], draft=jsonschema_rs.Draft7)
    return registry.resolver(ROOT_URI).lookup(DRAFT_7).contents


def dialect_of(schema: Schema, documents: Documents) -> Dialect:
    """Return the dialect a schema declares; one that declares none is 2020-12.

    Raises:
        UnsupportedDialectError: it is neither of ours, nor a meta-schema among the documents.
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


def engine_for(
    schema: Schema, dialect: Dialect, registry: jsonschema_rs.Registry | None = None
) -> jsonschema_rs.Validator:
    """Return the compiled schema.

    Raises:
        ValueError: the engine refuses it, as a `jsonschema_rs.ValidationError` with the place, or without.
    """
    options: dict[str, Any] = {
        "offline": True,
        "validate_formats": False,
        "mask": "value",
        "pattern_options": jsonschema_rs.FancyRegexOptions(
            backtrack_limit=_BACKTRACK_LIMIT, size_limit=_PATTERN_SIZES[-1], dfa_size_limit=1 << 20
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
    """Return the validator of schemas themselves."""
    return engine_for({"$ref": META_SCHEMAS[dialect]}, dialect)


def pattern_engine(pattern: str) -> jsonschema_rs.Validator | None:
    """Return a validator of one pattern alone; None where it is not a pattern, or too large."""
    try:
        return engine_for({"pattern": pattern}, "2020-12")
    except ValueError:
        return None


def linear_pattern_size(pattern: str) -> int | None:
    """Return about how many bytes a pattern takes compiled, for the engine that never backtracks.

    None where that engine does not know it, or where it would take too many.
    """
    for size in _PATTERN_SIZES:
        options = jsonschema_rs.RegexOptions(size_limit=size)
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, offline=True, pattern_options=options)
        except ValueError:
            continue
        return size
    return None

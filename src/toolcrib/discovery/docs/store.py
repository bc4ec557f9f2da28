"""Store of the documentation of tools, and descriptions of tools in three levels of detail."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Any, Literal

from toolcrib.concurrency.lru import LruCache
from toolcrib.discovery import facts
from toolcrib.discovery.docs.entry import MAX_SUMMARY, DocEntry
from toolcrib.discovery.docs.observed import ObservedShape
from toolcrib.discovery.docs.schema_summary import schema_info
from toolcrib.discovery.kept import TextCollection, Texts
from toolcrib.discovery.keys import key_of
from toolcrib.errors import InvalidToolIdError, Problem, ToolNotFoundError, ValidationError
from toolcrib.errors.base import join_options, short_repr
from toolcrib.model.docs import ObservedOutput, SchemaInfo, ToolDoc, ToolExample
from toolcrib.model.plain import copy_json
from toolcrib.model.protocols import Resolver
from toolcrib.model.shape import ShapedTool
from toolcrib.model.suggest import did_you_mean, nearest
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import ToolId, without_version

_MAX_SCHEMA_INFOS = 2048
_MAX_SUGGESTIONS = 3
DetailName = Literal["summary", "schema", "full"]
"""A `DetailLevel` as text."""


class DetailLevel(StrEnum):
    """Level of detail of a description; each level contains the one before it.

    >>> DetailLevel("schema")
    <DetailLevel.SCHEMA: 'schema'>

    Raises:
        ValidationError: the text is not a level; with the most similar one.
    """

    SUMMARY = "summary"
    """The purpose of the tool, with its modes, security summary and annotations if it has any."""
    SCHEMA = "schema"
    """Also the definition, and a summary of its arguments."""
    FULL = "full"
    """Also notes, examples and references."""

    @classmethod
    def _missing_(cls, value: object) -> None:
        levels = list(map(str, cls))
        hint = did_you_mean(value.strip().lower(), levels) if isinstance(value, str) else ""
        message = f"a level is {join_options(levels)}, not {short_repr(value)}{hint}"
        raise ValidationError((Problem("/level", "enum", message),), message)


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A resolved reference to a tool."""

    ref: str
    key: str | None
    """The canonical key; None for a reference that is not an id, such as one with a constraint."""
    tool: Tool | None = None
    error: ToolNotFoundError | None = None
    """The error of the resolver; None if it found the tool or there is no resolver."""

    def doc_keys(self) -> list[str]:
        """Return the keys of documentation that applies, the most exact one first."""
        exact = [key_of(self.tool.id)] if self.tool else []
        if isinstance(self.tool, ShapedTool):  # documentation is registered for the tool itself
            exact.append(key_of(self.tool.origin.id))
        asked = [self.key] if self.key else []
        is_any_version_meant = self.tool is not None or self.error is None
        general = [without_version(key) for key in (*exact, *asked)] if is_any_version_meant else []
        return list(dict.fromkeys((*exact, *asked, *general)))


class DocStore:
    """Documentation by tool id, and descriptions of tools in three levels of detail.

    An id is text or a `ToolId`; `git:log:v1.2.0` and `git:log:1.2.0` are the same. Documentation of `git:log`
    applies to all its versions, unless a version has its own. Definitions come from the resolver, which also
    resolves ids without a version or with a constraint. Records are copied when they are registered and
    returned. Every method may be called from any thread.

    >>> docs = DocStore()
    >>> docs.register_doc("git:log", summary="Show the history.", notes="Newest first.")
    >>> docs.describe("git:log").summary
    'Show the history.'
    """

    def __init__(
        self,
        resolver: Resolver | None = None,
        *,
        max_examples: int | None = 10,
        texts: Texts | None = None,
    ) -> None:
        """Open the documentation that is persisted in `texts`, or an empty store in memory.

        Raises:
            StoreError: the persisted documentation cannot be read.
            ValidationError: `max_examples` is negative.
        """
        self._resolver = resolver
        self._max_examples = _check_count("max_examples", max_examples)
        self._texts = TextCollection(texts, "docs")
        self._entries = self._texts.load(DocEntry.from_json)
        self._observed = ObservedShapes(texts)
        self._schema_infos: LruCache[str, tuple[Tool, SchemaInfo]] = LruCache(_MAX_SCHEMA_INFOS)
        self._lock = Lock()

    def with_resolver(self, resolver: Resolver) -> "DocStore":
        """Return a store that shares this documentation, with tools of another resolver."""
        other = copy(self)
        other._resolver = resolver  # noqa: SLF001 - of its own kind
        return other

    def with_own_observations(self, resolver: Resolver) -> "DocStore":
        """Return a store that shares this documentation, but learns output shapes for itself, in memory only.

        Names in results may be private data of the principal of the call, so one principal must not see
        shapes that were learnt from results of another.
        """
        other = self.with_resolver(resolver)
        other._observed = ObservedShapes(None)  # noqa: SLF001 - of its own kind
        return other

    def register_doc(
        self,
        tool_id: str | ToolId,
        doc: DocEntry | ToolDoc | Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Set the documentation of a tool, replacing any earlier one; the tool need not exist yet.

        It is a `DocEntry`, a `ToolDoc`, a dict, or the fields `summary`, `notes`, `examples` and
        `external_refs`. Longer texts are cut.

        Raises:
            InvalidToolIdError: the id is malformed.
            InvalidToolError: the documentation is malformed; with every problem, and nothing is changed.
            ArgsTooLargeError: the arguments of an example are too deep or too many; nothing is changed.
        """
        key, entry = key_of(tool_id), DocEntry.of(doc, **fields)
        with self._lock:
            self._save_entry(key, entry)

    def register_examples(
        self, tool_id: str | ToolId, examples: Iterable[ToolExample | Mapping[str, Any]]
    ) -> None:
        """Set the examples of a tool, replacing the earlier ones; its other documentation stays.

        Raises:
            InvalidToolIdError: the id is malformed.
            InvalidToolError: an example is malformed; with every problem, and nothing is changed.
            ArgsTooLargeError: the arguments of an example are too deep or too many; nothing is changed.
        """
        key, given = key_of(tool_id), DocEntry.of(examples=examples)
        with self._lock:
            entry = self._entries.get(key) or DocEntry()
            self._save_entry(key, entry.model_copy(update={"examples": given.examples}))

    def _save_entry(self, key: str, entry: DocEntry) -> None:
        self._texts.put(key, entry.to_json())
        self._entries[key] = entry

    def forget(self, tool_id: str | ToolId) -> None:
        """Delete the documentation of exactly this id and its observed output; it need not exist."""
        key = key_of(tool_id)
        with self._lock:
            if key in self._entries:
                self._texts.delete(key)
                del self._entries[key]
        self._schema_infos.pop(key)
        self._observed.forget(key)

    def observe(self, tool_id: str | ToolId, result: Any) -> bool:
        """Learn the output shape of a tool from a result; the result itself is not stored.

        Returns:
            False if nothing was learnt: the tool is unknown or declares an output schema, or the result is
            not plain JSON or too large.
        """
        found = self._find(tool_id)
        if found.error or (found.tool and found.tool.output_schema is not None):
            return False
        try:
            shape = ObservedShape.of(result)
        except ValidationError:
            return False
        self._observed.add(found.doc_keys()[0], shape)
        return True

    def flush(self) -> None:
        """Persist the shapes that were learnt since the last write; call it before the process ends."""
        self._observed.flush()

    def describe(
        self, tool_id: str | ToolId, level: DetailLevel | DetailName = DetailLevel.SUMMARY
    ) -> ToolDoc:
        """Describe a tool at a level of detail.

        Raises:
            ValidationError: there is no such level; with the most similar one.
            InvalidToolIdError: the id is malformed.
            ToolNotFoundError: there is no such tool; with suggestions. A tool that is only documented has a
                summary, and raises this at the other levels.
        """
        level = DetailLevel(level)
        found = self._find(tool_id)
        entry = self._merge_entries(found)
        if found.tool is None:
            return self._describe_without_tool(found, entry, level)
        fields = _tool_facts(found.tool) | {"summary": _summary(entry, found.tool)}
        if level is not DetailLevel.SUMMARY:
            fields |= self._definition(found.tool, found.doc_keys()[0])
        if level is DetailLevel.FULL and entry is not None:
            examples = self._limit_examples(entry, None)
            fields |= {"notes": entry.notes, "examples": examples, "external_refs": entry.external_refs}
        return ToolDoc.from_valid(**fields)

    def examples(self, tool_id: str | ToolId, max: int | None = None) -> tuple[ToolExample, ...]:  # noqa: A002 - the word for it
        """Return the examples of a tool, at most `max` and at most the limit of the store.

        Raises:
            ValidationError: `max` is negative.
            InvalidToolIdError: the id is malformed.
            ToolNotFoundError: there is neither such a tool nor documentation of it.
        """
        limit = _check_count("max", max)
        found = self._find(tool_id)
        entry = self._merge_entries(found)
        if entry is None and found.tool is None:
            raise self._not_found_error(found)
        return self._limit_examples(entry or DocEntry(), limit)

    def _limit_examples(self, entry: DocEntry, limit: int | None) -> tuple[ToolExample, ...]:
        limits = [count for count in (limit, self._max_examples) if count is not None]
        return entry.examples[: min(limits, default=None)]

    def _find(self, tool_id: str | ToolId) -> _Resolved:
        """Resolve a reference; a missing tool is noted, not raised, since documentation may exist."""
        key = None
        try:
            key = key_of(tool_id)
        except InvalidToolIdError:
            if self._resolver is None or not isinstance(tool_id, str):
                raise
        ref = str(tool_id)
        if self._resolver is None:
            return _Resolved(ref, key)
        try:
            return _Resolved(ref, key, self._resolver.resolve(tool_id))
        except ToolNotFoundError as error:
            return _Resolved(ref, key, error=error)

    def _merge_entries(self, found: _Resolved) -> DocEntry | None:
        """Return the documentation of a tool, each field from the most exact id that has it."""
        parts = [entry for key in found.doc_keys() if (entry := self._entries.get(key))]
        if not parts:
            return None
        first, *others = parts
        for other in others:
            first = first.over(other)
        return _shape_entry(first, found.tool) if isinstance(found.tool, ShapedTool) else first

    def _describe_without_tool(self, found: _Resolved, entry: DocEntry | None, level: DetailLevel) -> ToolDoc:
        """Return the description of a tool that is documented but not registered."""
        if entry is None:
            raise self._not_found_error(found)
        if level is not DetailLevel.SUMMARY:
            reason = "only documentation is registered for it; register the tool, or ask for the summary"
            suggestions = found.error.suggestions if found.error else ()
            raise ToolNotFoundError(found.ref, suggestions, reason) from found.error
        return ToolDoc.from_valid(summary=_summary(entry, None))

    def _not_found_error(self, found: _Resolved) -> ToolNotFoundError:
        if found.error is not None:
            return found.error
        key = found.key or ""
        known = list(self._entries)
        versions = [other for other in known if without_version(other) == key]
        close = nearest(key, known)
        return ToolNotFoundError(found.ref, tuple(versions[:_MAX_SUGGESTIONS] or ([close] if close else [])))

    def _definition(self, tool: Tool, key: str) -> dict[str, Any]:
        """Return the fields of the level `schema`."""
        observed = self._observed.of(key) if tool.shared("output_schema") is None else None
        return {"tool": tool, "schema_info": self._schema_info_of(tool, key), "observed_output": observed}

    def _schema_info_of(self, tool: Tool, key: str) -> SchemaInfo:
        known, info = self._schema_infos.get(key) or (None, None)
        if known is not tool or info is None:
            info = schema_info(tool.shared("input_schema"))
            self._schema_infos.put(key, (tool, info))
        return info


def _shape_entry(entry: DocEntry, tool: ShapedTool) -> DocEntry:
    """Return documentation of a tool for those who see it in another shape.

    Texts that name a parameter that they do not see, or see under another name, are left out.
    """

    def is_fit(text: str | None) -> bool:
        return text is not None and not tool.hides_word_in(text)

    is_described = tool.description != tool.origin.description
    examples = tuple(
        example.model_copy(
            update={
                "args": tool.seen_args(example.args or {}),
                **{
                    name: text if is_fit(text := getattr(example, name)) else None
                    for name in ("title", "description", "result_hint")
                },
            }
        )
        for example in entry.examples
    )
    return entry.model_copy(
        update={
            "summary": entry.summary if is_fit(entry.summary) and not is_described else None,
            "notes": entry.notes if is_fit(entry.notes) else None,
            "examples": examples,
        }
    )


def _tool_facts(tool: Tool) -> dict[str, Any]:
    return {
        "input_modes": facts.input_modes(tool),
        "output_modes": facts.output_modes(tool),
        "security_summary": facts.security_summary(tool),
        "annotations": tool.annotations,
    }


def _summary(entry: DocEntry | None, tool: Tool | None) -> str:
    """Return the written summary, else that of the tool, else the beginning of the notes."""
    own_words = facts.summary_text(tool, MAX_SUMMARY) if tool else ""
    return (entry and entry.summary) or own_words or facts.shorten((entry and entry.notes) or "", MAX_SUMMARY)


def _check_count(name: str, count: Any) -> int | None:
    if count is None or (type(count) is int and count >= 0):
        return count
    message = f"{name} must be a whole number from 0, or None, not {short_repr(count)}"
    raise ValidationError((Problem(f"/{name}", "minimum", message),), message)


@dataclass(frozen=True, slots=True)
class _ObservedTool:
    shape: ObservedShape
    schema: dict[str, Any]
    saved: int
    """The number of results in the persisted form."""


class ObservedShapes:
    """Output shapes of tools, by key. Every method may be called from any thread.

    A shape is persisted when its schema changes or the number of results has doubled, so that a busy tool
    does not cause a write on every call; `flush` writes the rest.
    """

    def __init__(self, texts: Texts | None) -> None:
        self._texts = TextCollection(texts, "observed")
        self._lock = Lock()
        read = self._texts.load(ObservedShape.from_json)
        self._seen = {
            key: _ObservedTool(shape, shape.json_schema(), shape.observed) for key, shape in read.items()
        }

    def add(self, key: str, shape: ObservedShape) -> None:
        """Merge the shape of one more result."""
        with self._lock:
            before = self._seen.get(key) or _ObservedTool(ObservedShape(), {}, 0)
            merged = before.shape.merge(shape)
            schema = merged.json_schema()
            is_due = schema != before.schema or merged.observed >= 2 * before.saved
            if is_due:
                self._texts.put(key, merged.to_json())
            self._seen[key] = _ObservedTool(merged, schema, merged.observed if is_due else before.saved)

    def of(self, key: str) -> ObservedOutput | None:
        """Return the observed output of a tool; None if there is none."""
        seen = self._seen.get(key)
        if seen is None:
            return None
        return ObservedOutput.from_valid(observed=seen.shape.observed, json_schema=copy_json(seen.schema))

    def forget(self, key: str) -> None:
        """Delete the shape of a tool."""
        with self._lock:
            if key in self._seen:
                self._texts.delete(key)
                del self._seen[key]

    def flush(self) -> None:
        """Persist the shapes that are not up to date."""
        with self._lock:
            for key, seen in self._seen.items():
                if seen.saved != seen.shape.observed:
                    self._texts.put(key, seen.shape.to_json())
                    self._seen[key] = _ObservedTool(seen.shape, seen.schema, seen.shape.observed)

"""The documentation of many tools, at the depth asked for."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Any, Literal

from toolcrib.concurrency.lru import LruCache
from toolcrib.discovery import facts
from toolcrib.discovery.docs.entry import MAX_SUMMARY, DocEntry
from toolcrib.discovery.docs.glance import schema_info
from toolcrib.discovery.docs.observed import ObservedShape
from toolcrib.discovery.kept import TextCollection, Texts
from toolcrib.discovery.keys import key_of, without_version
from toolcrib.errors import InvalidToolIdError, Problem, ToolNotFoundError, ValidationError
from toolcrib.errors.base import either, shown
from toolcrib.model.docs import ObservedOutput, SchemaInfo, ToolDoc, ToolExample
from toolcrib.model.plain import copy_json
from toolcrib.model.protocols import Resolver
from toolcrib.model.suggest import did_you_mean, nearest
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import ToolId

_MAX_GLANCES = 2048
_MAX_SUGGESTIONS = 3
DetailName = Literal["summary", "schema", "full"]
"""A `DetailLevel` as text."""


class DetailLevel(StrEnum):
    """How much of a tool is described; each level says what the one before it does, and more.

    >>> DetailLevel("schema")
    <DetailLevel.SCHEMA: 'schema'>

    Raises:
        ValidationError: it is no level, with the nearest one.
    """

    SUMMARY = "summary"
    """What the tool is for, with its modes, security summary and annotations where it has them."""
    SCHEMA = "schema"
    """How it is called: the definition, and its arguments at a glance."""
    FULL = "full"
    """All there is: notes, examples and references too."""

    @classmethod
    def _missing_(cls, value: object) -> None:
        levels = list(map(str, cls))
        hint = did_you_mean(value.strip().lower(), levels) if isinstance(value, str) else ""
        message = f"a level is {either(levels)}, not {shown(value)}{hint}"
        raise ValidationError((Problem("/level", "enum", message),), message)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a reference means."""

    ref: str
    key: str | None
    """None for a reference that is no id, such as one with a constraint."""
    tool: Tool | None = None
    error: ToolNotFoundError | None = None
    """Why there is no tool, where somebody was asked."""

    def places(self) -> list[str]:
        """Return the keys under which documentation may stand, the most exact one first."""
        exact = [key_of(self.tool.id)] if self.tool else []
        asked = [self.key] if self.key else []
        is_any_version_meant = self.tool is not None or self.error is None
        general = [without_version(key) for key in (*exact, *asked)] if is_any_version_meant else []
        return list(dict.fromkeys((*exact, *asked, *general)))


class DocStore:
    """Documentation by tool id, and the description of a tool at each level.

    An id is text or a `ToolId`; `git:log:v1.2.0` and `git:log:1.2.0` are one. Documentation of `git:log` is
    that of all its versions, except where a version has its own. Tools come from the resolver:
    an id without a version, or with a constraint, means what it resolves to. What is registered and what is
    returned shares nothing with the store. Every method may be called from any thread.

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
        """Read what `texts` has kept, if given, and keep what is registered there.

        Raises:
            StoreError: what was kept cannot be read.
            ValidationError: `max_examples` is negative.
        """
        self._resolver = resolver
        self._max_examples = _checked_count("max_examples", max_examples)
        self._kept = TextCollection(texts, "docs")
        self._entries = self._kept.load(DocEntry.from_json)
        self._learnt = Learnt(texts)
        self._glances: LruCache[str, tuple[Tool, SchemaInfo]] = LruCache(_MAX_GLANCES)
        self._lock = Lock()

    def through(self, resolver: Resolver) -> "DocStore":
        """Return the same documentation, of the tools that another resolver knows."""
        other = copy(self)
        other._resolver = resolver  # noqa: SLF001 - of its own kind
        return other

    def apart(self, resolver: Resolver) -> "DocStore":
        """Return the same, but for what tools give back: that is learnt there anew, and is not kept.

        Names of results may be data of whoever asked for them.
        """
        other = self.through(resolver)
        other._learnt = Learnt(None)  # noqa: SLF001 - of its own kind
        return other

    def register_doc(
        self,
        tool_id: str | ToolId,
        doc: DocEntry | ToolDoc | Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Keep documentation of a tool, in place of any before; the tool need not exist yet.

        It is given as a `DocEntry`, as a `ToolDoc`, as a dict, or by its fields `summary`, `notes`,
        `examples` and `external_refs`. Longer texts are cut.

        Raises:
            InvalidToolIdError: the id is none.
            InvalidToolError: the documentation is none, with every problem found; nothing is changed.
            ArgsTooLargeError: the arguments of an example are too deep or too many; nothing is changed.
        """
        key, entry = key_of(tool_id), DocEntry.of(doc, **fields)
        with self._lock:
            self._put(key, entry)

    def register_examples(
        self, tool_id: str | ToolId, examples: Iterable[ToolExample | Mapping[str, Any]]
    ) -> None:
        """Keep examples of a tool, in place of those before; its other documentation stays.

        Raises:
            InvalidToolIdError: the id is none.
            InvalidToolError: an example is none, with every problem found; nothing is changed.
            ArgsTooLargeError: the arguments of an example are too deep or too many; nothing is changed.
        """
        key, given = key_of(tool_id), DocEntry.of(examples=examples)
        with self._lock:
            entry = self._entries.get(key) or DocEntry()
            self._put(key, entry.model_copy(update={"examples": given.examples}))

    def _put(self, key: str, entry: DocEntry) -> None:
        self._kept.put(key, entry.to_json())
        self._entries[key] = entry

    def forget(self, tool_id: str | ToolId) -> None:
        """Forget the documentation of precisely this id, and what was observed; it need not be known."""
        key = key_of(tool_id)
        with self._lock:
            if key in self._entries:
                self._kept.delete(key)
                del self._entries[key]
        self._glances.pop(key)
        self._learnt.forget(key)

    def observe(self, tool_id: str | ToolId, result: Any) -> bool:
        """Learn from a result what a tool gives back; the result itself is not kept.

        Returns:
            Whether there was anything to learn: not from a tool that is unknown or declares its output
            schema, nor from a result that is not plain JSON or too large to look at.
        """
        found = self._find(tool_id)
        if found.error or (found.tool and found.tool.output_schema is not None):
            return False
        try:
            shape = ObservedShape.of(result)
        except ValidationError:
            return False
        self._learnt.add(found.places()[0], shape)
        return True

    def flush(self) -> None:
        """Write to `texts` what was observed since it was last written; call it before leaving."""
        self._learnt.flush()

    def describe(
        self, tool_id: str | ToolId, level: DetailLevel | DetailName = DetailLevel.SUMMARY
    ) -> ToolDoc:
        """Return what is known of a tool, at the depth asked for.

        Raises:
            ValidationError: there is no such level, with the nearest one.
            InvalidToolIdError: the id is none.
            ToolNotFoundError: there is no such tool, with suggestions; the summary of a tool that is only
                documented is returned, and no more.
        """
        level = DetailLevel(level)
        found = self._find(tool_id)
        entry = self._entry(found)
        if found.tool is None:
            return self._described_only(found, entry, level)
        fields = _facts(found.tool) | {"summary": _summary(entry, found.tool)}
        if level is not DetailLevel.SUMMARY:
            fields |= self._definition(found.tool, found.places()[0])
        if level is DetailLevel.FULL and entry is not None:
            examples = self._limit_examples(entry, None)
            fields |= {"notes": entry.notes, "examples": examples, "external_refs": entry.external_refs}
        return ToolDoc.of_checked(**fields)

    def examples(self, tool_id: str | ToolId, max: int | None = None) -> tuple[ToolExample, ...]:  # noqa: A002 - the word for it
        """Return the examples of a tool, at most `max` of them and never more than the store shows.

        Raises:
            ValidationError: `max` is negative.
            InvalidToolIdError: the id is none.
            ToolNotFoundError: there is neither such a tool nor documentation of it.
        """
        limit = _checked_count("max", max)
        found = self._find(tool_id)
        entry = self._entry(found)
        if entry is None and found.tool is None:
            raise self._missing(found)
        return self._limit_examples(entry or DocEntry(), limit)

    def _limit_examples(self, entry: DocEntry, limit: int | None) -> tuple[ToolExample, ...]:
        limits = [count for count in (limit, self._max_examples) if count is not None]
        return entry.examples[: min(limits, default=None)]

    def _find(self, tool_id: str | ToolId) -> _Found:
        """Return what a reference means; a tool that is not there is not an error yet."""
        key = None
        try:
            key = key_of(tool_id)
        except InvalidToolIdError:
            if self._resolver is None or not isinstance(tool_id, str):
                raise
        ref = str(tool_id)
        if self._resolver is None:
            return _Found(ref, key)
        try:
            return _Found(ref, key, self._resolver.resolve(tool_id))
        except ToolNotFoundError as error:
            return _Found(ref, key, error=error)

    def _entry(self, found: _Found) -> DocEntry | None:
        """Return the documentation of a tool: each field from the most exact id that has it."""
        parts = [entry for key in found.places() if (entry := self._entries.get(key))]
        if not parts:
            return None
        first, *others = parts
        for other in others:
            first = first.over(other)
        return first

    def _described_only(self, found: _Found, entry: DocEntry | None, level: DetailLevel) -> ToolDoc:
        """Return what is known without the tool."""
        if entry is None:
            raise self._missing(found)
        if level is not DetailLevel.SUMMARY:
            reason = "only documentation is registered for it; register the tool, or ask for the summary"
            suggestions = found.error.suggestions if found.error else ()
            raise ToolNotFoundError(found.ref, suggestions, reason) from found.error
        return ToolDoc.of_checked(summary=_summary(entry, None))

    def _missing(self, found: _Found) -> ToolNotFoundError:
        if found.error is not None:
            return found.error
        key = found.key or ""
        known = list(self._entries)
        versions = [other for other in known if without_version(other) == key]
        close = nearest(key, known)
        return ToolNotFoundError(found.ref, tuple(versions[:_MAX_SUGGESTIONS] or ([close] if close else [])))

    def _definition(self, tool: Tool, key: str) -> dict[str, Any]:
        """Return what tells how a tool is called, and what it gives back."""
        observed = self._learnt.of(key) if tool.shared("output_schema") is None else None
        return {"tool": tool, "schema_info": self._glance(tool, key), "observed_output": observed}

    def _glance(self, tool: Tool, key: str) -> SchemaInfo:
        known, info = self._glances.get(key) or (None, None)
        if known is not tool or info is None:
            info = schema_info(tool.shared("input_schema"))
            self._glances.put(key, (tool, info))
        return info


def _facts(tool: Tool) -> dict[str, Any]:
    return {
        "input_modes": facts.input_modes(tool),
        "output_modes": facts.output_modes(tool),
        "security_summary": facts.security_summary(tool),
        "annotations": tool.annotations,
    }


def _summary(entry: DocEntry | None, tool: Tool | None) -> str:
    """Return what was written, else what the tool says of itself, else how the notes begin."""
    own_words = facts.summary_text(tool, MAX_SUMMARY) if tool else ""
    return (entry and entry.summary) or own_words or facts.short((entry and entry.notes) or "", MAX_SUMMARY)


def _checked_count(name: str, count: Any) -> int | None:
    if count is None or (type(count) is int and count >= 0):
        return count
    message = f"{name} must be a whole number from 0, or None, not {shown(count)}"
    raise ValidationError((Problem(f"/{name}", "minimum", message),), message)


@dataclass(frozen=True, slots=True)
class _Seen:
    shape: ObservedShape
    schema: dict[str, Any]
    saved: int
    """How many results the written form speaks of."""


class Learnt:
    """What tools have been seen to give back, by key. Every method may be called from any thread.

    A shape is written when its schema changes or the number of results has doubled, so that a busy tool does
    not write on every call; `flush` writes the rest.
    """

    def __init__(self, texts: Texts | None) -> None:
        self._kept = TextCollection(texts, "observed")
        self._lock = Lock()
        read = self._kept.load(ObservedShape.from_json)
        self._seen = {key: _Seen(shape, shape.json_schema(), shape.observed) for key, shape in read.items()}

    def add(self, key: str, shape: ObservedShape) -> None:
        """Learn from one more result."""
        with self._lock:
            before = self._seen.get(key) or _Seen(ObservedShape(), {}, 0)
            merged = before.shape.merge(shape)
            schema = merged.json_schema()
            is_due = schema != before.schema or merged.observed >= 2 * before.saved
            if is_due:
                self._kept.put(key, merged.to_json())
            self._seen[key] = _Seen(merged, schema, merged.observed if is_due else before.saved)

    def of(self, key: str) -> ObservedOutput | None:
        """Return what was learnt, if anything was."""
        seen = self._seen.get(key)
        if seen is None:
            return None
        return ObservedOutput.of_checked(observed=seen.shape.observed, json_schema=copy_json(seen.schema))

    def forget(self, key: str) -> None:
        """Unlearn a tool."""
        with self._lock:
            if key in self._seen:
                self._kept.delete(key)
                del self._seen[key]

    def flush(self) -> None:
        """Write what is not written yet."""
        with self._lock:
            for key, seen in self._seen.items():
                if seen.saved != seen.shape.observed:
                    self._kept.put(key, seen.shape.to_json())
                    self._seen[key] = _Seen(seen.shape, seen.schema, seen.shape.observed)

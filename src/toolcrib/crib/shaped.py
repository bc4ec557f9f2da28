"""The tools of a toolset that gives some of them another shape, as an index of their own.

Such a toolset is searched and listed by its own names and descriptions, so it has an index of its own:
`ShapedTools` follows the index of all tools and keeps a copy of the part that the toolset admits, with each
tool in its shape. A shape that does not fit its tool, for example because its server has changed it, keeps
the tool out of the toolset: to show the tool as it is could show what the shape hides.

A name that a shape gives belongs to the tool of that shape alone. Where another tool of the toolset has it,
for example because its server has added one since, neither is in the toolset: that name could mean both.
"""

import json
import logging
from collections.abc import Callable, Iterable
from functools import cached_property
from threading import RLock
from typing import NamedTuple
from weakref import ref as weak

from pydantic import Field

from toolcrib.discovery import Index, Scope
from toolcrib.discovery.index.reading import IndexReader
from toolcrib.discovery.keys import key_of
from toolcrib.errors import InvalidToolError, Problem, ToolcribError
from toolcrib.model import SchemaValidator, Tool, ToolBackend
from toolcrib.model.shape import ShapedTool, ToolShape
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.toolid import without_version

_LOG = logging.getLogger("toolcrib.crib.shaped")


class ShapedScope(Scope):
    """A scope whose tools have other shapes; ids in it are those of the tools themselves."""

    shapes: dict[str, ToolShape] = Field(default={})
    """The shapes by the id of the tool, with or without a version."""

    @cached_property
    def key(self) -> str:
        """A text that is the same for equal scopes."""
        shapes = {key: shape.to_json() for key, shape in self.shared("shapes").items()}
        return json.dumps([self.to_json(without={"shapes"}), shapes], sort_keys=True)

    @cached_property
    def _own_names(self) -> dict[str, str]:
        """The ids of tools, by the ids that they have here; both without a version."""
        shapes = self.shared("shapes").items()
        return {
            _renamed(without_version(key), shape.name): without_version(key)
            for key, shape in shapes
            if shape.name is not None
        }

    def shape_of(self, tool_id: str) -> ToolShape | None:
        """Return the shape of a tool."""
        shapes = self.shared("shapes")
        found: ToolShape | None = shapes.get(tool_id) or shapes.get(without_version(tool_id))
        return found

    def seen(self, ref: str) -> str:
        """Return a reference by the own id of a tool as one by the id that it has here."""
        base, rest = _split_version(ref)
        if base in self._own_names:
            return ref
        shape = self.shape_of(ref) or self.shape_of(base)
        return ref if shape is None or shape.name is None else _renamed(base, shape.name) + rest

    def find_collisions(self, ids: Iterable[str]) -> dict[str, str]:
        """Return which tools would share an id here with another, and why, by own ids without versions.

        A name that a shape gives is taken even while the tool of that shape is missing.
        """
        found: dict[str, str] = {}
        for own_id in dict.fromkeys(map(without_version, ids)):
            shape = self.shape_of(own_id)
            if shape is not None and shape.name is not None and shape.name != own_id.rpartition(":")[2]:
                continue
            other = self._own_names.get(own_id, own_id)
            if other != own_id:
                reason = (
                    f"{own_id!r} and the tool {other!r} in its shape would both be called {own_id!r}, so "
                    f"neither is in this toolset; give {other!r} another name with 'toolcrib shape'"
                )
                found[own_id] = found[other] = reason
        return found

    def original(self, ref: str) -> str:
        """Return a reference by the id that a tool has here as one by its own id."""
        base, rest = _split_version(ref)
        return self._own_names.get(base, base) + rest


def _split_version(ref: str) -> tuple[str, str]:
    """Split a reference before its version or constraint."""
    namespace, colon, rest = ref.partition(":")
    name, second, version = rest.partition(":")
    return f"{namespace}{colon}{name}", f"{second}{version}"


def _renamed(base: str, name: str) -> str:
    """Return an id without a version with another name.

    >>> _renamed("github:create_issue", "file_bug"), _renamed("add", "plus")
    ('github:file_bug', 'plus')
    """
    namespace, colon, _ = base.rpartition(":")
    return f"{namespace}{colon}{name}"


def find_unused(keys: Iterable[str], whole: IndexReader, members: IndexReader) -> dict[str, str]:
    """Return why entries about tools have no effect in a toolset, by their ids, with or without a version.

    `members` are the tools of the toolset as they are, `whole` all tools.
    """
    found: dict[str, str] = {}
    listed, inside = (_ids_and_names(index) for index in (whole, members))
    for key in keys:
        if key not in listed:
            found[key] = f"there is no tool {key!r}{did_you_mean(key, sorted(listed))}"
        elif key not in inside:
            found[key] = f"{key} is not in the toolset by its other settings"
    return found


def _ids_and_names(index: IndexReader) -> set[str]:
    """Return the ids of tools, with and without their versions."""
    return {name for each in index.list_all() for name in (each.id, without_version(each.id))}


class _Listed(NamedTuple):
    """A tool of the toolset."""

    tool: Tool
    backends: tuple[ToolBackend, ...]
    questions: tuple[str, ...]
    """Its example questions, without those that name parameters which callers do not see."""


class ShapedTools:
    """The index of a toolset, with its tools in their shapes; every method may be called from any thread."""

    def __init__(self, whole: Index, scope: ShapedScope, index: Index, validator: SchemaValidator) -> None:
        """Copy the tools of a scope to an empty index, and follow their changes."""
        self.whole, self.index = whole, index
        """The index of all tools, and that of these."""
        self._scope, self._validator = scope, validator
        self._source = whole.view(Scope(**{name: getattr(scope, name) for name in Scope.model_fields}))
        self._lock = RLock()
        self._version = -1
        self._shaped: dict[str, ShapedTool] = {}
        self._listed: dict[str, _Listed] = {}
        self._faults: dict[str, str] = {}
        self._collisions: dict[str, str] = {}
        itself = weak(self)

        def follow(_: object) -> None:
            found = itself()
            if found is not None:
                found.refresh()

        self._unsubscribe: Callable[[], None] = self._source.on_change(follow)
        self.refresh()

    def close(self) -> None:
        """Stop following changes."""
        self._unsubscribe()

    def original_id(self, tool_id: str) -> str:
        """Return the own id of a tool of this index."""
        shaped = self._shaped.get(tool_id)
        return tool_id if shaped is None else str(shaped.origin.id)

    def current(self, tool: Tool) -> Tool:
        """Return a tool of this index with its original as it is now."""
        return self._shaped.get(key_of(tool.id), tool)

    def fault_of(self, ref: str) -> str | None:
        """Return why a tool is kept out; None if it is not."""
        bases = {_split_version(one)[0] for one in (ref, self._scope.original(ref))}
        return next((fault for key, fault in self._faults.items() if without_version(key) in bases), None)

    def collision_of(self, ref: str) -> str | None:
        """Return which other tool has the same id here, where that keeps a tool out; None if none has."""
        bases = (_split_version(one)[0] for one in (ref, self._scope.original(ref)))
        return next((self._collisions[base] for base in bases if base in self._collisions), None)

    def faults(self) -> dict[str, str]:
        """Return why tools are kept out, by their own ids; the reasons may name hidden parameters."""
        return dict(self._faults)

    def refresh(self) -> None:
        """Copy the changes of the source."""
        if self._version == self._source.version:
            return
        with self._lock:
            version = self._source.version
            if self._version == version:
                return
            wanted, faults = self._read()
            for key in faults.keys() - self._faults.keys():
                _LOG.warning("%s is kept out of a toolset: %s", key, faults[key])
            self._faults = faults
            self._shaped = {
                key: each.tool for key, each in wanted.items() if isinstance(each.tool, ShapedTool)
            }
            put: list[tuple[Tool, ToolBackend | None]] = []
            gone: list[tuple[str, ToolBackend | None]] = []
            asked: dict[str, tuple[str, ...]] = {}
            for key, each in wanted.items():
                known = self._listed.get(key)
                if known is None or known.tool is not each.tool or known.backends != each.backends:
                    put += [(each.tool, backend) for backend in each.backends or (None,)]
                    gone += [
                        (key, one) for one in (known.backends if known else ()) if one not in each.backends
                    ]
                if each.questions != (known.questions if known else ()):
                    asked[key] = each.questions
            gone += [(key, None) for key in self._listed.keys() - wanted.keys()]
            self._listed, self._version = wanted, version
            self.index.register_many(put, remove=gone)
            for key, questions in asked.items():
                self.index.set_examples(key, questions)

    def _read(self) -> tuple[dict[str, "_Listed"], dict[str, str]]:
        """Return the tools as they are to be listed, by id, and why others cannot be."""
        wanted: dict[str, _Listed] = {}
        faults: dict[str, str] = {}
        listed = self._source.list_all()
        self._collisions = self._scope.find_collisions(summary.id for summary in listed)
        for summary in listed:
            if collision := self._collisions.get(without_version(summary.id)):
                problem = Problem("/name", "unique", collision)
                faults[summary.id] = str(InvalidToolError((problem,), summary.id, "shape"))
                continue
            try:
                tool, backends = self._source.find(summary.id)
                questions = self._source.example_questions(summary.id)
            except ToolcribError:  # it has gone meanwhile; the next change is being delivered
                continue
            shape = self._scope.shape_of(summary.id)
            if shape is None:
                wanted[summary.id] = _Listed(tool, backends, questions)
                continue
            try:
                made = self._apply(shape, tool)
            except ToolcribError as error:
                faults[summary.id] = str(error)
            else:
                known = tuple(text for text in questions if not made.hides_word_in(text))
                wanted[key_of(made.id)] = _Listed(made, backends, known)
        return wanted, faults

    def _apply(self, shape: ToolShape, tool: Tool) -> ShapedTool:
        known = self._shaped.get(self._scope.seen(key_of(tool.id)))
        if known is not None and known.origin is tool:
            return known
        made = ShapedTool.of(tool, shape, self._validator)
        self.index.check(made)
        return made

"""What has changed between two definitions, and how much: words, more that fits, or a promise broken.

The level of a change follows SemVer, as seen by those who call the tool:

- `patch`: words. Descriptions, titles, icons, and schemas that are written otherwise and mean the same.
- `minor`: nothing that worked stops working. More arguments fit, results are narrower, a tool is new.
- `major`: what worked may fail, or do something else. An argument is new and required, or gone; fewer
  arguments fit; results are wider or other ones; a hint promises less; a tool is gone.

Schemas are compared by the values that fit (`subset`), not by their texts; what cannot be decided is major.
One convention is added: callers pass what is declared. An optional argument that is new is therefore minor,
although JSON Schema let an open object hold it before, with any value; and one that is gone is major,
although an open object still takes it. An object that is closed (`additionalProperties: false`) is major too:
it refuses what it took before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from toolcrib.errors import InvalidSchemaError
from toolcrib.errors.text import fit
from toolcrib.model.json_text import compact_json
from toolcrib.model.plain import pointer
from toolcrib.model.schema.compiled import plain_schema
from toolcrib.model.schema.references import LocalReferences
from toolcrib.model.tool import Tool
from toolcrib.trust.canonical import canonical_json
from toolcrib.trust.parts import HINT_DEFAULTS, ServerParts, ToolParts
from toolcrib.trust.subset import MAX_STEPS, Allowance, SubsetVerdict, check_subset
from toolcrib.version import Version

Level = Literal["none", "patch", "minor", "major"]
"""The level of a change, in the terms of SemVer."""
LEVELS: Final[tuple[Level, ...]] = ("none", "patch", "minor", "major")
"""The levels, the least first."""
PREFIXES: Final[Mapping[str, str]] = {"prompts": "prompt", "templates": "template"}
"""How the ids of drifts begin, by the part of a server."""
_KINDS: Final[Mapping[str, Level]] = {
    "words": "patch",
    "icons": "patch",
    "written": "patch",
    "version": "patch",
    "hint-idle": "patch",
    "added": "minor",
    "argument-added": "minor",
    "input-opened": "minor",
    "input-widened": "minor",
    "default-added": "minor",
    "default-removed": "minor",
    "output-added": "minor",
    "output-narrowed": "minor",
    "hint-tightened": "minor",
    "hint-unknown": "minor",
    "meta": "minor",
    "version-minor": "minor",
    "removed": "major",
    "renamed": "major",
    "argument-required": "major",
    "argument-removed": "major",
    "input-closed": "major",
    "input-narrowed": "major",
    "input-unclear": "major",
    "default-changed": "major",
    "output-removed": "major",
    "output-widened": "major",
    "output-unclear": "major",
    "hint-loosened": "major",
    "version-major": "major",
    "server": "major",
}
"""Every kind of change, with its level."""
MAX_CHANGES: Final = 64
"""The maximum number of changes listed for one tool; the most important come first."""
_WORDS = ("title", "description", "examples", "$comment", "deprecated", "readOnly", "writeOnly")
_BELOW = ("properties", "required", "items", "additionalProperties", "default", "$defs", "definitions")
"""The keywords of a schema that are compared by themselves, or lead to what is."""
_PLURAL = frozenset({"instructions", "examples", "tags"})
_SHOWN = 60
_STEPS = 5 * MAX_STEPS
"""The steps that comparing two definitions may take: each is compared as a whole, and in its parts."""
_TAKEN_FOR_GRANTED: Final[Mapping[str, Any]] = {"execution": {"taskSupport": "forbidden"}}
"""What MCP takes for granted where a field is absent; whether it is written changes nothing."""
_HINTS_THAT_READING_SILENCES = ("destructiveHint", "idempotentHint")


@dataclass(frozen=True, slots=True)
class DriftChange:
    """One difference between two definitions."""

    path: str
    """The place, as a JSON Pointer into the MCP definition, such as `/inputSchema/properties/id`."""
    kind: str
    """The kind of change, such as `words`, `argument-required` or `hint-loosened`."""
    message: str
    """The change, in one sentence."""

    @property
    def level(self) -> Level:
        """The level of the change."""
        return _KINDS[self.kind]


@dataclass(frozen=True, slots=True)
class Drift:
    """The differences between an approved entry of the lock, such as a tool, and its current definition."""

    tool_id: str
    """The id of the tool; for other entries `server/NAME`, `prompt/SERVER/NAME` or `template/SERVER/URI`."""
    level: Level
    """The highest level of the changes."""
    changes: tuple[DriftChange, ...] = ()
    """The changes, the most important first; at most `MAX_CHANGES`."""

    @classmethod
    def of(cls, tool_id: str, changes: Iterable[DriftChange]) -> "Drift":
        """Return the drift with these changes."""
        ranked = sorted(changes, key=lambda each: (-LEVELS.index(each.level), each.path))
        level = ranked[0].level if ranked else "none"
        return cls(tool_id, level, tuple(dict.fromkeys(ranked))[:MAX_CHANGES])


def compare_tools(before: Tool, after: Tool) -> Drift:
    """Return the drift of a definition from an earlier one.

    >>> before = Tool(name="add", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    >>> compare_tools(before, before.replace(description="Adds.")).level
    'patch'
    """
    changes = list(compare_parts(ToolParts.of(before), ToolParts.of(after)))
    names = [(tool.namespace, tool.name) for tool in (before, after)]
    if names[0] != names[1]:
        changes.append(DriftChange("/name", "renamed", f"it was called {before.id}"))
    return Drift.of(str(after.id), changes)


def compare_parts(
    before: ToolParts, after: ToolParts, allowance: Allowance | None = None
) -> Iterator[DriftChange]:
    """Yield the changes between two definitions of one tool; an `allowance` bounds the work for many."""
    allowed = Allowance(_STEPS) if allowance is None else allowance
    if before.version != after.version:
        yield _version_change(before.version, after.version)
    if before.description != after.description:
        yield _worded("/description", "description", before.description, after.description)
    yield from _input_changes(before.input, after.input, allowed)
    yield from _output_changes(before.output, after.output, allowed)
    yield from _hint_changes(before.annotations, after.annotations)
    for name in sorted(before.rest.keys() | after.rest.keys()):
        old, new = before.rest.get(name), after.rest.get(name)
        if not _same(old, new):
            yield _rest_change(name, old, new)


def compare_servers(name: str, before: ServerParts, after: ServerParts) -> Iterator[Drift]:
    """Yield how a server, its prompts and its resource templates differ from what was approved."""
    changes: list[DriftChange] = []
    if before.identity != after.identity:
        changes.append(
            DriftChange("", "server", "it is started or reached in another way, or in another sandbox")
        )
    if before.info.get("name") != after.info.get("name"):
        names = f"{_show(after.info.get('name'))} instead of {_show(before.info.get('name'))}"
        changes.append(DriftChange("/serverInfo/name", "server", f"it calls itself {names}"))
    for each in sorted((before.info.keys() | after.info.keys()) - {"name"}):
        if not _same(before.info.get(each), after.info.get(each)):
            path = pointer(["serverInfo", each])
            changes.append(_worded(path, each, before.info.get(each), after.info.get(each)))
    if before.instructions != after.instructions:
        changes.append(_worded("/instructions", "instructions", before.instructions, after.instructions))
    if changes:
        yield Drift.of(f"server/{name}", changes)
    yield from _listed(f"{PREFIXES['prompts']}/{name}", before.prompts, after.prompts, _prompt_changes)
    yield from _listed(
        f"{PREFIXES['templates']}/{name}", before.templates, after.templates, _template_changes
    )


def _listed(
    prefix: str, before: Mapping[str, Any], after: Mapping[str, Any], compare: Any
) -> Iterator[Drift]:
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield Drift.of(f"{prefix}/{name}", [DriftChange("", "removed", "it is gone")])
        elif name not in before:
            yield Drift.of(f"{prefix}/{name}", [DriftChange("", "added", "it is new")])
        elif not _same(before[name], after[name]):
            yield Drift.of(f"{prefix}/{name}", compare(before[name], after[name]))


def _prompt_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[DriftChange]:
    old, new = ({each.get("name"): each for each in side.get("arguments") or ()} for side in (before, after))
    for name in sorted(old.keys() | new.keys(), key=str):
        path = pointer(["arguments", name])
        was_required, is_required = (bool(side.get(name, {}).get("required")) for side in (old, new))
        if name not in new:
            yield DriftChange(path, "argument-removed", f"the argument {_show(name)} is gone")
        elif is_required and not was_required:
            yield DriftChange(path, "argument-required", f"the argument {_show(name)} is now required")
        elif name not in old:
            yield DriftChange(path, "argument-added", f"the argument {_show(name)} is new")
        elif was_required and not is_required:
            yield DriftChange(path, "input-widened", f"the argument {_show(name)} is no longer required")
        elif not _same(old[name], new[name]):
            yield _worded(path, "argument", old[name], new[name])
    for each in sorted((before.keys() | after.keys()) - {"arguments"}):
        if not _same(before.get(each), after.get(each)):
            yield _rest_change(each, before.get(each), after.get(each))


def _template_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[DriftChange]:
    for each in sorted(before.keys() | after.keys()):
        old, new = before.get(each), after.get(each)
        if not _same(old, new) and each == "mimeType":
            yield DriftChange("/mimeType", "output-widened", f"it gives {_show(new)} instead of {_show(old)}")
        elif not _same(old, new):
            yield _rest_change(each, old, new)


def _version_change(before: str | None, after: str | None) -> DriftChange:
    """Return what an author says by another version; the definition itself may say more."""
    kind = "version"
    if before is not None and after is not None:
        old, new = Version.parse(before), Version.parse(after)
        if old.major != new.major:
            kind = "version-major"
        elif old.minor != new.minor:
            kind = "version-minor"
    return DriftChange(
        "/version", kind, f"its version is {after or 'not given'}, and was {before or 'not given'}"
    )


def _rest_change(name: str, before: Any, after: Any) -> DriftChange:
    path = pointer([name])
    if name in {"title", "description", "name", "tags"}:
        return _worded(path, name, before, after)
    granted = _TAKEN_FOR_GRANTED.get(name)
    if granted is not None and _same(*(granted if each is None else each for each in (before, after))):
        return DriftChange(path, "written", f"the field {_show(name)} states what MCP assumes anyway")
    kind = "icons" if name == "icons" else "meta"
    return DriftChange(path, kind, f"the field {_show(name)} was {_show(before)}, and is {_show(after)}")


def _hint_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[DriftChange]:
    """Yield changes of annotations; a hint that is not given counts as what MCP takes for granted."""
    for name in sorted(before.keys() | after.keys()):
        default = HINT_DEFAULTS.get(name)
        old, new = before.get(name, default), after.get(name, default)
        path = pointer(["annotations", name])
        if _same(old, new):
            continue
        if name == "title":
            yield _worded(path, "title", old, new)
        elif default is None:
            yield DriftChange(path, "hint-unknown", f"{name} was {_show(old)}, and is {_show(new)}")
        elif name in _HINTS_THAT_READING_SILENCES and after.get("readOnlyHint") is True:
            message = f"{name} is {_show(new)} now, which means nothing for a tool that only reads"
            yield DriftChange(path, "hint-idle", message)
        elif new is default:  # each default is the hint that promises nothing
            yield DriftChange(
                path, "hint-loosened", f"{name} is {_show(new)} now, and was {_show(old)} before"
            )
        else:
            message = f"{name} is {_show(new)} now; rules and confirmations may let it pass without asking"
            yield DriftChange(path, "hint-tightened", message)


def _input_changes(before: Any, after: Any, allowed: Allowance) -> Iterator[DriftChange]:
    if _same(before, after):
        return
    before, after = _with_properties(before), _with_properties(after)
    verdict = check_subset(before, after, only_declared=True, allowance=allowed)
    located = _SchemaWalk(before, after, allowed, is_input=True).changes("/inputSchema")

    def reverse() -> SubsetVerdict:
        return check_subset(after, before, allowance=allowed)

    yield from _settled(located, verdict, reverse, is_input=True)


def _with_properties(schema: Any) -> Any:
    """Return an input schema that says which arguments there are, if only that there are none."""
    declares = isinstance(schema, dict) and ("properties" in schema or len(schema.keys() - {"$schema"}) > 1)
    return schema if declares or not isinstance(schema, dict) else {**schema, "properties": {}}


def _output_changes(before: Any, after: Any, allowed: Allowance) -> Iterator[DriftChange]:
    path = "/outputSchema"
    if _same(before, after):
        return
    if before is None:
        yield DriftChange(path, "output-narrowed", "it now declares an output schema")
    elif after is None:
        yield DriftChange(path, "output-widened", "it no longer declares an output schema")
    else:
        verdict = check_subset(after, before, allowance=allowed)
        located = _SchemaWalk(before, after, allowed, is_input=False).changes(path)

        def reverse() -> SubsetVerdict:
            return check_subset(before, after, allowance=allowed)

        yield from _settled(located, verdict, reverse, is_input=False)


def _settled(
    located: list[DriftChange],
    verdict: SubsetVerdict,
    reverse: Callable[[], SubsetVerdict],
    *,
    is_input: bool,
) -> Iterator[DriftChange]:
    """Yield changes that were found in their places, and one for the whole where these do not explain it."""
    path = "/inputSchema" if is_input else "/outputSchema"
    worst = max((LEVELS.index(each.level) for each in located), default=0)
    yield from located
    if verdict.holds != "yes" and worst < LEVELS.index("major"):
        yield _incompatible(path, verdict, is_input=is_input)
    elif verdict.holds == "yes" and worst < LEVELS.index("minor") and reverse().holds != "yes":
        message = (
            "it accepts more arguments than before" if is_input else "its results are narrower than before"
        )
        yield DriftChange(path, "input-widened" if is_input else "output-narrowed", message)
    elif not located:
        yield DriftChange(path, "written", "it is written differently but means the same")


def _incompatible(path: str, verdict: SubsetVerdict, *, is_input: bool) -> DriftChange:
    if verdict.holds == "no":
        example = _show(verdict.counterexample) if verdict.counterexample is not None else "null"
        if is_input:
            return DriftChange(path, "input-narrowed", f"{example} was accepted here, and no longer is")
        return DriftChange(path, "output-widened", f"{example} is valid here now, and was not before")
    kind = "input-unclear" if is_input else "output-unclear"
    return DriftChange(path, kind, f"whether it is compatible cannot be determined: {verdict.reason}")


class _SchemaWalk:
    """Finds where two schemas differ, through their properties and elements."""

    def __init__(self, before: Any, after: Any, allowed: Allowance, *, is_input: bool) -> None:
        self._before = before
        self._after = after
        self._references = (LocalReferences(before), LocalReferences(after))
        self._allowed = allowed
        self._is_input = is_input
        self._seen: set[tuple[int, int]] = set()

    def changes(self, path: str) -> list[DriftChange]:
        """Return the differences that have a place; none in schemas larger than any that can be used."""
        try:
            for each in (self._before, self._after):
                plain_schema(each)
        except InvalidSchemaError:
            return []
        return list(self._node(self._before, self._after, path))

    def _node(self, before: Any, after: Any, path: str) -> Iterator[DriftChange]:
        if _same(before, after) and not (_refers(before) or _refers(after)):
            return
        yield from self._words(before, after, path)
        old, new = (
            _resolved(node, references)
            for node, references in zip((before, after), self._references, strict=True)
        )
        if (id(old), id(new)) in self._seen:
            return
        self._seen.add((id(old), id(new)))
        if not isinstance(old, dict) or not isinstance(new, dict):
            if old is not new:
                yield from self._judged(before, after, path)
            return
        if old is not before or new is not after:
            yield from self._words(old, new, path)
        if "properties" in old and "properties" in new:
            yield from self._members(old, new, path)
        for word in ("items", "additionalProperties"):
            if isinstance(old.get(word), dict) and isinstance(new.get(word), dict):
                yield from self._node(old[word], new[word], f"{path}/{word}")
        yield from self._rest(before, after, (old, new), path)

    def _rest(self, before: Any, after: Any, resolved: tuple[Any, Any], path: str) -> Iterator[DriftChange]:
        """Yield what two objects differ in beside their words and members."""
        old, new = resolved
        if self._is_input and (change := _openness_change(old, new, path)):
            yield change
            before, after = old, new = _opened(old), _opened(new)
        if _residue(old, new) != _residue(new, old):
            yield from self._judged(before, after, path)

    def _words(self, before: Any, after: Any, path: str) -> Iterator[DriftChange]:
        if not isinstance(before, dict) or not isinstance(after, dict):
            return
        for word in _WORDS:
            if not _same(before.get(word), after.get(word)):
                yield _worded(f"{path}/{word}", word, before.get(word), after.get(word))
        defaults = [[side["default"]] if "default" in side else [] for side in (before, after)]
        if self._is_input and not _same(*defaults):
            yield _default_change(f"{path}/default", before, after)

    def _members(self, before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[DriftChange]:
        old, new = before["properties"], after["properties"]
        was, now = (set(side.get("required", ())) for side in (before, after))
        for name in sorted(old.keys() | new.keys()):
            place = path + pointer(["properties", name])
            if name in old and name in new:
                yield from self._node(old[name], new[name], place)
            else:
                yield self._presence(name, place, is_new=name in new, is_required=name in now)
        for name in sorted((was ^ now) & old.keys() & new.keys()):
            yield self._necessity(name, path + pointer(["properties", name]), is_required=name in now)

    def _presence(self, name: str, path: str, *, is_new: bool, is_required: bool) -> DriftChange:
        if not self._is_input:
            kind = "output-added" if is_new else "output-removed"
            return DriftChange(
                path, kind, f"the field {_show(name)} of results is {'new' if is_new else 'gone'}"
            )
        if is_new and is_required:
            return DriftChange(path, "argument-required", f"the argument {_show(name)} is new, and required")
        kind = "argument-added" if is_new else "argument-removed"
        return DriftChange(path, kind, f"the argument {_show(name)} is {'new' if is_new else 'gone'}")

    def _necessity(self, name: str, path: str, *, is_required: bool) -> DriftChange:
        if self._is_input:
            kind = "argument-required" if is_required else "input-widened"
            message = f"the argument {_show(name)} is {'now' if is_required else 'no longer'} required"
        else:
            kind = "output-narrowed" if is_required else "output-widened"
            state = "always there now" if is_required else "not always there any more"
            message = f"the field {_show(name)} of results is {state}"
        return DriftChange(path, kind, message)

    def _judged(self, before: Any, after: Any, path: str) -> Iterator[DriftChange]:
        """Yield what two different subschemas mean for each other."""
        old, new = _alone(before, self._before), _alone(after, self._after)
        part, whole = (old, new) if self._is_input else (new, old)
        verdict = check_subset(part, whole, only_declared=self._is_input, allowance=self._allowed)
        if verdict.holds != "yes":
            yield _incompatible(path, verdict, is_input=self._is_input)
        elif check_subset(whole, part, allowance=self._allowed).holds != "yes":
            kind = "input-widened" if self._is_input else "output-narrowed"
            yield DriftChange(
                path,
                kind,
                "more values are accepted here than before"
                if self._is_input
                else "fewer values are valid here than before",
            )


def _refers(node: Any) -> bool:
    return '"$ref":' in canonical_json(node)


def _resolved(node: Any, references: LocalReferences) -> Any:
    """Return what a node that is only a reference, and words, leads to; else the node."""
    seen: list[Any] = []
    while (
        isinstance(node, dict)
        and isinstance(node.get("$ref"), str)
        and not any(node is each for each in seen)
    ):
        if node.keys() - {"$ref", "default", *_WORDS}:
            break
        seen.append(node)
        node = references.find(node["$ref"], node)
    return node


def _residue(node: dict[str, Any], other: dict[str, Any]) -> str:
    """Return what a node says beside its words, and beside what both of two nodes have looked into."""
    left = {word: value for word, value in node.items() if word not in _WORDS and word not in _BELOW}
    for word in ("items", "additionalProperties"):
        if word in node and not (isinstance(node[word], dict) and isinstance(other.get(word), dict)):
            left[word] = node[word]
    if not ("properties" in node and "properties" in other):
        left |= {word: node[word] for word in ("properties", "required") if word in node}
    else:
        declared = node["properties"].keys() | other["properties"].keys()
        left["required"] = sorted(set(node.get("required", ())) - declared)
    return canonical_json(left)


def _openness_change(before: dict[str, Any], after: dict[str, Any], path: str) -> DriftChange | None:
    """Return that an object which says its properties refuses or takes others now; None if neither."""
    if "properties" not in before or "properties" not in after:
        return None
    match before.get("additionalProperties", True), after.get("additionalProperties", True):
        case True, False:
            return DriftChange(path, "input-closed", "arguments that are not declared are no longer accepted")
        case False, True:
            return DriftChange(path, "input-opened", "arguments that are not declared are accepted now")
    return None


def _opened(node: dict[str, Any]) -> dict[str, Any]:
    return {word: value for word, value in node.items() if word != "additionalProperties"}


def _alone(node: Any, root: Any) -> Any:
    """Return a subschema as a schema of its own, with the definitions that it may refer to."""
    if node is root or not isinstance(node, dict) or not isinstance(root, dict):
        return node
    return {word: root[word] for word in ("$schema", "$defs", "definitions") if word in root} | node


def _default_change(path: str, before: dict[str, Any], after: dict[str, Any]) -> DriftChange:
    if "default" not in before:
        return DriftChange(path, "default-added", f"the default is {_show(after['default'])} now")
    if "default" not in after:
        return DriftChange(
            path, "default-removed", f"there is no default any more; it was {_show(before['default'])}"
        )
    return DriftChange(
        path,
        "default-changed",
        f"the default is {_show(after['default'])}, and was {_show(before['default'])}",
    )


def _worded(path: str, what: str, before: Any, after: Any) -> DriftChange:
    """Return the change of a text, shown from where it begins to differ."""
    be, past = ("are", "were") if what in _PLURAL else ("is", "was")
    if before is None or after is None:
        message = f"the {what} {be} gone" if after is None else f"the {what} {be} new: {_show(after)}"
        return DriftChange(path, "words", message)
    if isinstance(before, str) and isinstance(after, str):
        start = next(
            (place for place, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), -1
        )
        start = min(len(before), len(after)) if start < 0 else start
        start = max(0, start - _SHOWN // 3)
        mark = "…" if start else ""
        before, after = mark + before[start:], mark + after[start:]
    return DriftChange(path, "words", f"the {what} {past} {_show(before)}, and {be} now {_show(after)}")


def _show(value: Any) -> str:
    """Return a value for a message: as JSON, short, and with characters that cannot be seen escaped."""
    text = "nothing" if value is None else fit(compact_json(value), _SHOWN)
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _same(one: Any, other: Any) -> bool:
    return one is other or canonical_json(one) == canonical_json(other)

"""Rewrites the input schema of a tool for callers that know its parameters under other names, or not at all.

The rewritten schema accepts some arguments exactly if the original schema accepts what they are mapped to.
Subschemas that apply to the arguments as a whole (`allOf`, `anyOf`, `if`, `$ref`, ...) are therefore
rewritten one by one: names are replaced, and what a parameter with a known value or without one decides is
decided here. A branch that can no longer be met becomes `false`. A keyword for which that cannot be done,
such as `patternProperties`, refuses the whole schema: a wrong schema would mislead models.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolcrib.errors import Problem
from toolcrib.model.plain import copy_json
from toolcrib.model.schema.keywords import DEFINITIONS, LISTS, MAPS, SINGLES
from toolcrib.model.schema.references import lookup, parse_pointer

Fits = Callable[[Any, Any], bool]
"""Returns whether a value satisfies a schema that has its own definitions."""
_SAME: Final = ("allOf", "anyOf", "oneOf")
_CONDITION: Final = ("if", "then", "else")
_KEPT: Final = frozenset({"type", "title", "description", "deprecated", "readOnly", "writeOnly"})
"""Keywords of a rewritten subschema that are copied; others say nothing about objects, or may show names."""
_ANNOTATIONS: Final = _KEPT - {"type"}
_REFUSED: Final = frozenset(
    {"patternProperties", "propertyNames", "minProperties", "maxProperties", "enum", "const"}
)
_SCOPES: Final = frozenset({"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor"})
_MAX_DEPTH: Final = 32


class ReshapeError(Exception):
    """A schema that cannot be rewritten; the problem gives the place and the reason."""

    def __init__(self, path: str, keyword: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(path, keyword, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The changes to a tool's parameters; every key is a name in the original schema."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """The new names."""
    described: Mapping[str, str] = field(default_factory=dict)
    """The new descriptions."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Values that are always sent; callers do not see these parameters."""
    hidden: frozenset[str] = frozenset()
    """Parameters that are never sent."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values that are sent unless the caller gives another."""

    @property
    def is_closed(self) -> bool:
        """Whether callers may give no other parameters than those that they see."""
        return bool(self.renamed or self.fixed or self.hidden)

    def seen(self, name: str) -> str | None:
        """Return the name that callers use; None for a parameter that they do not see."""
        return None if name in self.fixed or name in self.hidden else self.renamed.get(name, name)


def declared_parameters(schema: Any) -> tuple[str, ...]:
    """Return the names of all parameters that a schema declares or requires, in any of its branches.

    Raises:
        ReshapeError: a reference cannot be followed.
    """
    found: dict[str, None] = {}
    for node in _in_place(schema):
        properties, required = node.get("properties"), node.get("required")
        found.update(dict.fromkeys(properties if isinstance(properties, dict) else ()))
        names = required if isinstance(required, list) else ()
        found.update(dict.fromkeys(name for name in names if isinstance(name, str)))
    return tuple(found)


def _in_place(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the subschemas that apply to the arguments as a whole, each once."""
    pending, seen = [schema], set[int]()
    while pending:
        node = pending.pop(0)
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(reference := node.get("$ref"), str):
            pending.append(_target(schema, reference, ""))
        for word in _SAME:
            pending += node[word] if isinstance(node.get(word), list) else []
        pending += [node[word] for word in (*_CONDITION, "not") if word in node]
        for word in ("dependentSchemas", "dependencies"):
            pending += node[word].values() if isinstance(node.get(word), dict) else []


def _target(root: Any, reference: str, path: str) -> Any:
    """Return the definition that a reference means.

    Raises:
        ReshapeError: it is none below `$defs` or `definitions` of the schema.
    """
    keys = parse_pointer(reference.removeprefix("#")) if reference.startswith("#/") else ()
    found = lookup(root, keys) if keys and keys[0] in DEFINITIONS and "%" not in reference else None
    if not isinstance(found, dict | bool):
        message = f"refers to {reference[:80]!r}; only references to '#/$defs/...' can be followed here"
        raise ReshapeError(path, "$ref", message)
    return found


def reshape(schema: dict[str, Any], parameters: Parameters, fits: Fits) -> dict[str, Any]:
    """Return the schema of the arguments as callers give them.

    Raises:
        ReshapeError: the schema has a keyword that cannot be rewritten, or no arguments could fit.
    """
    return _Rewriter(schema, parameters, fits).rewrite()


class _Rewriter:
    """Rewrites one schema."""

    def __init__(self, root: dict[str, Any], parameters: Parameters, fits: Fits) -> None:
        self._root, self._parameters, self._fits = root, parameters, fits
        self._is_draft_7 = "draft-07" in str(root.get("$schema", ""))
        self._definitions = {word: root[word] for word in DEFINITIONS if isinstance(root.get(word), dict)}

    def rewrite(self) -> dict[str, Any]:
        for path, node in _every_schema(self._root):
            if scope := sorted(_SCOPES & node.keys()):
                raise ReshapeError(path, scope[0], f"has {scope[0]!r}, with which names cannot be replaced")
            if path and "$id" in node:
                raise ReshapeError(path, "$id", "has an '$id' of its own")
            if isinstance(reference := node.get("$ref"), str) and reference.startswith("#"):
                _target(self._root, reference, path)
        made = self._node(self._root, "", ())
        if not isinstance(made, dict):
            raise ReshapeError("", "required", "no arguments could fit: fix or show what the schema requires")
        if self._parameters.is_closed:
            seen = (self._parameters.seen(name) for name in declared_parameters(self._root))
            others = {name: True for name in seen if name is not None}
            if self._root.get("additionalProperties") is False:
                others = {name: True for name in others if name in made.get("properties", {})}
            made["properties"] = {**others, **made.get("properties", {})}
            if not made["properties"].keys() >= set(made.get("required", ())):
                raise ReshapeError(
                    "", "required", "no arguments could fit: the schema requires what it forbids"
                )
            made["additionalProperties"] = False
        if "$schema" in self._root:
            made = {"$schema": self._root["$schema"], **made}
        return made | self._reachable_definitions(made)

    def _reachable_definitions(self, made: dict[str, Any]) -> dict[str, Any]:
        """Return the definitions that are still referred to; others could name hidden parameters."""
        kept: dict[str, dict[str, Any]] = {}
        parts: dict[str, str] = {}
        pending = [made]
        while pending:
            for _, node in _every_schema(pending.pop()):
                reference = node.get("$ref")
                if not isinstance(reference, str) or not reference.startswith("#/"):
                    continue
                word, name, *rest = parse_pointer(reference[1:])
                if rest:  # into a definition, which itself may name hidden parameters
                    known = reference in parts
                    name = parts.setdefault(reference, self._name_part(len(parts)))
                    node["$ref"] = f"#/{word}/{name}"
                    if not known:
                        part = copy_json(_target(self._root, reference, ""))
                        kept.setdefault(word, {})[name] = part
                        pending.append(part)
                    continue
                if name not in kept.setdefault(word, {}):
                    kept[word][name] = copy_json(self._definitions[word][name])
                    pending.append(kept[word][name])
        return kept

    def _name_part(self, number: int) -> str:
        """Return the name of a new definition."""
        taken = {name for definitions in self._definitions.values() for name in definitions}
        name = f"part{number}"
        while name in taken:
            name += "_"
        return name

    def _node(self, node: Any, path: str, stack: tuple[str, ...]) -> Any:
        """Return one subschema that applies to the arguments, rewritten; False if it cannot be met."""
        if not isinstance(node, dict):
            return node
        if len(stack) > _MAX_DEPTH:
            raise ReshapeError(path, "$ref", "is nested too deeply")
        if self._is_draft_7 and isinstance(node.get("$ref"), str):
            return self._referred(node["$ref"], path, stack)
        _check_keywords(node, path)
        made: dict[str, Any] = {word: copy_json(node[word]) for word in node if word in _KEPT}
        if node.get("unevaluatedProperties") is False:
            made["unevaluatedProperties"] = False
        more: list[Any] = []
        if not (self._members(node, made) and self._needs(node, made, more)):
            return False
        if not self._dependencies(node, made, more, path, stack):
            return False
        self._applied(node, made, more, path, stack)
        if more:
            made["allOf"] = [*made.get("allOf", ()), *more]
        return made if _can_be_met(made) else False

    def _referred(self, reference: str, path: str, stack: tuple[str, ...]) -> Any:
        if reference in stack:
            raise ReshapeError(path, "$ref", f"refers to itself by {reference[:80]!r}")
        return self._node(_target(self._root, reference, path), path, (*stack, reference))

    def _accepts(self, schema: Any, value: Any) -> bool:
        """Return whether a value fits a subschema of the original schema."""
        if isinstance(schema, bool):
            return schema
        dialect = {"$schema": self._root["$schema"]} if "$schema" in self._root else {}
        return self._fits({**dialect, **self._definitions, "allOf": [schema]}, value)

    def _members(self, node: dict[str, Any], made: dict[str, Any]) -> bool:
        """Rewrite `properties` and `additionalProperties`; return whether fixed values fit them."""
        ours = self._parameters
        given = node.get("properties")
        properties: dict[str, Any] = given if isinstance(given, dict) else {}
        others = node.get("additionalProperties", True)

        def accepts(name: str, value: Any) -> bool:
            return self._accepts(properties.get(name, others), value)

        if not all(accepts(name, value) for name, value in ours.fixed.items()):
            return False
        named = ((ours.seen(name), name, schema) for name, schema in properties.items())
        if shown := {seen: self._member(name, schema) for seen, name, schema in named if seen is not None}:
            made["properties"] = shown
        if "additionalProperties" in node:
            made["additionalProperties"] = copy_json(others)
        refused = [name for name, value in ours.defaults.items() if not accepts(name, value)]
        if refused:  # without an argument the default would be sent, which does not fit here
            made["required"] = [ours.renamed.get(name, name) for name in refused]
        return True

    def _member(self, name: str, schema: Any) -> Any:
        """Return the schema of one visible parameter."""
        ours = self._parameters
        if name not in ours.described and name not in ours.defaults:
            return copy_json(schema)
        if schema is False:
            return False
        made = {} if schema is True else copy_json(schema)
        if self._is_draft_7 and "$ref" in made:  # what stands beside a reference would be ignored
            made = {"allOf": [made]}
        if name in ours.described:
            made["description"] = ours.described[name]
        if name in ours.defaults:
            made["default"] = copy_json(ours.defaults[name])
        return made

    def _needs(self, node: dict[str, Any], made: dict[str, Any], more: list[Any]) -> bool:
        """Rewrite `required` and the names that depend on others; return whether they can be met."""
        ours = self._parameters
        required = dict.fromkeys(made.get("required", ()))
        needed = list(node["required"]) if isinstance(node.get("required"), list) else []
        dependent: dict[str, list[str]] = {}
        for word in ("dependentRequired", "dependencies"):
            given = node.get(word)
            for name, names in given.items() if isinstance(given, dict) else ():
                if not isinstance(names, list) or name in ours.hidden:
                    continue
                if name in ours.fixed or name in ours.defaults:
                    needed += names
                elif not ours.hidden.isdisjoint(names):
                    more.append({"properties": {ours.renamed.get(name, name): False}})
                else:
                    dependent[ours.renamed.get(name, name)] = self._open_names(names)
        if not ours.hidden.isdisjoint(needed):
            return False
        required.update(dict.fromkeys(self._open_names(needed)))
        if required:
            made["required"] = list(required)
        if dependent:
            made["dependencies" if self._is_draft_7 else "dependentRequired"] = dependent
        return True

    def _open_names(self, names: list[str]) -> list[str]:
        """Return, of required names, those that callers have to give."""
        ours = self._parameters
        return [
            ours.renamed.get(name, name)
            for name in names
            if name not in ours.fixed and name not in ours.defaults
        ]

    def _dependencies(
        self, node: dict[str, Any], made: dict[str, Any], more: list[Any], path: str, stack: tuple[str, ...]
    ) -> bool:
        """Rewrite the schemas that depend on a name; return whether they can be met."""
        ours = self._parameters
        dependent: dict[str, Any] = {}
        for word in ("dependentSchemas", "dependencies"):
            given = node.get(word)
            for name, schema in given.items() if isinstance(given, dict) else ():
                if isinstance(schema, list) or name in ours.hidden:
                    continue
                rewritten = self._node(schema, f"{path}/{word}/{name}", (*stack, ""))
                if name not in ours.fixed and name not in ours.defaults:
                    dependent[ours.renamed.get(name, name)] = rewritten
                elif rewritten is False:
                    return False
                else:
                    more.append(rewritten)
        if dependent:
            word = "dependencies" if self._is_draft_7 else "dependentSchemas"
            made[word] = {**made.get(word, {}), **dependent}
        return True

    def _applied(
        self, node: dict[str, Any], made: dict[str, Any], more: list[Any], path: str, stack: tuple[str, ...]
    ) -> None:
        """Rewrite the subschemas that apply to the same arguments."""
        if isinstance(reference := node.get("$ref"), str):
            more.append(self._referred(reference, path, stack))
        for word in _SAME:
            members = node.get(word)
            if isinstance(members, list):
                made[word] = [
                    self._node(member, f"{path}/{word}/{at}", (*stack, ""))
                    for at, member in enumerate(members)
                ]
        for word in (*_CONDITION, "not"):
            if word in node:
                made[word] = self._node(node[word], f"{path}/{word}", (*stack, ""))


def _can_be_met(made: dict[str, Any]) -> bool:
    """Return whether a rewritten subschema may be met, as far as it was decided by known values."""
    if False in made.get("allOf", ()) or _is_always_met(made.get("not", False)):
        return False
    if all(member is False for member in made.get("anyOf", (True,))):
        return False
    one_of = made.get("oneOf", (True,))
    if all(member is False for member in one_of) or sum(map(_is_always_met, one_of)) > 1:
        return False
    condition = made.get("if")
    if condition is not None:
        is_closed_then = made.get("then") is False and _is_always_met(condition)
        if is_closed_then or (made.get("else") is False and condition is False):
            return False
    properties = made.get("properties", {})
    return not any(properties.get(name) is False for name in made.get("required", ()))


def _is_always_met(made: Any) -> bool:
    """Return whether a rewritten subschema accepts all arguments."""
    if not isinstance(made, dict):
        return made is True
    said = {word for word, value in made.items() if word not in _ANNOTATIONS and value not in ({}, [])}
    return said <= {"type"} and made.get("type", "object") == "object"


def _check_keywords(node: dict[str, Any], path: str) -> None:
    """Refuse a subschema with a keyword that cannot be rewritten.

    Raises:
        ReshapeError: it has one.
    """
    for word in sorted(_REFUSED & node.keys()):
        if node[word] != {}:
            reason = f"has {word!r}, with which names cannot be replaced"
            raise ReshapeError(f"{path}/{word}", word, reason)
    if node.get("unevaluatedProperties", True) is not True and (path or node["unevaluatedProperties"]):
        place = f"{path}/unevaluatedProperties"
        raise ReshapeError(place, "unevaluatedProperties", "has 'unevaluatedProperties' in a branch")


def _every_schema(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every subschema with its path, those in definitions too."""
    pending: list[tuple[str, Any]] = [("", schema)]
    while pending:
        path, node = pending.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for word, value in node.items():
            if word in MAPS and isinstance(value, dict):
                pending += [(f"{path}/{word}/{name}", each) for name, each in value.items()]
            elif word in LISTS or (word in SINGLES and isinstance(value, list)):
                pending += [(f"{path}/{word}/{at}", each) for at, each in enumerate(value)]
            elif word in SINGLES:
                pending.append((f"{path}/{word}", value))


def describe_parameters(schema: dict[str, Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """Return a schema with other descriptions of its own parameters.

    Raises:
        ReshapeError: the schema itself does not declare one of them.
    """
    made: dict[str, Any] = copy_json(schema)
    properties: Any = made.get("properties")
    for name, text in descriptions.items():
        own = properties.get(name) if isinstance(properties, dict) else None
        if own is True:
            own = {}
        if not isinstance(own, dict):
            raise ReshapeError(
                "/describe", "describe", f"{name!r} is declared in a branch of the schema alone"
            )
        properties[name] = {**own, "description": text}
    return made

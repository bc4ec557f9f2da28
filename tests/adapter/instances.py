"""Arguments that fit a schema, made from it: the least, the most, and others in between."""

import random
from contextlib import suppress
from typing import Any

from toolcrib.adapter.rewrite.source import ARRAY_WORDS, OBJECT_WORDS
from toolcrib.errors import InvalidSchemaError, ValidationError
from toolcrib.model import DefaultValidator

_TEXTS = [
    "",
    "a",
    "drill bit",
    "naïve ☃ 工具",
    '{"a": 1}',
    "null",
    "2026-07-28T12:00:00Z",
    "1",
    "[]",
    "x" * 40,
]
_KINDS = ["string", "integer", "number", "boolean", "null", "object", "array"]
_DEPTH = 7


class ImpossibleError(ValueError):
    """A subschema that no value fits."""


class Maker:
    """Makes values of one schema; `rng` decides everything, so that a seed gives the same values again."""

    def __init__(self, root: dict[str, Any], seed: int) -> None:
        self._root = root
        self._validator = DefaultValidator()
        self._rng = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def make(self) -> Any:
        return self._make(self._root, 0, None)

    def least(self) -> Any:
        return self._make(self._root, 0, share=0.0)

    def most(self) -> Any:
        return self._make(self._root, 0, share=1.0)

    def _make(self, schema: Any, depth: int, share: float | None) -> Any:
        if schema is False:
            raise ImpossibleError
        if schema is True or not schema:
            return self._anything(depth)
        if "$ref" in schema:
            return self._make({**self._find(schema["$ref"]), **_beside(schema)}, depth + 1, share)
        if "const" in schema or "enum" in schema:
            return self._rng.choice(schema.get("enum", [schema.get("const")]))
        if "allOf" in schema:
            return self._fitting(schema, self._make(self._all_of(schema), depth, share))
        if word := next((word for word in ("anyOf", "oneOf") if word in schema), None):
            branch = self._branch(schema[word], depth)
            value = self._make(self._beside_branch(schema, word, branch), depth, share)
            return self._fitting(schema, self._fitting(branch, value))
        is_object, is_array = not OBJECT_WORDS.isdisjoint(schema), not ARRAY_WORDS.isdisjoint(schema)
        kinds = schema.get("type", "object" if is_object else "array" if is_array else None)
        kind = self._rng.choice(kinds) if isinstance(kinds, list) else kinds
        return self._of_kind(kind, schema, depth, share)

    def _fitting(self, schema: Any, value: Any) -> Any:
        """Return a value if it fits, so that none is valid only where it is not declared."""
        root = {word: self._root[word] for word in ("$schema", "$defs", "definitions") if word in self._root}
        try:
            self._validator.validate({**root, "allOf": [schema]}, value)
        except InvalidSchemaError:  # a reference to what is not there without the root
            return value
        except ValidationError:
            raise ImpossibleError from None
        return value

    def _beside_branch(self, schema: dict[str, Any], word: str, branch: Any) -> Any:
        base = {key: value for key, value in schema.items() if key != word}
        if isinstance(branch, bool):
            return base if branch and base else branch
        if _is_scalar(branch):
            return branch
        if "$ref" in branch and base.get("properties"):
            branch = {**self._find(branch["$ref"]), **_beside(branch)}
        both = {**base, **branch}
        if base.get("properties"):
            both["required"] = [*base.get("required", []), *branch.get("required", [])]
            both["properties"] = {**base["properties"], **branch.get("properties", {})}
        return both

    def _all_of(self, schema: dict[str, Any]) -> dict[str, Any]:
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        if False in schema["allOf"]:
            raise ImpossibleError
        members = [member for member in schema["allOf"] if isinstance(member, dict)]
        for given in self._rng.sample(members, len(members)):
            member = self._find(given["$ref"]) if "$ref" in given else given
            properties = {**member.get("properties", {}), **merged.get("properties", {})}
            merged = {**member, **merged, **({"properties": properties} if properties else {})}
        return merged

    def _branch(self, branches: list[Any], depth: int) -> Any:
        if depth > _DEPTH:
            simple = [
                branch for branch in branches if isinstance(branch, dict) and branch.get("type") in _KINDS[:5]
            ]
            return self._rng.choice(simple or branches)
        return self._rng.choice(branches)

    def _of_kind(self, kind: Any, schema: dict[str, Any], depth: int, share: float | None) -> Any:
        if kind == "object":
            return self._object(schema, depth, share)
        if kind == "array":
            return self._array(schema, depth, share)
        if kind == "string":
            return self._string(schema)
        if kind in {"integer", "number"}:
            return self._number(schema, kind)
        if kind == "boolean":
            return self._rng.random() < 0.5
        return None if kind == "null" else self._anything(depth)

    def _object(self, schema: dict[str, Any], depth: int, share: float | None) -> dict[str, Any]:
        chance = self._rng.random() if share is None else share
        chance = 0 if depth > _DEPTH else chance
        required = schema.get("required", [])
        found = {}
        for name, sub in schema.get("properties", {}).items():
            if name in required:
                found[name] = self._make(sub, depth + 1, share)
            elif self._rng.random() < chance:
                with suppress(ImpossibleError):
                    found[name] = self._make(sub, depth + 1, share)
        others = schema.get("additionalProperties")
        if (
            isinstance(others, dict)
            and others
            and depth <= _DEPTH
            and (not schema.get("properties") or share is None)
        ):
            names = schema.get("propertyNames", {}).get("enum") or ["k1", "k 2", "päth/~x"]
            for name in names[: self._rng.randrange(3)]:
                found.setdefault(name, self._make(others, depth + 1, share))
        return found

    def _array(self, schema: dict[str, Any], depth: int, share: float | None) -> list[Any]:
        prefix = schema.get("prefixItems", schema["items"] if isinstance(schema.get("items"), list) else [])
        if prefix:
            return [self._make(sub, depth + 1, share) for sub in prefix]
        least = schema.get("minItems", 0)
        count = least if depth > _DEPTH or share == 0 else max(least, self._rng.randrange(3))
        return [self._make(schema.get("items", True), depth + 1, share) for _ in range(count)]

    def _string(self, schema: dict[str, Any]) -> str:
        if "pattern" in schema or "format" in schema:
            return self._rng.choice(
                ["2026-07-28", "2026-07-28T12:00:00Z", "12345", "abc", "https://x.test", "a@b.test"]
            )
        text = self._rng.choice(_TEXTS)
        text = text.ljust(schema.get("minLength", 0), "y")
        return text[: schema.get("maxLength", 100)]

    def _number(self, schema: dict[str, Any], kind: str) -> Any:
        low = schema.get("minimum", schema.get("exclusiveMinimum", -5))
        low = -5 if isinstance(low, bool) else low
        low = low + 1 if "exclusiveMinimum" in schema else low
        high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + 9))
        value = self._rng.choice([low, high, (low + high) // 2, 3, 10])
        if kind == "number" and self._rng.random() < 0.5:
            return value + 0.5
        return int(value)

    def _anything(self, depth: int) -> Any:
        if depth > _DEPTH:
            return None
        return self._rng.choice(
            [
                None,
                True,
                7,
                1.5,
                "text",
                '{"a": 1}',
                {"a": [1, {"b": None}], "key": "k"},
                [],
                [1, "x", None],
                {},
            ]
        )

    def _find(self, reference: str) -> dict[str, Any]:
        value: Any = self._root
        for part in reference.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list) else value[key]
        return value


def _beside(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in schema.items() if key not in {"$ref", "description", "title", "default"}
    }


def _is_scalar(schema: dict[str, Any]) -> bool:
    return "const" in schema or "enum" in schema or schema.get("type") in _KINDS[:5]


def valid_arguments(schema: dict[str, Any], *, count: int = 4, tries: int = 60) -> list[Any]:
    """Return valid arguments of a schema, with declared properties only."""
    validator = DefaultValidator()
    maker = Maker(schema, seed=7)
    found: list[Any] = []
    for index in range(tries):
        try:
            value = maker.least() if index == 0 else maker.most() if index == 1 else maker.make()
            validator.validate(schema, value)
        except (ValidationError, ImpossibleError):
            continue
        if value not in found:
            found.append(value)
        if len(found) >= count:
            break
    return found

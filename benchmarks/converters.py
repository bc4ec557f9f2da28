"""The measured converters from an MCP tool to an input schema, and the check for silent losses."""

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

from anthropic import transform_schema
from google.genai._mcp_utils import mcp_to_gemini_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from openai.lib._pydantic import _ensure_strict_json_schema
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer, GoogleOpenAPISchemaTransformer
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, _OpenAIJsonSchemaTransformer
from pydantic_ai.providers.anthropic import AnthropicJsonSchemaTransformer

from toolcrib.adapter import Conversion, default_registry
from toolcrib.adapter.loss import step
from toolcrib.adapter.portability import TARGETS, input_schema_of
from toolcrib.adapter.rewrite.source import type_of

Json = dict[str, Any]
OURS = "**toolcrib**"
REGISTRY = default_registry()


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a conversion."""

    schema: Json
    as_asked: bool = True
    """Whether the strict form was reached; a tool that fell back to plain is not strict."""
    conversion: Conversion | None = None
    """Our own, which has reports and a way back."""


@dataclass(frozen=True, slots=True)
class Converter:
    """One way to convert a tool."""

    name: str
    convert: Callable[[Json], Converted]
    note: str = ""
    """A remark of its authors about the figures."""


def ours(target: str) -> Converter:
    """Return our own converter."""
    adapter, options = TARGETS[target]
    wants_strict = bool(options.get("strict"))

    def convert(tool: Json) -> Converted:
        conversion = REGISTRY.convert(tool, source="mcp", target=adapter, **options)
        payload = conversion.payload
        is_strict = bool(payload.get("function", payload).get("strict"))
        return Converted(input_schema_of(payload), is_strict or not wants_strict, conversion)

    return Converter(OURS, convert)


def unchanged(tool: Json) -> Converted:
    """Return the schema as it is."""
    return Converted(tool["inputSchema"])


def openai_strict(tool: Json) -> Converted:
    """Call the helper of OpenAI's SDK."""
    schema = tool["inputSchema"]
    return Converted(_ensure_strict_json_schema(schema, path=(), root=schema))


def anthropic_strict(tool: Json) -> Converted:
    """Call the helper of Anthropic's SDK."""
    return Converted(transform_schema(tool["inputSchema"]))


def google_genai(tool: Json) -> Converted:
    """Call the helper of Google's SDK, with the attributes that it reads of an MCP tool."""
    named = {"name": tool["name"], "description": tool.get("description")}
    made = mcp_to_gemini_tool(SimpleNamespace(**named, input_schema=tool["inputSchema"]))
    payload = made.model_dump(mode="json", by_alias=True, exclude_none=True)
    return Converted(lower_types(payload["functionDeclarations"][0]["parameters"]))


def lower_types(value: Any) -> Any:
    """Return a schema with the names of types as JSON Schema writes them, which Gemini takes as well."""
    if isinstance(value, list):
        return [lower_types(member) for member in value]
    if not isinstance(value, dict):
        return value
    return {
        key: member.lower() if key == "type" and isinstance(member, str) else lower_types(member)
        for key, member in value.items()
    }


def langchain(*, strict: bool | None) -> Callable[[Json], Converted]:
    """Return LangChain's converter; a dict with `input_schema` is how it takes a tool that is no Python."""

    def convert(tool: Json) -> Converted:
        named = {"name": tool["name"], "description": tool.get("description") or ""}
        made = convert_to_openai_tool({**named, "input_schema": tool["inputSchema"]}, strict=strict)
        return Converted(made["function"]["parameters"])

    return convert


def pydantic_ai(transformer: Any, *, strict: bool | None = None) -> Callable[[Json], Converted]:
    """Return one of pydantic-ai's transformers; without `strict` it decides itself."""

    def convert(tool: Json) -> Converted:
        walk = transformer(tool["inputSchema"], strict=strict)
        schema = walk.walk()
        return Converted(schema, walk.is_strict_compatible)

    return convert


UNCHANGED = Converter("none: the schema unchanged", unchanged)
REQUIRES = "makes every property required, as its docstring says, and none nullable"
REFUSES = "refuses on purpose what it cannot convert, and says why; this counts as raised"
GUARDED = "used by `OpenAIProvider` for OpenAI's own models; otherwise like the one above"
DECIDES = "by design strict only if nothing needs to be rewritten, and otherwise plain"
CLOSES = "closes every object, maps included, since the API accepts no open ones"

FAMILIES: dict[str, list[Converter]] = {
    "openai-strict": [
        ours("openai-strict"),
        Converter(
            "openai `_ensure_strict_json_schema`",
            openai_strict,
            "makes every property required and none nullable; mutates its input, as its docstring says",
        ),
        Converter("langchain-core `convert_to_openai_tool(strict=True)`", langchain(strict=True)),
        Converter(
            "pydantic-ai `OpenAIJsonSchemaTransformer(strict=True)`",
            pydantic_ai(OpenAIJsonSchemaTransformer, strict=True),
            f"{REQUIRES}; {REFUSES}",
        ),
        Converter(
            "pydantic-ai `_OpenAIJsonSchemaTransformer(strict=True)`",
            pydantic_ai(_OpenAIJsonSchemaTransformer, strict=True),
            GUARDED,
        ),
        Converter(
            "pydantic-ai `_OpenAIJsonSchemaTransformer(strict=None)`",
            pydantic_ai(_OpenAIJsonSchemaTransformer),
            DECIDES,
        ),
        UNCHANGED,
    ],
    "openai": [
        ours("openai"),
        Converter(
            "langchain-core `convert_to_openai_tool`",
            langchain(strict=None),
            "passes the schema through unchanged",
        ),
        UNCHANGED,
    ],
    "anthropic-strict": [
        ours("anthropic-strict"),
        Converter("anthropic `transform_schema`", anthropic_strict, CLOSES),
        Converter(
            "pydantic-ai `AnthropicJsonSchemaTransformer(strict=True)`",
            pydantic_ai(AnthropicJsonSchemaTransformer, strict=True),
            "calls `transform_schema` last; closes maps with a Python warning, which counts as reported",
        ),
        UNCHANGED,
    ],
    "anthropic": [ours("anthropic"), UNCHANGED],
    "gemini": [
        ours("gemini"),
        Converter("pydantic-ai `GoogleJsonSchemaTransformer`", pydantic_ai(GoogleJsonSchemaTransformer)),
        UNCHANGED,
    ],
    "gemini-openapi": [
        ours("gemini-openapi"),
        Converter(
            "google-genai `mcp_to_gemini_tool`",
            google_genai,
            "raises where `additionalProperties` is a boolean: googleapis/python-genai#2393 and #2476, open",
        ),
        Converter(
            "pydantic-ai `GoogleOpenAPISchemaTransformer`",
            pydantic_ai(GoogleOpenAPISchemaTransformer),
            f"drops `additionalProperties` by design, since Gemini mishandles it; {REFUSES}",
        ),
        UNCHANGED,
    ],
}
"""The converters by target format, ours first."""


def versions() -> dict[str, str]:
    """Return the version of every distribution that is measured."""
    names = ("toolcrib", "openai", "anthropic", "google-genai", "langchain-core", "pydantic-ai-slim")
    return {name: version(name) for name in names}


class _Ear(logging.Handler):
    """Stores log records."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.texts.append(record.getMessage())


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect warnings and log messages, so that a converter that reports losses gets credit for it."""
    ear, root = _Ear(), logging.getLogger()
    root.addHandler(ear)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield ear.texts
            ear.texts += [str(warning.message) for warning in caught]
    finally:
        root.removeHandler(ear)


Paths = tuple[str, ...]
NOISE = frozenset({"$schema", "$id", "$comment", "$anchor", "discriminator", "title"})
"""Keywords without effect on values: losing them does not count against a converter."""
DEFINITIONS = frozenset({"$defs", "definitions"})
UNIONS = ("anyOf", "oneOf", "allOf")
COMBINING = frozenset({*UNIONS, "not", "if", "then", "else"})
MAX_PATHS = 8
TEXT = "description"


def find(root: Json, reference: Any) -> Any:
    """Return the target of a local reference; None if there is none."""
    value: Any = root if str(reference).startswith("#") else None
    for part in unquote(str(reference)).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if type(value) is list:
            value = value[int(key)] if key.isdecimal() and int(key) < len(value) else None
        else:
            value = value.get(key) if type(value) is dict else None
    return value


def kinds_of(faces: list[Json]) -> set[str]:
    """Return the JSON types that subschemas speak of."""
    kinds: set[str] = set()
    for face in faces:
        said = face.get("type", ())
        kinds.update([said] if type(said) is str else said)
        values = [*(face.get("enum") or ()), *([face["const"]] if "const" in face else [])]
        kinds.update(type_of(value) for value in values)
        kinds |= {"null"} if face.get("nullable") is True else set()
        kinds |= {"number"} if "integer" in kinds and values else set()
    return kinds | {"integer"} if "number" in kinds else kinds


@dataclass(frozen=True, slots=True)
class Spot:
    """An original subschema and its conversion."""

    original: Json
    converted: Any
    faces: list[Json]
    """The converted subschema, with all that its unions and references lead to."""
    paths: Paths
    """The path of the original, and the paths of the references and unions that led there."""

    def below(self, *keys: str | int) -> Paths:
        """Return the paths of a member."""
        return tuple(step(path, *keys) for path in self.paths)

    def held(self, word: str, kind: type) -> list[Any]:
        """Return the values of a keyword in the converted subschema that have a given type."""
        return [face[word] for face in self.faces if type(face.get(word)) is kind]

    def says(self, word: str, value: Any) -> bool:
        """Return whether the converted subschema has the same keyword and value; schemas count as equal."""
        return any(word in face and (type(value) is dict or face[word] == value) for face in self.faces)


class Comparison:
    """Finds keywords of a schema that its conversion neither has, nor describes, nor reports as lost.

    Both are walked side by side. A keyword is kept if any alternative in its place says the same, in the same
    or in an equivalent way: `const` as `enum`, `oneOf` as `anyOf`, a type list as a union or `nullable`, a
    reference as its target, a map as a list of pairs. It is told if the description in its place names it, or
    if a warning does: ours with its path, others' with the keyword alone. Where in doubt it counts as kept.
    """

    def __init__(
        self, original: Json, converted: Converted, said: list[str], noise: frozenset[str] = NOISE
    ) -> None:
        self._original = original
        self._converted = converted.schema
        self._said = "\n".join(said)
        self._noise = noise | DEFINITIONS
        warned = converted.conversion.warnings if converted.conversion else ()
        self._reports = [(loss.path, loss.feature, loss.message) for loss in warned if loss.part == "input"]
        self._seen: set[tuple[int, int]] = set()
        self._made: dict[tuple[int, ...], Json] = {}
        self._untold: list[tuple[str, str]] = []
        self._checks: dict[str, Callable[[Spot, str], bool]] = {
            "$ref": self._reference,
            "additionalProperties": self._others,
            "const": self._values,
            "default": self._default,
            "description": self._description,
            "enum": self._values,
            "items": self._items,
            "prefixItems": self._tuple,
            "properties": self._properties,
            "propertyNames": self._names,
            "required": self._required,
            "type": self._type,
            **dict.fromkeys(UNIONS, self._union),
        }

    def run(self) -> list[tuple[str, str]]:
        """Return the keywords that vanished without a word, each with the path of its subschema."""
        self._compare(self._original, self._converted, ("",))
        return self._untold

    def _compare(self, original: Any, converted: Any, paths: Paths) -> None:
        if type(original) is not dict or (id(original), id(converted)) in self._seen:
            return
        self._seen.add((id(original), id(converted)))
        spot = Spot(original, converted, self._faces(converted), paths[:MAX_PATHS])
        for word, value in original.items():
            check = self._checks.get(word)
            if word in self._noise or (self._noise & NOISE and word.startswith("x-")):
                continue
            if not (check(spot, word) if check else spot.says(word, value)):
                self._lost(spot, word, value)

    def _lost(self, spot: Spot, word: str, value: Any) -> None:
        if not self._is_told(spot, word, value) and not self._is_reported(word, spot.paths):
            self._untold.append((word, spot.paths[0]))

    def _faces(self, node: Any) -> list[Json]:
        pending, found, seen = [node], [], set()
        for face in pending:
            if type(face) is dict and id(face) not in seen:
                seen.add(id(face))
                found.append(face)
                pending += [find(self._converted, face["$ref"])] if "$ref" in face else []
                pending += [member for word in UNIONS for member in face.get(word) or ()]
        return found

    def _is_told(self, spot: Spot, word: str, value: Any) -> bool:
        text = "\n".join(str(face.get("description", "")) for face in spot.faces)
        named = re.search(rf"(?<!\w){re.escape(word)}['\"`]?\s*[:=]", text, re.IGNORECASE)
        if named or f"`{word}`" in self._said:
            return True
        values = value if word in {"enum", "examples"} and type(value) is list else [value]
        may_be = word in {"enum", "const"} or word.lower() in text.lower()
        return may_be and all(str(member) in text for member in values)

    def _is_reported(self, word: str, paths: Paths) -> bool:
        return any(
            (path == place and (feature == word or (word == "type" and "passed as" in message)))
            or (
                "JSON text" in message
                and f"{path}/".startswith(f"{place}/")
                and (path, word) != (place, TEXT)
            )
            or (feature in COMBINING and f"{path}/".startswith(f"{place}/{feature}/"))
            for place, feature, message in self._reports
            for path in paths
        )

    def _reference(self, spot: Spot, word: str) -> bool:
        reference = spot.original[word]
        target = find(self._original, reference)
        self._compare(target, spot.converted, (*spot.paths, reference[1:]))
        return target is not None or spot.says(word, reference)

    def _description(self, spot: Spot, word: str) -> bool:
        text = str(spot.original[word]).strip()
        return any(text in str(face.get(word, "")) for face in spot.faces)

    def _type(self, spot: Spot, word: str) -> bool:
        said = spot.original[word]
        return set([said] if type(said) is str else said) <= kinds_of(spot.faces)

    def _default(self, spot: Spot, word: str) -> bool:
        return spot.original[word] is None or spot.says(word, spot.original[word])

    def _values(self, spot: Spot, word: str) -> bool:
        kept = [value for values in spot.held("enum", list) for value in values]
        kept += [face["const"] for face in spot.faces if "const" in face]
        kept += [None] if "null" in kinds_of(spot.faces) else []
        wanted = spot.original[word] if word == "enum" else [spot.original[word]]
        return bool(kept) and all(value in kept for value in wanted)

    def _required(self, spot: Spot, word: str) -> bool:
        kept = {name for names in spot.held(word, list) for name in names}
        renamed = self._renamed(spot)
        return {renamed.get(name, name) for name in spot.original[word]} <= kept

    def _properties(self, spot: Spot, word: str) -> bool:
        renamed = self._renamed(spot)
        for name, member in spot.original[word].items():
            key = renamed.get(name, name)
            found = [held[key] for held in spot.held(word, dict) if key in held]
            below = spot.below(word, name)
            if not found and member is not False:
                self._lost(Spot(spot.original, None, spot.faces, (*below, *spot.paths)), word, name)
            elif len(found) > 1:
                self._compare(member, self._made.setdefault(tuple(map(id, found)), {"anyOf": found}), below)
            else:
                self._compare(member, found[0], below)
        return True

    def _renamed(self, spot: Spot) -> dict[str, str]:
        """Return other names for the properties of an object, which are in the same places."""
        given = list(spot.original.get("properties") or ())
        for held in spot.held("properties", dict):
            if len(held) >= len(given) and not held.keys() >= set(given):
                return dict(zip(given, held, strict=False))
        return {}

    def _others(self, spot: Spot, word: str) -> bool:
        wanted = spot.original[word]
        if type(wanted) is bool:
            return wanted or spot.says(word, wanted)
        inner = spot.held(word, dict) or [pair["value"] for pair in self._pairs(spot)]
        if inner:
            self._compare(wanted, inner[0], spot.below(word))
        return bool(inner) or not wanted

    def _names(self, spot: Spot, word: str) -> bool:
        inner = spot.held(word, dict) or [pair["key"] for pair in self._pairs(spot)]
        if inner:
            self._compare(spot.original[word], inner[0], spot.below(word))
        return bool(inner)

    def _pairs(self, spot: Spot) -> list[Json]:
        """Return the schemas of the pairs, if a map is a list of them or has a property that is."""
        held = [given.get("additional_properties") for given in spot.held("properties", dict)]
        lists = [face for inner in (spot.converted, *held) for face in self._faces(inner)]
        items = [item for face in lists for item in self._faces(face.get("items"))]
        return [
            item["properties"] for item in items if list(item.get("properties") or ()) == ["key", "value"]
        ]

    def _items(self, spot: Spot, word: str) -> bool:
        wanted = spot.original[word]
        if type(wanted) is list:
            return self._tuple(spot, word)
        inner = spot.held(word, dict)
        if inner:
            self._compare(wanted, inner[0], spot.below(word))
        return bool(inner) or wanted is True or wanted == {} or spot.says(word, wanted)

    def _tuple(self, spot: Spot, word: str) -> bool:
        wanted = spot.original[word]
        lists = [*spot.held("prefixItems", list), *spot.held("items", list)]
        lists += [list(held.values()) for held in spot.held("properties", dict) if "item_1" in held]
        fitting = next((inner for inner in lists if len(inner) >= len(wanted)), None)
        for index, member in enumerate(wanted if fitting else ()):
            self._compare(member, fitting[index], spot.below(word, index))
        return fitting is not None or self._is_reported("prefixItems", spot.paths)

    def _union(self, spot: Spot, word: str) -> bool:
        wanted = spot.original[word]
        lists = [members for kept in UNIONS for members in spot.held(kept, list)] if word != "allOf" else []
        inner = next((members for members in lists if len(members) >= len(wanted)), None)
        if inner is None and (self._is_told(spot, word, wanted) or self._is_reported(word, spot.paths)):
            return True
        for index, member in enumerate(wanted):
            found = spot.converted if inner is None else inner[index]
            self._compare(member, found, (*spot.below(word, index), *spot.paths))
        return True

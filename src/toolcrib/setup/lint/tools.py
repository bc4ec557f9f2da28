"""Lint rules for tools: portability to providers, and descriptions for models."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolcrib.adapter.portability import TARGETS, Report, portability
from toolcrib.adapter.registry import AdapterRegistry, default_registry
from toolcrib.errors import ConfigError, ConversionError, InvalidSchemaError, Problem, ToolcribError
from toolcrib.model import DefaultValidator, Tool
from toolcrib.model.argschema.parse import is_argument_map, light_field
from toolcrib.model.plain import pointer
from toolcrib.model.schema.references import LocalReferences
from toolcrib.model.suggest import choose
from toolcrib.setup.lint.text import (
    first_sentence,
    identifiers,
    program_names,
    steering,
)
from toolcrib.trust import KnownTools, scan

Severity = Literal["error", "warning", "info"]
"""An error is dangerous or does not work; a warning costs quality; the rest is good to know."""
MAX_FIRST_SENTENCE = 80
"""Limit for the first sentence of a description, which lists of tools show."""
_MAX_NAME = 64
"""The length that OpenAI, Anthropic and Gemini all accept."""
_SHOWN = 5
_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}
_WORD = re.compile(r"\w+")
_LEAST_WORDS = 4
_RAREST = 3
_ALIKE = 0.9
_JSON_SCHEMA = {
    "isArray": '{"type": "array", "items": {...}}',
    "required": "a list of names beside `properties`",
    "type": "'number' for a float, and `enum` alone for a choice",
}
"""Keywords of JSON Schema that replace fields of the light argument schema."""
_MAX_BUCKET = 50
"""With how many others at most a tool is compared for each of its words."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A finding about one tool."""

    tool_id: str
    """The id of the tool."""
    severity: Severity
    """The severity."""
    rule: str
    """The name of the rule: `hidden-characters`."""
    message: str
    """The problem, and the advice."""
    path: str = ""
    """The place in the definition as a JSON Pointer; empty for all of it."""
    target: str | None = None
    """The provider that it is about; None for all."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        facts = {"toolId": self.tool_id, "severity": self.severity, "rule": self.rule}
        payload = {"path": self.path, "target": self.target}
        return {**facts, "message": self.message, **{key: value for key, value in payload.items() if value}}


def lint_tools(tools: Iterable[Tool], *, targets: Collection[str] | None = None) -> tuple[LintFinding, ...]:
    r"""Return the findings about tools, in the order of the tools, the worst of each first.

    Args:
        tools: all of one catalogue, because they are compared too.
        targets: the providers that must accept them, by their names in `portability`; a tool that one of
            these does not accept is an error, and losses in its conversion are reported. None checks all
            providers, and only warns.

    >>> from toolcrib.model import Tool
    >>> tool = Tool(name="add", description="Adds.\u200b", input_schema={"type": "object"})
    >>> lint_tools([tool])[0].rule
    'hidden-characters'

    Raises:
        ConfigError: there is no such target.
    """
    known = list(tools)
    for target in targets or ():
        if target not in TARGETS:
            message = f"there is no target {target!r}{choose(target, TARGETS)}"
            raise ConfigError("lint", (Problem("", "target", message),))
    names = program_names(name for tool in known for name in (tool.name, tool.namespace) if name)
    registry = default_registry()
    by_tool: dict[str, list[LintFinding]] = {str(tool.id): [] for tool in known}
    others = KnownTools(known)
    for tool in known:
        by_tool[str(tool.id)] += _scan(tool, others)
        by_tool[str(tool.id)] += _lint(tool, names)
        by_tool[str(tool.id)] += _portable(tool, targets, registry)
    for finding in _lint_together(known):
        by_tool[finding.tool_id].append(finding)
    found = (sorted(each, key=lambda finding: _ORDER[finding.severity]) for each in by_tool.values())
    return tuple(finding for each in found for finding in each)


def _lint(tool: Tool, names: frozenset[str]) -> Iterator[LintFinding]:
    if order := steering(tool.description or ""):
        message = (
            f"it says {order!r}, which competes with the other tools; say what it does, and when it helps"
        )
        yield _finding(tool, "warning", "steering", message, "/description")
    yield from _description(tool, names)
    yield from _parameters(tool)
    yield from _definition(tool)


def _finding(tool: Tool, severity: Severity, rule: str, message: str, path: str = "") -> LintFinding:
    return LintFinding(str(tool.id), severity, rule, message, path)


def _scan(tool: Tool, known: KnownTools) -> Iterator[LintFinding]:
    """Yield the findings of the scan in a tool."""
    for each in scan(tool, others=known).findings:
        if each.rule == "clone":  # here it is a near duplicate, which has a rule of its own
            continue
        severity: Severity = "error" if each.severity == "hard" else "warning"
        words = f": {each.excerpt!r}" if each.excerpt else ""
        yield _finding(tool, severity, each.rule, f"{each.message}{words}; do not trust this tool", each.path)


def _description(tool: Tool, names: frozenset[str]) -> Iterator[LintFinding]:
    path = "/description"
    text = (tool.description or "").strip()
    if not text:
        message = "there is no description, so a model cannot know what it does; write one sentence"
        yield _finding(tool, "warning", "description-missing", message, path)
        return
    if _lint_letters(text) in {_lint_letters(tool.name), _lint_letters(tool.title or tool.name)}:
        message = "the description says no more than the name; say what it does, and with what"
        severity: Severity = "info" if " " in text else "warning"
        yield _finding(tool, severity, "description-empty", message, path)
    first = first_sentence(text)
    if len(first) > MAX_FIRST_SENTENCE:
        message = (
            f"the first sentence has {len(first)} characters; shorten it to at most {MAX_FIRST_SENTENCE}"
        )
        yield _finding(tool, "warning", "first-sentence", message, path)
    known = names | program_names(_properties(tool))
    if inside := identifiers(first, known):
        message = f"the first sentence mentions {_list_names(inside)}; say what that is in plain words"
        yield _finding(tool, "warning", "internal-names", message, path)
    elif later := identifiers(text, known):
        message = (
            f"the description mentions {_list_names(later)}; parameters describe themselves in the schema"
        )
        yield _finding(tool, "info", "internal-names", message, path)


def _lint_letters(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalnum())


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more


def _properties(tool: Tool) -> dict[str, Any]:
    found = tool.shared("input_schema").get("properties")
    return found if isinstance(found, dict) else {}


def _parameters(tool: Tool) -> Iterator[LintFinding]:
    path = "/inputSchema/properties"
    references = LocalReferences(tool.shared("input_schema"))
    silent = [name for name, schema in _properties(tool).items() if not _is_described(schema, references)]
    if silent:
        message = f"nothing describes {_list_names(silent)}; describe each parameter"
        yield _finding(tool, "warning", "parameter-description", message, path)


def _is_described(schema: Any, references: LocalReferences) -> bool:
    """Return whether a parameter is explained: by a description, its values, or a reference."""
    waiting, met = [schema], set()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict) or id(one) in met:
            continue
        met.add(id(one))
        if any(one.get(key) for key in ("description", "enum", "const", "examples")):
            return True
        if (title := one.get("title")) and " " in str(title).strip():
            return True
        for key in ("anyOf", "oneOf", "allOf"):
            choices = one.get(key)
            waiting += choices if isinstance(choices, list) else ()
        ref = one.get("$ref")
        if isinstance(ref, str):
            waiting.append(references.find(ref))
    return False


def _light_schema(tool: Tool, schema: dict[str, Any], path: str) -> Iterator[LintFinding]:
    """Yield the parts of a schema in the light argument syntax, which mean something else in JSON Schema."""
    if is_argument_map(schema):
        message = (
            "this is a map of arguments, not a JSON Schema, so that nothing is checked; "
            'write {"type": "object", "properties": {...}}'
        )
        yield _finding(tool, "error", "argument-map", message, path)
    elif place := light_field(schema):
        message = (
            f"{place[-1]!r} here belongs to a light argument schema, and JSON Schema does not have it; "
            f"write {_JSON_SCHEMA[place[-1]]}"
        )
        yield _finding(tool, "error", "light-schema", message, path + pointer(place))


def _definition(tool: Tool) -> Iterator[LintFinding]:
    validator = DefaultValidator()
    for path, schema in (("/inputSchema", tool.input_schema), ("/outputSchema", tool.output_schema)):
        if schema is None:
            continue
        yield from _light_schema(tool, schema, path)
        try:
            validator.validate(schema, {})
        except InvalidSchemaError as error:
            message = f"the schema cannot be used, and the tool will be refused: {error}"
            yield _finding(tool, "error", "schema", message[:500], path)
        except ToolcribError:
            continue  # an empty object need not fit
    required = tool.input_schema.get("required")
    if isinstance(required, list) and tool.input_schema.get("additionalProperties") is False:
        lost = [name for name in required if isinstance(name, str) and name not in _properties(tool)]
        if lost:
            message = f"it requires {_list_names(lost)}, which it does not allow; no call can be valid"
            yield _finding(tool, "error", "schema", message, "/inputSchema/required")
    if len(tool.name) > _MAX_NAME:
        message = (
            f"the name has {len(tool.name)} characters; providers accept {_MAX_NAME}, so it is shortened"
        )
        yield _finding(tool, "warning", "name-length", message, "/name")
    hints = tool.annotations
    if hints is not None and hints.read_only_hint and hints.destructive_hint:
        message = "it says that it is read-only and destructive; it cannot be both"
        yield _finding(tool, "warning", "annotations", message, "/annotations")


def _portable(
    tool: Tool, targets: Collection[str] | None, registry: AdapterRegistry
) -> Iterator[LintFinding]:
    try:
        reports = portability(tool.to_json(without={"backend"}), registry=registry)
    except ConversionError as error:
        yield _finding(tool, "error", "portability", f"it cannot be read: {error}"[:500])
        return
    for target, report in reports.items():
        if targets is None and target.endswith("-strict"):
            continue  # whoever wants strictness names it
        if targets is None or target in targets:
            yield from _report_findings(tool, target, report, named=targets is not None)


def _report_findings(tool: Tool, target: str, report: Report, *, named: bool) -> Iterator[LintFinding]:
    tool_id = str(tool.id)
    if not report.accepted:
        why = "; ".join(str(problem) for problem in report.problems[:_SHOWN])
        severity: Severity = "error" if named else "warning"
        message = f"{target} does not accept it: {why}"[:500]
        yield LintFinding(tool_id, severity, "portability", message, "", target)
    for loss in report.warnings if named else ():
        if loss.part == "definition":
            continue  # what a format has no place for, of whatever tool
        message = f"{target}: {loss.message}"
        yield LintFinding(tool_id, "info", "loss", message[:500], loss.path, target)


def _lint_together(tools: list[Tool]) -> Iterator[LintFinding]:
    for tool, others in same_names(tools):
        message = f"the name is also that of {_list_names(others)}; the descriptions must tell them apart"
        yield _finding(tool, "info", "same-name", message, "/name")
    for one, other in alike(tools):
        message = f"it is described like {str(one.id)!r}; say what sets them apart"
        yield _finding(other, "warning", "near-duplicate", message, "/description")


def same_names(tools: Sequence[Tool]) -> Iterator[tuple[Tool, list[str]]]:
    """Yield each tool whose name stands in other namespaces too, and the ids there."""
    by_name: dict[str, list[Tool]] = defaultdict(list)
    for tool in tools:
        by_name[tool.name].append(tool)
    for group in by_name.values():
        if len({tool.namespace for tool in group}) > 1:
            for tool in group:
                yield tool, [str(each.id) for each in group if each.namespace != tool.namespace]


def alike(tools: Sequence[Tool]) -> Iterator[tuple[Tool, Tool]]:
    """Yield pairs of tools that a reader cannot tell apart by their descriptions."""
    words = [frozenset(_WORD.findall((tool.description or "").lower())) for tool in tools]
    counts = Counter(word for each in words for word in each)
    buckets: dict[str, list[int]] = defaultdict(list)
    for place, own in enumerate(words):
        if len(own) < _LEAST_WORDS:
            continue
        met: set[int] = set()
        for word in sorted(own, key=lambda each: (counts[each], each))[:_RAREST]:
            for other in buckets[word][:_MAX_BUCKET]:
                if other not in met and _are_alike(tools[place], tools[other], own, words[other]):
                    yield tools[other], tools[place]
                met.add(other)
            buckets[word].append(place)


def _are_alike(one: Tool, other: Tool, words: frozenset[str], others: frozenset[str]) -> bool:
    if one.namespace == other.namespace and one.name == other.name:
        return False  # two versions of one tool
    if _names_differ(one, other):
        return False
    return len(words & others) >= _ALIKE * len(words | others)


def _names_differ(one: Tool, other: Tool) -> bool:
    """Return whether the names tell apart what the descriptions do not, such as `list` and `get`."""
    own, others = (set(_WORD.findall(tool.name.lower().replace("_", " "))) for tool in (one, other))
    words = _WORD.findall(f"{one.description} {other.description}".lower())
    return one.description != other.description and bool((own ^ others) & set(words))

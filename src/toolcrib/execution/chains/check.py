"""Whether a chain can work, asked before any of it runs."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from toolcrib.errors import InvalidSchemaError, Problem, ToolcribError, ToolNotFoundError, ValidationError
from toolcrib.errors.base import MAX_PROBLEMS, shown
from toolcrib.execution.chains.conflicts import Conflicts
from toolcrib.execution.chains.parse import Chain, StepNode, Steps, invalid, read_chain
from toolcrib.execution.chains.references import Reference
from toolcrib.execution.chains.schemas import Budget, Schema, SchemaPart, SpentError, types
from toolcrib.execution.chains.shapes import ANYTHING, Each, Fits, ListOf, NoValue, Null, Shape, a, member_of
from toolcrib.execution.chains.steps import ChainLimits
from toolcrib.execution.chains.templates import ArrayTemplate, ObjectTemplate, Template
from toolcrib.model.plain import pointer
from toolcrib.model.protocols import Resolver
from toolcrib.model.schema.validator import SchemaValidator
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool

Sources = Callable[[Reference], Sequence[Shape | NoValue]]
"""Returns what a reference may lead to, one of these."""
_MIN_LOOKS = 10_000
"""So many subschemas are looked at in every chain before the rest is left to the calls."""
_LOOKS_PER_STEP = 50
_A_LIST = {"type": "array"}
_AN_INDEX = {"type": "integer"}
_PREVIOUS = Reference("previous", "previous", None, (), "/previous")


class Literals:
    """What a validator has against plain values, asked once for each."""

    def __init__(self, validator: SchemaValidator) -> None:
        self._validator = validator
        self._asked: dict[tuple[int, int, type, Any], tuple[Problem, ...]] = {}

    def problems(self, value: Any, place: SchemaPart) -> tuple[Problem, ...]:
        """Return why a value does not fit a part of a schema, with paths into the value."""
        if isinstance(value, dict | list):
            return self._ask(value, place)
        key = id(place.whole), id(place.schema), type(value), value
        if key not in self._asked:
            self._asked[key] = self._ask(value, place)
        return self._asked[key]

    def accepts(self, place: SchemaPart, value: Any) -> bool:
        """Return whether a value may fit a part of a schema."""
        return not self.problems(value, place)

    def _ask(self, value: Any, place: SchemaPart) -> tuple[Problem, ...]:
        part = place.whole.part(place.schema)
        if part is None:
            return ()
        try:
            self._validator.validate(part, value)
        except ValidationError as error:
            return error.problems
        except InvalidSchemaError:
            pass  # what cannot be checked is left to the call
        return ()


class TemplateChecker:
    """Fits the templates of one step into schemas."""

    def __init__(self, literals: Literals, conflicts: Conflicts, sources: Sources) -> None:
        self._literals = literals
        self._conflicts = conflicts
        self._sources = sources

    def misfits(self, template: Template, place: SchemaPart, path: str) -> Iterator[Problem]:
        """Yield why a template can never be filled so that it fits a schema; `path` is where it stands."""
        if isinstance(template, Reference):
            if reason := self.reason(template, place):
                yield Problem(path, "$ref", f"{shown(template.text)} {reason}"[:500])
        elif not isinstance(template, ObjectTemplate | ArrayTemplate):
            for each in self._literals.problems(template, place):
                yield Problem(path + each.path, each.keyword, each.message)
        else:
            yield from self._container(template, place, path)

    def reason(self, reference: Reference, place: SchemaPart) -> str:
        """Return why what a reference leads to can never fit a schema; nothing where it may."""
        against = [self._conflicts.between(shape, place) for shape in self._sources(reference)]
        return against[0] if against and all(against) else ""

    def _container(
        self, template: ObjectTemplate | ArrayTemplate, place: SchemaPart, path: str
    ) -> Iterator[Problem]:
        kind = "object" if isinstance(template, ObjectTemplate) else "array"
        kinds = types([place])
        if kind not in kinds:
            yield Problem(path, "type", f"must be {a(kinds)}, not an {kind}")
            return
        for each in place.all():
            if isinstance(template, ObjectTemplate):
                yield from self._object(template, each, path)
            else:
                yield from self._array(template, each, path)
            for branches in each.choices():
                against = [
                    list(islice(self.misfits(template, branch, path), MAX_PROBLEMS)) for branch in branches
                ]
                if all(against):
                    yield min(against, key=len)[0]

    def _object(self, template: ObjectTemplate, place: SchemaPart, path: str) -> Iterator[Problem]:
        required, declared = place.under("required"), place.under("properties")
        declared = declared if isinstance(declared, dict) else {}
        for name in required if isinstance(required, list) else ():
            if name not in template.base:
                yield Problem(path, "required", f"required property {shown(name)} is missing")
        others = None if place.under("patternProperties") else place.under("additionalProperties")
        for name, value in template.base.items():
            at, member = path + pointer([name]), template.members.get(name, value)
            if name in declared:
                yield from self.misfits(member, place.at(declared[name]), at)
            elif place.refuses(name):
                hint = did_you_mean(name, declared) or "; remove it"
                yield Problem(path, "additionalProperties", f"unexpected property {shown(name)}{hint}")
            elif others is not None:
                yield from self.misfits(member, place.at(others), at)

    def _array(self, template: ArrayTemplate, place: SchemaPart, path: str) -> Iterator[Problem]:
        items = place.under("items")
        if place.under("prefixItems") or not isinstance(items, dict | bool):
            return
        for index, value in enumerate(template.base):
            member = template.members.get(index, value)
            yield from self.misfits(member, place.at(items), f"{path}/{index}")


def check_chain(
    steps: Steps,
    resolver: Resolver,
    validator: SchemaValidator | None = None,
    *,
    limits: ChainLimits | None = None,
) -> Chain:
    """Return the chain that steps make, if it can work as far as is known.

    Without a validator, only the steps and their tools are looked at. With one, so is whether arguments can
    fit. A problem is certain: its step fails whenever it runs, because results are
    validated against the output schemas of their tools. Steps whose `on_error` says what to do are let be.

    Raises:
        InvalidChainError: with every problem found, from the `ToolNotFoundError` where there is one.
    """
    chain, problems = read_chain(steps, limits)
    tools = _Tools(chain, resolver)
    problems += tools.problems
    if validator is not None and len(problems) < MAX_PROBLEMS:
        faulty = {problem.path.split("/", 2)[1] for problem in problems if problem.path}
        sound = [node for node in chain.nodes if str(node.top) not in faulty]
        problems += _Check(chain, tools.by_slot, validator).misfits(sound)
    if problems:
        raise invalid(problems) from tools.missing
    return replace(chain, tool_ids=tools.ids)


class _Tools:
    """The tools of a chain, by the slots of its steps."""

    def __init__(self, chain: Chain, resolver: Resolver) -> None:
        self.by_slot: dict[int, Tool] = {}
        self.ids: dict[int, str] = {}
        self.problems: list[Problem] = []
        self.missing: ToolcribError | None = None
        found: dict[str, tuple[Tool | ToolcribError, str]] = {}
        for slot, node in enumerate(chain.by_slot):
            reference = node.step.tool_id
            if reference is None:
                continue
            if reference not in found:
                meant = _resolve(resolver, reference)
                found[reference] = meant, str(meant.id) if isinstance(meant, Tool) else ""
            tool, tool_id = found[reference]
            if isinstance(tool, Tool):
                self.by_slot[slot], self.ids[slot] = tool, tool_id
                continue
            self.problems.append(Problem(node.at("tool_id"), "tool_id", str(tool)[:500]))
            if self.missing is None or not isinstance(self.missing, ToolNotFoundError):
                self.missing = tool
            if len(self.problems) >= MAX_PROBLEMS:
                break  # an error shows no more, and each costs a search for the nearest ids


def _resolve(resolver: Resolver, reference: str) -> Tool | ToolcribError:
    try:
        return resolver.resolve(reference)
    except ToolcribError as error:
        return error


class _Check:
    """Asks of each step whether what it is given can fit."""

    def __init__(self, chain: Chain, tools: dict[int, Tool], validator: SchemaValidator) -> None:
        self._tops = chain.nodes
        self._places = {node.top: place for place, node in enumerate(chain.nodes)}
        self._by_slot = chain.by_slot
        self._tools = tools
        self._validator = validator
        self._budget = Budget(_MIN_LOOKS + _LOOKS_PER_STEP * len(chain.by_slot))
        self._literals = Literals(validator)
        self._conflicts = Conflicts(self._literals.accepts)
        self._schemas: dict[int, Schema] = {}

    def misfits(self, nodes: Iterable[StepNode]) -> list[Problem]:
        """Return what is certainly wrong with these steps."""
        found: list[Problem] = []
        for node in _unforgiven(nodes):
            try:
                found += islice(self._step(node), MAX_PROBLEMS)
            except SpentError:
                break  # what is known so far is true, and the calls will tell the rest
            if len(found) >= MAX_PROBLEMS:
                break
        return found

    def _step(self, node: StepNode) -> Iterable[Problem]:
        tool = self._tools.get(node.slot)
        if tool is not None and type(node.args) is dict and node.items is None and not node.step.use_previous:
            problems = self._plain(tool, node.args, node)
            return self._advised(problems, tool, node, self._checker(node)) if problems else ()
        return self._misfits(tool, node, self._checker(node))

    def _checker(self, node: StepNode) -> TemplateChecker:
        return TemplateChecker(
            self._literals, self._conflicts, lambda reference: self._sources(node, reference)
        )

    def _misfits(self, tool: Tool | None, node: StepNode, checker: TemplateChecker) -> Iterator[Problem]:
        if isinstance(node.items, Reference):
            yield from checker.misfits(node.items, self._root(_A_LIST), node.at("for_each"))
        if tool is None:
            return
        args = _with_previous(node)
        if node.step.use_previous and _refuses(self._root(tool.shared("input_schema")), "previous"):
            taken = self._taker(tool, node, checker)
            yield Problem(node.at("use_previous"), "use_previous", _unwanted(tool, node, taken))
            args = _with_previous(node, taken)
        if isinstance(args, dict):
            yield from self._advised(self._plain(tool, args, node), tool, node, checker)
        else:
            yield from checker.misfits(args, self._root(tool.shared("input_schema")), f"{node.path}/args")

    def _advised(
        self, found: list[Problem], tool: Tool, node: StepNode, checker: TemplateChecker
    ) -> list[Problem]:
        """Return problems of arguments without references; the first that one may solve says how."""
        own = [place for place, each in enumerate(found) if each.path == f"{node.path}/args"]
        missing = [place for place in own if found[place].keyword == "required"]
        named = [place for place in own if "'previous'" in found[place].message]
        if node.top == 0 or node.step.use_previous or not (missing or named):
            return found
        taker = self._taker(tool, node, checker)
        if named or taker or len(missing) > 1:  # else what the step before gave does not fit
            place = (missing or named)[0]
            first = found[place]
            shown = json.dumps({"$ref": "previous"} if taker is None else {taker: {"$ref": "previous"}})
            message = f"{first.message}; {shown} takes what the step before gave"
            found[place] = Problem(first.path, first.keyword, message[:500])
        return found

    def _taker(self, tool: Tool, node: StepNode, checker: TemplateChecker) -> str | None:
        """Return the one required argument that is not given and may take what the step before gave."""
        given = node.args.base if isinstance(node.args, ObjectTemplate) else node.args
        if node.top == 0 or isinstance(given, Reference):
            return None
        free: set[str] = set()
        for place in self._root(tool.shared("input_schema")).all():
            required, declared = place.under("required"), place.under("properties")
            if isinstance(required, list) and isinstance(declared, dict):
                free |= {
                    name
                    for name in required
                    if name in declared
                    and name not in given
                    and not checker.reason(_PREVIOUS, place.at(declared[name]))
                }
        return free.pop() if len(free) == 1 else None

    def _root(self, schema: dict[str, Any]) -> SchemaPart:
        """Return a schema of a tool, read once; the tools are kept, and so the id is its own."""
        if id(schema) not in self._schemas:
            self._schemas[id(schema)] = Schema(schema, self._budget)
        return self._schemas[id(schema)].root

    def _plain(self, tool: Tool, args: dict[str, Any], node: StepNode) -> list[Problem]:
        """Return the problems of arguments that hold no references."""
        try:
            self._validator.validate_input(tool, args)
        except ValidationError as error:
            return [
                Problem(f"{node.path}/args{each.path}", each.keyword, each.message) for each in error.problems
            ]
        except InvalidSchemaError as error:
            reason = f"its arguments cannot be checked: {error}"
            return [Problem(node.at("tool_id"), "schema", reason[:500])]
        return []

    def _sources(self, node: StepNode, reference: Reference) -> list[Shape | NoValue]:
        """Return what a reference of a step may lead to."""
        return [_descend(reference, shape) for shape in self._starts(node, reference)]

    def _starts(self, node: StepNode, reference: Reference) -> list[Shape]:
        if reference.root == "index":
            return [Fits((self._root(_AN_INDEX),))]
        if reference.root == "item":
            return self._each_of(node)
        if reference.root == "previous":
            return self._previous(node)
        if reference.slot is None or reference.slot < 0:  # a step that is unknown, or could not be read
            return [ANYTHING]
        return [self._shape(self._by_slot[reference.slot])]

    def _each_of(self, node: StepNode) -> list[Shape]:
        """Return what the items of a step may be."""
        if not isinstance(node.items, Reference):
            return [ANYTHING]
        inner = [
            member_of(each, None) for each in self._sources(node, node.items) if not isinstance(each, NoValue)
        ]
        return [ANYTHING if isinstance(each, NoValue) else each for each in inner] or [ANYTHING]

    def _previous(self, node: StepNode) -> list[Shape]:
        """Return what the last step that ran before this one may have given."""
        shapes: list[Shape] = []
        for place in reversed(range(self._places[node.top])):
            shapes.append(self._shape(self._tops[place]))
            if self._tops[place].when is None:
                return shapes
        return [*shapes, Null()]

    def _shape(self, node: StepNode) -> Shape:
        """Return what a step gives, if it runs."""
        if node.step.shared("on_error") != "stop":
            return ANYTHING
        if node.is_group:
            return ListOf(tuple(ANYTHING if part.when else self._shape(part) for part in node.parts))
        tool = self._tools.get(node.slot)
        given: Shape = ANYTHING
        if tool is not None and tool.shared("output_schema") is not None:
            given = Fits((self._root(tool.shared("output_schema")),))
        if not node.repeats:
            return given
        return Each(ANYTHING if node.when is not None and node.when.of_item else given)


def _unforgiven(nodes: Iterable[StepNode]) -> Iterator[StepNode]:
    """Yield the steps whose failure ends the chain; others, and what is in them, may be meant to fail."""
    for node in nodes:
        if node.step.shared("on_error") == "stop":
            yield node
            yield from _unforgiven(node.parts)


def _refuses(root: SchemaPart, name: str) -> bool:
    return any(place.refuses(name) for place in root.all())


def _unwanted(tool: Tool, node: StepNode, taker: str | None) -> str:
    """Return what to do about a tool that takes no argument `previous`."""
    message = f"sets the argument 'previous', which {tool.id} does not take"
    if node.top == 0:
        return f"{message}; remove it"
    if taker is None:
        return f'{message}; refer to it in args with {{"$ref": "previous"}} instead'
    return f"{message}; write {json.dumps({taker: {'$ref': 'previous'}})} instead"[:500]


def _with_previous(node: StepNode, name: str | None = "previous") -> Template:
    """Return the arguments of a step with the result of the one before, where it takes that."""
    args = node.args
    if not node.step.use_previous or isinstance(args, Reference) or name is None:
        return args
    base, members = (args.base, args.members) if isinstance(args, ObjectTemplate) else (args, {})
    base = {**base, name: None}
    members = {**members, name: _PREVIOUS} if node.top else members
    return ObjectTemplate(base, members) if members else base


def _descend(reference: Reference, shape: Shape) -> Shape | NoValue:
    """Return what a reference leads to in what a step gives."""
    for depth, part in enumerate(reference.parts):
        inner = member_of(shape, part)
        if isinstance(inner, NoValue):
            return NoValue(
                f"leads nowhere: {reference.name}{pointer(reference.parts[:depth])} {inner.reason}"
            )
        shape = inner
    return shape

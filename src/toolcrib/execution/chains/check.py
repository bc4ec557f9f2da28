"""Checks before a chain runs that its steps can work, as far as schemas tell.

A mistake in the last step would otherwise show only after the earlier steps have run, perhaps with effects
that cannot be undone. So `check_chain` reads the steps, resolves their tools, and checks the arguments of
each step:

- Arguments without references are validated as a call would validate them.
- A template with references is walked together with the input schema. Its plain values are validated one by
  one. For each reference, the shape of the referenced result (from the output schema of its tool) is compared
  with the schema of the argument (`conflicts.py`).

A reported problem is certain: the step would fail in every run. Whatever is uncertain, such as an output
without a schema, passes, and the call itself decides. Steps with `on_error` other than "stop" are not
checked, because their failure may be intended. The work is limited by a `Budget` of visited subschemas; when
it is spent, the remaining steps pass too.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from toolcrib.errors import InvalidSchemaError, Problem, ToolcribError, ToolNotFoundError, ValidationError
from toolcrib.errors.base import MAX_PROBLEMS, short_repr
from toolcrib.execution.chains.conflicts import Conflicts
from toolcrib.execution.chains.parse import Chain, StepNode, Steps, invalid_chain_error, read_chain
from toolcrib.execution.chains.references import Reference
from toolcrib.execution.chains.schemas import Budget, BudgetSpentError, Schema, SchemaPart, possible_types
from toolcrib.execution.chains.shapes import (
    ANYTHING,
    ArrayShape,
    NoValue,
    NullShape,
    SchemaShape,
    Shape,
    TupleShape,
    member_shape,
    name_types,
)
from toolcrib.execution.chains.steps import ChainLimits
from toolcrib.execution.chains.templates import ArrayTemplate, ObjectTemplate, Template
from toolcrib.execution.kept import KeptHandle
from toolcrib.model.plain import pointer
from toolcrib.model.protocols import Resolver
from toolcrib.model.schema.validator import SchemaValidator
from toolcrib.model.suggest import did_you_mean
from toolcrib.model.tool import Tool

Sources = Callable[[Reference], Sequence[Shape | NoValue]]
"""Returns the possible shapes of a referenced value."""
_MIN_VISITS = 10_000
_VISITS_PER_STEP = 50
"""Large chains get more: a step with an ordinary schema takes about this many visits."""
_ARRAY_SCHEMA = {"type": "array"}
_INDEX_SCHEMA = {"type": "integer"}
_PREVIOUS = Reference("previous", "previous", None, (), "/previous")


class LiteralChecker:
    """Validates plain values against parts of schemas, and remembers the results of scalars."""

    def __init__(self, validator: SchemaValidator) -> None:
        self._validator = validator
        self._checked: dict[tuple[int, int, type, Any], tuple[Problem, ...]] = {}

    def find_problems(self, value: Any, part: SchemaPart) -> tuple[Problem, ...]:
        """Return the problems of a value with a part of a schema; paths lead into the value."""
        if isinstance(value, dict | list):
            return self._validate(value, part)
        key = id(part.whole), id(part.schema), type(value), value
        if key not in self._checked:
            self._checked[key] = self._validate(value, part)
        return self._checked[key]

    def accepts(self, part: SchemaPart, value: Any) -> bool:
        """Return whether a value may satisfy a part of a schema."""
        return not self.find_problems(value, part)

    def _validate(self, value: Any, part: SchemaPart) -> tuple[Problem, ...]:
        schema = part.whole.extract(part.schema)
        if schema is None:
            return ()
        try:
            self._validator.validate(schema, value)
        except ValidationError as error:
            return error.problems
        except InvalidSchemaError:
            pass  # the validator cannot check it, so the call decides
        return ()


class TemplateChecker:
    """Compares the templates of one step with schemas."""

    def __init__(self, literals: LiteralChecker, conflicts: Conflicts, sources: Sources) -> None:
        self._literals = literals
        self._conflicts = conflicts
        self._sources = sources

    def find_problems(self, template: Template, part: SchemaPart, path: str) -> Iterator[Problem]:
        """Yield the problems that every filled template would have; `path` is its JSON Pointer."""
        if isinstance(template, Reference):
            if reason := self.find_conflict(template, part):
                yield Problem(path, "$ref", f"{short_repr(template.text)} {reason}"[:500])
        elif isinstance(template, KeptHandle):
            return  # its value is known when the step runs
        elif not isinstance(template, ObjectTemplate | ArrayTemplate):
            for each in self._literals.find_problems(template, part):
                yield Problem(path + each.path, each.keyword, each.message)
        else:
            yield from self._check_container(template, part, path)

    def find_conflict(self, reference: Reference, part: SchemaPart) -> str:
        """Return the reason why a referenced value can never satisfy a schema; empty if it may."""
        against = [self._conflicts.find_conflict(shape, part) for shape in self._sources(reference)]
        return against[0] if against and all(against) else ""

    def _check_container(
        self, template: ObjectTemplate | ArrayTemplate, part: SchemaPart, path: str
    ) -> Iterator[Problem]:
        kind = "object" if isinstance(template, ObjectTemplate) else "array"
        kinds = possible_types([part])
        if kind not in kinds:
            yield Problem(path, "type", f"must be {name_types(kinds)}, not an {kind}")
            return
        for each in part.conjuncts():
            if isinstance(template, ObjectTemplate):
                yield from self._check_object(template, each, path)
            else:
                yield from self._check_array(template, each, path)
            for branches in each.alternatives():
                against = [
                    list(islice(self.find_problems(template, branch, path), MAX_PROBLEMS))
                    for branch in branches
                ]
                if all(
                    against
                ):  # report the branch with the fewest problems: the one that was probably meant
                    yield min(against, key=len)[0]

    def _check_object(self, template: ObjectTemplate, part: SchemaPart, path: str) -> Iterator[Problem]:
        required, declared = part.keyword("required"), part.keyword("properties")
        declared = declared if isinstance(declared, dict) else {}
        for name in required if isinstance(required, list) else ():
            if name not in template.base:
                yield Problem(path, "required", f"required property {short_repr(name)} is missing")
        others = None if part.keyword("patternProperties") else part.keyword("additionalProperties")
        for name, value in template.base.items():
            at, member = path + pointer([name]), template.members.get(name, value)
            if name in declared:
                yield from self.find_problems(member, part.make_part(declared[name]), at)
            elif part.forbids_property(name):
                hint = did_you_mean(name, declared) or "; remove it"
                yield Problem(path, "additionalProperties", f"unexpected property {short_repr(name)}{hint}")
            elif others is not None:
                yield from self.find_problems(member, part.make_part(others), at)

    def _check_array(self, template: ArrayTemplate, part: SchemaPart, path: str) -> Iterator[Problem]:
        items = part.keyword("items")
        if part.keyword("prefixItems") or not isinstance(items, dict | bool):
            return
        for index, value in enumerate(template.base):
            member = template.members.get(index, value)
            yield from self.find_problems(member, part.make_part(items), f"{path}/{index}")


def check_chain(
    steps: Steps,
    resolver: Resolver,
    validator: SchemaValidator | None = None,
    *,
    limits: ChainLimits | None = None,
) -> Chain:
    """Return the chain of these steps, unless one of them is certain to fail.

    Without a validator only the steps and their tools are checked; with one, the arguments are too. Only
    problems that make a step fail in every run are reported; results can be predicted because they are
    validated against the output schemas of their tools. Steps whose `on_error` is not "stop" are not checked.

    Raises:
        InvalidChainError: with every problem found; its cause is the first `ToolNotFoundError`, if any.
    """
    chain, problems = read_chain(steps, limits)
    tools = _Tools(chain, resolver)
    problems += tools.problems
    if validator is not None and len(problems) < MAX_PROBLEMS:
        faulty = {problem.path.split("/", 2)[1] for problem in problems if problem.path}
        sound = [node for node in chain.nodes if str(node.top) not in faulty]
        problems += _ArgumentChecker(chain, tools.by_slot, validator).find_problems(sound)
    if problems:
        raise invalid_chain_error(problems) from tools.missing
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
                meant = _resolve_or_error(resolver, reference)
                found[reference] = meant, str(meant.id) if isinstance(meant, Tool) else ""
            tool, tool_id = found[reference]
            if isinstance(tool, Tool):
                self.by_slot[slot], self.ids[slot] = tool, tool_id
                continue
            self.problems.append(Problem(node.pointer_to("tool_id"), "tool_id", str(tool)[:500]))
            if self.missing is None or not isinstance(self.missing, ToolNotFoundError):
                self.missing = tool
            if len(self.problems) >= MAX_PROBLEMS:
                break  # the error shows no more, and each costs a search for similar ids


def _resolve_or_error(resolver: Resolver, reference: str) -> Tool | ToolcribError:
    try:
        return resolver.resolve(reference)
    except ToolcribError as error:
        return error


class _ArgumentChecker:
    """Checks the arguments of each step of a chain."""

    def __init__(self, chain: Chain, tools: dict[int, Tool], validator: SchemaValidator) -> None:
        self._tops = chain.nodes
        self._places = {node.top: place for place, node in enumerate(chain.nodes)}
        self._by_slot = chain.by_slot
        self._tools = tools
        self._validator = validator
        self._budget = Budget(_MIN_VISITS + _VISITS_PER_STEP * len(chain.by_slot))
        self._literals = LiteralChecker(validator)
        self._conflicts = Conflicts(self._literals.accepts)
        self._schemas: dict[int, Schema] = {}

    def find_problems(self, nodes: Iterable[StepNode]) -> list[Problem]:
        """Return the certain problems of these steps."""
        found: list[Problem] = []
        for node in _list_essential_steps(nodes):
            try:
                found += islice(self._check_step(node), MAX_PROBLEMS)
            except BudgetSpentError:
                break  # problems found so far are certain; the calls decide about the rest
            if len(found) >= MAX_PROBLEMS:
                break
        return found

    def _check_step(self, node: StepNode) -> Iterable[Problem]:
        tool = self._tools.get(node.slot)
        if tool is not None and type(node.args) is dict and node.items is None and not node.step.use_previous:
            problems = self._validate_plain(tool, node.args, node)
            return self._add_advice(problems, tool, node, self._make_checker(node)) if problems else ()
        return self._check_template(tool, node, self._make_checker(node))

    def _make_checker(self, node: StepNode) -> TemplateChecker:
        return TemplateChecker(
            self._literals, self._conflicts, lambda reference: self._reference_shapes(node, reference)
        )

    def _check_template(
        self, tool: Tool | None, node: StepNode, checker: TemplateChecker
    ) -> Iterator[Problem]:
        if isinstance(node.items, Reference):
            yield from checker.find_problems(
                node.items, self._schema_root(_ARRAY_SCHEMA), node.pointer_to("for_each")
            )
        if tool is None:
            return
        args = _add_previous(node)
        if node.step.use_previous and _forbids_property(
            self._schema_root(tool.shared("input_schema")), "previous"
        ):
            taken = self._find_argument_for_previous(tool, node, checker)
            yield Problem(
                node.pointer_to("use_previous"), "use_previous", _explain_previous(tool, node, taken)
            )
            args = _add_previous(node, taken)
        if isinstance(args, dict):
            yield from self._add_advice(self._validate_plain(tool, args, node), tool, node, checker)
        else:
            yield from checker.find_problems(
                args, self._schema_root(tool.shared("input_schema")), f"{node.path}/args"
            )

    def _add_advice(
        self, found: list[Problem], tool: Tool, node: StepNode, checker: TemplateChecker
    ) -> list[Problem]:
        """Add to problems of plain arguments the advice to use a reference to the previous result.

        People and models often expect that a step gets the previous result by itself.
        """
        own = [place for place, each in enumerate(found) if each.path == f"{node.path}/args"]
        missing = [place for place in own if found[place].keyword == "required"]
        named = [place for place in own if "'previous'" in found[place].message]
        if node.top == 0 or node.step.use_previous or not (missing or named):
            return found
        taker = self._find_argument_for_previous(tool, node, checker)
        if named or taker or len(missing) > 1:  # otherwise the one missing argument cannot take that result
            place = (missing or named)[0]
            first = found[place]
            shown = json.dumps({"$ref": "previous"} if taker is None else {taker: {"$ref": "previous"}})
            message = f"{first.message}; {shown} gets the result of the step before"
            found[place] = Problem(first.path, first.keyword, message[:500])
        return found

    def _find_argument_for_previous(self, tool: Tool, node: StepNode, checker: TemplateChecker) -> str | None:
        """Return the one required argument that is missing and may take the result of the step before."""
        given = node.args.base if isinstance(node.args, ObjectTemplate) else node.args
        if node.top == 0 or isinstance(given, Reference):
            return None
        free: set[str] = set()
        for place in self._schema_root(tool.shared("input_schema")).conjuncts():
            required, declared = place.keyword("required"), place.keyword("properties")
            if isinstance(required, list) and isinstance(declared, dict):
                free |= {
                    name
                    for name in required
                    if name in declared
                    and name not in given
                    and not checker.find_conflict(_PREVIOUS, place.make_part(declared[name]))
                }
        return free.pop() if len(free) == 1 else None

    def _schema_root(self, schema: dict[str, Any]) -> SchemaPart:
        """Return the root of a tool's schema, cached by its id, which is unique while the tools live."""
        if id(schema) not in self._schemas:
            self._schemas[id(schema)] = Schema(schema, self._budget)
        return self._schemas[id(schema)].root

    def _validate_plain(self, tool: Tool, args: dict[str, Any], node: StepNode) -> list[Problem]:
        """Return the problems of arguments without references."""
        try:
            self._validator.validate_input(tool, args)
        except ValidationError as error:
            return [
                Problem(f"{node.path}/args{each.path}", each.keyword, each.message) for each in error.problems
            ]
        except InvalidSchemaError as error:
            reason = f"its arguments cannot be checked: {error}"
            return [Problem(node.pointer_to("tool_id"), "schema", reason[:500])]
        return []

    def _reference_shapes(self, node: StepNode, reference: Reference) -> list[Shape | NoValue]:
        """Return the possible shapes of a referenced value."""
        return [_follow_pointer(reference, shape) for shape in self._root_shapes(node, reference)]

    def _root_shapes(self, node: StepNode, reference: Reference) -> list[Shape]:
        if reference.root == "index":
            return [SchemaShape((self._schema_root(_INDEX_SCHEMA),))]
        if reference.root == "item":
            return self._item_shapes(node)
        if reference.root == "previous":
            return self._previous_shapes(node)
        if reference.slot is None or reference.slot < 0:  # the step is unknown, or could not be read
            return [ANYTHING]
        return [self._result_shape(self._by_slot[reference.slot])]

    def _item_shapes(self, node: StepNode) -> list[Shape]:
        """Return the possible shapes of the items of a step with `for_each`."""
        if not isinstance(node.items, Reference):
            return [ANYTHING]
        inner = [
            member_shape(each, None)
            for each in self._reference_shapes(node, node.items)
            if not isinstance(each, NoValue)
        ]
        return [ANYTHING if isinstance(each, NoValue) else each for each in inner] or [ANYTHING]

    def _previous_shapes(self, node: StepNode) -> list[Shape]:
        """Return the possible results of the last step that ran: earlier ones if it is conditional."""
        shapes: list[Shape] = []
        for place in reversed(range(self._places[node.top])):
            shapes.append(self._result_shape(self._tops[place]))
            if self._tops[place].when is None:
                return shapes
        return [*shapes, NullShape()]

    def _result_shape(self, node: StepNode) -> Shape:
        """Return the shape of the result of a step, if it runs."""
        if node.step.shared("on_error") != "stop":
            return ANYTHING  # null or the fallback is possible as well
        if node.is_group:
            return TupleShape(
                tuple(ANYTHING if part.when else self._result_shape(part) for part in node.parts)
            )
        tool = self._tools.get(node.slot)
        given: Shape = ANYTHING
        if tool is not None and tool.shared("output_schema") is not None:
            given = SchemaShape((self._schema_root(tool.shared("output_schema")),))
        if not node.repeats:
            return given
        return ArrayShape(ANYTHING if node.when is not None and node.when.uses_item else given)


def _list_essential_steps(nodes: Iterable[StepNode]) -> Iterator[StepNode]:
    """Yield the steps whose failure ends the chain; others, and the steps in them, may be meant to fail."""
    for node in nodes:
        if node.step.shared("on_error") == "stop":
            yield node
            yield from _list_essential_steps(node.parts)


def _forbids_property(root: SchemaPart, name: str) -> bool:
    return any(place.forbids_property(name) for place in root.conjuncts())


def _explain_previous(tool: Tool, node: StepNode, taker: str | None) -> str:
    """Return the message for `use_previous` with a tool that has no argument `previous`."""
    message = f"sets the argument 'previous', which {tool.id} does not take"
    if node.top == 0:
        return f"{message}; remove it"
    if taker is None:
        return f'{message}; refer to it in args with {{"$ref": "previous"}} instead'
    return f"{message}; write {json.dumps({taker: {'$ref': 'previous'}})} instead"[:500]


def _add_previous(node: StepNode, name: str | None = "previous") -> Template:
    """Return the arguments of a step, with the result of the step before if the step uses it."""
    args = node.args
    if not node.step.use_previous or isinstance(args, Reference) or name is None:
        return args
    base, members = (args.base, args.members) if isinstance(args, ObjectTemplate) else (args, {})
    base = {**base, name: None}
    members = {**members, name: _PREVIOUS} if node.top else members
    return ObjectTemplate(base, members) if members else base


def _follow_pointer(reference: Reference, shape: Shape) -> Shape | NoValue:
    """Follow the pointer of a reference into the shape of a result."""
    for depth, part in enumerate(reference.parts):
        inner = member_shape(shape, part)
        if isinstance(inner, NoValue):
            return NoValue(
                f"leads nowhere: {reference.name}{pointer(reference.parts[:depth])} {inner.reason}"
            )
        shape = inner
    return shape

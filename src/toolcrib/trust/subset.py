"""Whether every value that fits one schema fits another: a proof, a counterexample, or neither.

`check_subset(part, whole)` looks for a value that fits `part` and not `whole`. A *goal* is a set of
subschemas that a value must fit and a set that it must not fit. A goal is taken apart into assertions, with
a branch for each alternative (`anyOf`, or which of several assertions is the one that fails), until each
branch says something about one value alone; its members are goals of their own. A goal is *empty* if no
value reaches it.

- Empty is only said where it is proven. All rules are necessary conditions: a rule that is missing leaves a
  branch open, and never closes one. So "yes" is a proof, however much of JSON Schema is not understood.
- A goal that comes back below itself is closed: values are finite, and the smallest value that reaches it
  would hold a smaller one.
- Branches that stay open give values. They are candidates: the validator itself says whether one is a
  counterexample. Where none is, the answer is "unknown".
- Steps are counted, so that no schema takes long; beyond `MAX_STEPS` the answer is "unknown" too.

`format` and its like are annotations to the validator, but promises to a reader: a part without the format
of the whole is "unknown", never "yes".
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from math import lcm
from typing import Any, Final, Literal

from toolcrib.errors import InvalidSchemaError
from toolcrib.model.plain import measure, walk
from toolcrib.model.schema.compiled import CompiledSchema, plain_schema
from toolcrib.model.schema.engine import Documents
from toolcrib.trust.assertions import (
    TYPES,
    Assertion,
    SchemaDocument,
    Subschema,
    Subschemas,
    type_of,
    types_of,
)
from toolcrib.trust.canonical import canonical_json
from toolcrib.trust.samples import Interval, Patterns, sample_numbers, sample_strings

MAX_STEPS: Final = 4_000
"""The maximum number of steps of one comparison; a step is a branch of a goal, some 50 µs."""
_LOOKS_PER_STEP = 25
"""So many assertions are looked at in the time of a step."""
_NODES_PER_STEP = 4
"""So many values of a schema are compiled in the time of a step."""
_ENOUGH = 3
"""How many values a goal gives; each may turn out not to fit."""
_ENOUGH_AT_TOP = 12
_MAX_PATTERNS = 4
"""Names are told apart by which of so many patterns they match."""
_MAX_LENGTH = 2_000
"""The longest text or array that is made to show a difference."""
_ORDER = ("null", "boolean", "integer", "fraction", "string", "array", "object")

Values = list[Any] | None
"""Values that may reach a goal; None where it is proven that no value does."""
Literals = list[tuple[bool, Subschema | Assertion]]
"""Subschemas and assertions, each with whether it must hold."""


@dataclass(frozen=True, slots=True)
class SubsetVerdict:
    """The result of checking whether every value that fits one schema fits another."""

    holds: Literal["yes", "no", "unknown"]
    """`yes` is proven, `no` has a counterexample; `unknown` is neither."""
    counterexample: Any = None
    """For `no`, a value that fits the first schema but not the second, according to the validator."""
    reason: str = ""
    """For `unknown`, the reason."""


class _TooLongError(Exception):
    """More steps than a comparison may take."""


@dataclass(slots=True)
class Allowance:
    """The number of steps that several comparisons may take together."""

    steps: int
    """The steps that are left."""

    def take(self, wanted: int) -> int:
        """Take up to this many steps, and return the number that was allowed."""
        granted = max(0, min(wanted, self.steps))
        self.steps -= granted
        return granted

    def need(self, wanted: int) -> None:
        """Take this many steps.

        Raises:
            _TooLongError: fewer are left.
        """
        if self.take(wanted) < wanted:
            raise _TooLongError


def check_subset(
    part: Any, whole: Any, *, only_declared: bool = False, allowance: Allowance | None = None
) -> SubsetVerdict:
    """Return whether every value that fits `part` fits `whole`; both are schemas, as dicts or booleans.

    With `only_declared`, if `part` declares properties, objects are assumed to have no others: an optional
    property that only `whole` declares is then no restriction. An `allowance` bounds the steps of many
    comparisons together. Integers beyond ±(2^53 - 1) are ignored: a bound beyond them is no restriction.

    >>> check_subset({"type": "integer"}, {"type": "number"}).holds
    'yes'
    >>> check_subset({"type": "string"}, {"type": "string", "maxLength": 3}).counterexample
    'xxxx'
    """
    allowed = Allowance(MAX_STEPS) if allowance is None else allowance
    try:
        size = sum(measure(plain_schema(each))[0] for each in (part, whole)) // _NODES_PER_STEP
        allowed.need(size)
        fits_part, fits_whole = (CompiledSchema(each, Documents({})) for each in (part, whole))
        candidates = _differences(part, whole, allowed, only_declared=only_declared)
    except InvalidSchemaError as error:
        return SubsetVerdict("unknown", reason=f"a schema cannot be used: {error}"[:500])
    except (_TooLongError, RecursionError):
        return SubsetVerdict("unknown", reason="the schemas are too large to be compared")
    if candidates is None:
        return SubsetVerdict("yes")
    for value in candidates:
        with suppress(InvalidSchemaError):  # too long to check
            if fits_part.is_valid(value) and not fits_whole.is_valid(value):
                return SubsetVerdict("no", value)
    return SubsetVerdict("unknown", reason="no value that shows a difference was found, and no proof of none")


def _differences(part: Any, whole: Any, allowed: Allowance, *, only_declared: bool) -> Values:
    """Return values that may fit one schema and not the other; None if there are none.

    Raises:
        _TooLongError: it takes more steps than are allowed.
    """
    if _embeds(part) or _embeds(whole):
        return []  # an `$id` below the root would change where references lead
    prover = _Prover(allowed.take(MAX_STEPS), only_declared=only_declared)
    try:
        return prover.find(part, whole)
    finally:
        allowed.steps += prover.steps


def _embeds(schema: Any) -> bool:
    """Return whether a part of a schema sets another base for references."""
    inner = (member for member in walk(schema) if member is not schema)
    return any(isinstance(each, dict) and isinstance(each.get("$id"), str) for each in inner)


@dataclass(slots=True)
class _Branch:
    """What is known of a value on one branch of a goal."""

    types: frozenset[str] = TYPES
    fits: dict[Subschema, None] = field(default_factory=dict)
    misfits: dict[Subschema, None] = field(default_factory=dict)
    holds: dict[Assertion, None] = field(default_factory=dict)
    fails: dict[Assertion, None] = field(default_factory=dict)
    choices: list[tuple[bool, Assertion]] = field(default_factory=list)
    """Assertions with alternatives that no branch has been made of."""
    denied: list[Subschema] = field(default_factory=list)
    """Subschemas of which some assertion, not known which, fails."""
    is_pruned: bool = False

    def copy(self) -> "_Branch":
        return _Branch(
            self.types,
            dict(self.fits),
            dict(self.misfits),
            dict(self.holds),
            dict(self.fails),
            list(self.choices),
            list(self.denied),
            self.is_pruned,
        )

    def of(self, kind: str, *, hold: bool = True) -> Iterator[Assertion]:
        """Yield the assertions of a kind that hold, or that fail."""
        return (each for each in (self.holds if hold else self.fails) if each[0] == kind)


class _Prover:
    """One comparison: its goals, and the steps that are left."""

    def __init__(self, steps: int, *, only_declared: bool) -> None:
        self._looks = steps * _LOOKS_PER_STEP
        self._library = Subschemas()
        self._patterns = Patterns()
        self._only_declared = only_declared
        self._known: dict[Any, Values] = {}
        self._open: dict[Any, int] = {}
        """The goals that are being worked on, each with its depth."""
        self._lowest = 0
        """The depth of the highest goal that was met again below itself."""

    def find(self, part: Any, whole: Any) -> Values:
        """Return values that may fit one schema and not the other; None if there are none."""
        documents = [SchemaDocument(each, self._library) for each in (part, whole)]
        fits, misfits = (frozenset({each.subschema(each.root)}) for each in documents)
        return self._goal(fits, misfits, enough=_ENOUGH_AT_TOP)

    def _goal(
        self, fits: frozenset[Subschema], misfits: frozenset[Subschema], enough: int = _ENOUGH
    ) -> Values:
        """Return values that fit all of some subschemas, and none of others."""
        if fits & misfits:
            return None
        goal = (fits, misfits)
        if goal in self._known:
            return self._known[goal]
        if goal in self._open:
            self._lowest = min(self._lowest, self._open[goal])
            return None
        depth = len(self._open)
        before, self._lowest = self._lowest, depth
        self._open[goal] = depth
        try:
            todo: Literals = [*((True, each) for each in fits), *((False, each) for each in misfits)]
            values = self._branch(_Branch(), todo, enough)
        finally:
            del self._open[goal]
        if self._lowest >= depth:  # it leans on no goal above
            self._known[goal] = values
        self._lowest = min(before, self._lowest)
        return values

    def _branch(self, branch: _Branch, todo: Literals, enough: int) -> Values:
        self.spend(_LOOKS_PER_STEP)
        if not _take(branch, todo):
            return None
        self.spend(len(branch.holds) + len(branch.fails))
        alternatives = self._choose(branch)
        if alternatives is None:
            return self._leaf(branch)
        found: Values = None
        for each in alternatives:
            values = self._branch(branch.copy(), each, enough)
            if values is not None:
                found = _joined(found, values)
                if len(found) >= enough:
                    break
        return found

    def spend(self, looks: int) -> None:
        """Count some work, in looks at an assertion.

        Raises:
            _TooLongError: there are no steps left.
        """
        self._looks -= looks
        if self._looks < 0:
            raise _TooLongError

    @property
    def steps(self) -> int:
        """The steps that are left."""
        return max(0, self._looks // _LOOKS_PER_STEP)

    def _choose(self, branch: _Branch) -> list[Literals] | None:
        """Return the alternatives of one open question of a branch; None where there is none."""
        if branch.choices:
            holds, assertion = branch.choices.pop()
            return _alternatives(branch, holds=holds, assertion=assertion)
        self.spend(sum(len(each.assertions) for each in branch.denied))
        asked = {each: _ways_to_fail(branch, each) for each in branch.denied}
        denied = {each: ways for each, ways in asked.items() if ways is not None}
        if len(denied) > 1 and not branch.is_pruned and all(len(ways) > 1 for ways in denied.values()):
            # One that no value of this branch fits needs no branches; of a union with tags, all but one.
            branch.is_pruned = True
            fits = frozenset(branch.fits)
            denied = {
                each: ways
                for each, ways in denied.items()
                if self._goal(fits | {each}, frozenset()) is not None
            }
        forced = [each for each, ways in denied.items() if len(ways) <= 1]
        if forced:
            branch.denied = [each for each in denied if each not in forced]
            certain: Literals = [(False, way) for each in forced for way in denied[each]]
            return [certain] if len(certain) == len(forced) else []
        branch.denied = list(denied)
        if not denied:
            return None
        chosen = min(denied, key=lambda each: len(denied[each]))
        branch.denied.remove(chosen)
        return [[(False, way)] for way in denied[chosen]]

    # What is left of a branch says something about one value, and about its members by themselves.

    def _leaf(self, branch: _Branch) -> Values:
        listed = [each[1] for each in branch.of("enum")]
        if listed:
            texts = frozenset.intersection(*listed)
            values = [self._library.constants[text] for text in sorted(texts)]
            values = [each for each in values if type_of(each) in branch.types and self._may_be(branch, each)]
            return values[:_ENOUGH_AT_TOP] or None
        found: Values = None
        for kind in _ORDER:
            values_of_kind = self._of_type(kind, branch) if kind in branch.types else None
            if values_of_kind is not None:
                found = _joined(found, [each for each in values_of_kind if self._may_be(branch, each)])
        return found

    def _of_type(self, kind: str, branch: _Branch) -> Values:
        match kind:
            case "null" | "boolean":
                all_there_are = [None] if kind == "null" else [False, True]
                return [each for each in all_there_are if self._may_be(branch, each)] or None
            case "integer" | "fraction":
                return self._numbers(branch, whole=kind == "integer")
            case "string":
                return self._strings(branch)
            case "array":
                return self._arrays(branch)
            case _:
                return self._objects(branch)

    def _may_be(self, branch: _Branch, value: Any) -> bool:
        """Return whether a value may pass the assertions of a branch; those about members are not asked."""
        self.spend(len(branch.holds) + len(branch.fails))
        return all(self._passes(each, value) is not False for each in branch.holds) and all(
            self._passes(each, value) is not True for each in branch.fails
        )

    def _passes(self, assertion: Assertion, value: Any) -> bool | None:  # noqa: PLR0911 - a table
        """Return whether a value passes an assertion about itself alone; None where that is not known."""
        if type_of(value) not in types_of(assertion):
            return True
        match assertion:
            case ("enum", texts):
                return canonical_json(value) in texts
            case ("min", least, strict):
                return bool(value > least if strict else value >= least)
            case ("max", most, strict):
                return bool(value < most if strict else value <= most)
            case ("multiple", int(number)):
                return value == int(value) and int(value) % number == 0
            case ("min_length" | "min_items" | "min_properties", least):
                return bool(len(value) >= least)
            case ("max_length" | "max_items" | "max_properties", most):
                return bool(len(value) <= most)
            case ("pattern", pattern):
                return self._patterns.matches(pattern, value)
            case ("required", name):
                return name in value
        return None

    def _numbers(self, branch: _Branch, *, whole: bool) -> Values:
        interval = Interval()
        for _, number, strict in branch.of("min"):
            interval.at_least(number, strict=strict)
        for _, number, strict in branch.of("max"):
            interval.at_most(number, strict=strict)
        for _, number, strict in branch.of("min", hold=False):
            interval.at_most(number, strict=not strict)
        for _, number, strict in branch.of("max", hold=False):
            interval.at_least(number, strict=not strict)
        steps = [each[1] for each in branch.of("multiple") if isinstance(each[1], int)]
        samples = sample_numbers(interval, steps, whole=whole)
        if samples is None:
            return None
        values, is_all = samples
        for _, divisor in branch.of("multiple", hold=False):
            if whole and isinstance(divisor, int) and lcm(*steps) % divisor == 0:
                return None
        likely = [each for each in values if self._may_be(branch, each)]
        return None if is_all and not likely else likely[:_ENOUGH]

    def _strings(self, branch: _Branch) -> Values:
        least = max([each[1] for each in branch.of("min_length")], default=0)
        least = max([least, *(each[1] + 1 for each in branch.of("max_length", hold=False))])
        most = min([each[1] for each in branch.of("max_length")], default=None)
        below = [each[1] - 1 for each in branch.of("min_length", hold=False)]
        most = min([*below, *([] if most is None else [most])], default=None)
        if most is not None and least > most:
            return None
        wanted = [each[1] for each in branch.of("pattern")]
        known = [each for each in self._library.constants.values() if isinstance(each, str)]
        samples = sample_strings(least, most, wanted, known, self._patterns) if least <= _MAX_LENGTH else []
        likely = [each for each in samples if self._may_be(branch, each)]
        return None if most == 0 and not likely else likely[:_ENOUGH]

    def _arrays(self, branch: _Branch) -> Values:
        return _ArrayLeaf(self, branch).solve()

    def _objects(self, branch: _Branch) -> Values:
        return _ObjectLeaf(self, branch, only_declared=self._only_declared).solve()

    def member(self, fits: Iterable[Subschema], misfits: Iterable[Subschema] = ()) -> Values:
        """Return values for a member that fits all of some subschemas, and none of others."""
        return self._goal(frozenset(fits), frozenset(misfits))

    def names(
        self,
        rules: Iterable[Subschema],
        misfits: Iterable[Subschema],
        *,
        like: Iterable[str],
        unlike: Iterable[str],
        taken: list[str],
    ) -> Values:
        """Return names that fit and misfit some rules, match and do not match some patterns, and are free."""
        make = self._library.make
        fits = {make({"type": "string"}), *rules, *(make({"pattern": each}) for each in like)}
        others = {*misfits, make({"enum": taken}), *(make({"pattern": each}) for each in unlike)}
        return self._goal(frozenset(fits), frozenset(others))

    def is_name(self, rules: Iterable[Subschema], misfits: Iterable[Subschema], name: str) -> bool:
        """Return whether a name may fit some rules, and not fit others."""
        named = self._library.make({"const": name})
        return self._goal(frozenset({named, *rules}), frozenset(misfits)) is not None

    def matches(self, pattern: str, name: str) -> bool | None:
        """Return whether a name matches a pattern; None where that is not known."""
        return self._patterns.matches(pattern, name)

    def other_than(self, values: list[Any]) -> Subschema:
        """Return the subschema of some values, for those that must not be equal to them."""
        return self._library.make({"enum": values})


def _take(branch: _Branch, todo: Literals) -> bool:
    """Add what must hold or fail, and all that follows from it alone; return False if it cannot be."""
    while todo:
        holds, literal = todo.pop()
        if isinstance(literal, Subschema):
            known, contrary = (branch.fits, branch.misfits) if holds else (branch.misfits, branch.fits)
            if literal in contrary or (not holds and not literal.assertions):
                return False
            if literal in known:
                continue
            known[literal] = None
            if holds:
                todo += [(True, each) for each in literal.assertions]
            elif len(literal.assertions) == 1:
                todo.append((False, literal.assertions[0]))
            else:
                branch.denied.append(literal)
            continue
        known_of, contrary_of = (branch.holds, branch.fails) if holds else (branch.fails, branch.holds)
        if literal in contrary_of:
            return False
        if literal in known_of:
            continue
        known_of[literal] = None
        if not _follow(branch, todo, literal, holds=holds) or not branch.types:
            return False
    return True


def _follow(branch: _Branch, todo: Literals, assertion: Assertion, *, holds: bool) -> bool:
    """Add what follows from one assertion; return False if it cannot be."""
    kind = assertion[0]
    if kind in {"false", "declares"}:
        return holds is (kind == "declares")
    if not holds:
        branch.types &= types_of(assertion)
    match assertion:
        case ("type", types) if holds:
            branch.types &= types
        case ("all", subschema):
            todo.append((holds, subschema))
        case ("not", subschema):
            todo.append((not holds, subschema))
        case ("any", subschemas) if not holds:
            todo += [(False, each) for each in subschemas]
        case ("needs", name, other) if not holds:
            todo += [(True, ("required", name)), (False, ("required", other))]
        case ("depends", name, subschema) if not holds:
            todo += [(True, ("required", name)), (False, subschema)]
        case ("any" | "one" | "if" | "needs" | "depends", *_):
            branch.choices.append((holds, assertion))
    return True


def _alternatives(branch: _Branch, *, holds: bool, assertion: Assertion) -> list[Literals]:
    """Return the ways in which an assertion with alternatives can hold, or fail."""
    match assertion:
        case ("any", subschemas):
            if any(each in branch.fits for each in subschemas):
                return [[]]
            return [[(True, each)] for each in subschemas if each not in branch.misfits]
        case ("one", subschemas) if holds:
            return [
                [(True, each), *((False, other) for other in subschemas[:place] + subschemas[place + 1 :])]
                for place, each in enumerate(subschemas)
            ]
        case ("one", subschemas):
            pairs = combinations(subschemas, 2)
            return [[(False, each) for each in subschemas], *([(True, a), (True, b)] for a, b in pairs)]
        case ("if", condition, then, other):
            return [[(True, condition), (holds, then)], [(False, condition), (holds, other)]]
        case (_, name, needed):  # `needs` and `depends`, which hold where the name is not there
            target: Subschema | Assertion = ("required", needed) if isinstance(needed, str) else needed
            ways: list[Literals] = [
                [(False, ("required", name))],
                [(True, ("required", name)), (True, target)],
            ]
            return [*ways, [(True, ("type", TYPES - {"object"}))]]
    raise AssertionError(assertion)


def _ways_to_fail(branch: _Branch, subschema: Subschema) -> list[Assertion] | None:
    """Return the assertions of a subschema that may fail; None if one is known to."""
    ways = []
    for each in subschema.assertions:
        if each in branch.fails or (each[0] == "all" and each[1] in branch.misfits):
            return None
        is_certain = each in branch.holds or (each[0] == "all" and each[1] in branch.fits)
        is_certain = is_certain or (each[0] == "any" and any(other in branch.fits for other in each[1]))
        if not is_certain and each[0] != "declares" and types_of(each) & branch.types:
            ways.append(each)
    return ways


def _joined(found: Values, more: list[Any]) -> list[Any]:
    """Return values of several branches, each once."""
    known = found or []
    return [*known, *(each for each in more if each not in known)]


class _ArrayLeaf:
    """An array on one branch: which elements it must have, and what each must be."""

    def __init__(self, prover: _Prover, branch: _Branch) -> None:
        self._prover = prover
        self._branch = branch
        self._first: dict[int, list[Subschema]] = {}
        for _, place, element in branch.of("item"):
            self._first.setdefault(place, []).append(element)
        self._rest: list[tuple[int, Subschema]] = [(each[1], each[2]) for each in branch.of("items")]
        self._misfits: dict[int, list[Subschema]] = {}
        for _, place, element in branch.of("item", hold=False):
            self._misfits.setdefault(place, []).append(element)
        self._never = [
            each[1] for each in branch.of("contains", hold=False) if each[2] == 1 and each[3] is None
        ]
        places = [0, *(place + 1 for place in self._first), *(start for start, _ in self._rest)]
        self._tail = max([*places, *(place + 1 for place in self._misfits)])
        """The first place from which on all elements are alike."""

    def solve(self) -> Values:
        """Return arrays that may be on this branch; None if there are none."""
        least, most = self._lengths()
        if most is not None and least > most:
            return None
        wanted: list[tuple[int, list[Subschema], list[Subschema]]] = [
            (start, [], [element]) for _, start, element in self._branch.of("items", hold=False)
        ]
        wanted += [(0, [each[1]], []) for each in self._branch.of("contains") if each[2] > 0]
        special: dict[int, Values] = {}
        for start, fits, misfits in wanted:
            options = {}
            for place in range(start, max(start, self._tail) + 1):
                if (most is None or place < most) and (
                    values := self._element(place, fits, misfits)
                ) is not None:
                    options[place] = values
            if not options:
                return None
            place = next((place for place, values in options.items() if values), next(iter(options)))
            special[place] = options[place]
        return self._build(max([least, *(place + 1 for place in special)]), special)

    def _lengths(self) -> tuple[int, int | None]:
        branch = self._branch
        least = max([0, *(each[1] for each in branch.of("min_items"))])
        least = max([least, *(each[1] + 1 for each in branch.of("max_items", hold=False))])
        least = max([least, *(place + 1 for place in self._misfits)])
        least = max([least, *(each[2] for each in branch.of("contains"))])
        if any(branch.of("unique", hold=False)):
            least = max(least, 2)
        most = [each[1] for each in branch.of("max_items")]
        most += [each[1] - 1 for each in branch.of("min_items", hold=False)]
        limit = min(most, default=None)
        for place in range(self._tail + 1):
            if limit is not None and place >= limit:
                break
            if self._element(place) is None:
                limit = place  # no array is longer
                break
        return least, limit

    def _element(
        self, place: int, fits: Iterable[Subschema] = (), misfits: Iterable[Subschema] = ()
    ) -> Values:
        """Return values for one place."""
        self._prover.spend(len(self._rest) + len(self._never))
        wanted = [*self._first.get(place, ()), *(each for start, each in self._rest if start <= place)]
        unwanted = [*self._misfits.get(place, ()), *self._never]
        return self._prover.member([*wanted, *fits], [*unwanted, *misfits])

    def _build(self, length: int, special: dict[int, Values]) -> Values:
        if length > _MAX_LENGTH:
            return []
        is_unique = any(self._branch.of("unique"))
        made: list[Any] = []
        for place in range(length):
            values = special.get(place) or self._element(min(place, max(self._tail, 0)))
            if is_unique and made:
                unused = [each for each in values or () if each not in made]
                values = unused or self._element(place, (), [self._prover.other_than(made)])
            if not values:
                return []
            made.append(values[0])
        return [made]


class _ObjectLeaf:
    """An object on one branch: which members it must have and may not have, and what each must be."""

    def __init__(self, prover: _Prover, branch: _Branch, *, only_declared: bool) -> None:
        self._prover = prover
        self._branch = branch
        self._only_declared = only_declared
        self._named: dict[str, list[Subschema]] = {}
        for _, name, member in branch.of("property"):
            self._named.setdefault(name, []).append(member)
        self._like: list[tuple[str, Subschema]] = [
            (each[1], each[2]) for each in branch.of("pattern_property")
        ]
        self._others: list[tuple[frozenset[str], frozenset[str], Subschema]] = [
            (each[1], each[2], each[3]) for each in branch.of("other_property")
        ]
        self._declared = {name for each in branch.of("declares") for name in each[1]}
        self._misfits: dict[str, list[Subschema]] = {}
        for _, name, member in branch.of("property", hold=False):
            self._misfits.setdefault(name, []).append(member)
        self._required = {each[1]: None for each in branch.of("required")}
        self._required |= dict.fromkeys(self._misfits)
        self._absent = {each[1] for each in branch.of("required", hold=False)}
        self._rules = [each[1] for each in branch.of("names")]
        self._known = sorted({*self._named, *self._declared, *self._required} - self._absent)

    def solve(self) -> Values:
        """Return objects that may be on this branch; None if there are none."""
        least, most = self._counts()
        too_many = most is not None and max(least, len(self._required)) > most
        contrary = self._absent & self._required.keys()
        if too_many or contrary or any(self._is_undeclared(name) for name in self._misfits):
            return None
        members: dict[str, list[Any]] = {}
        for name in [*self._misfits, *self._required]:  # the most likely to be empty first
            values = self._member(name)
            if values is None:
                return None
            members[name] = values
        is_known = True
        for question in self._existing():
            options = list(question)
            if not options:
                return None
            name_or_none, values = next((each for each in options if each[0] and each[1]), options[0])
            if name_or_none is None:
                is_known = False
            else:
                members[name_or_none] = values
        return self._build(members, least) if is_known else []

    def _is_undeclared(self, name: str) -> bool:
        """Return whether a member is taken not to be there, since no schema that it must fit declares it."""
        if not self._only_declared or not any(self._branch.of("declares")):
            return False
        is_matched = any(self._prover.matches(pattern, name) is not False for pattern, _ in self._like)
        return name not in self._declared and not is_matched and not self._others

    def _counts(self) -> tuple[int, int | None]:
        branch = self._branch
        least = max([0, *(each[1] for each in branch.of("min_properties"))])
        least = max([least, *(each[1] + 1 for each in branch.of("max_properties", hold=False))])
        most = [each[1] for each in branch.of("max_properties")]
        most += [each[1] - 1 for each in branch.of("min_properties", hold=False)]
        return least, min(most, default=None)

    def _member(
        self, name: str, misfits: Iterable[Subschema] = (), bad_name: Iterable[Subschema] = ()
    ) -> Values:
        """Return values for the member of a name; None if it cannot be there."""
        self._prover.spend(len(self._like) + len(self._others))
        if (self._rules or bad_name) and not self._prover.is_name(self._rules, bad_name, name):
            return None
        fits = list(self._named.get(name, ()))
        fits += [member for pattern, member in self._like if self._prover.matches(pattern, name)]
        for names, patterns, member in self._others:
            if name not in names and all(self._prover.matches(each, name) is False for each in patterns):
                fits.append(member)
        return self._prover.member(fits, [*self._misfits.get(name, ()), *misfits])

    def _existing(self) -> Iterator[Iterator[tuple[str | None, list[Any]]]]:
        """Yield, for each member that must exist under some name, the names and values that it may have."""
        for _, pattern, member in self._branch.of("pattern_property", hold=False):
            yield self._options(like=[pattern], misfits=[member])
        for _, names, patterns, member in self._branch.of("other_property", hold=False):
            yield self._options(not_in=names, unlike=patterns, misfits=[member])
        for _, rule in self._branch.of("names", hold=False):
            yield self._options(bad_name=[rule])

    def _options(
        self,
        *,
        like: Iterable[str] = (),
        unlike: Iterable[str] = (),
        not_in: frozenset[str] = frozenset(),
        misfits: Iterable[Subschema] = (),
        bad_name: Iterable[Subschema] = (),
    ) -> Iterator[tuple[str | None, list[Any]]]:
        """Yield names, with values, of a member; None for a name that may exist, and is not known."""
        for name in self._known:
            if name in not_in or any(self._prover.matches(each, name) is False for each in like):
                continue
            if any(self._prover.matches(each, name) for each in unlike):
                continue
            values = self._member(name, misfits, bad_name)
            if values is not None:
                yield name, values
        patterns = {*like, *unlike, *(each for each, _ in self._like)}
        patterns |= {each for _, patterns_of, _ in self._others for each in patterns_of}
        if len(patterns) > _MAX_PATTERNS:
            yield None, []
            return
        for count in range(len(patterns) + 1):
            for matched in map(frozenset, combinations(sorted(patterns), count)):
                if matched.issuperset(like) and matched.isdisjoint(unlike):
                    yield from self._fresh(matched, patterns - matched, not_in, misfits, bad_name)

    def _fresh(
        self,
        matched: frozenset[str],
        unmatched: set[str],
        not_in: frozenset[str],
        misfits: Iterable[Subschema],
        bad_name: Iterable[Subschema],
    ) -> Iterator[tuple[str | None, list[Any]]]:
        """Yield a name that no schema names, which matches exactly some patterns, with values for it."""
        fits = [member for pattern, member in self._like if pattern in matched]
        fits += [member for _, patterns, member in self._others if matched.isdisjoint(patterns)]
        values = self._prover.member(fits, misfits)
        if values is None:
            return
        taken = sorted({*self._known, *self._absent, *not_in})
        names = self._prover.names(self._rules, bad_name, like=matched, unlike=unmatched, taken=taken)
        if names is not None:
            yield (names[0] if names else None), values

    def _build(self, members: dict[str, list[Any]], least: int) -> Values:
        made = {name: values[0] for name, values in members.items() if values}
        if len(made) < len(members):
            return []
        for name in self._known:
            if len(made) >= least:
                break
            if name not in made and (values := self._member(name)):
                made[name] = values[0]
        while len(made) < least:
            free = [
                (name, values) for name, values in self._options(not_in=frozenset(made)) if name and values
            ]
            new = next(((name, values[0]) for name, values in free if name not in made), None)
            if new is None:
                return []
            made[new[0]] = new[1]
            self._absent.add(new[0])
        return [made]

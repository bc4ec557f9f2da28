"""The second stage: how much the sentences of a text look like an attack, and by which signals.

A signal is a shape of a sentence, such as "sends" + "password" + an address (`signals.txt`). The judge adds
what the signals and the concepts of two neighbouring sentences weigh (`weights.txt`, which
`training/scan.py` fits); the highest sum of a text counts, so that harmless words do not dilute an attack.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache, reduce
from importlib.resources import files
from itertools import pairwise
from operator import or_
from typing import NamedTuple, TypeVar

from toolcrib.trust.scanning.concepts import lexicon, read_sentence, split_sentences
from toolcrib.trust.scanning.report import Severity

K = TypeVar("K")
T = TypeVar("T")
_MAX_CACHED = 100_000
_DECODED_MARGIN = 2.0
_ROUNDING = 1e-9
"""What a sum of weights may differ by when they are added in another order."""


class Signal(NamedTuple):
    """A shape of a sentence: one concept of each group, and none that excuses it."""

    rule: str
    severity: Severity
    prior: float
    """The weight from which fitting starts."""
    groups: tuple[int, ...]
    """Masks of concepts."""
    excuses: int
    """A mask of concepts."""
    message: str


class Judged(NamedTuple):
    """The two sentences of a text that look most like an attack."""

    score: float
    signals: tuple[Signal, ...]
    first: int
    """Their first word."""
    last: int
    """The word after their last."""


class Judge:
    """What signals and concepts weigh."""

    def __init__(self, signals: str, weights: str) -> None:
        self._bits = {concept: 1 << place for place, concept in enumerate((*lexicon().concepts, *_FORMS))}
        self.concepts = tuple(self._bits)
        """The names of the concepts."""
        self.signals = tuple(self._read_signals(signals))
        """All signals, in the order of their file."""
        numbers = dict(_read_weights(weights))
        self.bias = numbers.pop("bias", 0.0)
        self.suspicious = numbers.pop("suspicious", 0.0)
        """The score from which a text is suspicious."""
        self.poisoned = numbers.pop("poisoned", 0.0)
        """The score from which it is poisoned."""
        self._inside = [numbers.get(f"{each.rule} inside", each.prior) for each in self.signals]
        self._across = [numbers.get(f"{each.rule} across", each.prior) for each in self.signals]
        self._concepts = [(bit, numbers[name]) for name, bit in self._bits.items() if name in numbers]
        self._raising = [(bit, weight) for bit, weight in self._concepts if weight > 0]
        most = (max(0.0, *each) for each in zip(self._inside, self._across, strict=True))
        # The heaviest first: most texts that may matter at all are found out by the first few.
        self._bounds = sorted(
            ((weight, each.groups) for weight, each in zip(most, self.signals, strict=True)), reverse=True
        )
        """The most that each signal weighs, and its groups."""
        self._fired: dict[int, tuple[int, ...]] = {}
        self._matters: dict[int, bool] = {}
        self._scores: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {}
        self._reach_alone: _Memo[str] = _Memo(lambda word: self._reach_of((word,)))
        self._reach_in: _Memo[tuple[str, ...]] = _Memo(self._reach_of)
        self._quiet = self.mask(["hush"])
        self._telling = self.mask(["tell", "show"])
        self._name = self.mask(["name"])
        self._shell = self.mask(["shell"])
        self._parameter = self.mask(["param"])
        self._negated = self.mask(["negation", "negation_after"])

    def _read_signals(self, text: str) -> Iterator[Signal]:
        sets: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("#") or not line:
                continue
            if " = " in line:
                name, _, members = line.partition(" = ")
                sets[name] = members
                continue
            rule, kind, shape, message = line.split(" | ")
            severity, prior = kind.split()
            wanted, _, excuses = shape.partition(" - ")
            groups = tuple(
                self.mask(name for word in group.split() for name in sets.get(word, word).split())
                for group in wanted.split(" + ")
            )
            known: Severity = "hard" if severity == "hard" else "soft"
            yield Signal(rule, known, float(prior), groups, self.mask(excuses.split()), message)

    def mask(self, concepts: Iterable[str]) -> int:
        """Return concepts as bits."""
        return reduce(or_, map(self._bits.__getitem__, concepts), 0)

    def fire(self, mask: int) -> tuple[int, ...]:
        """Return the places of the signals that concepts make."""
        found = self._fired.get(mask)
        if found is None:
            found = tuple(
                place
                for place, signal in enumerate(self.signals)
                if not mask & signal.excuses and _holds(signal, mask)
            )
            _keep(self._fired, mask, found)
        return found

    def judge(
        self, words: list[str], own: Callable[[], frozenset[str]], *, is_parameter: bool = False
    ) -> Judged | None:
        """Return the sentences that look most like an attack; None where none are suspicious.

        Args:
            words: of a text, as `words_of` returns them.
            own: returns the names that are the definition's own; called only where it matters.
            is_parameter: whether the text is about an argument, which the model fills in.
        """
        also = self._parameter if is_parameter else 0
        reach = self._reach(words)
        if not self._may_matter(reduce(or_, reach, also)):
            return None
        spans = list(split_sentences(words))
        # What each sentence may mean at most; once it is read, what it means.
        masks = [*(reduce(or_, reach[first:last], also) for first, last in spans), 0]
        is_read = [False] * len(spans)
        best: Judged | None = None
        for place, (first, last) in enumerate(spans):
            if not self._may_matter(masks[place] | masks[place + 1]):
                continue
            for each in range(place, min(place + 2, len(spans))):
                if not is_read[each]:
                    names = own() if masks[each] & self._name else frozenset[str]()
                    masks[each] = self.mask(read_sentence(words[slice(*spans[each])], names)) | also
                    is_read[each] = True
            score, fired = self.score(masks[place], masks[place + 1])
            if best is None or score > best.score:
                signals = tuple(self.signals[each] for each in fired)
                end = spans[place + 1][1] if place + 1 < len(spans) else last
                best = Judged(score, signals, first, end)
        return best if best and best.score >= self.suspicious else None

    def judge_decoded(self, words: list[str]) -> str | None:
        """Return what is wrong with a text that was encoded, for which less is needed; None for nothing."""
        masks = [self.mask(read_sentence(words[first:last])) for first, last in split_sentences(words)]
        if any(mask & self._shell for mask in masks):
            return "it is a shell command"
        for one, other in zip(masks, [*masks[1:], 0], strict=True):
            score, fired = self.score(one, other)
            if fired and score >= self.suspicious - _DECODED_MARGIN:
                return self.signals[fired[0]].message
        return None

    def _reach(self, words: list[str]) -> list[int]:
        """Return masks of what each word may mean, whatever else its sentence says."""
        ended = [*words, ""]
        alone = map(self._reach_alone.__getitem__, words)
        pairs = zip(alone, pairwise(ended), strict=True)
        reach = [self._reach_in[pair] if mask < 0 else mask for mask, pair in pairs]
        for place in [place for place, mask in enumerate(reach) if mask < 0]:
            end = place + 2
            while reach[place] < 0:
                end += 1
                reach[place] = self._reach_in[tuple(ended[place:end])]
        return reach

    def _reach_of(self, run: tuple[str, ...]) -> int:
        """Return what the first of some words may mean; -1 where that depends on the word after them."""
        known = lexicon()[run[0]]
        if known is None:
            return 0
        concepts = known.concepts_in(run)
        return -1 if concepts is None else self.mask(concepts)

    def _may_matter(self, mask: int) -> bool:
        """Return whether sentences whose words reach these concepts can be suspicious at all."""
        found = self._matters.get(mask)
        if found is None:
            found = self._most(mask) >= self.suspicious
            _keep(self._matters, mask, found)
        return found

    def _most(self, mask: int) -> float:
        """Return a score that such sentences cannot exceed, or one that is enough to be suspicious."""
        reached = mask | self._quiet if mask & self._telling and mask & self._negated else mask
        most = self.bias + _ROUNDING
        most += sum([weight for bit, weight in self._raising if reached & bit])
        for weight, groups in self._bounds:
            if most >= self.suspicious:
                break
            for group in groups:
                if not reached & group:
                    break
            else:
                most += weight
        return most

    def score(self, one: int, other: int) -> tuple[float, tuple[int, ...]]:
        """Return what two sentences weigh, and their signals."""
        known = self._scores.get((one, other))
        if known is None:
            known = self._score(one, other)
            _keep(self._scores, (one, other), known)
        return known

    def _score(self, one: int, other: int) -> tuple[float, tuple[int, ...]]:
        both = one | other
        inside = dict.fromkeys((*self.fire(one), *self.fire(other)))
        across = [each for each in self.fire(both) if each not in inside] if other else []
        total = self.bias + sum(self._inside[each] for each in inside)
        total += sum(self._across[each] for each in across)
        total += sum(weight for bit, weight in self._concepts if both & bit)
        return total, (*inside, *across)


class _Memo(dict[K, int]):
    """What a function returns, kept."""

    def __init__(self, work: Callable[[K], int]) -> None:
        super().__init__()
        self._work = work

    def __missing__(self, key: K) -> int:
        if len(self) > _MAX_CACHED:
            self.clear()
        found = self[key] = self._work(key)
        return found


def _holds(signal: Signal, mask: int) -> bool:
    """Return whether concepts are of each group of a signal."""
    for group in signal.groups:  # noqa: SIM110 - `all` takes twice the time
        if not mask & group:
            return False
    return True


def _keep(cached: dict[K, T], mask: K, value: T) -> None:
    if len(cached) > _MAX_CACHED:
        cached.clear()
    cached[mask] = value


_FORMS = ("marker", "url", "email", "shell", "ip", "path", "secret_path", "name", "param", "denied", "slot")
"""Concepts that no words have."""


def _read_weights(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, number = line.rpartition(" ")
            yield name, float(number)


@cache
def judge() -> Judge:
    """Return the judge of the package."""
    package = files(__package__)
    signals, weights = (
        package.joinpath(name).read_text(encoding="utf-8") for name in ("signals.txt", "weights.txt")
    )
    return Judge(signals, weights)

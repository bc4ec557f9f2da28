"""Fit the judge of the scan, and measure it.

    python training/scan.py            # write the weights
    python training/scan.py --measure  # and say how good they are, out of fold

Needs numpy. It reads poisoned and harmless definitions from `../shared/data`, beside the checkout, and those
that we wrote from `training/scan`. Nothing is random: the weights come out the same on every machine, but for
the last digits.

The judge (`src/toolcrib/trust/scanning/judge.py`) adds weights, which are found by logistic regression on
pairs of neighbouring sentences. Of a poisoned definition only the pair with the highest sum counts, which is
chosen again after each round; of a harmless one all count. Weights of signals start from those in
`signals.txt` and are held near them, because there are few poisoned definitions; none may be negative but
those of `EXCUSES`.
"""

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolcrib.trust.scanning.concepts import mark_forms, read_sentence, split_sentences, words_of
from toolcrib.trust.scanning.definition import names_in, texts_of
from toolcrib.trust.scanning.judge import judge
from toolcrib.trust.scanning.scanner import fold_text

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
PACKAGE = ROOT / "src" / "toolcrib" / "trust" / "scanning"
EXCUSES = ("mention", "own_data")
LEFT_OUT = frozenset(
    {
        "param", "name", "tool", "invoke", "embed", "read", "home", "content", "field", "user", "talk",
        "denied", "show", "pronoun", "without", "then", "negation", "negation_after", "until",
    }
)  # fmt: skip
"""Concepts that weigh nothing by themselves: they are in every other sentence."""
NOT_READ = frozenset({"hidden-unicode", "encoded", "clone"})
"""Kinds of attacks that rules find, and not the judge."""
FOLDS = 5
ROUNDS = 3
STEPS = 300
PULL = 0.02
SHARES = ({"527": 0.004, "1161": 0.004, "listed": 0.012}, {"527": 0.003, "1161": 0.003, "listed": 0.008})
"""How many of the real tools of each set may be suspicious, and how many poisoned. Nobody has looked at those
that are only listed, and some of them do want to be called before all others; nothing is fitted on them."""
LEAST = 0.005
"""Concepts that weigh less are not written."""
FARTHEST = 1.0
"""How far a weight of EXCUSES may fall."""


class Row(NamedTuple):
    """A definition, and whether it is poisoned."""

    group: str
    """Rows of one group are never on both sides of a split."""
    is_poisoned: bool
    name: str
    pairs: list[tuple[int, int]]
    """The concepts of neighbouring sentences, as masks."""


def rows() -> Iterator[Row]:
    """Yield all definitions that are fitted on."""
    for line in _lines(DATA / "poison" / "dev.jsonl"):
        source = line["source"].rpartition(":")[2].split("/")[0]
        group = "msb" if "MSB" in line["source"] else source.partition("_")[0]
        if line["label"] == "poisoned" and (line["kind"] in NOT_READ or "sh_collide" in line["id"]):
            continue
        yield row(f"dev {group}", line["tool"], line["id"], is_poisoned=line["label"] == "poisoned")
    for line in _lines(DATA / "poison" / "benign_527.jsonl"):
        yield row(f"real {line['server']}", line["tool"], f"527/{line['id']}")
    for line in _lines(DATA / "real-tools" / "mcp_tools.jsonl"):
        tool = {key: value for key, value in line.items() if key not in {"source", "server", "icons"}}
        yield row(f"real {line['server']}", tool, f"1161/{line['server']}/{line['name']}")
    for name, is_poisoned in (("attacks", True), ("harmless", False)):
        for place, text in enumerate(_own(name)):
            yield row("own", text, f"{name}/{place}", is_poisoned=is_poisoned)
    yield from _styles()
    for name in ("scale_docker", "scale_toolsdk"):
        for line in _lines(DATA / "retrieval" / name / "tools.jsonl"):
            tool = {"name": line["name"], "description": line.get("description") or ""}
            yield row(f"real {line['namespace']}", tool, f"listed/{line['namespace']}/{line['name']}")


def row(group: str, definition: dict[str, Any], name: str, *, is_poisoned: bool = False) -> Row:
    """Return a definition as what the judge sees of it."""
    pairs: set[tuple[int, int]] = set()
    own = names_in(definition)
    for text in texts_of(definition):
        also = {"param"} if text.is_parameter else set()
        words = words_of(mark_forms(fold_text(text.text)))
        found = (read_sentence(words[first:last], own) for first, last in split_sentences(words))
        masks = [judge().mask(each | also) for each in found]
        pairs.update(zip(masks, [*masks[1:], 0], strict=False))
    return Row(group, is_poisoned, name, sorted(pairs) or [(0, 0)])


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _own(name: str) -> Iterator[dict[str, Any]]:
    for line in _read_own(name):
        if line and not line.startswith("#"):
            yield _definition(line)


def _styles() -> Iterator[Row]:
    """Yield our definitions by style."""
    style = ""
    for place, line in enumerate(_read_own("styles"), 1):
        if line.startswith("## "):
            style = line[3:]
        elif line[:2] in {"! ", "= "}:
            yield row(f"style {style}", _definition(line[2:]), f"styles/{place}", is_poisoned=line[0] == "!")


def _read_own(name: str) -> list[str]:
    return (ROOT / "training" / "scan" / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def _definition(line: str) -> dict[str, Any]:
    """Return a tool with a description or, after @name:, with that of a parameter."""
    if not line.startswith("@"):
        return {"name": "tool", "description": line, "inputSchema": {"type": "object"}}
    parameter, _, text = line[1:].partition(": ")
    schema = {"type": "object", "properties": {parameter: {"type": "string", "description": text}}}
    return {"name": "tool", "description": "", "inputSchema": schema}


class Fit:
    """The features of the judge, and the weights that fit them."""

    def __init__(self) -> None:
        signals = judge().signals
        concepts = [each for each in judge().concepts if each not in LEFT_OUT]
        self.names = [
            *(f"{each.rule} inside" for each in signals),
            *(f"{each.rule} across" for each in signals),
            *concepts,
        ]
        self._bits = [judge().mask([each]) for each in concepts]
        self.start = np.array(
            [
                *(each.prior for each in signals),
                *(each.prior * 0.7 for each in signals),
                *[0.0] * len(concepts),
            ]
        )
        self._may_fall = np.array([name in EXCUSES for name in self.names])
        self._known: dict[tuple[int, int], np.ndarray] = {}

    def features(self, pair: tuple[int, int]) -> np.ndarray:
        """Return which features a pair of sentences has."""
        found = self._known.get(pair)
        if found is None:
            one, other = pair
            count = len(judge().signals)
            found = np.zeros(len(self.names), np.float32)
            inside = {*judge().fire(one), *judge().fire(other)}
            found[list(inside)] = 1
            across = set(judge().fire(one | other)) - inside if other else set()
            found[[count + each for each in across]] = 1
            found[2 * count :] = [bool((one | other) & bit) for bit in self._bits]
            self._known[pair] = found
        return found

    def fit(self, data: Sequence[Row]) -> tuple[np.ndarray, float]:
        """Return the weights and the bias."""
        data = [each for each in data if not each.name.startswith("listed/")]
        poisoned = [each for each in data if each.is_poisoned]
        matrices = [np.array([self.features(pair) for pair in each.pairs]) for each in poisoned]
        sizes = Counter(_family(each) for each in poisoned)
        heavy = np.array([1 / np.sqrt(sizes[_family(each)]) for each in poisoned])
        heavy *= len(poisoned) / heavy.sum()
        seen = Counter(
            self.features(pair).tobytes() for each in data if not each.is_poisoned for pair in each.pairs
        )
        harmless = np.array([np.frombuffer(each, np.float32) for each in seen])
        light = np.minimum(np.array(list(seen.values())), 2.0) * len(poisoned) / len(seen) * 4
        weights, bias = self.start.copy(), -3.5
        for _ in range(ROUNDS):
            worst = np.array([matrix[int(np.argmax(matrix @ weights))] for matrix in matrices])
            inputs = np.vstack([worst, harmless]).astype(float)
            wanted = np.r_[np.ones(len(worst)), np.zeros(len(harmless))]
            weights, bias = self._descend(inputs, wanted, np.r_[heavy, light], weights, bias)
        return weights, bias

    def _descend(
        self, inputs: np.ndarray, wanted: np.ndarray, heavy: np.ndarray, weights: np.ndarray, bias: float
    ) -> tuple[np.ndarray, float]:
        """Return weights after Adam's steps."""
        pull = PULL * wanted.sum()
        values = np.r_[weights, bias]
        mean, spread = np.zeros_like(values), np.zeros_like(values)
        for step in range(1, STEPS + 1):
            chance = 1 / (1 + np.exp(-np.clip(inputs @ values[:-1] + values[-1], -30, 30)))
            error = (chance - wanted) * heavy
            slope = np.r_[inputs.T @ error + pull * (values[:-1] - self.start), error.sum()]
            mean = 0.9 * mean + 0.1 * slope
            spread = 0.999 * spread + 0.001 * slope * slope
            values -= 0.03 * (mean / (1 - 0.9**step)) / (np.sqrt(spread / (1 - 0.999**step)) + 1e-9)
            values[:-1] = np.where(
                self._may_fall, np.clip(values[:-1], -FARTHEST, None), np.maximum(values[:-1], 0)
            )
        return values[:-1], float(values[-1])

    def scores(self, fitted: tuple[np.ndarray, float], data: Sequence[Row]) -> np.ndarray:
        """Return the highest sum of each row."""
        weights, bias = fitted
        return np.array(
            [max(float(self.features(pair) @ weights) for pair in each.pairs) + bias for each in data]
        )


def _family(each: Row) -> str:
    """Return which rows are variations of one attack."""
    if each.group == "own":
        return f"own {int(each.name.rpartition('/')[2]) // 12}"
    return each.name.rpartition("/")[0] if "msb" in each.group else each.group


def _fold_of(group: str) -> int:
    return int(hashlib.sha256(group.encode()).hexdigest(), 16) % FOLDS


def out_of_fold(fit: Fit, data: Sequence[Row]) -> np.ndarray:
    """Return the score of each row by weights that have seen neither its source nor its server."""
    sources = sorted({each.group for each in data if not each.group.startswith("real ")})
    scores = np.zeros(len(data))
    for fold in range(FOLDS):
        out = {source for place, source in enumerate(sources) if place % FOLDS == fold}
        held = [
            place
            for place, each in enumerate(data)
            if each.group in out or (each.group.startswith("real ") and _fold_of(each.group) == fold)
        ]
        kept = set(range(len(data))) - set(held)
        fitted = fit.fit([data[place] for place in sorted(kept)])
        scores[held] = fit.scores(fitted, [data[place] for place in held])
    return scores


def threshold(data: Sequence[Row], scores: np.ndarray, shares: Mapping[str, float]) -> float:
    """Return the score that at most a share of the real tools of each set reaches."""
    highest = []
    for name, share in shares.items():
        real = [score for each, score in zip(data, scores, strict=True) if each.name.startswith(f"{name}/")]
        highest.append(sorted(real, reverse=True)[int(len(real) * share)])
    return max(highest) + 0.005


def report(data: Sequence[Row], scores: np.ndarray, limit: float) -> str:
    """Return how many of each group reach a score."""
    found: dict[str, list[int]] = {}
    for each, score in zip(data, scores, strict=True):
        group = each.name.partition("/")[0] if each.group.startswith("real ") else each.group
        group = "our styles" if group.startswith("style ") else group
        key = f"{group} {'poisoned' if each.is_poisoned else 'harmless'}"
        counts = found.setdefault(key, [0, 0])
        counts[0] += int(score >= limit)
        counts[1] += 1
    return "\n".join(f"  {key}: {hits} of {count}" for key, (hits, count) in sorted(found.items()))


def main() -> None:
    """Fit, write the weights, and print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="print what is found out of fold")
    parser.add_argument("--wrong", action="store_true", help="print what is judged wrong, too")
    options = parser.parse_args()
    data = list(rows())
    fit = Fit()
    apart = out_of_fold(fit, data)
    weights, bias = fit.fit(data)
    fitted = fit.scores((weights, bias), data)
    # The weights that are written are not those of the folds, and both have to keep to the limit.
    suspicious, poisoned = (
        max(threshold(data, scores, share) for scores in (apart, fitted)) for share in SHARES
    )
    lines = [
        "# What signals and concepts weigh; made by training/scan.py.",
        f"bias {bias:.3f}",
        f"suspicious {suspicious:.3f}",
        f"poisoned {poisoned:.3f}",
        *(
            f"{name} {weight:.3f}"
            for name, weight in zip(fit.names, weights, strict=True)
            if abs(weight) > LEAST or " " in name
        ),
    ]
    (PACKAGE / "weights.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if options.measure or options.wrong:
        print(f"out of fold, at {suspicious:.2f}:\n{report(data, apart, suspicious)}")
        print(f"fitted on all:\n{report(data, fitted, suspicious)}")
    if options.wrong:
        for each, score in sorted(zip(data, apart, strict=True), key=lambda pair: pair[1]):
            if (score >= suspicious) != each.is_poisoned:
                print(f"{'missed' if each.is_poisoned else 'false '} {score:6.2f} {each.name}")


if __name__ == "__main__":
    main()

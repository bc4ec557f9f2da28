"""Fit what tells whether the tool that was found does what was asked, and measure it on what is held out.

    python training/judge.py models

Questions are put to catalogues with the right tools there and without them, and so are questions of the same
field that no tool answers, those of other sets, and everyday ones.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from asking import Cases, own_cases, public_cases
from corpus import Corpus
from models import models_in

from toolcrib.discovery.evaluation import auc, calibrate
from toolcrib.discovery.protocols import LocalEmbedder
from toolcrib.discovery.search.confidence import RelevanceClassifier

SHARES = {"answered": 1.0, "missing": 0.25, "unanswered": 1.5, "foreign": 0.25, "everyday": 0.25}
"""How much each kind of question weighs in all."""
PUBLIC = 0.25
"""How much of a kind those of public sets weigh, where there are others."""
SIGNALS = 3
"""How many features are not numbers of vectors; what is learnt of those is not held back."""
STRICTNESS = 3e-2
FREE = 1e-4
ENOUGH = 1e-6


def collect(corpus: Corpus, embedder: LocalEmbedder, *, held: bool) -> Cases:
    """Return what a model finds for the questions that are held out, or for the others."""
    cases = Cases()
    own_cases(corpus, embedder, cases, held=held)
    public_cases(corpus, embedder, cases, held=held)
    return cases


def fit(cases: Cases) -> RelevanceClassifier:
    """Return the judge that is wrong least often, by logistic regression."""
    found = [number for number, row in enumerate(cases.rows) if row is not None]
    rows = np.array([cases.rows[number] for number in found], np.float64)
    right = np.array(cases.right, np.float64)[found]
    weights = weights_of(np.array(cases.kinds)[found], np.array(cases.settings)[found] == "public")
    mean, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    scaled = np.column_stack(((rows - mean) / spread, np.ones(len(rows))))
    learnt = np.zeros(scaled.shape[1])
    held_back = np.full(len(learnt), STRICTNESS * len(rows))
    held_back[[*range(SIGNALS), -1]] = FREE * len(rows)
    for _ in range(30):
        said = 1 / (1 + np.exp(-np.clip(scaled @ learnt, -30, 30)))
        slope = scaled.T @ (weights * (said - right)) + held_back * learnt
        bend = (scaled * (weights * said * (1 - said))[:, None]).T @ scaled
        step = np.linalg.solve(bend + np.diag(held_back), slope)
        learnt -= step
        if np.abs(step).max() < ENOUGH:
            break
    plain = learnt[:-1] / spread
    return RelevanceClassifier(plain.astype(np.float32), float(learnt[-1] - plain @ mean))


def weights_of(kinds: np.ndarray, public: np.ndarray) -> np.ndarray:
    """Return what each case weighs."""
    weights = np.zeros(len(kinds))
    for kind, share in SHARES.items():
        ours, others = (kinds == kind) & ~public, (kinds == kind) & public
        both = ours.any() and others.any()
        for part, weight in ((ours, 1 - PUBLIC), (others, PUBLIC)):
            if part.any():
                weights[part] = share * len(kinds) * (weight if both else 1.0) / part.sum()
    return weights


def report(judge: RelevanceClassifier, cases: Cases) -> Iterator[str]:
    """Yield how well a judge tells what has an answer from what has none, and how true its numbers are."""
    said, right = cases.said(judge), np.array(cases.right)
    for setting in dict.fromkeys(cases.settings):
        own = said[cases.of("answered", setting)].tolist()
        areas = {
            kind: auc(own, said[chosen].tolist())
            for kind in list(SHARES)[1:]
            if (chosen := cases.of(kind, setting)).any()
        }
        yield f"{setting}: " + ", ".join(f"{kind} {area:.3f}" for kind, area in areas.items())
    yield f"calibration: {calibrate(zip(said.tolist(), cases.right, strict=True))}"
    for threshold in (0.02, 0.05, 0.1, 0.15, 0.2):
        kept = {"right": (said[cases.of("answered") & right] >= threshold).mean()}
        kept |= {kind: (said[cases.of(kind)] >= threshold).mean() for kind in SHARES}
        yield f"at {threshold}: " + ", ".join(f"{kind} {share:.2f} kept" for kind, share in kept.items())


def make(corpus: Corpus, embedder: LocalEmbedder, folder: Path) -> str:
    """Fit the judge of a model, put it into a folder, and return how good it is."""
    judge = fit(collect(corpus, embedder, held=False))
    judge.save(folder)
    return "\n".join(report(judge, collect(corpus, embedder, held=True)))


def main() -> None:
    """Fit the judges of the models in a folder, and say how good they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the models are")
    corpus = Corpus.read()
    for name, (embedder, place) in models_in(parser.parse_args().folder).items():
        print(f"the judge of {name}\n{make(corpus, embedder, place)}", flush=True)


if __name__ == "__main__":
    main()

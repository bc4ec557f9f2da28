"""How well embedders find tools, alone and beside words, on the validation sets.

python training/validate.py models
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from corpus import UNSEEN, Corpus
from models import models_in

from toolcrib.discovery import (
    Bm25Searcher,
    EmbeddingSearcher,
    HybridSearcher,
    Index,
    Searcher,
)
from toolcrib.discovery.evaluation import LabelledSet, evaluate, finder_of
from toolcrib.discovery.protocols import LocalEmbedder


def validate(make: Callable[[], Searcher], sets: Sequence[LabelledSet]) -> dict[str, float]:
    """Return the NDCG@10 on each set, in percent, and the mean of those whose tools were never seen."""
    found = {}
    for labelled in sets:
        index = Index(searcher=make())
        index.register_many((tool, None) for tool in labelled.catalogue.tools)
        found[labelled.name] = 100 * evaluate(finder_of(index), labelled).ndcg
    return found | {"unseen": fmean(found[name] for name in UNSEEN)}


def report(embedders: Mapping[str, LocalEmbedder], corpus: Corpus) -> str:
    """Return a table of what words do, and each embedder alone and beside them."""
    sets = [*corpus.validation.values(), corpus.own]
    rows = {"words": validate(Bm25Searcher, sets)}
    for name, embedder in embedders.items():
        rows[f"{name} alone"] = validate(lambda one=embedder: EmbeddingSearcher(one), sets)
        rows[f"words and {name}"] = validate(
            lambda one=embedder: HybridSearcher(Bm25Searcher(), EmbeddingSearcher(one)), sets
        )
    names = list(rows["words"])
    lines = [f"| | {' | '.join(names)} |", "|---" + "|--:" * len(names) + "|"]
    lines += [
        f"| {row} | {' | '.join(f'{found[name]:.1f}' for name in names)} |" for row, found in rows.items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the table of the models in a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the models are")
    models = models_in(parser.parse_args().folder)
    print(report({name: embedder for name, (embedder, _) in models.items()}, Corpus.read()))


if __name__ == "__main__":
    main()

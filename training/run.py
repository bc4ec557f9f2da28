"""Make both models: tune the encoder, distil the table, export, fit the judges, and measure.

    python training/run.py models

One GPU is busy for about nine minutes; what follows is measured on the processor, which takes longer. The
seeds are fixed, and the last digits still vary with the hardware.
"""

import argparse
import time
from pathlib import Path

import judge
from corpus import Corpus
from distil import StaticRecipe, distil
from encoder import Encoder, Weights, stock_weights
from export import export
from models import models_in
from safetensors.torch import save_file
from teacher import Material, Recipe, averaged, tune
from validate import report

from toolcrib.discovery import StaticEmbedder

SEEDS = (11, 12, 13, 14, 15, 16)
STOCK_SHARE = 0.1
STARTED = time.monotonic()


def say(text: str) -> None:
    """Print a text, and how long it took to get there."""
    print(f"[{time.monotonic() - STARTED:4.0f} s] {text}", flush=True)


def tuned(corpus: Corpus, recipe: Recipe) -> Weights:
    """Return the mean of several runs and a share of the stock weights."""
    stock = stock_weights()
    material = Material(corpus, Encoder(stock), recipe)
    say(f"{len(corpus.pairs)} pairs, {len(material.place)} tools")
    runs = []
    for seed in SEEDS:
        runs.append(tune(material, stock, recipe, seed))
        say(f"tuned with seed {seed}")
    return averaged(stock, runs, STOCK_SHARE)


def main() -> None:
    """Make the models, and say how good they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the models go")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    corpus = Corpus.read()
    weights = tuned(corpus, Recipe())
    halves = {name: value.half().contiguous() for name, value in weights.items()}
    save_file(halves, folder / "tuned.safetensors")
    export(folder / "minilm", {name: value.numpy() for name, value in weights.items()})
    pieces, vectors = distil(corpus, Encoder(weights), StaticRecipe(), SEEDS[0])
    StaticEmbedder.save(folder / "static", pieces, vectors)
    say("both models are made")
    models = models_in(folder)
    say(report({name: embedder for name, (embedder, _) in models.items()}, corpus))
    for name, (embedder, place) in models.items():
        say(f"the judge of {name}\n{judge.make(corpus, embedder, place)}")


if __name__ == "__main__":
    main()

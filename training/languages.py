"""Fit the matrix that takes questions in other languages to the space of an English model.

    python training/languages.py FOLDER [--model NAME]

It is the linear map from the vectors of the multilingual encoder to those of the model in a folder, or of an
installed one that keeps its files there, over English texts: the questions of the public pairs, and how tools
are named and described. No text in another language is needed, nor any question of
`questions/languages.jsonl`, which it is measured on. It takes a quarter of an hour of one core, and is
written into the folder.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from corpus import DATA, LISTS, read_lines

from toolcrib.discovery.search.semantic.languages import MATRIX_FILE, load_encoder
from toolcrib.discovery.search.semantic.named import embedder_in, load_embedder

BATCH = 256
LONGEST = 400
"""Characters of a text; vectors of long ones are of little use for questions."""
HELD_BACK = 1.0
"""How strongly large weights are held back (ridge regression)."""


def read_texts() -> Iterator[str]:
    """Yield the English texts."""
    for row in read_lines(DATA / "training" / "pairs.jsonl"):
        yield row["query"]
    folders = [DATA / "training", *(DATA / "retrieval" / name for name in LISTS)]
    for folder in folders:
        for row in read_lines(folder / "tools.jsonl"):
            said = (row.get("description") or "").strip()
            yield said.split(". ")[0]
            yield f"{row['name'].replace('_', ' ').replace('-', ' ')}: {said[:200]}"


def main() -> None:
    """Fit the matrix of the model in a folder, and write it there."""
    parser = argparse.ArgumentParser(description="Fit what reads questions in other languages.")
    parser.add_argument("folder", type=Path, help="the folder of a model")
    parser.add_argument(
        "--model", help="the name of an installed model, such as minilm, instead of the folder's"
    )
    parser.add_argument("--most", type=int, default=None, help="use so many texts only")
    options = parser.parse_args()
    texts = [text for text in dict.fromkeys(" ".join(one.split())[:LONGEST] for one in read_texts()) if text]
    texts = sorted(texts[: options.most], key=len)  # batches of texts of similar length
    encoder, model = (
        load_encoder(),
        load_embedder(options.model) if options.model else embedder_in(options.folder),
    )
    here, there = [], []
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        here.append(encoder.encode(batch))
        there.append(model.encode(batch))
        print(f"\r{start + len(batch):,} of {len(texts):,} texts", end="", flush=True)
    given, wanted = np.concatenate(here), np.concatenate(there)
    head = np.linalg.solve(given.T @ given + HELD_BACK * np.eye(given.shape[1]), given.T @ wanted)
    np.save(options.folder / MATRIX_FILE, head.astype(np.float16))
    print(f"\nwrote {options.folder / MATRIX_FILE}")


if __name__ == "__main__":
    main()

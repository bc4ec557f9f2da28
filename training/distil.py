"""Distilling a table of one vector for each wordpiece from the tuned encoder.

First the sums of its rows learn to be the encoder's vectors of the same texts, then to rank tools for
questions as the encoder does. Trained on labels alone such a table learns the tools by heart.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from corpus import Corpus
from encoder import DEVICE, Encoder, encode, tokenizer, tokens
from texts import Texts
from torch import Tensor, nn
from torch.nn import functional

from toolcrib.discovery.search.semantic.wordpiece import UNKNOWN, WordPiece

_LATIN = re.compile(r"(##)?[\x21-\u024f]+")
_SPECIAL = re.compile(r"\[[^\]]+\]")
_SHORTEST_WORD = 3


@dataclass(frozen=True, slots=True)
class StaticRecipe:
    """How a table learns."""

    dimensions: int = 256
    length: int = 128
    """How many pieces of a text are read."""
    spans: int = 4
    """How many parts of each text are learnt besides the text."""
    joined: int = 60_000
    """How many questions with two errands are made up."""
    made_up: int = 160_000
    """How many texts are made up of words from anywhere, so that rare ones are learnt too."""
    smooth: float = 1e-3
    """How much rarer words count more to begin with."""
    epochs: int = 20
    batch: int = 2048
    rate: float = 3e-3
    likeness: float = 60.0
    """The weight of the texts' likeness to each other, beside their likeness to the encoder's vectors."""
    ranking_epochs: int = 5
    """More of it learns the tools by heart."""
    ranking_tools: int = 4096
    ranking_rate: float = 2e-4
    scale: float = 25.0


def vocabulary(numbered: dict[str, int]) -> list[str]:
    """Return the wordpieces that Latin texts are made of; questions in other scripts go by words alone."""
    ordered = sorted(numbered, key=lambda piece: numbered[piece])
    kept = [piece for piece in ordered if _LATIN.fullmatch(piece) and not _SPECIAL.fullmatch(piece)]
    return [UNKNOWN, *kept]


def distil(corpus: Corpus, encoder: Encoder, recipe: StaticRecipe, seed: int) -> tuple[list[str], np.ndarray]:
    """Return the wordpieces and a vector for each."""
    chance = random.Random(seed)  # noqa: S311 - the same each time
    torch.manual_seed(seed)
    cutter = tokenizer(recipe.length)
    pieces = vocabulary(cutter.get_vocab())
    words = [piece for piece in pieces if piece.isalpha() and len(piece) >= _SHORTEST_WORD]
    texts = Texts.of(
        corpus, words, joined=recipe.joined, spans=recipe.spans, made_up=recipe.made_up, chance=chance
    )
    print(f"the table learns from {len(texts.all)} texts", flush=True)
    rows = _bags(texts.all, WordPiece(pieces), recipe.length)
    targets = encode(encoder, tokens(texts.all, cutter))
    asked, told = len(texts.questions), len(texts.tools)
    basis = _principal(targets[: asked + told], recipe.dimensions)
    table = _Table(_first_rows(encoder, pieces, rows, basis, recipe))
    _regress(table, rows, functional.normalize(targets @ basis, dim=-1), recipe)
    places = torch.arange(asked + told, device=DEVICE)
    _rank(table, rows, targets, (places[:asked], places[asked:]), recipe)
    return pieces, table.bag.weight.detach()[1:].float().cpu().numpy()


class _Table(nn.Module):
    """The table; row 0 stands for no piece."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        padded = torch.cat([torch.zeros((1, rows.shape[1]), device=rows.device), rows])
        self.bag = nn.EmbeddingBag.from_pretrained(padded, freeze=False, mode="sum", padding_idx=0)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the directions of the sums of rows."""
        width = int((rows != 0).sum(1).max())
        return functional.normalize(self.bag(rows[:, :width]), dim=-1)


def _bags(texts: Sequence[str], reader: WordPiece, length: int) -> Tensor:
    """Return texts as the numbers of their pieces from 1 on, padded with zeros."""
    found = [reader.ids(text, limit=length) or [0] for text in texts]
    rows = np.zeros((len(found), max(map(len, found))), np.int32)
    for row, ids in zip(rows, found, strict=True):
        row[: len(ids)] = np.array(ids) + 1
    return torch.from_numpy(rows).to(DEVICE)


def _principal(vectors: Tensor, dimensions: int) -> Tensor:
    """Return the directions in which vectors differ most."""
    _, directions = torch.linalg.eigh((vectors.T @ vectors / len(vectors)).double())
    return directions[:, -dimensions:].flip(1).float()


def _first_rows(
    encoder: Encoder, pieces: Sequence[str], rows: Tensor, basis: Tensor, recipe: StaticRecipe
) -> Tensor:
    """Return what the encoder says of each wordpiece alone, less of it the more common that is."""
    alone = encode(encoder, tokens([piece.removeprefix("##") for piece in pieces], tokenizer(16))) @ basis
    counts = torch.bincount(rows.flatten().long(), minlength=len(pieces) + 1)[1:].float()
    share = counts / counts.sum()
    return functional.normalize(alone, dim=-1) * (recipe.smooth / (recipe.smooth + share))[:, None]


def _regress(table: _Table, rows: Tensor, goals: Tensor, recipe: StaticRecipe) -> None:
    """Teach sums of rows to be the encoder's vectors."""
    optimizer = torch.optim.Adam(table.parameters(), lr=recipe.rate)
    steps = recipe.epochs * (len(rows) // recipe.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(recipe.epochs):
        parts = torch.randperm(len(rows), device=DEVICE).split(recipe.batch)[:-1]
        for part in parts:
            found, goal = table(rows[part]), goals[part]
            away = 1 - (found * goal).sum(1).mean()
            unlike = functional.mse_loss(found @ found.T, goal @ goal.T)
            _step(away + recipe.likeness * unlike, optimizer, schedule)
        print(f"regression {epoch}: cosine {1 - away.item():.4f}", flush=True)


def _rank(
    table: _Table, rows: Tensor, targets: Tensor, places: tuple[Tensor, Tensor], recipe: StaticRecipe
) -> None:
    """Teach the table to rank tools for questions as the encoder does."""
    asked, told = places
    optimizer = torch.optim.Adam(table.parameters(), lr=recipe.ranking_rate)
    steps = recipe.ranking_epochs * (len(asked) // recipe.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(recipe.ranking_epochs):
        for part in asked[torch.randperm(len(asked), device=DEVICE)].split(recipe.batch)[:-1]:
            shown = told[torch.randperm(len(told), device=DEVICE)[: recipe.ranking_tools]]
            goal = (recipe.scale * targets[part] @ targets[shown].T).softmax(-1)
            found = (recipe.scale * table(rows[part]) @ table(rows[shown]).T).log_softmax(-1)
            loss = functional.kl_div(found, goal, reduction="batchmean")
            _step(loss, optimizer, schedule)
        print(f"ranking {epoch}: divergence {loss.item():.4f}", flush=True)


def _step(
    loss: Tensor, optimizer: torch.optim.Optimizer, schedule: torch.optim.lr_scheduler.LRScheduler
) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    schedule.step()

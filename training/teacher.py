"""Tuning MiniLM on labelled pairs: each question is to find its tool among all tools of its batch."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from corpus import Corpus, Pair
from encoder import DEVICE, Encoder, Weights, encode, tokenizer, tokens
from torch import Tensor
from torch.nn import functional

# How often a pair is shown in an epoch, by its source: less where there are many, or all are of one kind.
OFTEN = {"metatool": 1.0, "apibench": 1.0, "own": 0.8, "bfcl": 3.0}
OTHERWISE = 2.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a run learns."""

    epochs: int = 4
    batch: int = 768
    rate: float = 8e-5
    warm_up: float = 0.1
    scale: float = 20.0
    backward: float = 0.2
    """The weight of the loss of tools that look for their questions."""
    hard: int = 2
    """How many tools that seem right and are not stand beside each question."""
    joined: int = 7_500
    """How many questions with two errands are made up."""
    query_length: int = 128
    document_length: int = 144
    same: float = 0.95
    """From this cosine on, two tools are taken for the same."""


class Material:
    """The texts of a corpus as tokens, and which tools to set against each other."""

    def __init__(self, corpus: Corpus, stock: Encoder, recipe: Recipe) -> None:
        self.corpus = corpus
        self.recipe = recipe
        ids = [one for group in corpus.groups.values() for one in group]
        self.place = {one: number for number, one in enumerate(ids)}
        told = [with_parameters for with_parameters, _ in corpus.texts(ids)]
        self.documents = tokens(told, tokenizer(recipe.document_length))
        self.vectors = encode(stock, self.documents)
        self.groups = {
            name: torch.tensor([self.place[one] for one in members], device=DEVICE)
            for name, members in corpus.groups.items()
        }
        self.query_cutter = tokenizer(recipe.query_length)

    def negatives(self, stock: Encoder, pairs: Sequence[Pair], rows: Tensor) -> Tensor:
        """Return the places of the 12 nearest tools of its source that do not answer each question."""
        found = torch.empty((len(pairs), 12), dtype=torch.long, device=DEVICE)
        queries = encode(stock, rows)
        for name, members in self.groups.items():
            asked = [number for number, pair in enumerate(pairs) if pair.group == name]
            for part in torch.tensor(asked, dtype=torch.long, device=DEVICE).split(2048):
                scores = queries[part] @ self.vectors[members].T
                right = torch.tensor([self.place[pairs[int(one)].relevant[0]] for one in part], device=DEVICE)
                alike = self.vectors[right] @ self.vectors[members].T > self.recipe.same
                scores[alike] = -1
                for row, one in enumerate(part.tolist()):
                    for answer in pairs[one].relevant:
                        scores[row][members == self.place[answer]] = -1
                found[part] = members[scores.topk(12).indices]
        return found


def tune(material: Material, start: Weights, recipe: Recipe, seed: int) -> Weights:
    """Return the weights after a run over all pairs."""
    torch.manual_seed(seed)
    run = _Run.of(material, Encoder(start), recipe, random.Random(seed))  # noqa: S311 - the same each time
    optimizer = torch.optim.AdamW(run.encoder.parameters(), lr=recipe.rate, weight_decay=0.01)
    batches = run.batches()
    steps, rise = len(batches), recipe.warm_up * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(step / rise, (steps - step) / (steps - rise))
    )
    run.encoder.train()
    for step, batch in enumerate(batches):
        loss = run.loss(batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(run.encoder.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"seed {seed}: step {step} of {steps}, loss {loss.item():.3f}", flush=True)
    return run.encoder.weights()


def averaged(start: Weights, tuned: Sequence[Weights], share: float = 0.25) -> Weights:
    """Return the mean of several runs, with a share of what they started from: it forgets less."""
    return {
        name: share * value + (1 - share) * torch.stack([one[name] for one in tuned]).mean(0)
        for name, value in start.items()
    }


@dataclass(frozen=True, slots=True)
class _Run:
    """One run over the pairs, with some more that are made up for it."""

    encoder: Encoder
    material: Material
    recipe: Recipe
    chance: random.Random
    pairs: Sequence[Pair]
    questions: Tensor
    """The tokens of each pair's question."""
    hard: Sequence[Sequence[int]]
    """The tools that seem to answer it."""

    @classmethod
    def of(cls, material: Material, encoder: Encoder, recipe: Recipe, chance: random.Random) -> "_Run":
        pairs = material.corpus.pairs + material.corpus.joined(recipe.joined, chance)
        questions = tokens([pair.query for pair in pairs], material.query_cutter)
        hard = material.negatives(encoder, pairs, questions).tolist()
        return cls(encoder, material, recipe, chance, pairs, questions, hard)

    def batches(self) -> list[list[int]]:
        """Return the numbers of pairs, those of each source as often as it counts."""
        size, found = self.recipe.batch, []
        for _ in range(self.recipe.epochs):
            order = [number for number, pair in enumerate(self.pairs) for _ in range(self._times(pair))]
            self.chance.shuffle(order)
            found += [order[first : first + size] for first in range(0, len(order) - size + 1, size)]
        return found

    def loss(self, batch: list[int]) -> Tensor:
        """Return how far questions are from finding their tools, and a little of the way back."""
        answers = [self.material.place[self.chance.choice(self.pairs[one].relevant)] for one in batch]
        shown = torch.tensor(answers + [other for one in batch for other in self._others(one)], device=DEVICE)
        questions = self.encoder(self.questions[torch.tensor(batch, device=DEVICE)])
        scores = self.recipe.scale * questions @ self.encoder(self.material.documents[shown]).T
        scores = scores.masked_fill(self._right_too(batch, shown), float("-inf"))
        right = torch.arange(len(batch), device=DEVICE)
        back = functional.cross_entropy(scores[:, : len(batch)].T, right)
        return functional.cross_entropy(scores, right) + self.recipe.backward * back

    def _times(self, pair: Pair) -> int:
        often = OFTEN.get(pair.group, OTHERWISE)
        return int(often) + (self.chance.random() < often % 1)

    def _others(self, number: int) -> list[int]:
        """Return tools that seem to answer a question: one that the labels name, where they do."""
        place = self.material.place
        named = [place[name] for name in self.pairs[number].negatives if name in place]
        chosen = self.chance.sample(named, 1) if named else []
        return chosen + self.chance.sample(self.hard[number], self.recipe.hard - len(chosen))

    def _right_too(self, batch: list[int], shown: Tensor) -> Tensor:
        """Return which tools answer a question as well as the one it is to find."""
        vectors, place = self.material.vectors, self.material.place
        alike = vectors[shown[: len(batch)]] @ vectors[shown].T > self.recipe.same
        for row, one in enumerate(batch):
            if len(self.pairs[one].relevant) > 1:
                right = torch.tensor([place[name] for name in self.pairs[one].relevant], device=DEVICE)
                alike[row] |= torch.isin(shown, right)
        alike.fill_diagonal_(fill_value=False)
        return alike

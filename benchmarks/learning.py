"""Measures what learning from use gains, on labelled questions: half is past use, the other half is asked.

A past use is a question that is followed by a run of its right tool, where the search had shown that tool
among its first ten. Of each tool at most 0, 1, 3 or 10 past questions are learned, as `crib.learning` does:
without values, and bounded. With `wrong` uses, one question in five was followed by a run of the highest
wrong tool instead, and nobody corrected it. Last, the past questions are example questions of their tools, as
`toolcrib enrich` would write them at best. `--write` puts the table into docs/how-search-works.md.
"""

import argparse
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from search_ours import build
from search_scale import DATA, SEED, SETS
from turns import QUICK

from toolcrib.discovery import load_embedder
from toolcrib.discovery.evaluation import LabelledQuery, LabelledSet, load_set
from toolcrib.discovery.evaluation.metrics import hit_at_1, ndcg_at
from toolcrib.discovery.index import Index
from toolcrib.discovery.learned import LearnedQuestion, LearnedQuestions, learnable
from toolcrib.discovery.search.text import words

PAGE = Path(__file__).parents[1] / "docs" / "how-search-works.md"
BEGIN = "<!-- learning -->\n"
END = "<!-- end of learning -->\n"
USES = (0, 1, 3, 10)
"""Past questions that are learned for each tool at most."""
ASKED = 60 if QUICK else 500
"""Questions of the other half that are searched in each set."""
SHOWN = 10
WRONG = 0.2
OWNERS = 20
"""Principals who made the past searches, if these are shared."""


@dataclass(frozen=True, slots=True)
class Use:
    """A past question, and the tool that was run after it."""

    question: str
    tool_id: str
    wrong_id: str | None
    """The highest wrong tool that was shown; None where only right ones were."""


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one way of learning."""

    name: str
    learned: int
    """The number of questions at the most uses."""
    scores: tuple[tuple[float, float], ...]
    """NDCG@10 and hit@1, by number of uses."""


def split_questions(labelled: LabelledSet) -> tuple[list[LabelledQuery], list[LabelledQuery]]:
    """Return the past questions, and a sample of the others."""
    mixed = list(labelled.queries)
    chance = random.Random(SEED)  # noqa: S311 - the same each time
    chance.shuffle(mixed)
    half = len(mixed) // 2
    return mixed[:half], mixed[half:][:ASKED]


def past_uses(index: Index, labelled: LabelledSet, past: Iterable[LabelledQuery]) -> Iterator[Use]:
    """Yield the uses that past questions led to, at most the highest number of each tool."""
    counts: Counter[str] = Counter()
    for question in past:
        right = [labelled.catalogue.ids[label] for label in question.relevant]
        if all(counts[tool_id] >= max(USES) for tool_id in right):
            continue
        shown = [result.id for result in index.search(question.query, limit=SHOWN)]
        wrong = next((tool_id for tool_id in shown if tool_id not in right), None)
        for tool_id in right:
            if tool_id in shown and counts[tool_id] < max(USES):
                counts[tool_id] += 1
                yield Use(question.query, tool_id, wrong)


def learn(index: Index, uses: Sequence[Use], count: int, *, owners: int, wrong: float) -> LearnedQuestions:
    """Return the questions learned from at most `count` uses of each tool."""
    chance = random.Random(SEED)  # noqa: S311 - the same each time
    counts: Counter[str] = Counter()
    questions = LearnedQuestions(encode=load_embedder().encode)
    rows = []
    for use in uses:
        is_wrong, owner = chance.random() < wrong, f"owner-{chance.randrange(owners)}"
        counts[use.tool_id] += 1
        if counts[use.tool_id] > count:
            continue
        tool = index.get(use.wrong_id if is_wrong and use.wrong_id else use.tool_id)
        known = words(f"{tool.name} {tool.namespace or ''} {tool.title or ''} {tool.description or ''}")
        text = learnable(use.question, known)
        if text is not None:
            rows.append(LearnedQuestion(tool_id=str(tool.id), question=text, owner=owner, uses=1))
    questions.learn(rows)
    return questions


def score(
    index: Index,
    labelled: LabelledSet,
    asked: Sequence[LabelledQuery],
    questions: LearnedQuestions,
    who: str | None,
) -> tuple[float, float]:
    """Return NDCG@10 and hit@1 of the questions, in per cent."""
    label_of = labelled.catalogue.labels
    found = []
    for question in asked:
        page = index.search(question.query, limit=SHOWN, lifts=questions.lifts(question.query, who))
        ranked = [label_of[result.id] for result in page]
        found.append((ndcg_at(SHOWN, ranked, question.relevant), hit_at_1(ranked, question.relevant)))
    return 100 * fmean(one for one, _ in found), 100 * fmean(one for _, one in found)


def measure(labelled: LabelledSet) -> Iterator[Row]:
    """Yield the gain of learning on one set."""
    index = build(labelled.catalogue.tools).index
    past, asked = split_questions(labelled)
    uses = list(past_uses(index, labelled, past))
    for name, owners, who in (("own", 1, "owner-0"), (f"of {OWNERS}, shared", OWNERS, None)):
        for wrong in (0.0, WRONG):
            scores, learned = [], 0
            for count in USES:
                questions = learn(index, uses, count, owners=owners, wrong=wrong)
                learned = questions.count
                scores.append(score(index, labelled, asked, questions, who))
                print(".", end="", file=sys.stderr, flush=True)
            yield Row(f"{name}{f', {wrong:.0%} wrong' if wrong else ''}", learned, tuple(scores))
    yield measure_examples(index, labelled, past, asked)


def measure_examples(
    index: Index, labelled: LabelledSet, past: Sequence[LabelledQuery], asked: Sequence[LabelledQuery]
) -> Row:
    """Return the gain if the past questions are example questions of their tools, whatever was shown."""
    questions: defaultdict[str, list[str]] = defaultdict(list)
    for question in past:
        for label in question.relevant:
            questions[labelled.catalogue.ids[label]].append(question.query)
    scores = []
    for count in USES:
        for tool_id, texts in questions.items():
            index.set_examples(tool_id, texts[:count])
        scores.append(score(index, labelled, asked, LearnedQuestions(), None))
        print(".", end="", file=sys.stderr, flush=True)
    return Row("as examples", sum(len(texts[: max(USES)]) for texts in questions.values()), tuple(scores))


def page(sets: dict[str, tuple[int, list[Row]]]) -> str:
    """Return the part of the documentation that shows the rows of each set."""
    head = ["set", "past questions", "learned", *(f"{count} use{'s' * (count != 1)}" for count in USES)]
    lines = [f"| {' | '.join(head)} |", f"| --- | --- |{' --: |' * (len(head) - 2)}"]
    for name, (_, rows) in sets.items():
        for row in rows:
            cells = [f"{ndcg:.1f} ({hit:.1f})" for ndcg, hit in row.scores]
            lines.append(f"| {' | '.join([name, row.name, f'{row.learned:,}', *cells])} |")
    asked = ", ".join(f"{count:,} of {name}" for name, (count, _) in sets.items())
    text = (
        f"NDCG@10, with hit@1 in brackets, in per cent, for the default search with the built-in table, on\n"
        f"{asked}. Made by `.venv/bin/python benchmarks/learning.py --write`."
    )
    return f"{text}\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, and write it into the documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few questions, one set")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    wanted = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit(f"the benchmark needs {DATA}, which is not part of the repository")
    sets = {}
    for name in [*SETS][: 1 if QUICK else None]:
        labelled = load_set(DATA / name, lenient=True)
        sets[name] = len(split_questions(labelled)[1]), list(measure(labelled))
    print(file=sys.stderr)
    print("toolcrib, gain of learning from use")
    print(page(sets))
    if wanted.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}{page(sets)}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

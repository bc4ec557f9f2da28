"""Estimates of the number of tokens in a text."""

import json

import pytest

from toolcrib.model.tokens import estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # As the tokenizer o200k_base counts them.
        ("Create a new issue in a GitHub repository.", 9),
        ('{"type":"object","properties":{"owner":{"type":"string","description":"Repository owner"}}}', 21),
        ("", 0),
    ],
    ids=["prose", "schema", "nothing"],
)
def test_estimates_are_near_what_a_tokenizer_counts(text: str, tokens: int) -> None:
    assert abs(estimate_tokens(text) - tokens) <= max(1, tokens * 0.1)


def test_a_long_text_is_estimated_from_samples() -> None:
    text = json.dumps({f"name {number}": f"value {number}" for number in range(2000)})
    parts = [text[at : at + 1000] for at in range(0, len(text), 1000)]
    assert abs(estimate_tokens(text) / sum(map(estimate_tokens, parts)) - 1) < 0.1
    assert estimate_tokens("ä" * 1000) > estimate_tokens(" " * 1000)

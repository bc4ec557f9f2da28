"""Estimate of the number of tokens of a text, without a tokenizer."""

from string import ascii_letters, digits, punctuation

_LETTERS = ascii_letters.encode()
_DIGITS = digits.encode()
_SIGNS = punctuation.encode()
_ALL_BYTES = bytes(range(256))
_HIGH_BYTES = bytes(range(128, 256))
_WORDS = bytes(each if each in _LETTERS else 32 for each in _ALL_BYTES)
_RUNS = bytes(each if each in _SIGNS else 32 for each in _ALL_BYTES)
"""Translation tables that keep letters, or punctuation, and replace all other bytes by spaces."""
_SAMPLED_CHARS = 1_024
"""The number of characters in the samples by which a longer text is estimated."""
_SAMPLES = 4


def estimate_tokens(text: str, *, sampled: bool = True) -> int:
    """Estimate the number of tokens of a text; a long text is sampled unless `sampled` is false.

    The numbers of letters and of words, of punctuation marks and of runs of these, and of digits are
    weighted. The weights were fitted to the tokenizer o200k_base on half of 1,163 definitions of real tools
    and some prose. On the other half the median error is 2.3%, one definition in twenty has more than 8%,
    and the sum is right to 3%. For comparison, a quarter of the characters has a median error of 13%.

    >>> estimate_tokens(""), estimate_tokens("Open an issue in a repository.")
    (0, 7)
    """
    if len(text) <= _SAMPLED_CHARS or not sampled:
        return round(_weigh(text))
    step = len(text) // _SAMPLES
    size = _SAMPLED_CHARS // _SAMPLES
    sample = "".join(text[at : at + size] for at in range(0, step * _SAMPLES, step))
    return round(_weigh(sample) * len(text) / len(sample))


def _weigh(text: str) -> float:
    data = text.encode("utf-8", "replace")
    size = len(data)
    total = 0.855 * len(data.translate(_WORDS).split()) + 0.034 * (size - len(data.translate(None, _LETTERS)))
    total += 0.953 * len(data.translate(_RUNS).split()) + 0.060 * (size - len(data.translate(None, _SIGNS)))
    total += 0.949 * (size - len(data.translate(None, _DIGITS)))
    return total if text.isascii() else total + 0.215 * (size - len(data.translate(None, _HIGH_BYTES)))

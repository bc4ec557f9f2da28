"""About how many tokens a text takes, without a tokenizer."""

from string import ascii_letters, digits, punctuation

_LETTERS = ascii_letters.encode()
_DIGITS = digits.encode()
_SIGNS = punctuation.encode()
_ALL_BYTES = bytes(range(256))
_HIGH_BYTES = bytes(range(128, 256))
_WORDS = bytes(each if each in _LETTERS else 32 for each in _ALL_BYTES)
_RUNS = bytes(each if each in _SIGNS else 32 for each in _ALL_BYTES)
"""Tables that leave letters, and signs, and make all else a space."""
_SAMPLED_CHARS = 1_024
"""A longer text is estimated from samples of so many characters in all."""
_SAMPLES = 4


def estimated_tokens(text: str, *, sampled: bool = True) -> int:
    """Return about how many tokens a text takes, estimated from samples for a long one, unless not `sampled`.

    Letters and runs of them, signs and runs of them, and digits are counted, with weights fitted to the
    tokenizer o200k_base on half of 1,163 definitions of real tools and some prose. On the other half it is
    off by 2.3 % in the median and by more than 8 % for one definition in twenty; their sum is right to 3 %.
    A quarter of the characters, for comparison, is off by 13 % in the median.

    >>> estimated_tokens(""), estimated_tokens("Open an issue in a repository.")
    (0, 7)
    """
    if len(text) <= _SAMPLED_CHARS or not sampled:
        return round(_weighed(text))
    step = len(text) // _SAMPLES
    size = _SAMPLED_CHARS // _SAMPLES
    sample = "".join(text[at : at + size] for at in range(0, step * _SAMPLES, step))
    return round(_weighed(sample) * len(text) / len(sample))


def _weighed(text: str) -> float:
    data = text.encode("utf-8", "replace")
    size = len(data)
    total = 0.855 * len(data.translate(_WORDS).split()) + 0.034 * (size - len(data.translate(None, _LETTERS)))
    total += 0.953 * len(data.translate(_RUNS).split()) + 0.060 * (size - len(data.translate(None, _SIGNS)))
    total += 0.949 * (size - len(data.translate(None, _DIGITS)))
    return total if text.isascii() else total + 0.215 * (size - len(data.translate(None, _HIGH_BYTES)))

"""Text is cut to a length, never inside a character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery.facts import cut

FAMILY = "👨‍👩‍👧‍👦"
FLAGS = "🇩🇪🇫🇷🇮🇹"
SCOTLAND = "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("issue", 5, "issue"),
        ("issue", 4, "iss…"),
        ("issue", 1, "…"),
        ("issue", 0, ""),
        ("issue", -1, ""),
        ("", 0, ""),
        ("cafe\u0301s", 5, "caf…"),
        ("cafe\u0301s", 6, "cafe\u0301s"),
        ("a\r\nb", 3, "a…"),
        (FAMILY * 2, 8, f"{FAMILY}…"),
        (FAMILY * 2, 11, f"{FAMILY}…"),
        (FLAGS, 5, "🇩🇪🇫🇷…"),
        (FLAGS, 4, "🇩🇪…"),
        ("👍🏽👍🏽", 2, "…"),
        ("👍🏽👍🏽", 3, "👍🏽…"),
        (SCOTLAND + "x" * 9, 4, "…"),
        ("한글" + "\u1112\u1161\u11ab" * 2, 6, "한글\u1112\u1161\u11ab…"),
        ("日本語のテキスト", 4, "日本語…"),
        ("a" + "\u0301" * 100, 50, "a" + "\u0301" * 48 + "…"),
    ],
)
def test_a_text_is_cut_between_characters(text: str, limit: int, shown: str) -> None:
    assert cut(text, limit) == shown


@given(st.text(), st.integers(min_value=0, max_value=40))
def test_a_cut_text_is_a_beginning_within_the_limit(text: str, limit: int) -> None:
    shown = cut(text, limit)
    assert len(shown) <= limit
    assert shown == text if len(text) <= limit else text.startswith(shown.removesuffix("…"))


@given(st.lists(st.sampled_from(["a", "e\u0301", FAMILY, "🇩🇪", "👍🏽"]), max_size=12), st.integers(1, 80))
def test_cut_text_has_whole_characters(characters: list[str], limit: int) -> None:
    text = "".join(characters)
    starts = {len("".join(characters[:count])) for count in range(len(characters) + 1)}
    shown = cut(text, limit)
    assert shown == text or len(shown) - 1 in starts

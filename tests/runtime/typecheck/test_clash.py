"""Types that can never agree are distinguished from types that only a strict checker separates."""

import pytest

from toolcrib.runtime.typecheck.clash import simplify_type, types_clash, union_members

CLASHES = [
    ("str", "int"), ("int", 'Literal["a"]'), ("list[str]", "str"), ("Issue", "None"), ("str", "datetime"),
    ('Literal["a", "b"]', 'Literal["c"]'), ("list[str]", "list[int]"), ("dict[str, int]", "dict[str, str]"),
    ("str", "CoroutineType[Any, Any, str]"), ("str | None", "Literal[True]"), ("str", 'Literal[b"x"]'),
    ("str", "Literal[None]"), ("list[str]", "set[str]"), ('Literal["it\'s | \\"x\\""]', "int"),
]  # fmt: skip
AGREE = [
    ("str", "str | None"), ("float", "int"), ("int", "float*"), ("Any", "int"), ("str", "Unknown"), ("str", "Thing"),
    ("Issue", "dict[str, int]"), ("list[Issue]", "list[dict[str, str]]"), ("list[float]", "list[int]"),
    ('Literal["a"]', "str"), ("list[str]", "tuple[str, str]"), ("dict[str, Any]", "Issue"), ("str", "<class 'x'>"),
    ("list[list[str | int]]", "list[list[str]]"), ("x" * 3_000, "int"), ("list[" * 12 + "int" + "]" * 12, "list[" * 12 + "str" + "]" * 12),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "found"), CLASHES)
def test_disjoint_types_clash(expected: str, found: str) -> None:
    assert types_clash(expected, found, ["Issue"])


@pytest.mark.parametrize(("expected", "found"), AGREE, ids=range(len(AGREE)))
def test_overlapping_types_do_not_clash(expected: str, found: str) -> None:
    assert not types_clash(expected, found, ["Issue"])


def test_union_is_split_outside_brackets_and_quotes() -> None:
    assert union_members('Literal["a \\" | b"] | list[int | None]') == (
        'Literal["a \\" | b"]',
        "list[int | None]",
    )


def test_plain_type_is_short() -> None:
    assert simplify_type("x" * 100) == "x" * 79 + "…"
    assert simplify_type('Literal["a", "b"]') == 'Literal["a", "b"]'

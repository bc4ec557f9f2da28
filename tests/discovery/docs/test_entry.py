"""A documentation entry is checked whole, and cut to the lengths of its levels."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery import DocEntry
from toolcrib.errors import ArgsTooLargeError, InvalidToolError
from toolcrib.model import ToolDoc, ToolExample

EXAMPLE = ToolExample(title="One", args={"n": 1})


def nested(levels: int) -> dict[str, Any]:
    args: dict[str, Any] = {}
    for _ in range(levels - 1):
        args = {"a": args}
    return args


@pytest.mark.parametrize(
    "entry",
    [
        DocEntry.of(DocEntry(summary="S", notes="N", examples=(EXAMPLE,), external_refs=("https://x.test",))),
        DocEntry.of(ToolDoc(summary="S", notes="N", examples=(EXAMPLE,), external_refs=("https://x.test",))),
        DocEntry.of(
            {"summary": "S", "notes": "N", "examples": [EXAMPLE], "externalRefs": ["https://x.test"]}
        ),
        DocEntry.of(
            {"summary": "S", "notes": "N", "external_refs": ["https://x.test"]},
            examples=[{"title": "One", "args": {"n": 1}}],
        ),
        DocEntry.of(DocEntry(summary="T", notes="N"), summary="S", examples=iter([EXAMPLE]))
        .model_copy(update={"external_refs": ("https://x.test",)}),
        DocEntry.of(summary="S", notes="N", examples=(EXAMPLE,), external_refs=["https://x.test"]),
    ],
    ids=["entry", "doc", "dict", "dict and fields", "entry and fields", "fields"],
)  # fmt: skip
def test_an_entry_is_given_in_whatever_form_is_at_hand(entry: DocEntry) -> None:
    assert entry.to_json() == {
        "summary": "S",
        "notes": "N",
        "examples": [{"title": "One", "args": {"n": 1}}],
        "externalRefs": ["https://x.test"],
    }


def test_longer_texts_are_cut_at_the_caps() -> None:
    long = "x" * 5_000
    entry = DocEntry.of(
        summary=long, notes=long, examples=[ToolExample(title=long, description=long, result_hint=long)]
    )
    [example] = entry.examples
    assert entry.summary == "x" * 199 + "…"
    assert len(entry.notes or "") == 2_000
    assert len(example.description or "") == 300
    assert len(example.result_hint or "") == 200
    assert example.title == long


def test_texts_at_the_caps_are_kept() -> None:
    entry = DocEntry.of(
        summary="é" * 200,
        notes="é" * 2_000,
        examples=[{"description": "é" * 300, "resultHint": "é" * 200}],
    )
    assert "…" not in str(entry.to_json())


def test_a_text_of_spaces_says_nothing() -> None:
    assert DocEntry.of(summary=" \n", notes="").to_json() == {}


@pytest.mark.parametrize(
    ("given", "fields", "text"),
    [
        ("a summary", {}, "invalid DocEntry: it must be a DocEntry, a ToolDoc or a dict, not str"),
        ({5: "x"}, {}, "invalid DocEntry: has a key 5, which is not text"),
        (None, {"sumary": "x"}, "invalid DocEntry: /sumary: is not a field of this record"),
        (
            {"summary": 5, "notes": [], "examples": [{"args": [], "n": 1}, 7], "externalRefs": "x"},
            {},
            "invalid DocEntry: /summary: must be a string; /notes: must be a string; /examples/0/args: must be an object; /examples/0/n: is not a field of this record; /examples/1: must be an object; /externalRefs: must be an array",
        ),
        (None, {"examples": {"title": "x"}}, "invalid DocEntry: /examples: must be an array"),
        (None, {"examples": EXAMPLE}, "invalid DocEntry: /examples: must be an array"),
        (None, {"examples": 5}, "invalid DocEntry: /examples: must be an array"),
        (None, {"examples": "x"}, "invalid DocEntry: /examples: must be an array"),
        (
            None,
            {"examples": [{"args": {"x": {1}}}]},
            "invalid DocEntry: /examples/0/args/x: the value is a Python set, which is not plain JSON",
        ),
        (
            None,
            {"summary": "\ud800"},
            "invalid DocEntry: /summary: the value holds a lone surrogate, which no JSON text can carry",
        ),
    ],
)
def test_malformed_entry_is_refused_with_every_problem(given: Any, fields: Any, text: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        DocEntry.of(given, **fields)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("args", "extent"),
    [
        (nested(6), "depth 6 (at most 5 is shown) and size 5 (at most 50)"),
        ({"a": [[[[[]]]]]}, "depth 6 (at most 5 is shown) and size 5 (at most 50)"),
        ({"a": [0] * 50}, "depth 2 (at most 5 is shown) and size 51 (at most 50)"),
        ({str(n): {"k": n} for n in range(26)}, "depth 2 (at most 5 is shown) and size 52 (at most 50)"),
        (nested(500), "depth 500 (at most 5 is shown) and size 499 (at most 50)"),
        (nested(100_000), "depth 1000 or more (at most 5 is shown) and size 1000 or more (at most 50)"),
    ],
    ids=["objects", "arrays", "an array", "keys", "very deep", "absurdly deep"],
)
def test_larger_arguments_are_refused_with_their_depth_and_size(args: Any, extent: str) -> None:
    with pytest.raises(ArgsTooLargeError) as caught:
        DocEntry.of(examples=[{"args": {}}, {"title": "Bulk", "args": args}])
    assert str(caught.value) == f"example arguments are too large: example 1 ('Bulk') has {extent}"


def test_every_example_that_is_too_large_is_named() -> None:
    large = {"a": [0] * 50}
    with pytest.raises(ArgsTooLargeError, match=r"example 0 has .*; example 2 \('x'\) has "):
        DocEntry.of(examples=[ToolExample(args=large), EXAMPLE, ToolExample(title="x", args=large)])


def test_arguments_that_hold_themselves_are_refused() -> None:
    args: dict[str, Any] = {}
    args["self"] = [args, args]
    with pytest.raises(ArgsTooLargeError, match="1000 or more"):
        DocEntry.of(examples=[{"args": args}])


@pytest.mark.parametrize("args", [nested(5), {"a": [0] * 49}, {str(n): n for n in range(50)}, {}])
def test_arguments_within_the_caps_are_kept(args: dict[str, Any]) -> None:
    assert DocEntry.of(examples=[{"args": args}]).examples[0].args == args


def test_an_entry_shares_nothing_with_what_it_was_made_of() -> None:
    args: dict[str, Any] = {"labels": ["bug"]}
    example = ToolExample(args=args)
    entry = DocEntry.of(examples=[example, {"args": args}])
    args["labels"].append("x")
    example.args["labels"].append("y")
    assert [shown.args for shown in entry.examples] == [{"labels": ["bug"]}] * 2


def test_one_entry_over_another_says_what_it_says_itself() -> None:
    exact, general = DocEntry(summary="S"), DocEntry(summary="T", notes="N", examples=(EXAMPLE,))
    assert exact.over(general) == DocEntry(summary="S", notes="N", examples=(EXAMPLE,))


@given(
    st.recursive(st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_depth_and_size_are_counted_as_defined(value: Any) -> None:
    def depth(member: Any) -> int:
        inner = member.values() if isinstance(member, dict) else member if isinstance(member, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    def size(member: Any) -> int:
        inner = member.values() if isinstance(member, dict) else member if isinstance(member, list) else ()
        return len(inner) + sum(map(size, inner))

    args = {"value": value}
    try:
        DocEntry.of(examples=[{"args": args}])
    except ArgsTooLargeError:
        assert depth(args) > 5 or size(args) > 50
    else:
        assert depth(args) <= 5
        assert size(args) <= 50

"""Caches that callers can fill are bounded by bytes: long texts, each another, leave no memory behind."""

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from toolcrib import Crib
from toolcrib.discovery import Index
from toolcrib.execution import Principal, Rule
from toolcrib.execution.policy.rules import Rules
from toolcrib.model import Tool
from toolcrib.runtime.typecheck.clash import union_members
from toolcrib.runtime.typecheck.vocabulary import read_stub

ANN = Principal(issuer="https://login.example", subject="ann")
GRANTS = Rules(
    [Rule(name="no", tools=["s:file:///secret/*"], effect="deny"), Rule(name="all", effect="allow")]
).grants(ANN)
RULE = Rule(name="it", tools=["git:*"], effect="allow")
INDEX = Index()
INDEX.register(Tool(name="log", namespace="git", input_schema={}))
CATALOGUE = Crib().code_names
_TEXTS = 60
_LENGTH = 100_000
_ALLOWED = 2_000_000
"""Bytes that may stay; all texts together have three times as many."""
CALLERS: dict[str, Callable[[str], object]] = {
    "address of a resource": lambda text: GRANTS.admits(f"s:file:///{text}"),
    "id in a rule": lambda text: RULE.covers(f"git:{text}", (), {}),
    "tag of a filter": lambda text: list(INDEX.list_all(tags=[text])),
    "namespace of a filter": lambda text: list(INDEX.list_all(namespace=text)),
    "tool that code mentions": lambda text: CATALOGUE.tools([f"{text}:tool"]),
    "type in code": lambda text: union_members(f"list[{text}] | None"),
    "stub of tools": lambda text: read_stub(f"def {text}(): ..."),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_long_texts_of_callers_are_not_kept(caller: str) -> None:
    CALLERS[caller]("first")
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(_TEXTS):
            CALLERS[caller](f"a{number}" + "a" * _LENGTH)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < _ALLOWED


def test_namespaces_that_code_makes_up_are_not_kept() -> None:
    catalogue = Crib().code_names
    tracemalloc.start()
    try:
        for number in range(1_000):
            assert not catalogue.tools([f"{number}{'a' * 2_000}:tool"])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < _ALLOWED // 2

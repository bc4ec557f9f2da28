"""What was read of a tool is kept, and read back as it was."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from discovery.support import DictCache, Entry, make
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.discovery import Bm25Searcher
from toolcrib.discovery.search.lexical.bm25 import Analyses
from toolcrib.discovery.search.text import analyse, search_doc
from toolcrib.model import Tool

TEXTS = [
    "create issues",
    "天气预报",
    "größe",
    "मौसम बताओ।",
    "a\0b",
    "👩‍👩‍👧 emoji",
    "line\nbreak",
    "",
    "the",
    "mp3 2024",
]
CATALOGUE = [
    make("create_issue", "Open issues in a repository.", namespace="github", examples=["File a bug"]),
    make("get_weather", "Tell the weather forecast. Weather for 3 days, weather for 7.", tags=["weather"]),
    make("wetter", "Größe und Wetter; 天气预报。"),
    make("the"),
]

entries = st.builds(
    make,
    st.sampled_from(["create_issue", "getWeather", "the", "x"]),
    st.lists(st.one_of(st.sampled_from(TEXTS), st.text(max_size=12)), max_size=4).map(" ".join),
    namespace=st.sampled_from(["github", None]),
    examples=st.lists(st.sampled_from(TEXTS), max_size=3),
)


@dataclass(frozen=True)
class Counted:
    """An entry that notes whenever its tool is looked at."""

    entry: Entry
    looks: list[str]

    @property
    def id(self) -> str:
        return self.entry.id

    @property
    def content_hash(self) -> str:
        return self.entry.content_hash

    @property
    def examples(self) -> tuple[str, ...]:
        return self.entry.examples

    @property
    def tool(self) -> Tool:
        self.looks.append(self.entry.id)
        return self.entry.tool


def counted(looks: list[str]) -> list[Counted]:
    return [Counted(entry, looks) for entry in CATALOGUE]


def blobs(cache: DictCache) -> Iterator[tuple[dict[str, bytes], str, bytes]]:
    """Yield everything a cache holds, with where it stands."""
    for values in cache.kept.values():
        for key, blob in list(values.items()):
            yield values, key, blob


def test_every_tool_is_analysed_in_its_turn() -> None:
    found = list(Analyses(None).analyse(CATALOGUE))
    assert found == [analyse(search_doc(entry.tool, entry.examples)) for entry in CATALOGUE]


@given(st.lists(entries, max_size=4))
def test_cached_analysis_equals_the_computed_one(catalogue: list[Entry]) -> None:
    cache = DictCache()
    worked_out = list(Analyses(cache).analyse(catalogue))
    assert list(Analyses(cache).analyse(catalogue)) == worked_out
    assert worked_out == [analyse(search_doc(entry.tool, entry.examples)) for entry in catalogue]


def test_cached_analysis_is_reused() -> None:
    cache, looks = DictCache(), list[str]()
    list(Analyses(cache).analyse(counted(looks)))
    assert looks == [entry.id for entry in CATALOGUE]
    list(Analyses(cache).analyse(counted(looks)))
    Bm25Searcher(cache=cache).update(counted(looks))
    assert len(looks) == len(CATALOGUE)


def test_only_what_is_missing_is_analysed() -> None:
    cache, looks = DictCache(), list[str]()
    list(Analyses(cache).analyse(CATALOGUE[:2]))
    found = list(Analyses(cache).analyse(counted(looks)))
    assert looks == [entry.id for entry in CATALOGUE[2:]]
    assert found == list(Analyses(None).analyse(CATALOGUE))


def test_the_cache_is_asked_once_for_many_tools() -> None:
    cache = DictCache()
    many = [make(f"tool_{number}", "weather") for number in range(300)]
    list(Analyses(cache).analyse(many))
    assert cache.asked == 1
    assert sum(1 for _ in blobs(cache)) == 300


def test_more_tools_than_are_asked_for_at_once_all_come_back() -> None:
    cache, entry = DictCache(), CATALOGUE[0]
    assert len(list(Analyses(cache).analyse([entry] * 11_000))) == 11_000
    assert cache.asked == 3


@given(st.integers(0, 1_000), st.integers(1, 255))
def test_a_damaged_byte_is_noticed_and_the_tool_analysed_again(place: int, change: int) -> None:
    cache, looks = DictCache(), list[str]()
    list(Analyses(cache).analyse(CATALOGUE))
    for values, key, blob in blobs(cache):
        damaged = bytearray(blob)
        damaged[place % len(blob)] ^= change
        values[key] = bytes(damaged)
    assert list(Analyses(cache).analyse(counted(looks))) == list(Analyses(None).analyse(CATALOGUE))
    assert len(looks) == len(CATALOGUE)


@pytest.mark.parametrize("rest", [b"", b"\0", b"\0\0\0\0", b"\xff" * 16, b"creat", b"creat\0" + b"\xff" * 8])
def test_damaged_cache_entry_is_analysed_again(rest: bytes) -> None:
    cache, looks = DictCache(), list[str]()
    list(Analyses(cache).analyse(CATALOGUE))
    for values, key, _ in blobs(cache):
        values[key] = rest
    assert list(Analyses(cache).analyse(counted(looks))) == list(Analyses(None).analyse(CATALOGUE))
    assert len(looks) == len(CATALOGUE)
    assert list(Analyses(cache).analyse(counted(looks)))
    assert len(looks) == len(CATALOGUE)


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5, 8, 9])
def test_a_blob_cut_short_is_worked_out_again(cut: int) -> None:
    cache = DictCache()
    list(Analyses(cache).analyse(CATALOGUE))
    for values, key, blob in blobs(cache):
        values[key] = blob[:-cut]
    assert list(Analyses(cache).analyse(CATALOGUE)) == list(Analyses(None).analyse(CATALOGUE))


@given(
    st.lists(entries, max_size=6, unique_by=lambda entry: entry.id),
    st.sampled_from([*TEXTS, "create weather"]),
)
def test_a_search_answers_the_same_after_a_restart(catalogue: list[Entry], query: str) -> None:
    cache = DictCache()
    before, after = Bm25Searcher(cache=cache), Bm25Searcher(cache=cache)
    before.update(catalogue)
    after.update(catalogue)
    assert after.search(query, limit=10) == before.search(query, limit=10)

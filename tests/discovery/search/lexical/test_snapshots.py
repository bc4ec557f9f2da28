"""Bm25Searcher opens from its snapshot without analysing, and equals one that was built anew."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from discovery.support import DictCache, Entry, make
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from laws import law

from toolcrib.discovery import Bm25Searcher
from toolcrib.discovery.protocols import Hit
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


def damage(cache: DictCache, change: Callable[[bytes], bytes]) -> None:
    for values in cache.kept.values():
        for key, blob in values.items():
            values[key] = change(blob)


def answers(searcher: Bm25Searcher) -> list[list[Hit]]:
    return [searcher.search(query, limit=10) for query in (*TEXTS, "create weather", "creat isue")]


def test_opening_from_a_snapshot_reads_no_tool() -> None:
    cache, looks = DictCache(), list[str]()
    before, after = Bm25Searcher(cache=cache), Bm25Searcher(cache=cache)
    before.update(counted(looks))
    assert looks == [entry.id for entry in CATALOGUE]
    after.update(counted(looks))
    assert len(looks) == len(CATALOGUE)
    assert answers(after) == answers(before)


def test_only_what_changed_since_the_snapshot_is_analysed() -> None:
    cache, looks = DictCache(), list[str]()
    Bm25Searcher(cache=cache).update([*CATALOGUE[:2], make("gone"), make("wetter", "Something else.")])
    after, anew = Bm25Searcher(cache=cache), Bm25Searcher()
    after.update(counted(looks))
    anew.update(CATALOGUE)
    assert looks == [entry.id for entry in CATALOGUE[2:]]
    assert answers(after) == answers(anew)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_byte_is_noticed_and_all_is_analysed_again(place: int, change: int) -> None:
    def flip(blob: bytes) -> bytes:
        damaged = bytearray(blob)
        damaged[place % len(blob)] ^= change
        return bytes(damaged)

    cache, looks = DictCache(), list[str]()
    before, after = Bm25Searcher(cache=cache), Bm25Searcher(cache=cache)
    before.update(CATALOGUE)
    damage(cache, flip)
    after.update(counted(looks))
    assert len(looks) == len(CATALOGUE)
    assert answers(after) == answers(before)


@pytest.mark.parametrize("cut", [0, 1, 4, 5, 12, 40, -1, -9])
def test_a_snapshot_cut_short_is_replaced(cut: int) -> None:
    cache, looks = DictCache(), list[str]()
    Bm25Searcher(cache=cache).update(CATALOGUE)
    damage(cache, lambda blob: blob[:cut])
    Bm25Searcher(cache=cache).update(counted(looks))
    assert len(looks) == len(CATALOGUE)
    Bm25Searcher(cache=cache).update(counted(looks))
    assert len(looks) == len(CATALOGUE)


class SearcherModel(RuleBasedStateMachine):
    """After any updates, removals and reopenings the searcher equals one built anew."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = DictCache()
        self.searcher = Bm25Searcher(cache=self.cache)
        self.tools: dict[str, Entry] = {}

    @rule(added=st.lists(entries, max_size=30))
    def add(self, added: list[Entry]) -> None:
        self.searcher.update(added)
        self.tools |= {entry.id: entry for entry in added}

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone = data.draw(st.lists(st.sampled_from(sorted(self.tools)), max_size=3)) if self.tools else []
        self.searcher.update([], gone)
        self.tools = {name: one for name, one in self.tools.items() if name not in gone}

    @rule()
    def restart(self) -> None:
        self.searcher = Bm25Searcher(cache=self.cache)
        self.searcher.update(list(self.tools.values()))

    @invariant()
    def it_equals_one_built_anew(self) -> None:
        anew = Bm25Searcher()
        anew.update(list(self.tools.values()))
        assert answers(self.searcher) == answers(anew)


TestSearcher = SearcherModel.TestCase
TestSearcher.settings = law(15, stateful_step_count=12)

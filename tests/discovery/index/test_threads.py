"""Many threads read while others write, and each sees every change wholly or not at all."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from discovery.index.support import GITHUB, ids, make, walk
from discovery.support import WordEmbedder
from waiting import PATIENCE

from toolcrib.discovery import Bm25Searcher, EmbeddingSearcher, HybridSearcher, Index, MemoryStore, Searcher
from toolcrib.errors import InvalidCursorError

T = TypeVar("T")

OLD = [make(f"forecast_{number}", "old", description="Weather forecast, old.") for number in range(20)]
NEW = [make(f"forecast_{number}", "new", description="Weather forecast, new.") for number in range(20)]


@pytest.fixture(autouse=True)
def hurry() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def during(write: Callable[[], None], *reads: Callable[[], T]) -> list[T]:
    """Return the results of readers that run again and again during a write."""
    done = threading.Event()

    def look(read: Callable[[], T]) -> list[T]:
        seen = [read()]
        while not done.is_set():
            seen.append(read())
        return seen

    with ThreadPoolExecutor(len(reads)) as pool:
        looks = [pool.submit(look, read) for read in reads]
        try:
            write()
        finally:
            done.set()
        return [one for done_look in looks for one in done_look.result()]


def swap(index: Index, times: int) -> None:
    """Replace one half of a catalogue by the other and back, tool by tool, in one change each."""
    for turn in range(times):
        tools = (NEW, OLD)[turn % 2]
        index.register_many((tool.replace(namespace="both", title=tool.namespace), GITHUB) for tool in tools)


@pytest.mark.parametrize(
    "make_searcher",
    [
        pytest.param(Bm25Searcher, id="bm25"),
        pytest.param(
            lambda: HybridSearcher(Bm25Searcher(), EmbeddingSearcher(WordEmbedder())),
            id="hybrid",
            marks=pytest.mark.proof,
        ),
    ],
)
def test_a_search_during_changes_finds_every_tool_of_one_version(
    make_searcher: Callable[[], Searcher],
) -> None:
    index = Index(make_searcher())
    index.register_many((tool, None) for tool in OLD)
    worlds = [{str(tool.id) for tool in tools} for tools in (OLD, NEW, [*OLD, *NEW])]

    def write() -> None:
        for _ in range(8):
            index.register_many((tool, None) for tool in NEW)
            for tool in OLD:
                index.unregister(tool.id)
            index.register_many((tool, None) for tool in OLD)
            for tool in NEW:
                index.unregister(tool.id)

    def read() -> tuple[str, int, int]:
        page = index.search("weather forecast", limit=100, namespace="new")
        return "new", len(page), page.total

    def read_all() -> tuple[str, int, int]:
        page = index.search("weather forecast", limit=100)
        return "all", len(page), page.total

    seen = during(write, read, read_all)
    assert all(found == total for _, found, total in seen)
    assert all(found >= 20 for what, found, _ in seen if what == "all")
    assert set(ids(index.search("weather forecast", limit=100))) == worlds[0]


def test_a_batch_is_listed_wholly_or_not_at_all() -> None:
    index = Index()

    def read() -> tuple[frozenset[str | None], int]:
        page = index.tools(namespace="both", limit=1_000)
        titles = frozenset(index.get(one.id).title for one in page.items[:1])
        return titles, page.total

    seen = during(lambda: swap(index, 12), read, read)
    assert {total for _, total in seen} <= {0, 20}


@pytest.mark.proof
def test_walks_during_changes_are_whole_or_told_that_they_cannot_be() -> None:
    index = Index()
    swap(index, 1)

    def walk_all() -> list[str] | None:
        try:
            return [one for page in walk(index.tools, 7) for one in ids(page)]
        except InvalidCursorError:
            return None

    seen = during(lambda: swap(index, 12), walk_all, walk_all)
    expected = sorted(f"both:forecast_{number}" for number in range(20))
    assert all(walked in (expected, None) for walked in seen)


def test_every_tool_is_told_as_of_one_moment() -> None:
    index = Index()
    seen = during(lambda: swap(index, 12), *[lambda: len(index.list_all(namespace="both"))] * 2)
    assert set(seen) <= {0, 20}


def test_many_writers_lose_nothing() -> None:
    index = Index(store=MemoryStore())

    def write(writer: int) -> None:
        for number in range(30):
            index.register(make(f"t{number}", f"w{writer}"), GITHUB)
            index.count_use(f"w{writer}:t{number}")
            if number % 3 == 0:
                index.unregister(f"w{writer}:t{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    kept = {f"w{writer}:t{number}" for writer in range(4) for number in range(30) if number % 3}
    assert set(ids(index.tools(limit=1_000))) == kept
    assert len(index) == len(kept) == 80
    assert index.version == 4 * 40
    assert sum(index.usage().values()) == 120


def test_one_tool_is_registered_by_many_threads_with_all_its_backends() -> None:
    index = Index()
    backends = [GITHUB.replace(server_name=f"s{number}") for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda backend: index.register(OLD[0], backend), backends))
    assert sorted(map(repr, index.backends(OLD[0].id))) == sorted(map(repr, backends))


def test_a_stored_tool_is_parsed_once_it_is_wanted_by_many_threads_at_once() -> None:
    store = MemoryStore()
    Index(store=store).register_many((tool, None) for tool in OLD)
    for _ in range(15):
        index = Index(store=store)
        start = threading.Barrier(6)

        def read(index: Index = index, start: threading.Barrier = start) -> list[str | None]:
            start.wait(timeout=PATIENCE)
            return [index.get(tool.id).description for tool in OLD]

        with ThreadPoolExecutor(6) as pool:
            seen = [pool.submit(read) for _ in range(6)]
            assert all(one.result() == [tool.description for tool in OLD] for one in seen)


def test_a_tool_that_is_replaced_is_never_gone() -> None:
    index = Index()
    swap(index, 1)
    reads: list[Callable[[], object]] = [
        lambda: index.resolve("both:forecast_3").name,
        lambda: index.backends("both:forecast_3"),
        index.namespaces,
        lambda: len(index),
        lambda: "both:forecast_3" in index,
        lambda: ids(index.search("forecast_3", limit=1)),
    ]

    def read() -> tuple[object, ...]:
        return tuple(map(repr, (read() for read in reads)))

    seen = during(lambda: swap(index, 10), read, read)
    assert len(set(seen)) == 1


def test_a_reference_always_means_something_while_versions_come_and_go() -> None:
    index = Index()
    lower, higher = (make("merge", "git", version=version) for version in ("1.0.0", "2.0.0"))
    index.register(lower)

    def write() -> None:
        for _ in range(100):
            index.register(higher)
            index.unregister(higher.id)

    seen = during(write, *[lambda: index.resolve("git:merge").version] * 3)
    assert set(seen) <= {"1.0.0", "2.0.0"}

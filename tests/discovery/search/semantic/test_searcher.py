"""Search by meaning: when vectors are made, where they are kept, and who waits for whom."""

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from discovery.support import DIMENSIONS, DictCache, Entry, RemoteEmbedder, WordEmbedder, indexed, make
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from waiting import PATIENCE

from toolcrib.discovery import Embedder, EmbeddingSearcher, SqliteStore
from toolcrib.discovery.search.semantic import DocumentText
from toolcrib.discovery.search.semantic.text import document_text
from toolcrib.errors import EmbeddingError, StoreError

TOOLS = [
    make("create_issue", "Open an issue in a repository.", namespace="github"),
    make("get_weather", "Tell the weather forecast of a city.", namespace="weather"),
    make("send_mail", "Send a message to somebody.", namespace="mail"),
]


def many(count: int) -> list[Entry]:
    return [make(f"tool_{number}", f"word{number % 97} thing{number}") for number in range(count)]


def filled(embedder: Embedder, tools: Sequence[Entry] = TOOLS, **options: Any) -> EmbeddingSearcher:
    searcher = EmbeddingSearcher(embedder, **options)
    searcher.update(tools, [])
    return searcher


class Broken:
    """An embedder with scripted output."""

    def __init__(self, output: Any) -> None:
        self.output = output

    def encode(self, texts: Sequence[str], /) -> Any:
        return self.output(texts) if callable(self.output) else self.output

    async def embed(self, texts: Sequence[str], /) -> Any:
        return self.encode(texts)


class Failing(WordEmbedder):
    """Fails from a given call on, until it is mended."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after: int | None = after

    def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
        if self.after is not None and len(self.calls) >= self.after:
            raise ConnectionError("no model here")
        return super().encode(texts)


class Stuck(RemoteEmbedder):
    """Embeds a query without delay, and never finishes documents unless it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.free = False
        self.cancelled = False

    async def embed(self, texts: Sequence[str], /) -> NDArray[Any]:
        if texts != ["weather"] and not self.free:
            self.reached.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled = True
        return await super().embed(texts)


class Slow(WordEmbedder):
    """Embeds a query without delay, and documents once it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
        if texts != ["weather"]:
            self.reached.set()
            self.go_on.wait()
        return super().encode(texts)


# When vectors are made


def test_an_update_embeds_nothing() -> None:
    embedder = WordEmbedder()
    searcher = filled(embedder)
    assert embedder.calls == []
    assert searcher.pending == 3


def test_the_first_search_embeds_each_tool_and_the_query_once() -> None:
    embedder = WordEmbedder()
    searcher = filled(embedder)
    searcher.search("weather", limit=1)
    searcher.search("weather", limit=2)
    assert sorted(map(len, embedder.calls)) == [1, 3]
    assert searcher.pending == 0


def test_tools_can_be_embedded_ahead_of_the_first_search() -> None:
    embedder = WordEmbedder()
    searcher = filled(embedder)
    searcher.prepare()
    assert searcher.pending == 0
    searcher.search("weather", limit=1)
    assert embedder.calls[1:] == [["weather"]]


def test_to_prepare_nothing_touches_nothing() -> None:
    embedder = WordEmbedder()
    EmbeddingSearcher(embedder).prepare()
    searcher = filled(embedder, [])
    searcher.update([], ["unknown"])
    searcher.prepare()
    assert searcher.search("weather", limit=1) == []
    assert embedder.calls == []


def test_unchanged_content_is_not_embedded_again() -> None:
    embedder = WordEmbedder()
    searcher = filled(embedder)
    searcher.prepare()
    searcher.update(TOOLS, [])
    searcher.update(TOOLS, [tool.id for tool in TOOLS])
    searcher.prepare()
    assert len(embedder.texts) == 3


def test_the_same_content_under_another_id_is_not_embedded_again() -> None:
    embedder = WordEmbedder()
    tool = TOOLS[1]
    twin = Entry("weather:get_weather:2.0.0", tool.content_hash, tool.tool)
    searcher = filled(embedder, [tool])
    searcher.prepare()
    searcher.update([twin], [tool.id])
    third = Entry("weather:get_weather:3.0.0", tool.content_hash, tool.tool)
    searcher.update([third], [])
    hits = searcher.search("weather", limit=5)
    assert [hit.id for hit in hits] == [twin.id, third.id]
    assert hits[0].score == hits[1].score
    assert len(embedder.texts) == 2


def test_changed_content_is_embedded_again_alone() -> None:
    embedder = WordEmbedder()
    searcher = filled(embedder)
    searcher.prepare()
    changed = make("send_mail", "Post a letter.", namespace="mail")
    searcher.update([changed], [])
    assert searcher.search("post letter", limit=1)[0].id == changed.id
    assert len(embedder.texts) == 5


@pytest.mark.proof
def test_texts_are_embedded_in_batches() -> None:
    embedder = WordEmbedder()
    filled(embedder, many(2500), batch=400).prepare()
    assert max(map(len, embedder.calls)) == 400
    assert len(embedder.texts) == 2500


@pytest.mark.proof
def test_a_batch_is_never_more_than_a_thousand_texts() -> None:
    embedder = WordEmbedder()
    filled(embedder, many(1500), batch=10**6).prepare()
    assert [len(call) for call in embedder.calls] == [1000, 500]


def test_progress_is_told_from_the_first_to_the_last() -> None:
    told: list[tuple[int, int]] = []
    filled(WordEmbedder(), many(1100), batch=300).prepare(lambda done, total: told.append((done, total)))
    assert told[0] == (0, 1100)
    assert told[-1] == (1100, 1100)
    assert told == sorted(told)


def test_a_query_is_remembered_until_many_others_came() -> None:
    embedder = WordEmbedder()
    searcher = filled(embedder)
    for query in ("weather", "mail", "weather"):
        searcher.search(query, limit=1)
    assert len(embedder.calls) == 3
    for number in range(300):
        searcher.search(f"question {number}", limit=1)
    searcher.search("weather", limit=1)
    assert len(embedder.calls) == 304


# Where vectors are kept


def test_after_a_restart_vectors_come_from_the_cache() -> None:
    cache = DictCache()
    before = filled(WordEmbedder(), many(1200), cache=cache)
    expected = before.search("word7 thing7", limit=20)
    embedder = WordEmbedder()
    after = filled(embedder, many(1200), cache=cache)
    assert after.search("word7 thing7", limit=20) == expected
    assert embedder.calls == [["word7 thing7"]]


def test_a_store_on_disk_is_such_a_cache(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "catalogue.db") as store:
        expected = filled(WordEmbedder(), cache=store).search("weather", limit=3)
    embedder = WordEmbedder()
    with SqliteStore(tmp_path / "catalogue.db") as store:
        assert filled(embedder, cache=store).search("weather", limit=3) == expected
    assert embedder.calls == [["weather"]]


def test_an_embedder_that_knows_its_dimensions_is_not_touched_to_prepare_from_the_cache() -> None:
    class Known(WordEmbedder):
        dimensions = DIMENSIONS

    cache = DictCache()
    filled(Known(), cache=cache).prepare()
    embedder = Known()
    filled(embedder, cache=cache).prepare()
    assert embedder.calls == []


def test_vectors_missing_in_the_cache_are_embedded() -> None:
    cache = DictCache()
    filled(WordEmbedder(), TOOLS[:2], cache=cache).prepare()
    embedder = WordEmbedder()
    assert filled(embedder, TOOLS, cache=cache).search("mail", limit=1)[0].id == "mail:send_mail"
    assert sorted(map(len, embedder.calls)) == [1, 1]


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\x00" * 7,
        b"\x00" * DIMENSIONS * 2,
        b"\xff" * DIMENSIONS * 2,
        np.ones(DIMENSIONS, "<f2").tobytes(),
        np.eye(1, DIMENSIONS * 2, dtype="<f2").tobytes(),
        None,
    ],
    ids=["empty", "odd", "zeros", "not numbers", "not of length one", "other dimensions", "no bytes"],
)
def test_damaged_cached_vector_is_computed_again(blob: Any) -> None:
    cache = DictCache()
    expected = filled(WordEmbedder(), cache=cache).search("weather", limit=3)
    [kept] = [kept for kind, kept in cache.kept.items() if kind.startswith("vectors/")]
    sound = dict(kept)
    kept.update(dict.fromkeys(kept, blob))
    drop_snapshots(cache)
    embedder = WordEmbedder()
    assert filled(embedder, cache=cache).search("weather", limit=3) == expected
    assert len(embedder.texts) == 4
    assert kept == sound


def drop_snapshots(cache: DictCache) -> None:
    for kind in [kind for kind in cache.kept if kind.startswith("snapshot/")]:
        del cache.kept[kind]


def test_snapshot_gives_the_vectors_of_tools_that_have_not_changed() -> None:
    cache = DictCache()
    filled(WordEmbedder(), TOOLS, cache=cache).prepare()
    for kept in [kept for kind, kept in cache.kept.items() if kind.startswith("vectors/")]:
        kept.clear()
    changed = [TOOLS[0].tool.replace(description="Close an issue."), *(one.tool for one in TOOLS[1:])]
    embedder, tools = WordEmbedder(), [indexed(tool) for tool in changed]
    after, anew = filled(embedder, tools, cache=cache), filled(WordEmbedder(), tools)
    assert after.search("tell mail", limit=5) == anew.search("tell mail", limit=5)
    assert [text for text in embedder.texts if "issue" in text] == [document_text(tools[0])]
    assert not [text for text in embedder.texts if "forecast" in text]


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_damaged_snapshot_of_vectors_is_replaced(place: int, change: int) -> None:
    cache = DictCache()
    expected = filled(WordEmbedder(), cache=cache).search("weather", limit=3)
    [kept] = [kept for kind, kept in cache.kept.items() if kind.startswith("snapshot/")]
    [(key, sound)] = kept.items()
    damaged = bytearray(sound)
    damaged[place % len(sound)] ^= change
    kept[key] = bytes(damaged)
    assert filled(WordEmbedder(), cache=cache).search("weather", limit=3) == expected
    assert kept[key] == sound


def test_vectors_of_another_model_or_another_text_are_not_taken() -> None:
    class Other(WordEmbedder):
        key = "others"

    cache = DictCache()
    filled(WordEmbedder(), cache=cache).prepare()
    for embedder, text in ((Other(), DocumentText()), (WordEmbedder(), DocumentText(limit=200))):
        searcher = filled(embedder, cache=cache, text=text)
        searcher.prepare()
        assert len(embedder.texts) == 4  # the tools, and a word that tells the dimensions
    assert sorted(kind for kind in cache.kept if kind.startswith("vectors/")) == [
        "vectors/others/text-3-1500-1-3",
        "vectors/words/text-3-1500-1-3",
        "vectors/words/text-3-200-1-3",
    ]


@pytest.mark.parametrize("nameless", ["embedder", "text"])
def test_without_a_key_no_vector_is_cached(nameless: str) -> None:
    cache = DictCache()
    embedder = Broken(lambda texts: np.ones((len(texts), 4))) if nameless == "embedder" else WordEmbedder()
    options: dict[str, Any] = {"text": lambda one: one.tool.name} if nameless == "text" else {}
    assert filled(embedder, cache=cache, **options).search("weather", limit=5)
    assert [kind for kind in cache.kept if kind.startswith("vectors/")] == []


def test_the_text_of_a_tool_can_be_chosen() -> None:
    embedder = WordEmbedder()
    filled(embedder, text=lambda one: one.tool.name).prepare()
    assert sorted(embedder.texts) == ["create_issue", "get_weather", "send_mail"]


# What is found


def test_scores_are_cosines_and_confidence_goes_by_them_alone() -> None:
    searcher = filled(WordEmbedder(), calibration=(0.5, 10))
    hits = searcher.search("weather forecast city", limit=3)
    cosines = searcher.cosines("weather forecast city", [hit.id for hit in hits])
    assert [hit.score for hit in hits] == cosines.tolist()
    assert [hit.confidence for hit in hits] == [searcher.confidence(hit.score) for hit in hits]
    assert searcher.confidence(0.5) == 0.5
    assert searcher.confidence(0.6) == pytest.approx(1 / (1 + np.exp(-1)))


def test_confidence_stays_a_likelihood_however_steep() -> None:
    searcher = EmbeddingSearcher(WordEmbedder(), calibration=(0.5, 1e9))
    assert searcher.confidence(-1) == pytest.approx(0)
    assert searcher.confidence(1) == 1


def test_cosines_are_near_to_those_of_the_exact_vectors() -> None:
    embedder = WordEmbedder()
    cosines = filled(embedder).cosines("weather forecast", [tool.id for tool in TOOLS])
    texts = [DocumentText()(tool) for tool in TOOLS]
    vectors = embedder.encode([*texts, "weather forecast"])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert cosines == pytest.approx(vectors[:3] @ vectors[3], abs=0.005)


def test_cosines_of_chosen_ids_come_in_their_order_and_are_zero_where_unknown() -> None:
    searcher = filled(WordEmbedder())
    ids = [tool.id for tool in TOOLS]
    cosines = searcher.cosines("weather", ids)
    backwards = searcher.cosines("weather", [*reversed(ids), "unknown"])
    assert backwards.tolist() == [*cosines[::-1].tolist(), 0.0]
    assert backwards.dtype == np.float32


@pytest.mark.parametrize("query", ["", " ", "\x00"])
def test_a_query_that_says_nothing_is_like_nothing(query: str) -> None:
    searcher = filled(WordEmbedder())
    assert searcher.cosines(query, [TOOLS[0].id, "unknown"]).tolist() == [0, 0]


def test_to_search_among_no_ids_finds_nothing_and_embeds_nothing() -> None:
    embedder = WordEmbedder()
    searcher = filled(embedder)
    assert searcher.search("weather", limit=5, among=set()) == []
    assert searcher.search("weather", limit=0) == []
    assert embedder.calls == []


def test_a_search_among_more_ids_than_there_are_is_a_search_among_all() -> None:
    searcher = filled(WordEmbedder())
    among = {tool.id for tool in many(50)} | {tool.id for tool in TOOLS[:2]}
    hits = searcher.search("weather", limit=5, among=among)
    assert {hit.id for hit in hits} == {tool.id for tool in TOOLS[:2]}


# Embedders that go wrong


@pytest.mark.parametrize(
    "output",
    [
        np.zeros(3),
        np.zeros((1, 2, 3)),
        np.zeros((99, 4)),
        np.zeros((0, 4)),
        np.zeros((1, 0)),
        np.zeros((1, 20_000)),
        np.float32(1),
        None,
        "vectors",
        [[1, 2], [3]],
        [[object()]],
        {"a": 1},
    ],
    ids=lambda output: repr(np.shape(output)) if isinstance(output, np.ndarray) else repr(output)[:20],
)
def test_malformed_embedder_output_is_an_error(output: Any) -> None:
    with pytest.raises(EmbeddingError, match=r"embedding failed: .* gave"):
        filled(Broken(output)).search("weather", limit=1)


def test_an_embedder_may_not_change_its_dimensions() -> None:
    searcher = filled(Broken(lambda texts: np.ones((len(texts), 4 if len(texts) == 1 else 5))))
    with pytest.raises(EmbeddingError, match="it gave vectors of 5 dimensions where it has 4"):
        searcher.search("weather", limit=1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0], ids=str)
def test_a_tool_whose_vector_says_nothing_scores_zero(bad: float) -> None:
    def embed(texts: Sequence[str]) -> NDArray[Any]:
        vectors = np.ones((len(texts), 4))
        vectors[["mail" in text for text in texts]] = bad
        return vectors

    cache = DictCache()
    embedder = Broken(embed)
    embedder.key = "broken"  # type: ignore[attr-defined]
    hits = filled(embedder, cache=cache).search("weather", limit=5)
    assert [hit.score for hit in hits] == [pytest.approx(1), pytest.approx(1), 0]
    assert hits[-1].id == "mail:send_mail"
    assert [len(kept) for kind, kept in cache.kept.items() if kind.startswith("vectors/")] == [2]


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0], ids=str)
def test_a_query_whose_vector_says_nothing_finds_nothing(bad: float) -> None:
    searcher = filled(Broken(lambda texts: np.full((len(texts), 4), bad)))
    assert searcher.search("weather", limit=5) == []
    assert searcher.cosines("weather", [TOOLS[0].id]).tolist() == [0]


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_the_length_of_vectors_does_not_matter(scale: float) -> None:
    expected = filled(WordEmbedder()).search("weather", limit=3)
    searcher = filled(Broken(lambda texts: WordEmbedder().encode(texts) * scale))
    assert [hit.id for hit in searcher.search("weather", limit=3)] == [hit.id for hit in expected]


def test_an_error_of_the_embedder_is_raised_and_nothing_that_was_made_is_lost() -> None:
    embedder = Failing(after=3)
    searcher = filled(embedder, many(1000), batch=100)
    with pytest.raises(EmbeddingError, match="ConnectionError: no model here"):
        searcher.search("word1", limit=1)
    assert searcher.pending == 1000
    embedder.after = None
    assert searcher.search("word1 thing1", limit=1)[0].id == "tool_1"
    documents = [text for text in embedder.texts if text not in {"word1", "word1 thing1"}]
    assert len(documents) == len(set(documents)) == 1000


def test_vectors_are_not_lost_if_the_cache_fails() -> None:
    class Full(DictCache):
        def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
            raise StoreError("catalogue.db", f"no room for {len(values)} values of {kind!r}")

    embedder = WordEmbedder()
    searcher = filled(embedder, cache=Full())
    with pytest.raises(StoreError, match="no room"):
        searcher.search("weather", limit=1)
    assert searcher.search("weather", limit=1)[0].id == TOOLS[1].id
    assert len(embedder.texts) == 4


def test_a_failed_update_does_not_show_in_part() -> None:
    embedder = Failing(after=100)
    searcher = filled(embedder)
    searcher.prepare()
    searcher.update([make("new_tool", "Something else.")], [TOOLS[0].id])
    embedder.after = 0
    with pytest.raises(EmbeddingError):
        searcher.search("weather", limit=5)
    embedder.after = None
    assert {hit.id for hit in searcher.search("weather", limit=5)} == {"new_tool", TOOLS[1].id, TOOLS[2].id}


# Who waits for whom


def test_searches_that_come_first_together_embed_each_tool_once() -> None:
    embedder = WordEmbedder()
    searcher = filled(embedder, many(700), batch=50)
    start = threading.Barrier(8)

    def look(number: int) -> str:
        start.wait()
        return searcher.search(f"word{number} thing{number}", limit=1)[0].id

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(look, range(8))) == [f"tool_{number}" for number in range(8)]
    documents = [text for text in embedder.texts if text.startswith("tool")]
    assert len(documents) == len(set(documents)) == 700


def test_an_update_does_not_wait_for_the_embedder() -> None:
    embedder = Slow()
    searcher = filled(embedder, TOOLS[:2])
    with ThreadPoolExecutor(1) as pool:
        search = pool.submit(searcher.search, "weather", limit=5)
        assert embedder.reached.wait(30)
        searcher.update(TOOLS[2:], [TOOLS[0].id])
        embedder.go_on.set()
        assert {hit.id for hit in search.result(30)} == {TOOLS[0].id, TOOLS[1].id}
    assert {hit.id for hit in searcher.search("weather", limit=5)} == {TOOLS[1].id, TOOLS[2].id}


def test_a_local_embedder_is_called_in_the_thread_of_the_search() -> None:
    class Local(RemoteEmbedder):
        def encode(self, texts: Sequence[str], /) -> NDArray[Any]:
            self.threads.add(threading.get_ident())
            return self.words.encode(texts)

    embedder = Local()
    filled(embedder).search("weather", limit=1)
    assert embedder.threads == {threading.get_ident()}


def test_any_other_embedder_is_awaited_in_one_thread_that_close_ends() -> None:
    embedder = RemoteEmbedder()
    before = set(threading.enumerate())
    searcher = filled(embedder)
    assert not set(threading.enumerate()) - before
    assert searcher.search("weather", limit=1)[0].id == TOOLS[1].id
    searcher.search("mail", limit=1)
    assert len(embedder.threads) == 1
    assert embedder.threads != {threading.get_ident()}
    searcher.close()
    searcher.close()
    assert not set(threading.enumerate()) - before
    assert searcher.search("post", limit=1)
    searcher.close()


def test_a_searcher_that_nobody_holds_ends_its_thread() -> None:
    before = set(threading.enumerate())
    searcher = filled(RemoteEmbedder())
    searcher.search("weather", limit=1)
    assert set(threading.enumerate()) - before
    gone = weakref.ref(searcher)
    del searcher
    gc.collect()
    assert gone() is None
    assert not set(threading.enumerate()) - before


def test_a_searcher_that_is_closed_while_it_waits_says_so() -> None:
    embedder = Stuck()
    searcher = filled(embedder)
    with ThreadPoolExecutor(1) as pool:
        search = pool.submit(searcher.search, "weather", limit=5)
        assert embedder.reached.wait(30)
        searcher.close()
        with pytest.raises(EmbeddingError, match="closed while it waited"):
            search.result(30)
    assert embedder.cancelled


@pytest.mark.proof
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "waiting"])
def test_the_interpreter_ends_whatever_the_searcher_does(busy: bool) -> None:
    script = f"""
import sys, threading
sys.path.insert(0, "tests")
from discovery.search.semantic.test_searcher import Stuck, filled
embedder = Stuck()
searcher = filled(embedder)
if {busy}:
    threading.excepthook = lambda told: None
    threading.Thread(target=searcher.search, args=("weather",), kwargs={{"limit": 1}}, daemon=True).start()
    embedder.reached.wait()
else:
    embedder.free = True
    searcher.search("weather", limit=1)
print("done")
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


# Asynchronous callers


def test_an_asynchronous_search_finds_the_same() -> None:
    expected = filled(WordEmbedder()).search("weather forecast", limit=3)

    async def look(embedder: Embedder) -> None:
        searcher = filled(embedder)
        told: list[tuple[int, int, int]] = []
        await searcher.aprepare(lambda done, total: told.append((done, total, threading.get_ident())))
        assert told[-1] == (3, 3, threading.get_ident())
        await searcher.aprepare()
        assert await searcher.asearch("weather forecast", limit=3) == expected
        assert await searcher.asearch("weather forecast", limit=3, among={TOOLS[0].id})

    anyio.run(look, WordEmbedder())
    anyio.run(look, RemoteEmbedder())


def test_an_asynchronous_search_awaits_the_embedder_in_its_own_event_loop() -> None:
    embedder = RemoteEmbedder()
    anyio.run(lambda: filled(embedder).asearch("weather", limit=1))
    assert embedder.threads == {threading.get_ident()}


def test_warmed_query_needs_no_embedder() -> None:
    embedder = RemoteEmbedder()
    searcher = filled(embedder)

    async def look() -> None:
        await searcher.awarm("weather")
        assert searcher.search("weather", limit=1)[0].id == TOOLS[1].id
        assert searcher.cosines("weather", [TOOLS[1].id])[0] > 0

    anyio.run(look)
    assert embedder.threads == {threading.get_ident()}


def test_more_asynchronous_searches_than_there_are_shared_threads_can_wait_together() -> None:
    class Threaded(RemoteEmbedder):
        async def embed(self, texts: Sequence[str], /) -> NDArray[Any]:
            return await anyio.to_thread.run_sync(self.words.encode, texts)

    embedder = Threaded()
    searcher = filled(embedder)
    found: list[str] = []

    async def look(number: int) -> None:
        found.extend([hit.id for hit in await searcher.asearch(f"weather {number}", limit=1)])

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(60):
                tasks.start_soon(look, number)

    anyio.run(main)
    assert len(found) == 60
    assert len(embedder.words.texts) == 63


def test_a_cancelled_search_cancels_the_embedder_and_leaves_the_searcher_in_order() -> None:
    embedder = Stuck()
    searcher = filled(embedder)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: searcher.asearch("weather", limit=1))
            await anyio.to_thread.run_sync(embedder.reached.wait)
            tasks.cancel_scope.cancel()
        assert embedder.cancelled
        embedder.free = True
        assert (await searcher.asearch("weather", limit=1))[0].id == TOOLS[1].id

    anyio.run(main)


def test_a_search_that_waits_for_another_can_be_cancelled() -> None:
    embedder = Stuck()
    searcher = filled(embedder)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: searcher.asearch("weather", limit=1))
            await anyio.to_thread.run_sync(embedder.reached.wait)
            with anyio.move_on_after(0.1) as scope:
                await searcher.asearch("weather", limit=1)
            assert scope.cancelled_caught
            tasks.cancel_scope.cancel()
        assert searcher.pending == 3

    anyio.run(main)


def test_a_local_embedder_is_cancelled_between_batches() -> None:
    embedder = Slow()
    searcher = filled(embedder, many(100), batch=10)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(searcher.aprepare)
            await anyio.to_thread.run_sync(embedder.reached.wait)
            tasks.cancel_scope.cancel()
            embedder.go_on.set()

    anyio.run(main)
    assert len(embedder.calls) == 1
    searcher.prepare()
    assert len(embedder.texts) == len(set(embedder.texts)) == 100


# Questions that ask for several things

ERRANDS = ["Open an issue there", "tell the weather forecast", "send a message to somebody"]
LONG = f"{ERRANDS[0]}, {ERRANDS[1]}, and {ERRANDS[2]}"


def test_a_question_of_several_errands_is_embedded_whole_and_in_parts_and_once() -> None:
    embedder = WordEmbedder()
    searcher = filled(embedder)
    found = searcher.search(LONG, limit=3)
    assert searcher.search(LONG, limit=3) == found
    assert sorted(text for text in embedder.texts if text in {LONG, *ERRANDS}) == sorted([LONG, *ERRANDS])


def test_score_is_the_mean_of_the_whole_and_the_best_part() -> None:
    searcher = filled(WordEmbedder())
    ids = [entry.id for entry in TOOLS]
    best = np.max([searcher.cosines(errand, ids) for errand in ERRANDS], axis=0)
    asked, *tools = WordEmbedder().encode([LONG, *map(document_text, TOOLS)])
    whole = [asked @ tool / np.linalg.norm(asked) / np.linalg.norm(tool) for tool in tools]
    assert searcher.cosines(LONG, ids) == pytest.approx((best + whole) / 2, abs=0.01)
    for hit in searcher.search(LONG, limit=3):
        assert searcher.cosines(LONG, [hit.id]).tolist() == [hit.score]

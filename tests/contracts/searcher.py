"""The contract of every searcher, however it ranks."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from discovery.support import Entry, make
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery import Hit, Searcher
from toolcrib.discovery.search.confidence import order_confidences

WORDS = ["create", "issue", "weather", "forecast", "send", "mail", "file", "delete", "search", "größe"]
HOSTILE = [
    "",
    " \t\n\u2003",
    "\x00",
    "a\x00b",
    "\ud800",
    "weather \udfff mail",
    "🌦️👩‍👩‍👧‍👦",
    "天气预报",
    "create " * 200_000,
    "x" * 1_000_000,
    "((((((((",
    "'; drop table tools; --",
    "\\u0000 {} %s",
]

names = st.sampled_from(["create_issue", "getWeather", "send-mail", "delete.file", "search", "a", "b", "c"])
sentences = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
entries = st.builds(
    make,
    names,
    st.one_of(sentences, sentences.map("{}. DEPRECATED: use another.".format)),
    namespace=st.sampled_from(["github", "mail", None]),
    examples=st.lists(sentences, max_size=2),
    tags=st.lists(st.sampled_from(["mail", "weather-forecast", "the"]), max_size=2),
)
catalogues = st.lists(entries, max_size=12, unique_by=lambda entry: entry.id)
queries = st.one_of(sentences, st.text(max_size=30))
limits = st.integers(min_value=-1, max_value=15)
searching = law(12, suppress_health_check=[HealthCheck.differing_executors])

CATALOGUE = [
    make("create_issue", "Open an issue in a repository.", namespace="github"),
    make("get_weather", "Tell the weather forecast of a city.", namespace="weather"),
    make("send_mail", "Send a message to somebody.", namespace="mail"),
]
"""Tools that have no word in common, in the order of their ids."""


class SearcherContract:
    """Subclass it, and provide a function that makes an empty searcher."""

    def make(self) -> Searcher:
        """Return a searcher without tools."""
        raise NotImplementedError

    def fill(self, *updates: list[Entry]) -> Searcher:
        """Return a searcher after the given updates, applied one after the other."""
        searcher = self.make()
        for update in updates:
            searcher.update(update, [])
        return searcher

    def test_it_is_a_searcher(self) -> None:
        searcher = self.make()
        assert isinstance(searcher, Searcher)
        assert searcher.score_type in {"bm25", "embedding", "hybrid"}

    def test_an_empty_searcher_finds_nothing(self) -> None:
        assert self.make().search("weather", limit=10) == []

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("create issue", "github:create_issue"),
            ("get weather", "weather:get_weather"),
            ("send mail", "mail:send_mail"),
        ],
    )
    def test_a_tool_is_found_first_by_its_own_words(self, query: str, expected: str) -> None:
        hits = self.fill(CATALOGUE).search(query, limit=3)
        assert hits[0].id == expected

    @searching
    @given(catalogue=catalogues, query=queries, limit=limits)
    def test_hits_are_few_enough_known_and_all_different(
        self, catalogue: list[Entry], query: str, limit: int
    ) -> None:
        hits = self.fill(catalogue).search(query, limit=limit)
        assert len(hits) <= max(limit, 0)
        assert all(type(hit) is Hit for hit in hits)
        ids = [hit.id for hit in hits]
        assert len(set(ids)) == len(ids)
        assert set(ids) <= {entry.id for entry in catalogue}

    @searching
    @given(catalogue=catalogues, query=queries)
    def test_the_best_stand_first_and_equal_scores_go_by_id(self, catalogue: list[Entry], query: str) -> None:
        hits = self.fill(catalogue).search(query, limit=20)
        assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.id))

    @searching
    @given(catalogue=catalogues, query=queries)
    def test_confidence_never_contradicts_the_order(self, catalogue: list[Entry], query: str) -> None:
        hits = self.fill(catalogue).search(query, limit=20)
        confidences = [hit.confidence for hit in hits]
        assert confidences == sorted(confidences, reverse=True)

    @searching
    @given(catalogue=catalogues, query=queries)
    def test_confidence_is_a_likelihood(self, catalogue: list[Entry], query: str) -> None:
        hits = self.fill(catalogue).search(query, limit=20)
        assert all(type(hit.score) is float and type(hit.confidence) is float for hit in hits)
        assert all(0 <= hit.confidence <= 1 for hit in hits)

    @searching
    @given(catalogue=catalogues, query=queries, limit=limits)
    def test_fewer_hits_are_the_first_of_more(self, catalogue: list[Entry], query: str, limit: int) -> None:
        searcher = self.fill(catalogue)
        assert searcher.search(query, limit=limit) == searcher.search(query, limit=20)[: max(limit, 0)]

    @searching
    @given(catalogue=catalogues, query=queries, data=st.data())
    def test_only_the_ids_asked_for_are_found(
        self, catalogue: list[Entry], query: str, data: st.DataObject
    ) -> None:
        known = [entry.id for entry in catalogue]
        among = data.draw(st.frozensets(st.sampled_from([*known, "unknown", "github:unknown"])))
        found = {hit.id for hit in self.fill(catalogue).search(query, limit=20, among=among)}
        assert found <= among & set(known)

    @searching
    @given(catalogue=catalogues, query=queries)
    def test_to_search_among_all_ids_is_to_search(self, catalogue: list[Entry], query: str) -> None:
        searcher = self.fill(catalogue)
        among = {entry.id for entry in catalogue}
        assert searcher.search(query, limit=20, among=among) == searcher.search(query, limit=20)

    @searching
    @given(catalogue=catalogues, query=queries, limit=st.integers(1, 15), data=st.data())
    def test_how_many_there_are_does_not_depend_on_how_many_are_given(
        self, catalogue: list[Entry], query: str, limit: int, data: st.DataObject
    ) -> None:
        ids = st.frozensets(st.sampled_from([*(entry.id for entry in catalogue), "unknown"]))
        among, exclude = data.draw(st.none() | ids), data.draw(ids)
        searcher = self.fill(catalogue)
        whole = searcher.search(query, limit=20, among=among, exclude=exclude)
        few = searcher.search(query, limit=limit, among=among, exclude=exclude)
        assert few.total == whole.total == len(whole)
        assert not {hit.id for hit in whole} & exclude

    @searching
    @given(catalogue=catalogues, query=queries)
    def test_company_changes_a_confidence_only_where_it_would_contradict_the_order(
        self, catalogue: list[Entry], query: str
    ) -> None:
        searcher = self.fill(catalogue)
        hits = searcher.search(query, limit=20)
        alone = [searcher.search(query, limit=1, among={hit.id})[0] for hit in hits]
        assert [hit.id for hit in alone] == [hit.id for hit in hits]
        assert [hit.confidence for hit in hits] == order_confidences([hit.confidence for hit in alone])

    @searching
    @given(catalogue=catalogues, query=queries, data=st.data())
    def test_the_order_in_which_tools_came_does_not_matter(
        self, catalogue: list[Entry], query: str, data: st.DataObject
    ) -> None:
        shuffled = data.draw(st.permutations(catalogue))
        at = data.draw(st.integers(0, len(shuffled)))
        expected = self.fill(catalogue).search(query, limit=20)
        assert self.fill(shuffled[:at], shuffled[at:]).search(query, limit=20) == expected
        assert self.fill(catalogue).search(query, limit=20) == expected

    @searching
    @given(before=catalogues, after=catalogues, query=queries)
    def test_an_update_replaces_tools_wholly(
        self, before: list[Entry], after: list[Entry], query: str
    ) -> None:
        searcher = self.fill(before)
        searcher.search(query, limit=5)
        searcher.update(after, [])
        latest = {entry.id: entry for entry in [*before, *after]}
        expected = self.fill(list(latest.values())).search(query, limit=20)
        assert searcher.search(query, limit=20) == expected

    @searching
    @given(catalogue=catalogues, query=queries, data=st.data())
    def test_removed_tool_leaves_nothing_behind(
        self, catalogue: list[Entry], query: str, data: st.DataObject
    ) -> None:
        gone = data.draw(st.sets(st.sampled_from([*(entry.id for entry in catalogue), "unknown"])))
        searcher = self.fill(catalogue)
        searcher.search(query, limit=5)
        searcher.update([], sorted(gone))
        rest = [entry for entry in catalogue if entry.id not in gone]
        assert searcher.search(query, limit=20) == self.fill(rest).search(query, limit=20)

    @searching
    @given(catalogue=catalogues, query=queries)
    def test_tool_removed_and_added_in_one_update_is_found(self, catalogue: list[Entry], query: str) -> None:
        searcher = self.fill(catalogue)
        expected = searcher.search(query, limit=20)
        searcher.update(catalogue, [entry.id for entry in catalogue])
        assert searcher.search(query, limit=20) == expected

    @pytest.mark.parametrize("query", HOSTILE, ids=lambda query: repr(query[:20]))
    def test_any_text_is_answered(self, query: str) -> None:
        searcher = self.fill(CATALOGUE)
        assert len(searcher.search(query, limit=2)) <= 2
        assert searcher.search(query, limit=2) == searcher.search(query, limit=2)

    @pytest.mark.parametrize("query", HOSTILE[:3], ids=repr)
    def test_a_query_that_says_nothing_finds_nothing(self, query: str) -> None:
        assert self.fill(CATALOGUE).search(query, limit=10) == []

    def test_a_limit_may_be_none_or_very_many(self) -> None:
        searcher = self.fill(CATALOGUE)
        assert searcher.search("weather", limit=0) == []
        assert searcher.search("weather", limit=-3) == []
        assert searcher.search("weather", limit=10**9)[0].id == "weather:get_weather"

    @pytest.mark.proof
    def test_searches_during_updates_see_each_wholly_or_not_at_all(self) -> None:
        old = [make(f"forecast_{number}", "old weather forecast") for number in range(20)]
        new = [make(f"forecast_{number}", "fresh weather forecast") for number in range(20, 40)]
        worlds = [{entry.id for entry in old}, {entry.id for entry in new}]
        searcher = self.fill(old)
        stop = threading.Event()

        def look() -> list[set[str]]:
            seen = []
            while not stop.is_set():
                seen.append({hit.id for hit in searcher.search("weather forecast", limit=100)})
            return seen

        with ThreadPoolExecutor(4) as pool:
            looks = [pool.submit(look) for _ in range(4)]
            try:
                for _ in range(25):
                    searcher.update(new, [entry.id for entry in old])
                    searcher.search("weather", limit=1)
                    searcher.update(old, [entry.id for entry in new])
            finally:
                stop.set()
            seen = [found for done in looks for found in done.result()]
        assert all(found in worlds for found in seen)
        assert {hit.id for hit in searcher.search("weather forecast", limit=100)} == worlds[0]

    def test_searches_at_the_same_time_find_the_same(self) -> None:
        searcher = self.fill(CATALOGUE)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: searcher.search("send the weather", limit=3), range(64)))
        assert all(one == found[0] for one in found)

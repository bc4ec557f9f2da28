"""The contract of every store, wherever it keeps its data; subclass it and provide `store`."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from toolcrib.discovery import Store, StoredTool
from toolcrib.errors import StoreError

MANY = 2_000
BAD_TEXTS: list[Any] = ["\ud800", "a\0b", "é\udfff", None, 5, b"a"]


def stored(name: str, definition: str = "{}") -> StoredTool:
    """Return a tool of this id."""
    return StoredTool(name, definition, '[{"kind":"local"}]', '{"tags":["a"]}', '["how?"]', f"hash of {name}")


def calls(store: Store) -> dict[str, Callable[[], object]]:
    """Return each method of a store, ready to be called."""
    return {
        "tools": store.tools,
        "write": lambda: store.write([stored("a")]),
        "texts": lambda: store.texts("docs"),
        "write_texts": lambda: store.write_texts("docs", {"a": "{}"}),
        "derived": lambda: store.derived("words", ["a"]),
        "save_derived": lambda: store.save_derived("words", {"a": b"1"}),
        "prune_derived": lambda: store.prune_derived([]),
        "usage": store.usage,
        "count_usage": lambda: store.count_usage({"a": 1}),
    }


class StoreContract:
    """The contract of `Store`."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        raise NotImplementedError

    def test_it_satisfies_the_protocol(self, store: Store) -> None:
        assert isinstance(store, Store)

    def test_it_is_empty_at_first(self, store: Store) -> None:
        assert list(store.tools()) == []
        assert list(store.texts("docs")) == []
        assert store.derived("words", ["a"]) == {}
        assert store.usage() == {}

    def test_tools_come_back_as_they_went_in_by_id(self, store: Store) -> None:
        odd = StoredTool("b:é", '{"description":"中文 \U0001f600"}', "not json", "", "\n", "")
        store.write([stored("c"), odd, stored("a", "{" + "x" * 100_000)])
        assert list(store.tools()) == [stored("a", "{" + "x" * 100_000), odd, stored("c")]

    def test_ids_are_ordered_by_their_code_points(self, store: Store) -> None:
        ids = ["", " ", "A", "Z", "_", "a", "a:b", "ab", "é", "\uffff", "\U0001f600"]
        store.write(map(stored, reversed(ids)))
        store.write_texts("docs", dict.fromkeys(reversed(ids), "{}"))
        assert [tool.id for tool in store.tools()] == ids
        assert [name for name, _ in store.texts("docs")] == ids

    def test_a_tool_is_replaced_by_another_of_its_id(self, store: Store) -> None:
        store.write([stored("a", "1"), stored("b", "1")])
        store.write([StoredTool("a", "2", "3", "4", "5", "6")])
        assert list(store.tools()) == [StoredTool("a", "2", "3", "4", "5", "6"), stored("b", "1")]

    def test_deleted_tools_are_gone_and_unknown_ones_are_no_error(self, store: Store) -> None:
        store.write(map(stored, "abc"))
        store.write(delete=["a", "c", "x", "a"])
        assert [tool.id for tool in store.tools()] == ["b"]

    def test_row_deleted_and_put_in_one_write_exists_and_the_last_one_counts(self, store: Store) -> None:
        store.write([stored("a")])
        store.write([stored("a", "2"), stored("a", "3")], delete=["a"])
        assert list(store.tools()) == [stored("a", "3")]
        store.write_texts("docs", {"a": "1"})
        store.write_texts("docs", {"a": "2"}, delete=["a"])
        assert list(store.texts("docs")) == [("a", "2")]

    def test_a_batch_may_be_empty(self, store: Store) -> None:
        store.write()
        store.write_texts("docs")
        store.save_derived("words", {})
        store.count_usage({})
        assert store.derived("words", []) == {}
        assert list(store.tools()) == []

    def test_collections_are_apart(self, store: Store) -> None:
        store.write_texts("docs", {"b": "1", "a": "2"})
        store.write_texts("providers", {"a": "3"})
        store.write_texts("docs", {"c": "4"}, delete=["b"])
        assert list(store.texts("docs")) == [("a", "2"), ("c", "4")]
        assert list(store.texts("providers")) == [("a", "3")]

    def test_texts_of_a_tool_outlive_the_tool(self, store: Store) -> None:
        store.write([stored("a")])
        store.write_texts("docs", {"a": "{}"})
        store.save_derived("words", {"hash of a": b"1"})
        store.count_usage({"a": 2})
        store.write(delete=["a"])
        assert list(store.texts("docs")) == [("a", "{}")]
        assert store.derived("words", ["hash of a"]) == {"hash of a": b"1"}
        assert store.usage() == {"a": 2}

    def test_derived_values_come_back_for_the_hashes_that_are_known(self, store: Store) -> None:
        store.save_derived("words", {"1": b"", "2": bytes(range(256)), "3": b"c"})
        store.save_derived("vectors", {"1": b"v"})
        store.save_derived("words", {"3": b"d"})
        assert store.derived("words", ["3", "2", "9", "2"]) == {"2": bytes(range(256)), "3": b"d"}
        assert store.derived("vectors", {"1", "2"}) == {"1": b"v"}
        assert store.derived("other", {"1", "2"}) == {}

    def test_derived_values_are_asked_for_by_the_thousand(self, store: Store) -> None:
        values = {f"{number:064x}": b"%d" % number for number in range(MANY)}
        store.save_derived("words", values)
        assert store.derived("words", values.keys()) == values
        wanted = [*list(values)[::3], "x"]
        assert store.derived("words", wanted) == {name: values[name] for name in wanted[:-1]}

    def test_pruning_forgets_what_belongs_to_no_hash_that_is_kept(self, store: Store) -> None:
        for kind in ("words", "vectors"):
            store.save_derived(kind, {"1": b"1", "2": b"2", "3": b"3"})
        assert store.prune_derived(["1", "2", "9"]) == 2
        assert store.prune_derived({"1", "2"}) == 0
        for kind in ("words", "vectors"):
            assert store.derived(kind, ["1", "2", "3"]) == {"1": b"1", "2": b"2"}

    def test_pruning_forgets_the_kinds_that_are_not_named(self, store: Store) -> None:
        for kind in ("words", "old", "older"):
            store.save_derived(kind, {"1": b"1", "2": b"2"})
        assert store.prune_derived(["1"], kinds=["words"]) == 5
        assert store.derived("words", ["1", "2"]) == {"1": b"1"}
        assert store.derived("old", ["1", "2"]) == {}

    def test_usage_adds_up(self, store: Store) -> None:
        store.count_usage({"a": 1, "b": 2})
        store.count_usage({"b": 2**31 - 1, "c": 0})
        store.count_usage({"b": 2**31 - 1})
        assert store.usage() == {"a": 1, "b": 2**32, "c": 0}

    def test_returned_rows_are_copies(self, store: Store) -> None:
        store.save_derived("words", {"1": b"1"})
        store.count_usage({"a": 1})
        store.usage()["a"] = 9
        store.derived("words", ["1"]).clear()
        assert store.usage() == {"a": 1}
        assert store.derived("words", ["1"]) == {"1": b"1"}

    @pytest.mark.parametrize("bad", BAD_TEXTS, ids=ascii)
    def test_a_text_that_cannot_be_kept_is_refused_with_its_whole_batch(self, store: Store, bad: Any) -> None:
        attempts: list[Callable[[], object]] = [
            lambda: store.write([stored("a"), stored(bad)]),
            lambda: store.write([stored("a"), stored("b", bad)]),
            lambda: store.write([stored("a")], delete=[bad]),
            lambda: store.write_texts("docs", {"a": "{}", "b": bad}),
            lambda: store.write_texts("docs", {"a": "{}", bad: "{}"}),
            lambda: store.write_texts("docs", {"a": "{}"}, delete=[bad]),
            lambda: store.write_texts(bad, {"a": "{}"}),
            lambda: store.texts(bad),
            lambda: store.save_derived("words", {"a": b"1", bad: b"2"}),
            lambda: store.save_derived(bad, {"a": b"1"}),
            lambda: store.derived("words", [bad]),
            lambda: store.derived(bad, ["a"]),
            lambda: store.prune_derived([bad]),
            lambda: store.prune_derived([], kinds=[bad]),
            lambda: store.count_usage({"a": 1, bad: 1}),
        ]
        for attempt in attempts:
            with pytest.raises(StoreError, match=r"escape it, as json\.dumps does|is not text; give a str"):
                attempt()
        assert list(store.tools()) == []
        assert list(store.texts("docs")) == []
        assert store.derived("words", ["a"]) == {}
        assert store.usage() == {}

    @pytest.mark.parametrize("bad", [None, "x", 5, bytearray(b"x")], ids=repr)
    def test_a_value_that_is_not_bytes_is_refused(self, store: Store, bad: Any) -> None:
        with pytest.raises(StoreError, match=r"the value of 'b' must be bytes, not "):
            store.save_derived("words", {"a": b"1", "b": bad})
        assert store.derived("words", ["a"]) == {}

    @pytest.mark.parametrize("bad", [-1, 2**31, 1.5, "1", None], ids=repr)
    def test_a_count_that_is_none_is_refused(self, store: Store, bad: Any) -> None:
        with pytest.raises(
            StoreError, match=r"the count of 'b' must be an integer from 0 to 2147483647, not "
        ):
            store.count_usage({"a": 1, "b": bad})
        assert store.usage() == {}

    def test_one_text_is_not_taken_for_many(self, store: Store) -> None:
        store.write(map(stored, "abc"))
        with pytest.raises(StoreError, match="'abc' is one string; give a list of strings"):
            store.write(delete="abc")
        assert len(list(store.tools())) == 3

    def test_a_batch_that_breaks_off_leaves_nothing(self, store: Store) -> None:
        def broken() -> Iterator[StoredTool]:
            yield stored("a")
            raise LookupError

        with pytest.raises(LookupError):
            store.write(broken(), delete=["b"])
        assert list(store.tools()) == []

    def test_a_batch_may_read_and_write_the_store_while_it_is_made(self, store: Store) -> None:
        store.write([stored("a")])

        def more() -> Iterator[StoredTool]:
            for tool in store.tools():
                store.count_usage({tool.id: 1})
                yield stored(tool.id + tool.id)

        store.write(more())
        assert [tool.id for tool in store.tools()] == ["a", "aa"]

    def test_an_iterator_gives_the_store_as_it_was_when_asked(self, store: Store) -> None:
        before = [stored(f"{number:05}") for number in range(MANY)]
        store.write(before)
        store.write_texts("docs", {tool.id: "1" for tool in before})
        unread, begun, texts = store.tools(), store.tools(), store.texts("docs")
        first = next(begun)
        store.write([stored("x")], delete=[tool.id for tool in before])
        store.write_texts("docs", {tool.id: "2" for tool in before})
        assert list(unread) == before
        assert [first, *begun] == before
        assert {text for _, text in texts} == {"1"}
        assert list(store.tools()) == [stored("x")]

    def test_an_iterator_left_unread_holds_up_nobody(self, store: Store) -> None:
        store.write(stored(f"{number:05}") for number in range(MANY))
        kept = [store.tools() for _ in range(20)]
        for reader in kept[::2]:
            next(reader)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda number: store.write([stored(f"x{number}")]), range(20)))
        assert len(list(store.tools())) == MANY + 20
        assert len(list(kept[0])) == MANY - 1

    def test_every_call_after_closing_is_refused(self, store: Store) -> None:
        store.close()
        store.close()
        for call in calls(store).values():
            with pytest.raises(StoreError, match="it is closed"):
                call()

    def test_an_iterator_never_ends_early_in_silence(self, store: Store) -> None:
        store.write(stored(f"{number:05}") for number in range(MANY))
        store.write_texts("docs", {f"{number:05}": "{}" for number in range(MANY)})
        begun: list[Iterator[object]] = [store.tools(), store.texts("docs")]
        for reader in begun:
            next(reader)
        for reader in [*begun, store.tools(), store.texts("docs")]:
            store.close()
            with pytest.raises(StoreError, match="it is closed"):
                list(reader)

    def test_it_is_closed_at_the_end_of_a_with_block(self, store: Store) -> None:
        with store as same:
            assert same is store
            store.write([stored("a")])
        with pytest.raises(StoreError):
            store.tools()

    def test_a_reader_sees_all_of_a_batch_or_none(self, store: Store) -> None:
        names = [f"{number:03}" for number in range(100)]
        done = threading.Event()

        def write() -> None:
            try:
                for turn in range(60):
                    store.write([stored(name, str(turn)) for name in names])
                    store.write_texts("docs", dict.fromkeys(names, str(turn)))
                    store.save_derived("words", dict.fromkeys(names, b"%d" % turn))
                    store.count_usage(dict.fromkeys(names, 1))
            finally:
                done.set()

        def read() -> None:
            last = False
            while not last:
                last = done.is_set()
                for seen in (
                    [tool.definition for tool in store.tools()],
                    [text for _, text in store.texts("docs")],
                    list(store.derived("words", names).values()),
                    list(store.usage().values()),
                ):
                    assert len(seen) in {0, len(names)}
                    assert len(set(seen)) <= 1

        with ThreadPoolExecutor(4) as threads:
            for work in [threads.submit(task) for task in (write, read, read, read)]:
                work.result()
        assert store.usage() == dict.fromkeys(names, 60)

    def test_writes_from_many_threads_are_all_kept(self, store: Store) -> None:
        def work(number: int) -> None:
            for turn in range(10):
                store.write([stored(f"{number}:{turn}")], delete=[f"{number}:{turn - 1}"])
                store.write_texts("docs", {f"{number}:{turn}": "{}"})
                store.save_derived("words", {f"{number}:{turn}": b"1"})
                store.count_usage({"all": 1})

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(16)))
        assert sorted(tool.id for tool in store.tools()) == sorted(f"{number}:9" for number in range(16))
        assert len(list(store.texts("docs"))) == 160
        assert store.prune_derived([]) == 160
        assert store.usage() == {"all": 160}

    def test_a_store_that_is_closed_under_its_users_refuses_them_and_nothing_worse(
        self, store: Store
    ) -> None:
        store.write(stored(f"{number:05}") for number in range(MANY))
        started = threading.Barrier(9)

        def use_for_ever(name: str) -> None:
            while True:
                got = calls(store)[name]()
                if isinstance(got, Iterator):
                    list(got)

        def work(name: str) -> None:
            started.wait()
            with pytest.raises(StoreError, match="it is closed"):
                use_for_ever(name)

        with ThreadPoolExecutor(8) as threads:
            names = [name for name in calls(store) if name != "prune_derived"]
            tasks = [threads.submit(work, name) for name in names]
            started.wait()
            store.close()
            for task in tasks:
                task.result()

"""Whatever is done to them, a store in memory and a store in a file hold the same."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from laws import law

from toolcrib.discovery import MemoryStore, SqliteStore, Store, StoredTool
from toolcrib.errors import StoreError

ids = st.sampled_from(["a", "a:b", "b", "é", "", "\U0001f600"])
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
bad_ids = st.one_of(ids, st.sampled_from(["\ud800", "\0"]))
kinds = st.sampled_from(["words", "vectors"])
tools = st.builds(StoredTool, ids, texts, texts, texts, texts, ids)


class Stores(RuleBasedStateMachine):
    """Does everything to both."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.memory = MemoryStore()
        self.sqlite = self.opened()
        self.readers: list[tuple[Any, Any]] = []

    def opened(self) -> SqliteStore:
        return SqliteStore(Path(self.folder.name) / "store.db")

    def both(self, method: str, *args: Any, **options: Any) -> None:
        """Call a method of both stores, which must return the same or fail alike."""
        assert outcome(self.memory, method, *args, **options) == outcome(
            self.sqlite, method, *args, **options
        )

    @rule(put=st.lists(tools, max_size=5), delete=st.lists(bad_ids, max_size=3))
    def write(self, put: list[StoredTool], delete: list[str]) -> None:
        self.both("write", put, delete)

    @rule(collection=kinds, put=st.dictionaries(bad_ids, texts, max_size=4), delete=st.lists(ids, max_size=3))
    def write_texts(self, collection: str, put: dict[str, str], delete: list[str]) -> None:
        self.both("write_texts", collection, put, delete)

    @rule(kind=kinds, values=st.dictionaries(bad_ids, st.binary(max_size=20), max_size=4))
    def save_derived(self, kind: str, values: dict[str, bytes]) -> None:
        self.both("save_derived", kind, values)

    @rule(keep=st.lists(ids), kinds=st.none() | st.lists(kinds))
    def prune_derived(self, keep: list[str], kinds: list[str] | None) -> None:
        self.both("prune_derived", keep, kinds=kinds)

    @rule(counts=st.dictionaries(bad_ids, st.integers(-1, 2**31), max_size=4))
    def count_usage(self, counts: dict[str, int]) -> None:
        self.both("count_usage", counts)

    @rule()
    def begin_to_read(self) -> None:
        self.readers.append((self.memory.tools(), self.sqlite.tools()))

    @precondition(lambda self: self.readers)
    @rule()
    def read_to_the_end(self) -> None:
        memory, sqlite = self.readers.pop(0)
        assert list(memory) == list(sqlite)

    @rule()
    def open_again(self) -> None:
        self.readers.clear()
        self.sqlite.close()
        self.sqlite = self.opened()

    @invariant()
    def they_hold_the_same(self) -> None:
        assert list(self.memory.tools()) == list(self.sqlite.tools())
        for kind in ("words", "vectors"):
            self.both("derived", kind, ["a", "a:b", "b", "é", "", "\U0001f600", "x"])
            assert list(self.memory.texts(kind)) == list(self.sqlite.texts(kind))
        assert self.memory.usage() == self.sqlite.usage()

    def teardown(self) -> None:
        self.memory.close()
        self.sqlite.close()
        self.folder.cleanup()


def outcome(store: Store, method: str, *args: Any, **options: Any) -> object:
    """Return the result of a method, or its error."""
    try:
        return getattr(store, method)(*args, **options)
    except StoreError as error:
        return error.reason


TestStores = Stores.TestCase
TestStores.settings = law(12, stateful_step_count=30)

"""Store in a PostgreSQL database, which many gateways share.

Every write of tools takes the row `catalogue` of `toolcrib_revisions` first, so that writers take turns and
the revisions of the rows appear in the order of their commits. A row that does not change keeps its revision:
each gateway lists the same servers when it starts. Deleted tools leave a row in `toolcrib_gone`.

An iterator has a connection of its own with a read transaction, so that it sees the database as it was when
it began, and neither waits for writers nor blocks them.
"""

import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Any, LiteralString, Self

from toolcrib.discovery.store.batch import (
    check_counts,
    check_ids,
    check_texts,
    check_tools,
    check_values,
)
from toolcrib.discovery.store.protocol import StoredTool
from toolcrib.errors import StoreError
from toolcrib.model.token_buckets import Shortage, TokenRequest
from toolcrib.postgres import CLOSED, Database, begin_snapshot, lock

if TYPE_CHECKING:
    from psycopg import Connection

_FETCH: LiteralString = "FETCH 512 FROM toolcrib"
_BLOCK_ROWS = 2_000
"""Rows in one statement, at most."""
_BLOCK_BYTES = 8 * 2**20
"""Bytes in one statement, at most."""
MIGRATIONS: tuple[tuple[LiteralString, ...], ...] = (
    (
        # Ids are compared by their code points, whatever the locale of the database.
        """
        CREATE TABLE toolcrib_tools (
            id text COLLATE "C" PRIMARY KEY,
            definition text NOT NULL,
            backends text NOT NULL,
            facets text NOT NULL,
            examples text NOT NULL,
            content_hash text NOT NULL,
            revision bigint NOT NULL
        )
        """,
        "CREATE INDEX toolcrib_tools_revision ON toolcrib_tools (revision)",
        """
        CREATE TABLE toolcrib_gone (
            id text COLLATE "C" PRIMARY KEY,
            revision bigint NOT NULL
        )
        """,
        "CREATE INDEX toolcrib_gone_revision ON toolcrib_gone (revision)",
        """
        CREATE TABLE toolcrib_texts (
            collection text COLLATE "C" NOT NULL,
            id text COLLATE "C" NOT NULL,
            text text NOT NULL,
            revision bigint NOT NULL,
            PRIMARY KEY (collection, id)
        )
        """,
        """
        CREATE TABLE toolcrib_derived (
            kind text COLLATE "C" NOT NULL,
            hash text COLLATE "C" NOT NULL,
            value bytea NOT NULL,
            PRIMARY KEY (kind, hash)
        )
        """,
        'CREATE TABLE toolcrib_usage (tool text COLLATE "C" PRIMARY KEY, uses bigint NOT NULL)',
        'CREATE TABLE toolcrib_revisions (name text COLLATE "C" PRIMARY KEY, revision bigint NOT NULL)',
        "INSERT INTO toolcrib_revisions (name, revision) VALUES ('catalogue', 0)",
    ),
    (
        """
        CREATE TABLE toolcrib_entries (
            collection text COLLATE "C" NOT NULL,
            id text COLLATE "C" NOT NULL,
            value bytea NOT NULL,
            ends timestamptz NOT NULL,
            PRIMARY KEY (collection, id)
        )
        """,
        "CREATE INDEX toolcrib_entries_ends ON toolcrib_entries (ends)",
    ),
)
"""The statements that lead from each version of the schema to the next.

A migration is never changed after its release; a new one is appended, and only adds: an earlier release goes
on using the tables for the length of a rolling update.
"""
_TOOLS: LiteralString = "SELECT id, definition, backends, facets, examples, content_hash FROM toolcrib_tools"
_BUMP: LiteralString = (
    "UPDATE toolcrib_revisions SET revision = revision + 1 WHERE name = 'catalogue' RETURNING revision"
)
_BUMP_TEXTS: LiteralString = (
    "INSERT INTO toolcrib_revisions (name, revision) VALUES (%s, %s)"
    " ON CONFLICT (name) DO UPDATE SET revision = excluded.revision"
)
_TEXTS = "texts:"
"""Prefix of the names of the revisions that collections of texts have."""
_PUT_TOOLS: LiteralString = """
    INSERT INTO toolcrib_tools (id, definition, backends, facets, examples, content_hash, revision)
    SELECT each.*, %s FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::text[]) AS each
    ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, backends = excluded.backends,
        facets = excluded.facets, examples = excluded.examples, content_hash = excluded.content_hash,
        revision = excluded.revision
    WHERE (toolcrib_tools.definition, toolcrib_tools.backends, toolcrib_tools.facets, toolcrib_tools.examples,
        toolcrib_tools.content_hash)
        IS DISTINCT FROM (excluded.definition, excluded.backends, excluded.facets, excluded.examples,
        excluded.content_hash)
"""
_DELETE_TOOLS: LiteralString = """
    WITH dropped AS (DELETE FROM toolcrib_tools WHERE id = ANY(%s) RETURNING id)
    INSERT INTO toolcrib_gone (id, revision) SELECT id, %s FROM dropped
    ON CONFLICT (id) DO UPDATE SET revision = excluded.revision
"""
_PUT_TEXTS: LiteralString = """
    INSERT INTO toolcrib_texts (collection, id, text, revision)
    SELECT %s, each.id, each.text, %s FROM unnest(%s::text[], %s::text[]) AS each (id, text)
    ON CONFLICT (collection, id) DO UPDATE SET text = excluded.text, revision = excluded.revision
    WHERE toolcrib_texts.text IS DISTINCT FROM excluded.text
"""
_PUT_DERIVED: LiteralString = """
    INSERT INTO toolcrib_derived (kind, hash, value)
    SELECT %s, each.hash, each.value FROM unnest(%s::text[], %s::bytea[]) AS each (hash, value)
    ON CONFLICT (kind, hash) DO UPDATE SET value = excluded.value
    WHERE toolcrib_derived.value IS DISTINCT FROM excluded.value
"""
_DELETE_ENDED: LiteralString = """
    DELETE FROM toolcrib_entries WHERE (collection, id) IN (
        SELECT collection, id FROM toolcrib_entries WHERE ends < now() LIMIT 100 FOR UPDATE SKIP LOCKED)
"""
_DELETE_ENDED_ENTRY: LiteralString = (
    "DELETE FROM toolcrib_entries WHERE collection = %s AND id = %s AND ends < now()"
)
_PUT_ENTRY: LiteralString = (
    "INSERT INTO toolcrib_entries (collection, id, value, ends)"
    " VALUES (%s, %s, %s, now() + make_interval(secs => %s)) ON CONFLICT DO NOTHING"
)
_RATES = "rates"
"""The collection of the token buckets; each ends when it is full, as one that is not kept is."""
_DRAW: LiteralString = """
    INSERT INTO toolcrib_entries AS kept (collection, id, value, ends)
    VALUES (%(collection)s, %(name)s, '', clock_timestamp() + make_interval(secs => %(interval)s))
    ON CONFLICT (collection, id) DO UPDATE
        SET ends = greatest(kept.ends, clock_timestamp()) + make_interval(secs => %(interval)s)
        WHERE kept.ends <= clock_timestamp() + make_interval(secs => %(interval)s * (%(burst)s - 1))
    RETURNING xmax = 0
"""
"""Returns no row if there is no token, else whether the bucket was full."""
_UNTIL_FULL: LiteralString = (
    "SELECT extract(epoch FROM ends - clock_timestamp())::float8 FROM toolcrib_entries"
    " WHERE collection = %s AND id = %s"
)
_ADD_USAGE: LiteralString = """
    INSERT INTO toolcrib_usage (tool, uses) SELECT * FROM unnest(%s::text[], %s::bigint[])
    ON CONFLICT (tool) DO UPDATE SET uses = toolcrib_usage.uses + excluded.uses
"""


@dataclass(frozen=True, slots=True)
class StoreChanges:
    """The changes of a store since a revision."""

    revision: int
    """The revision that it has now."""
    put: tuple[StoredTool, ...]
    """The tools that were written."""
    gone: frozenset[str]
    """The ids of the tools that were deleted."""
    collections: frozenset[str]
    """The collections of texts in which something was written or deleted."""
    is_complete: bool
    """Whether `put` has all tools, so that all others are gone."""


class PostgresStore:
    """A `Store` in a PostgreSQL database.

    Any number of gateways on any number of machines may share it. Whether a written batch survives a crash of
    the server depends on the settings of the server.

    Args:
        url: the address of the database.
        timeout: the seconds that a call may take.
        connections: the maximum number of pooled connections; each unfinished iterator has one more.

    Raises:
        StoreError: the database cannot be reached or used.
        MissingExtraError: psycopg is not installed.
    """

    def __init__(self, url: str, *, timeout: float = 10.0, connections: int = 8) -> None:
        self.database = Database(url, timeout=timeout, connections=connections)
        """The pool of connections."""
        self._name = self.database.name
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._listener: Connection[Any] | None = None
        self._readers: weakref.WeakSet[_Reader] = weakref.WeakSet()
        try:
            self.database.migrate("catalogue", MIGRATIONS)
        except BaseException:
            self.database.close()
            raise

    @property
    def path(self) -> str:
        """The address of the database, without user and password."""
        return self._name

    def tools(self) -> Iterator[StoredTool]:
        """Return the tools, sorted by id."""
        return starmap(StoredTool, self._rows(f"{_TOOLS} ORDER BY id", ()))

    def write(self, put: Iterable[StoredTool] = (), delete: Iterable[str] = ()) -> None:
        """Put and delete tools, as one batch."""
        added, removed = check_tools(self._name, put), check_ids(self._name, delete)
        blocks = list(_blocks([
            (tool.id, tool.definition, tool.backends, tool.facets, tool.examples, tool.content_hash)
            for tool in added.values()
        ]))  # fmt: skip
        if not added and not removed:
            self._check_open()
            return

        def write(connection: "Connection[Any]") -> None:
            revision = _next_revision(connection)
            dropped = sorted(removed - added.keys())
            changed = connection.execute(_DELETE_TOOLS, (dropped, revision)).rowcount if dropped else 0
            for block in blocks:
                changed += connection.execute(_PUT_TOOLS, (revision, *block)).rowcount
                connection.execute("DELETE FROM toolcrib_gone WHERE id = ANY(%s)", (block[0],))
            _announce(connection, changed)

        self.database.run(write)

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the ids and texts of a collection, sorted by id."""
        check_ids(self._name, [collection])
        sql: LiteralString = "SELECT id, text FROM toolcrib_texts WHERE collection = %s ORDER BY id"
        return ((name, text) for name, text in self._rows(sql, (collection,)))

    def text(self, collection: str, name: str) -> str | None:
        """Return one text of a collection; None if there is none."""
        sql: LiteralString = "SELECT text FROM toolcrib_texts WHERE collection = %s AND id = %s"
        with self.database.transaction() as connection:
            row = connection.execute(sql, (collection, name)).fetchone()
        return None if row is None else str(row[0])

    def put_entry(self, collection: str, name: str, value: bytes, lifetime: float) -> bool:
        """Store a value for `lifetime` seconds, unless the name has one; return whether it was stored.

        If several gateways store a value of one name at the same time, exactly one of them gets True.
        """

        def put(connection: "Connection[Any]") -> bool:
            connection.execute(_DELETE_ENDED)
            connection.execute(_DELETE_ENDED_ENTRY, (collection, name))
            return connection.execute(_PUT_ENTRY, (collection, name, value, lifetime)).rowcount == 1

        return bool(self.database.run(put))

    def entry(self, collection: str, name: str) -> bytes | None:
        """Return a value that `put_entry` stored; None if there is none, or it expired."""
        sql: LiteralString = (
            "SELECT value FROM toolcrib_entries WHERE collection = %s AND id = %s AND ends > now()"
        )
        with self.database.transaction() as connection:
            row = connection.execute(sql, (collection, name), binary=True).fetchone()
        return None if row is None else bytes(row[0])

    def take_tokens(self, wanted: Sequence[TokenRequest]) -> Shortage | None:
        """Take a token from each bucket, or, if one of them has none, from no bucket at all.

        The time is that of the database, whatever the clocks of the gateways say.
        """

        def take(connection: "Connection[Any]") -> Shortage | None:
            for each in sorted(wanted, key=lambda each: each.name):  # in one order, against deadlocks
                facts = {"collection": _RATES, "name": each.name, "burst": each.burst}
                row = connection.execute(_DRAW, {**facts, "interval": each.interval}).fetchone()
                if row is None:
                    left = connection.execute(_UNTIL_FULL, (_RATES, each.name)).fetchone()
                    connection.execute("ROLLBACK AND CHAIN")
                    until_full = 0.0 if left is None else float(left[0])
                    return Shortage(each, max(0.0, until_full - (each.burst - 1) * each.interval))
                if row[0]:  # as many are deleted as are made
                    connection.execute(_DELETE_ENDED)
            return None

        shortage: Shortage | None = self.database.run(take)
        return shortage

    @contextmanager
    def hold(self, name: str, within: float) -> Iterator[None]:
        """Hold the lock of this name against all other gateways; wait for it at most `within` seconds.

        Raises:
            StoreError: another one holds it for longer, or the database is lost before the lock is released.
        """
        with self.database.transaction(timeout=within) as connection:
            lock(connection, name)
            yield

    def write_texts(
        self, collection: str, put: Mapping[str, str] | None = None, delete: Iterable[str] = ()
    ) -> None:
        """Put and delete texts of a collection, as one batch."""
        check_ids(self._name, [collection])
        added, removed = check_texts(self._name, put or {}), check_ids(self._name, delete)
        blocks = list(_blocks(list(added.items())))
        if not added and not removed:
            self._check_open()
            return

        def write(connection: "Connection[Any]") -> None:
            revision = _next_revision(connection)
            sql: LiteralString = "DELETE FROM toolcrib_texts WHERE collection = %s AND id = ANY(%s)"
            changed = connection.execute(sql, (collection, sorted(removed - added.keys()))).rowcount
            for names, texts in blocks:
                changed += connection.execute(_PUT_TEXTS, (collection, revision, names, texts)).rowcount
            connection.execute(_BUMP_TEXTS, (_TEXTS + collection, revision))
            _announce(connection, changed)

        self.database.run(write)

    def derived(self, kind: str, hashes: Collection[str]) -> dict[str, bytes]:
        """Return the derived values of a kind for these content hashes."""
        check_ids(self._name, [kind])
        wanted = sorted(check_ids(self._name, hashes))
        sql: LiteralString = "SELECT hash, value FROM toolcrib_derived WHERE kind = %s AND hash = ANY(%s)"
        with self.database.transaction() as connection:
            return dict(connection.execute(sql, (kind, wanted), binary=True).fetchall())

    def save_derived(self, kind: str, values: Mapping[str, bytes]) -> None:
        """Save derived values of a kind by content hash."""
        check_ids(self._name, [kind])
        batch = check_values(self._name, values)
        blocks = list(
            _blocks(sorted(batch.items()))
        )  # in one order, so that two writers do not block each other

        def write(connection: "Connection[Any]") -> None:
            for hashes, found in blocks:
                connection.execute(_PUT_DERIVED, (kind, hashes, found))

        self.database.run(write)

    def prune_derived(self, keep: Collection[str], *, kinds: Collection[str] | None = None) -> int:
        """Delete the values of all other content hashes, and of all other kinds if kinds are given."""
        kept = sorted(check_ids(self._name, keep))
        kept_kinds = None if kinds is None else sorted(check_ids(self._name, kinds))
        sql: LiteralString = (
            "DELETE FROM toolcrib_derived WHERE NOT EXISTS"
            " (SELECT 1 FROM unnest(%s::text[]) AS kept (hash) WHERE kept.hash = toolcrib_derived.hash)"
            " OR NOT (%s::text[] IS NULL OR kind = ANY(%s::text[]))"
        )
        return int(
            self.database.run(
                lambda connection: connection.execute(sql, (kept, kept_kinds, kept_kinds)).rowcount
            )
        )

    def usage(self) -> dict[str, int]:
        """Return the number of uses of each tool."""
        with self.database.transaction() as connection:
            return dict(connection.execute("SELECT tool, uses FROM toolcrib_usage").fetchall())

    def count_usage(self, counts: Mapping[str, int]) -> None:
        """Add to the usage counts."""
        batch = sorted(check_counts(self._name, counts).items())
        names, uses = [name for name, _ in batch], [count for _, count in batch]
        self.database.run(lambda connection: connection.execute(_ADD_USAGE, (names, uses)))

    def revision(self) -> int:
        """Return the revision of the catalogue, which grows with each change."""
        with self.database.transaction() as connection:
            return _read_revision(connection)

    def changes(self, since: int) -> StoreChanges | None:
        """Return what has changed since a revision; None if nothing has.

        If the database does not know the revision, such as after it was restored from a backup, everything is
        returned.
        """
        with self.database.transaction(snapshot=True) as connection:
            revision = _read_revision(connection)
            if revision == since:
                return None
            is_complete = revision < since
            after = -1 if is_complete else since
            put = connection.execute(f"{_TOOLS} WHERE revision > %s ORDER BY id", (after,)).fetchall()
            gone = connection.execute("SELECT id FROM toolcrib_gone WHERE revision > %s", (after,)).fetchall()
            texts = connection.execute(
                "SELECT name FROM toolcrib_revisions WHERE revision > %s AND starts_with(name, %s)",
                (after, _TEXTS),
            ).fetchall()
        return StoreChanges(
            revision=revision,
            put=tuple(starmap(StoredTool, put)),
            gone=frozenset(name for (name,) in gone),
            collections=frozenset(name.removeprefix(_TEXTS) for (name,) in texts),
            is_complete=is_complete,
        )

    def wait_for_change(self, within: float) -> None:
        """Wait for a notification that something was written, for at most `within` seconds.

        Notifications are lost behind a pooler and on a broken connection, so call `changes` in any case.
        """
        psycopg_error = self.database.error
        try:
            if self._listener is None:
                self._listener = self.database.connect()
                self._listener.execute("LISTEN toolcrib")
            for _ in self._listener.notifies(timeout=within, stop_after=1):
                pass
        except (StoreError, psycopg_error):
            self._stop_listening()
            self._closing.wait(within)
        if self._closing.is_set():  # `close` may have come before there was a connection
            self._stop_listening()

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def prune_unused(self, keep: str) -> int:
        """Delete the derived values of content that no tool of any gateway has, except one hash."""
        sql: LiteralString = (
            "DELETE FROM toolcrib_derived WHERE hash <> %s AND NOT EXISTS"
            " (SELECT 1 FROM toolcrib_tools WHERE content_hash = hash)"
        )
        return int(self.database.run(lambda connection: connection.execute(sql, (keep,)).rowcount))

    def close(self) -> None:
        """Close the connections."""
        self._closing.set()
        with self._guard:
            self.database.close()
            readers = list(self._readers)
        for reader in readers:
            reader.close()
        self._stop_listening()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self.database.is_closed:
            raise StoreError(self._name, CLOSED)

    def _rows(self, sql: LiteralString, parameters: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a query, of a snapshot taken now."""
        reader = _Reader(self.database, sql, parameters)
        with self._guard:
            self._readers.add(reader)
        if self.database.is_closed:
            reader.close()
            raise StoreError(self._name, CLOSED)
        return reader.rows()


class _Reader:
    """A query in a read transaction on a connection of its own; any thread may close it."""

    def __init__(self, database: Database, sql: LiteralString, parameters: Sequence[Any]) -> None:
        self._connection = database.connect()
        self._database = database
        self._lock = threading.Lock()
        self._closed = False
        try:
            with database.explained():
                begin_snapshot(self._connection, database.timeout)
                self._connection.execute(f"DECLARE toolcrib NO SCROLL CURSOR FOR {sql}", parameters)
        except BaseException:
            self._connection.close()
            raise

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows; raise if the store is closed before the last one."""
        try:
            while True:
                with self._lock:
                    self._check_open()
                    with self._database.explained():
                        block = self._connection.execute(_FETCH).fetchall()
                if not block:
                    return
                for row in block:
                    self._check_open()
                    yield row
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            with suppress(Exception):  # it may be broken, and is not used again
                self._connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):  # else none was opened
            self._connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(self._database.name, CLOSED)


def _next_revision(connection: "Connection[Any]") -> int:
    """Return the next revision of the catalogue; other writers wait for the end of this transaction."""
    row = connection.execute(_BUMP).fetchone()
    if row is None:
        raise StoreError("catalogue", "its table of revisions is empty; restore it, or drop all its tables")
    return int(row[0])


def _read_revision(connection: "Connection[Any]") -> int:
    row = connection.execute("SELECT revision FROM toolcrib_revisions WHERE name = 'catalogue'").fetchone()
    return 0 if row is None else int(row[0])


def _announce(connection: "Connection[Any]", changed: int) -> None:
    """Notify other gateways of a change at the commit; where nothing has changed, keep the revision."""
    if changed:
        connection.execute("NOTIFY toolcrib")
    else:
        connection.execute("ROLLBACK AND CHAIN")


def _blocks(rows: Sequence[tuple[Any, ...]]) -> Iterator[list[list[Any]]]:
    """Yield the columns of rows, in blocks of a bounded size."""
    block: list[tuple[Any, ...]] = []
    size = 0
    for row in sorted(rows, key=lambda row: row[0]):
        block.append(row)
        size += sum(map(len, row))
        if len(block) >= _BLOCK_ROWS or size >= _BLOCK_BYTES:
            yield [list(column) for column in zip(*block, strict=True)]
            block, size = [], 0
    if block:
        yield [list(column) for column in zip(*block, strict=True)]

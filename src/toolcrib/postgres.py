"""Connections to one PostgreSQL database: pooled, with a deadline for every wait, and typed errors.

Everything blocks, and is called in worker threads, as SQLite is. Three rules keep it usable behind a pooler
in transaction mode: no prepared statements, no settings of a session, and advisory locks of transactions
alone.

A lost server is noticed by its closed socket before a connection is lent, so that a restart costs only what
was under way. After a failed attempt to connect, further calls fail at once until the next attempt is due, so
that callers do not queue up behind a database that is away.
"""

import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from select import select
from typing import TYPE_CHECKING, Any, Final, LiteralString
from urllib.parse import parse_qsl, unquote, urlsplit

from toolcrib.errors import MissingExtraError, StoreError

if TYPE_CHECKING:
    from psycopg import Connection

SCHEMES: Final = ("postgresql", "postgres")
CLOSED: Final = "it is closed; open it again"
_DEFAULT_PORT = 5432
_MIN_CONNECT_TIMEOUT = 2
"""Seconds; libpq takes anything less for this."""
_MIN_BACKOFF = 0.1
_MAX_BACKOFF = 5.0
"""Seconds between two attempts to connect."""
_RETRIES = 5
"""The maximum number of attempts at a transaction that the server rolls back for the sake of another."""
_MIGRATION_TIMEOUT = 300.0
"""Seconds that a migration may take, or wait for that of another process."""
_REASONS: Final = {
    "28": "it refused the user or the password; check the address",
    "3D": "there is no such database; create it, or check the address",
    "42501": "the user may not do this; grant it CREATE on the schema, or the tables",
    "42P01": "a table is missing; restart toolcrib, which creates it",
    "53300": "it takes no more connections; raise its max_connections, or lower `postgres.connections`",
    "53": "its disk or memory is full; free some, and try again",
    "57014": "it did not answer in time; try again, or allow more with `postgres.timeout`",
    "55P03": "another process holds a lock; try again",
    "25006": "it is read-only; give the address of the primary server",
    "25P03": "it ended a transaction that waited too long; try again",
    "57P": "it is shutting down or starting; try again soon",
}
"""The reason and the remedy, by SQLSTATE or its beginning."""
_REFUSALS: Final = {
    "authentication failed": "28P01",
    "no pg_hba.conf entry": "28000",
    "too many clients": "53300",
    "connection slots are reserved": "53300",
    "is starting up": "57P03",
    "is shutting down": "57P01",
    "does not exist": "3D000",
}
"""The SQLSTATE of a refused connection, by a part of its message."""
_RETRIED = frozenset({"40001", "40P01"})
"""Serialization failure, deadlock: the transaction was rolled back, and may be repeated."""
_PUT_VERSION: "LiteralString" = (
    "INSERT INTO toolcrib_schema (name, version) VALUES (%s, %s)"
    " ON CONFLICT (name) DO UPDATE SET version = greatest(toolcrib_schema.version, excluded.version)"
)


def is_postgres(place: str) -> bool:
    """Return whether the place of a store is the address of a PostgreSQL database.

    >>> is_postgres("postgresql://db/toolcrib"), is_postgres("tools.db")
    (True, False)
    """
    return place.partition("://")[0].lower() in SCHEMES and "://" in place


def public_address(url: str) -> str:
    """Return an address without its user, its password and its parameters.

    >>> public_address("postgresql://me:secret@db.example.com/tools?sslmode=verify-full")
    'postgresql://db.example.com/tools'
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "postgresql://…"
    return f"postgresql://{host}{parts.path}"


def address_fault(url: str) -> str | None:
    """Return why an address cannot be used; None if it can.

    >>> address_fault("postgresql://me:secret@db:54x2/tools")
    'its port is not a number from 1 to 65535'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "it is not an address; write postgresql://USER:PASSWORD@HOST/DATABASE"
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        return "its port is not a number from 1 to 65535"
    if parts.fragment:
        return "it has a '#'; write it as %23"
    if not parts.path.strip("/"):
        return "it names no database; write postgresql://USER:PASSWORD@HOST/DATABASE"
    return None


def is_private(url: str) -> bool:
    """Return whether the connection stays on this machine, or verifies the certificate of the server.

    >>> is_private("postgresql://localhost/tools"), is_private("postgresql://db/tools?sslmode=require")
    (True, False)
    """
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    host = given.get("host") or parts.hostname or ""
    is_local = host in {"", "localhost", "::1"} or host.startswith(("/", "127."))
    return is_local or given.get("sslmode") in {"verify-ca", "verify-full"}


class Database:
    """A pool of connections to one database.

    Args:
        url: its address, with the parameters that libpq knows, such as `sslmode`.
        timeout: the seconds that a call may take, the wait for a connection included.
        connections: the maximum number of connections in the pool.

    Raises:
        MissingExtraError: psycopg is not installed.
        StoreError: the address cannot be used.
    """

    def __init__(self, url: str, *, timeout: float = 10.0, connections: int = 8) -> None:
        self.name = public_address(url)
        """The address without secrets, for errors and people."""
        self.timeout = timeout
        if fault := address_fault(url):
            raise StoreError(self.name, fault)
        try:
            import psycopg  # noqa: PLC0415 - optional
        except ImportError as error:
            raise MissingExtraError("a store in PostgreSQL", "postgres") from error
        self._psycopg = psycopg
        self._url = url
        self._secret = unquote(urlsplit(url).password or "")
        self._closed = False
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(connections)
        self._idle: list[Connection[Any]] = []
        self._lent: set[Connection[Any]] = set()
        self._failure: tuple[float, float, str] | None = None
        """The time of the next attempt to connect, the interval, and why the last one failed."""

    def __repr__(self) -> str:
        return f"<Database {self.name}>"

    @contextmanager
    def transaction(
        self, *, timeout: float | None = None, snapshot: bool = False
    ) -> Iterator["Connection[Any]"]:
        """Run the body as one transaction, committed at the end or rolled back on an exception.

        With `snapshot`, it only reads, and all its statements see the database as it is at the first.

        Raises:
            StoreError: the database cannot be reached or used, or did not answer in time.
        """
        limit = self.timeout if timeout is None else timeout
        with self._borrow(limit) as connection, self.explained():
            _begin(connection, limit, snapshot=snapshot)
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                _roll_back(connection)

    def run(self, work: Callable[["Connection[Any]"], Any], *, timeout: float | None = None) -> Any:
        """Run a function in a transaction, and return its result.

        A transaction that the server has rolled back for the sake of another one is repeated.

        Raises:
            StoreError: as for `transaction`.
        """
        for left in reversed(range(_RETRIES)):
            try:
                with self.transaction(timeout=timeout) as connection:
                    return work(connection)
            except StoreError as error:
                if not left or getattr(error.__cause__, "sqlstate", None) not in _RETRIED:
                    raise
            time.sleep(random.uniform(0.0, 0.02))  # noqa: S311 - spreads those that collided
        raise AssertionError("unreachable")

    def connect(self, timeout: float | None = None) -> "Connection[Any]":
        """Open a connection outside of the pool, which the caller closes.

        Raises:
            StoreError: the database cannot be reached.
        """
        self._check_open()
        failure = self._failure
        if failure is not None and time.monotonic() < failure[0]:
            raise StoreError(self.name, f"it cannot be reached ({failure[2]}); try again soon")
        limit = self.timeout if timeout is None else timeout
        try:
            with self.explained():
                connection = self._open_connection(limit)
        except StoreError as error:
            interval = _MIN_BACKOFF if failure is None else min(_MAX_BACKOFF, 2 * failure[1])
            wait = random.uniform(0.5, 1.0) * interval  # noqa: S311 - spreads the gateways
            self._failure = time.monotonic() + wait, interval, error.reason
            raise
        self._failure = None
        return connection

    def migrate(self, schema: str, steps: Sequence[Sequence["LiteralString"]]) -> None:
        """Create the tables of a schema, or bring older ones to the latest version; one process at a time.

        A schema of a later release is used as it is: migrations only add, so that gateways of two releases
        run beside each other.

        Raises:
            StoreError: the database cannot be changed.
        """
        with self.transaction() as connection:
            if _read_version(connection, schema) >= len(steps):
                return
        with self.transaction(timeout=_MIGRATION_TIMEOUT) as connection:
            lock(connection, "migration")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS toolcrib_schema"
                ' (name text COLLATE "C" PRIMARY KEY, version integer NOT NULL)'
            )
            for step in steps[_read_version(connection, schema) :]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(_PUT_VERSION, (schema, len(steps)))

    def close(self) -> None:
        """Close all connections; running calls end with an error. A second call does nothing."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @property
    def error(self) -> type[Exception]:
        """The base class of psycopg's errors."""
        return self._psycopg.Error

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @contextmanager
    def _borrow(self, timeout: float) -> Iterator["Connection[Any]"]:
        """Lend a connection of the pool; one that is broken or was closed meanwhile is not put back."""
        self._check_open()
        if not self._slots.acquire(timeout=timeout):
            reason = f"all its connections have been in use for {timeout:g} s; raise `postgres.connections`"
            raise StoreError(self.name, reason)
        try:
            connection = self._take_idle() or self.connect(timeout)
            try:
                yield connection
            finally:
                self._put_back(connection)
        finally:
            self._slots.release()

    def _take_idle(self) -> "Connection[Any] | None":
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or _is_alive(connection):
                return connection
            connection.close()

    def _put_back(self, connection: "Connection[Any]") -> None:
        is_usable = connection.info.transaction_status == self._psycopg.pq.TransactionStatus.IDLE
        with self._lock:
            is_kept = is_usable and not self._closed
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()

    def _open_connection(self, timeout: float) -> "Connection[Any]":
        opened: Connection[Any] = _connection_class().connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=max(_MIN_CONNECT_TIMEOUT, round(timeout)),
            client_encoding="UTF8",
            application_name="toolcrib",
            keepalives_idle=15,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=round(1000 * self.timeout),
        )
        return opened

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the errors of psycopg into a `StoreError` with a remedy and without the password."""
        try:
            yield
        except self._psycopg.Error as error:
            if self._closed:
                raise StoreError(self.name, CLOSED) from None
            reason = _explain(error)
            if self._secret and self._secret in f"{reason}{error}":  # libpq's parser quotes its input
                raise StoreError(self.name, reason.replace(self._secret, "…")) from None
            raise StoreError(self.name, reason) from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(self.name, CLOSED)


def lock(connection: "Connection[Any]", name: str) -> None:
    """Take the lock of this name until the end of the transaction; wait for others."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock_key(name),))


def try_lock(connection: "Connection[Any]", name: str) -> bool:
    """Take the lock of this name until the end of the transaction; return False if another holds it."""
    row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (_lock_key(name),)).fetchone()
    return row is not None and bool(row[0])


def begin_snapshot(connection: "Connection[Any]", timeout: float) -> None:
    """Begin a transaction that only reads, and sees the database as it is now."""
    _begin(connection, timeout, snapshot=True)
    connection.execute("SELECT 1")  # the server takes the snapshot at the first statement, not at BEGIN


def _begin(connection: "Connection[Any]", timeout: float, *, snapshot: bool) -> None:
    mode: LiteralString = " ISOLATION LEVEL REPEATABLE READ READ ONLY" if snapshot else ""
    connection.timeout = timeout + 1.0  # type: ignore[attr-defined] # of our class; the server gives up first
    # One text is one round trip. The settings are those of the transaction: a pooler may lend the session on.
    limits: Any = f"BEGIN{mode}; SET LOCAL statement_timeout = {round(1000 * timeout)};"
    connection.execute(f"{limits} SET LOCAL lock_timeout = {round(1000 * timeout)}")


def _roll_back(connection: "Connection[Any]") -> None:
    """End a transaction that is still open, if the connection is."""
    with suppress(Exception):  # the error that led here is raised; a broken connection is not put back
        if not connection.closed and connection.info.transaction_status != 0:
            connection.execute("ROLLBACK")


def _is_alive(connection: "Connection[Any]") -> bool:
    """Return whether an idle connection is open; the end of its server makes the socket readable."""
    if connection.closed:
        return False
    try:
        return not select([connection.fileno()], [], [], 0)[0]
    except (OSError, ValueError):
        return False


def _connection_class() -> Any:
    """Return the class of connections whose statements end after `timeout` seconds."""
    import psycopg  # noqa: PLC0415 - optional

    class BoundedConnection(psycopg.Connection[Any]):
        timeout = _MIGRATION_TIMEOUT

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            if timeout is not None:  # the caller expects the end of its time
                return super().wait(gen, interval, timeout)
            try:
                return super().wait(gen, interval, self.timeout)
            except psycopg.errors._WaitTimeout:  # noqa: SLF001 - what `wait` raises; it has no public name
                self.close()  # the answer may still come, and would be taken for that of the next statement
                raise psycopg.errors.QueryCanceled("no answer in time") from None

    return BoundedConnection


def _explain(error: Any) -> str:
    """Return the reason of an error and the remedy."""
    code = error.sqlstate or ""
    text = " ".join(str(error).split())
    if not code:  # of a connection that was refused, psycopg gives the message alone
        code = next((known for phrase, known in _REFUSALS.items() if phrase in text), "")
    for length in (5, 3, 2):
        if known := _REASONS.get(code[:length]):
            return f"{known} ({text})"
    if not code:
        return f"it cannot be reached; check the address, and that the server runs ({text})"
    return f"it cannot be used ({code}: {text})"


def _lock_key(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"toolcrib:{name}".encode(), digest_size=8).digest(), signed=True)


def _read_version(connection: "Connection[Any]", schema: str) -> int:
    """Return the version of a schema, the number of migrations applied; 0 if there is none."""
    row = connection.execute("SELECT to_regclass('toolcrib_schema')").fetchone()
    if row is None or row[0] is None:
        return 0
    row = connection.execute("SELECT version FROM toolcrib_schema WHERE name = %s", (schema,)).fetchone()
    return 0 if row is None else int(row[0])

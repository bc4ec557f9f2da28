"""Store of durable runs in a PostgreSQL database, so that any gateway can resume them."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, LiteralString

from toolcrib.errors import StoreError
from toolcrib.postgres import Database
from toolcrib.runs.store import NO_OUTCOMES, Lease, NewCall, StoredCall, StoredRun, lease_error

if TYPE_CHECKING:
    from psycopg import Connection

_MIGRATIONS: tuple[tuple[LiteralString, ...], ...] = (
    (
        """
        CREATE TABLE toolcrib_runs (
            id text COLLATE "C" PRIMARY KEY,
            owner text COLLATE "C" NOT NULL,
            head bytea NOT NULL,
            began double precision NOT NULL,
            changed double precision NOT NULL,
            status text NOT NULL,
            holder text NOT NULL,
            fence bigint NOT NULL,
            step bigint NOT NULL DEFAULT 0,
            state bytea,
            result bytea,
            sequence bytea
        )
        """,
        "CREATE INDEX toolcrib_runs_owner ON toolcrib_runs (owner, began)",
        """
        CREATE TABLE toolcrib_run_calls (
            run text COLLATE "C" NOT NULL REFERENCES toolcrib_runs (id) ON DELETE CASCADE,
            key text COLLATE "C" NOT NULL,
            intent bytea NOT NULL,
            outcome bytea,
            PRIMARY KEY (run, key)
        )
        """,
    ),
)
"""The statements that lead from each version of the schema to the next; released ones never change."""
_LISTED: LiteralString = "id, owner, head, began, changed, status, holder, fence, step"
_BEGIN: LiteralString = (
    "INSERT INTO toolcrib_runs (id, owner, head, began, changed, status, holder, fence, sequence)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING"
)
_INTEND: LiteralString = (
    "UPDATE toolcrib_runs SET changed = greatest(changed, %s), sequence = %s, state = coalesce(%s, state)"
    " WHERE id = %s AND fence = %s AND status = 'open'"
)
_PUT_CALL: LiteralString = (
    "INSERT INTO toolcrib_run_calls (run, key, intent) VALUES (%s, %s, %s)"
    " ON CONFLICT (run, key) DO UPDATE SET intent = excluded.intent, outcome = NULL"
)
_ANSWER: LiteralString = "UPDATE toolcrib_run_calls SET outcome = %s WHERE run = %s AND key = %s"
_LEASED: LiteralString = (
    "SELECT 1 FROM toolcrib_runs WHERE id = %s AND fence = %s AND status = 'open' FOR SHARE"
)
_END: LiteralString = (
    "UPDATE toolcrib_runs SET status = %s, holder = '', result = %s, step = %s, changed = %s, state = NULL,"
    " sequence = NULL WHERE id = %s AND fence = %s AND status = 'open'"
)
_HOLD: LiteralString = (
    "UPDATE toolcrib_runs SET holder = %s, fence = fence + 1 WHERE id = %s AND fence = %s AND status = 'open'"
)


class PostgresRunStore:
    """Keeps runs in a PostgreSQL database; the contract is that of `RunStore`.

    Raises:
        StoreError: the database cannot be reached or used.
        MissingExtraError: psycopg is not installed.
    """

    def __init__(self, url: str, *, timeout: float = 10.0, connections: int = 4) -> None:
        self._database = Database(url, timeout=timeout, connections=connections)
        self._name = self._database.name
        try:
            self._database.migrate("runs", _MIGRATIONS)
        except BaseException:
            self._database.close()
            raise

    def begin(self, run: StoredRun) -> None:
        """Store a new run."""
        row = (
            run.id,
            run.owner,
            run.head,
            run.began,
            run.changed,
            run.status,
            run.holder,
            run.fence,
            run.sequence,
        )
        with self._database.transaction() as connection:
            if connection.execute(_BEGIN, row).rowcount != 1:
                raise StoreError(self._name, f"there is a run {run.id!r} already")

    def intend(self, lease: Lease, call: NewCall, outcomes: Mapping[str, bytes] = NO_OUTCOMES) -> None:
        """Store the intent of a call, and the state to resume from."""
        with self._database.transaction() as connection:
            row = (call.at, call.sequence, call.state, lease.run_id, lease.fence)
            if connection.execute(_INTEND, row).rowcount != 1:
                raise self._lease_error(connection, lease)
            for key, outcome in outcomes.items():
                connection.execute(_ANSWER, (outcome, lease.run_id, key))
            connection.execute(_PUT_CALL, (lease.run_id, call.key, call.intent))

    def answer(self, lease: Lease, key: str, outcome: bytes) -> None:
        """Store the outcome of a call."""
        with self._database.transaction() as connection:
            if connection.execute(_LEASED, (lease.run_id, lease.fence)).fetchone() is None:
                raise self._lease_error(connection, lease)
            if connection.execute(_ANSWER, (outcome, lease.run_id, key)).rowcount != 1:
                raise StoreError(self._name, f"run {lease.run_id!r} has no call {key!r}")

    def end(self, lease: Lease, status: str, result: bytes, step: int, now: float) -> None:
        """Store the result of a run, and delete its calls and its state."""
        with self._database.transaction() as connection:
            row = (status, result, step, now, lease.run_id, lease.fence)
            if connection.execute(_END, row).rowcount != 1:
                raise self._lease_error(connection, lease)
            connection.execute("DELETE FROM toolcrib_run_calls WHERE run = %s", (lease.run_id,))

    def hold(self, lease: Lease, holder: str) -> Lease | None:
        """Change the holder of a run, if the lease is still valid."""
        with self._database.transaction() as connection:
            is_held = connection.execute(_HOLD, (holder, lease.run_id, lease.fence)).rowcount == 1
        return Lease(lease.run_id, lease.fence + 1) if is_held else None

    def get(self, run_id: str) -> StoredRun | None:
        """Return a run, with everything that is stored about it."""
        with self._database.transaction(snapshot=True) as connection:
            return _read_run(connection, run_id)

    def runs(self, owner: str | None = None) -> Collection[StoredRun]:
        """Return the runs of an owner, or of all, the latest first."""
        sql: LiteralString = (
            f"SELECT {_LISTED} FROM toolcrib_runs WHERE %s::text IS NULL OR owner = %s"  # noqa: S608 - constant
            " ORDER BY began DESC, id DESC"
        )
        with self._database.transaction() as connection:
            return [StoredRun(*row) for row in connection.execute(sql, (owner, owner))]

    def delete(self, run_ids: Collection[str]) -> None:
        """Delete runs."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM toolcrib_runs WHERE id = ANY(%s)", (sorted(run_ids),))

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def _lease_error(self, connection: "Connection[Any]", lease: Lease) -> StoreError:
        return lease_error(self._name, lease, _read_run(connection, lease.run_id))


def _read_run(connection: "Connection[Any]", run_id: str) -> StoredRun | None:
    sql: LiteralString = f"SELECT {_LISTED}, state, result, sequence FROM toolcrib_runs WHERE id = %s"  # noqa: S608 - constant
    row = connection.execute(sql, (run_id,)).fetchone()
    if row is None:
        return None
    calls = connection.execute(
        "SELECT key, intent, outcome FROM toolcrib_run_calls WHERE run = %s", (run_id,)
    )
    found = {key: StoredCall(intent, outcome) for key, intent, outcome in calls}
    return replace(StoredRun(*row), calls=found)

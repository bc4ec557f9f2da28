"""Connections to PostgreSQL: errors, hidden passwords, and loss of the server."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from servers.postgres import PASSWORD, QUOTED, PostgresServer
from waiting import wait_until

from toolcrib import postgres as module
from toolcrib.crib.compose import fill_address, open_store
from toolcrib.crib.config.settings import Settings
from toolcrib.discovery import PostgresStore
from toolcrib.discovery.store.postgres import MIGRATIONS
from toolcrib.errors import ConfigError, StoreError
from toolcrib.postgres import Database, is_private
from toolcrib.setup.doctor.diagnose import check_catalogue

TABLE: Any = ("CREATE TABLE one (value integer)",)
COLUMN: Any = ("ALTER TABLE one ADD COLUMN other integer NOT NULL DEFAULT 7",)


def number(database: Database, sql: Any) -> Any:
    """Return the first value of the first row of a query."""
    with database.transaction() as connection:
        row = connection.execute(sql).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("postgresql://me:hush-hush@db", "names no database"),
        ("postgresql://me:hush-hush@db:x/tools", "port is not a number"),
        ("postgresql://me:hush-hush@[db/tools", "is not an address"),
        ("postgresql://me:hush-hush@db/tools#1", "write it as %23"),
        ("mysql://me:hush-hush@db/tools", "no store is known for mysql"),
    ],
    ids=["database", "port", "host", "fragment", "scheme"],
)
def test_address_that_cannot_be_used_is_refused_without_its_password(place: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        Settings(store=place)
    assert "hush" not in f"{caught.value} {caught.value!r}"


def test_settings_do_not_show_the_password() -> None:
    settings = Settings(
        store="postgresql://me:hush-hush@db/tools?password=hush",
        runs={"store": "postgresql://me:hush-hush@db/runs"},
    )
    assert "hush" not in repr(settings)
    assert "postgresql://db/tools" in repr(settings)


def test_variables_of_an_address_are_quoted() -> None:
    settings = Settings(store="postgresql://me:${PASSWORD}@db/tools")
    assert settings.store is not None
    filled = fill_address(settings, settings.store, {"PASSWORD": "a/b@c%"})
    assert filled == "postgresql://me:a%2Fb%40c%25@db/tools"
    with pytest.raises(ConfigError, match="'PASSWORD' is not set"):
        fill_address(settings, settings.store, {})


def test_store_is_opened_from_the_settings(database: str) -> None:
    place = database.replace(QUOTED, "${DB_PASSWORD}")
    store = open_store(Settings(store=place), {"DB_PASSWORD": PASSWORD})
    assert isinstance(store, PostgresStore)
    with store:
        assert list(store.tools()) == []
        assert PASSWORD not in f"{store.path} {store.database!r}"


@pytest.mark.parametrize("place", ["wrong password", "no server", "no database"])
def test_database_that_cannot_be_reached_is_a_typed_error_without_the_password(
    postgres: PostgresServer, place: str
) -> None:
    url = {
        "wrong password": postgres.url().replace(QUOTED, "hush-hush"),
        "no server": postgres.url(port=1).replace(QUOTED, "hush-hush"),
        "no database": postgres.url("nowhere"),
    }[place]
    reason = {
        "wrong password": "refused the user or the password",
        "no server": "cannot be reached",
        "no database": "no such database",
    }[place]
    with pytest.raises(StoreError, match=reason) as caught:
        PostgresStore(url)
    told = [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
    assert not any(secret in text for secret in ("hush", PASSWORD, QUOTED) for text in told)


def test_without_psycopg_the_error_says_what_to_install() -> None:
    code = """if True:
        import sys
        sys.modules["psycopg"] = None
        from toolcrib.discovery import PostgresStore
        try:
            PostgresStore("postgresql://me:hush-hush@db/tools")
        except ImportError as error:
            print(type(error).__name__, error)
    """
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert (
        told
        == "MissingExtraError a store in PostgreSQL needs the 'postgres' extra: pip install 'toolcrib[postgres]'\n"
    )


def test_migrations_run_once_when_many_open_the_database_at_once(database: str) -> None:
    pools = [Database(database) for _ in range(6)]
    ready = threading.Barrier(len(pools))

    def migrate(pool: Database) -> None:
        ready.wait()
        pool.migrate("test", (TABLE, COLUMN))

    with ThreadPoolExecutor(len(pools)) as threads:
        for work in [threads.submit(migrate, pool) for pool in pools]:
            work.result()
    assert number(pools[0], "SELECT version FROM toolcrib_schema WHERE name = 'test'") == 2
    for pool in pools:
        pool.close()


def test_older_release_goes_on_beside_a_newer_one(database: str) -> None:
    older, newer = Database(database), Database(database)
    older.migrate("test", (TABLE,))
    newer.migrate("test", (TABLE, COLUMN))
    older.migrate("test", (TABLE,))
    with older.transaction() as connection:
        connection.execute("INSERT INTO one (value) VALUES (1)")
    assert number(newer, "SELECT value + other FROM one") == 8
    assert number(newer, "SELECT version FROM toolcrib_schema WHERE name = 'test'") == 2
    older.close()
    newer.close()


def test_migrations_only_add() -> None:
    statements = [statement.split() for step in MIGRATIONS[1:] for statement in step]
    assert all(words[0] in {"CREATE", "ALTER", "INSERT"} and "DROP" not in words for words in statements)


def test_failed_migration_leaves_nothing(database: str) -> None:
    pool = Database(database)
    with pool.transaction() as connection:
        connection.execute("CREATE TABLE other (value integer)")
    with pytest.raises(StoreError):
        pool.migrate("test", (TABLE, ("CREATE TABLE other (value integer)",)))
    assert number(pool, "SELECT to_regclass('one') IS NULL AND to_regclass('toolcrib_schema') IS NULL")
    pool.close()


def test_statement_that_takes_too_long_ends_with_an_error_and_the_next_one_is_answered(database: str) -> None:
    pool = Database(database, timeout=0.2, connections=1)
    with pytest.raises(StoreError, match="did not answer in time"), pool.transaction() as connection:
        connection.execute("SELECT pg_sleep(60)")
    assert number(pool, "SELECT 1") == 1
    pool.close()


def test_server_that_says_nothing_more_is_given_up(database: str) -> None:
    pool = Database(database, timeout=0.2, connections=1)
    stopped: Any = "SET LOCAL statement_timeout = 0; SELECT pg_sleep(60)"  # the server itself ends nothing
    with pytest.raises(StoreError, match="did not answer in time"), pool.transaction() as connection:
        connection.execute(stopped)
    assert number(pool, "SELECT 1") == 1
    pool.close()


def test_pool_without_a_free_connection_is_waited_for_no_longer_than_allowed(database: str) -> None:
    pool = Database(database, timeout=0.1, connections=1)
    with pool.transaction(), pytest.raises(StoreError, match=r"raise `postgres\.connections`"):
        number(pool, "SELECT 1")
    assert number(pool, "SELECT 1") == 1
    pool.close()


def test_connection_is_not_used_after_the_server_was_restarted(
    postgres: PostgresServer, database: str
) -> None:
    pool = Database(database)
    assert number(pool, "SELECT 1") == 1
    postgres.restart()
    assert number(pool, "SELECT 1") == 1
    pool.close()


def test_transaction_that_the_server_rolled_back_is_repeated(database: str) -> None:
    pool = Database(database)
    tries = []

    def work(connection: Any) -> int:
        tries.append(1)
        if len(tries) == 1:
            connection.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$")
        return len(tries)

    assert pool.run(work) == 2
    pool.close()


def test_locks_of_one_name_exclude_each_other_until_the_transaction_ends(database: str) -> None:
    pool = Database(database)
    with pool.transaction() as one, pool.transaction() as other:
        assert module.try_lock(one, "a")
        assert not module.try_lock(other, "a")
        assert module.try_lock(other, "b")
    with pool.transaction() as other:
        assert module.try_lock(other, "a")
    pool.close()


def test_attempts_to_connect_follow_each_other_with_pauses_in_which_calls_fail_at_once(
    postgres: PostgresServer, database: str
) -> None:
    pool = Database(database)
    assert number(pool, "SELECT 1") == 1
    postgres.stop()
    try:
        with pytest.raises(StoreError, match=r"cannot be reached|shutting down"):
            number(pool, "SELECT 1")
        reasons = []
        while not reasons or "try again soon" not in reasons[-1]:  # of an attempt, until one comes too soon
            with pytest.raises(StoreError, match="cannot be reached") as caught:
                number(pool, "SELECT 1")
            reasons.append(caught.value.reason)
    finally:
        postgres.start()
    wait_until(lambda: _answers(pool))
    pool.close()


def _answers(pool: Database) -> bool:
    try:
        return bool(number(pool, "SELECT true"))
    except StoreError:
        return False


@pytest.mark.parametrize(
    ("place", "verified"),
    [
        ("postgresql://db.test/tools?sslmode=verify-full", True),
        ("postgresql://db.test/tools?sslmode=require", False),
        ("postgresql://db.test/tools", False),
        ("postgresql://127.0.0.1/tools", True),
        ("postgresql:///tools?host=/run/postgresql", True),
    ],
)
def test_connection_is_private_on_this_machine_or_with_a_verified_certificate(
    place: str, verified: bool
) -> None:
    assert is_private(place) is verified


def test_doctor_says_that_the_database_is_well_or_why_not_without_the_password(database: str) -> None:
    settings = Settings(store=database.replace(QUOTED, "${DB_PASSWORD}"))
    well, key = check_catalogue(settings, {"DB_PASSWORD": PASSWORD})
    assert (well.severity, key.severity) == ("ok", "warning")
    (wrong,) = check_catalogue(settings, {"DB_PASSWORD": "hush-hush"})
    assert wrong.severity == "error"
    assert "refused the user or the password" in str(wrong)
    assert not any(secret in f"{well} {key} {wrong}" for secret in (PASSWORD, QUOTED, "hush-hush"))

"""Logins that gateways share: their entries of the vault in a common store, and a lock for each.

A rotating refresh token is valid once. Two gateways that refresh it at the same time lose the login, since
the authorization server takes the second request for theft. So a gateway refreshes under a lock of the store,
and first takes over the entry that another one has stored. The vault of each gateway stays in its own file,
which is all that a call reads.

The entries are sealed with the key of the vault, which is the same everywhere: that of the environment.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from typing import Protocol

import anyio
from anyio import to_thread

COLLECTION = "logins"
"""The collection of sealed entries in the store."""


class LockingTexts(Protocol):
    """A store of texts with locks that all gateways respect.

    `PostgresStore` is one. Logins know it by this protocol, since the packages of calls and of the catalogue
    do not import each other.
    """

    def texts(self, collection: str) -> Iterator[tuple[str, str]]:
        """Return the ids and texts of a collection."""
        ...

    def text(self, collection: str, name: str) -> str | None:
        """Return one text; None if there is none."""
        ...

    def write_texts(
        self, collection: str, put: Mapping[str, str] | None = None, delete: Iterable[str] = ()
    ) -> None:
        """Put texts in a collection, and delete others."""
        ...

    def hold(self, name: str, within: float) -> AbstractContextManager[None]:
        """Hold the lock of this name against all other gateways."""
        ...


class SharedLogins:
    """The sealed entries of a vault, by their ids, in a store that gateways share.

    All methods but `hold` block, and are called in threads. Every failure is a `StoreError`.
    """

    def __init__(self, store: LockingTexts) -> None:
        self._store = store

    def read(self, name: str) -> str | None:
        """Return an entry, which is empty if it was removed; None if there never was one."""
        return self._store.text(COLLECTION, name)

    def read_all(self) -> dict[str, str]:
        """Return all entries; those that were removed are empty."""
        return dict(self._store.texts(COLLECTION))

    def write(self, entries: Mapping[str, str]) -> None:
        """Store entries."""
        self._store.write_texts(COLLECTION, entries)

    def delete(self, name: str) -> None:
        """Remove an entry from all gateways; an empty one stays, so that none shares it again."""
        self._store.write_texts(COLLECTION, {name: ""})

    @asynccontextmanager
    async def hold(self, name: str, within: float) -> AsyncGenerator[None, None]:
        """Hold the lock of an entry against other gateways, without blocking the event loop.

        Raises:
            StoreError: another gateway holds it for longer, or the store cannot be reached.
        """
        stack = ExitStack()
        await to_thread.run_sync(stack.enter_context, self._store.hold(f"login:{name}", within))
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(stack.close)

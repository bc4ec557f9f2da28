"""Who offers tools: providers by id."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from toolcrib.discovery.facts import deep_copy
from toolcrib.discovery.kept import TextCollection, Texts
from toolcrib.errors import InvalidToolError, Problem, ProviderNotFoundError
from toolcrib.model.canonical import CanonicalProvider
from toolcrib.model.suggest import nearest

__all__ = ["ProviderStore"]

_MAX_ID = 512


class ProviderStore:
    """Providers by id; what is registered and what is returned shares nothing with the store.

    Every method may be called from any thread.

    >>> providers = ProviderStore()
    >>> providers.register(CanonicalProvider(name="weather", version="1.0.0"))
    'weather:1.0.0'
    """

    def __init__(self, *, texts: Texts | None = None) -> None:
        """Read what `texts` has kept, if given, and keep what is registered there.

        Raises:
            StoreError: what was kept cannot be read.
        """
        self._kept = TextCollection(texts, "providers")
        self._providers = self._kept.load(CanonicalProvider.from_json)
        self._lock = Lock()

    def register(
        self,
        provider: CanonicalProvider | Mapping[str, Any],
        id: str | None = None,  # noqa: A002 - the word for it
    ) -> str:
        """Keep a provider, in place of one with the same id, and return its id: `name:version`, or `name`.

        Raises:
            InvalidToolError: it is no provider, has no name, or the id cannot be one.
        """
        owned = deep_copy(_provider(provider))
        if not owned.name.strip():
            raise _refusal(owned, "/name", "must not be empty")
        default = f"{owned.name}:{owned.version}" if owned.version else owned.name
        key = default if id is None else id
        if fault := _fault(key):
            raise _refusal(owned, "/id", fault)
        with self._lock:
            self._kept.put(key, owned.to_json())
            self._providers[key] = owned
        return key

    def get(self, id: str) -> CanonicalProvider:  # noqa: A002 - the word for it
        """Return a provider.

        Raises:
            ProviderNotFoundError: there is none, with suggestions.
        """
        return deep_copy(self._known(id))

    def ids(self) -> tuple[str, ...]:
        """Return the ids, in order."""
        with self._lock:
            return tuple(sorted(self._providers))

    def list(self) -> tuple[tuple[str, CanonicalProvider], ...]:
        """Return the ids and their providers, in the order of the ids."""
        with self._lock:
            listed = sorted(self._providers.items(), key=lambda item: item[0])
        return tuple((key, deep_copy(provider)) for key, provider in listed)

    def remove(self, id: str) -> None:  # noqa: A002 - the word for it
        """Forget a provider.

        Raises:
            ProviderNotFoundError: there is none, with suggestions.
        """
        with self._lock:
            self._known(id)
            self._kept.delete(id)
            del self._providers[id]

    def _known(self, wanted: object) -> CanonicalProvider:
        """Return what is registered, to be copied before it is handed out."""
        found = self._providers.get(wanted) if isinstance(wanted, str) else None
        if found is None:
            close = nearest(wanted, list(self._providers)) if isinstance(wanted, str) else None
            raise ProviderNotFoundError(wanted, (close,) if close else ())
        return found


def _provider(given: Any) -> CanonicalProvider:
    if isinstance(given, CanonicalProvider):
        return given
    if isinstance(given, Mapping):
        return CanonicalProvider.from_json(dict(given))
    message = f"it must be a CanonicalProvider or a dict, not {type(given).__name__}"
    raise InvalidToolError((Problem("", "type", message),), record="CanonicalProvider")


def _fault(key: Any) -> str:
    """Return why something cannot be an id, or nothing if it can."""
    if not isinstance(key, str):
        return f"must be text, not {type(key).__name__}"
    if not key.strip() or not key.isprintable():
        return "must be printable text, and not empty"
    return "" if len(key) <= _MAX_ID else f"must have at most {_MAX_ID} characters, not {len(key)}"


def _refusal(provider: CanonicalProvider, path: str, reason: str) -> InvalidToolError:
    return InvalidToolError((Problem(path, "id", reason),), provider.name, "CanonicalProvider")

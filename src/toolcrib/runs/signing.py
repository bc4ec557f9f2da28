"""Signatures of stored runs, so that write access to the store is not enough to change what a run does."""

import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from toolcrib.errors import ConfigError, Problem, SnapshotError

_SIGNATURE_BYTES = 32
_MIN_KEY_CHARACTERS = 32
_GROUP_AND_OTHERS = 0o077


class Signer:
    """Signs parts of runs with HMAC-SHA256; a signature holds for one part of one run.

    >>> signer = Signer(b"0123456789abcdef0123456789abcdef")
    >>> signer.open("r1", "state", signer.seal("r1", "state", b"data"))
    b'data'
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, run_id: str, part: str, payload: bytes) -> bytes:
        """Return a payload with its signature."""
        return self._mac(run_id, part, payload) + payload

    def open(self, run_id: str, part: str, sealed: bytes) -> bytes:
        """Check a signature and return the payload.

        Raises:
            SnapshotError: it was not sealed as this part of this run with this key.
        """
        if not isinstance(sealed, bytes):  # a store may hold anything
            raise SnapshotError(run_id, f"its {part} is a {type(sealed).__name__}, not bytes")
        payload = sealed[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(sealed[:_SIGNATURE_BYTES], self._mac(run_id, part, payload)):
            raise SnapshotError(run_id, "it was changed, or signed with another key or for another run")
        return payload

    def _mac(self, run_id: str, part: str, payload: bytes) -> bytes:
        # The names are signed too: nobody can put the state of one run, or one answer, in place of another.
        return hmac.digest(self._key, f"{run_id}\0{part}\0".encode() + payload, "sha256")


def load_key(path: Path) -> bytes:
    """Read the key from a file that only its owner can read; create it if there is none.

    Raises:
        ConfigError: others can read it, it is no key, or it cannot be made.
    """
    try:
        if not path.exists():
            _create_key_file(path)
        if os.name == "posix" and path.stat().st_mode & _GROUP_AND_OTHERS:
            raise _key_error(path, "others can read it; chmod 600, or remove it and with it all open runs")
        key = path.read_bytes().strip()
    except OSError as error:
        raise _key_error(path, error.strerror or str(error)) from error
    return check_key(key, str(path))


def check_key(key: bytes, source: str) -> bytes:
    """Return a key, if it is long enough.

    Raises:
        ConfigError: it is not.
    """
    if len(key) < _MIN_KEY_CHARACTERS:
        problem = Problem("/runs/key", "key", f"a key needs at least {_MIN_KEY_CHARACTERS} characters")
        raise ConfigError(source, (problem,))
    return key


def _create_key_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written beside and linked, not renamed: a link fails if somebody else has made the key meanwhile, and
    # nobody ever reads a key that is half written. Each thread has a file of its own.
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32))
    with suppress(FileExistsError):  # the key of the other process is used
        os.link(fresh, path)
    fresh.unlink()


def _key_error(path: Path, reason: str) -> ConfigError:
    return ConfigError(str(path), (Problem("", "key", reason),))

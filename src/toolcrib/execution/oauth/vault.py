"""The vault of logins: one file in the data folder, whose entries are encrypted with AES-GCM.

Each entry is encrypted by itself, with its id as associated data, so an entry cannot be copied to the place
of another one. The ids are digests of server and owner, so the file does not show which servers are used. All
processes of a user share the file: it is read again when its stamp has changed, and changed under a lock.
"""

import base64
import hashlib
import hmac
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import EINVAL, EPERM
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import Field

from toolcrib.errors import InvalidToolError, VaultError
from toolcrib.execution.oauth.shared import SharedLogins
from toolcrib.model.record import Record
from toolcrib.paths import data_folder, lock_path, replace_file

Owner = tuple[str, str]
"""The issuer and the subject of the person that a login belongs to."""

KEY_VARIABLE = "TOOLCRIB_VAULT_KEY"
"""Environment variable with a passphrase, from which the key is derived."""
_log = logging.getLogger("toolcrib.oauth")
_VERSION = 1
_KEY_BYTES = 32
_NONCE_BYTES = 12
_MAX_BYTES = 16 * 2**20
_MIN_PASSPHRASE = 12
_SERVICE = "toolcrib vault"
_KeySource = Literal["environment", "keyring", "file"]
_ADVICE = {
    "environment": f"set {KEY_VARIABLE} to the key it was sealed with",
    "keyring": "unlock the keyring of this user",
    "file": "put the key file back",
}


class StoredLogin(Record):
    """The login to one server, with its tokens."""

    server: str
    """The name of the server in the configuration."""
    url: str = Field(repr=False)
    """Its address."""
    owner: Owner | None = None
    """The person that it belongs to; None for the operator of toolcrib."""
    issuer: str | None = None
    """The authorization server that issued the tokens."""
    token_endpoint: str
    revocation_endpoint: str | None = None
    client_id: str
    client_secret: str | None = Field(default=None, repr=False)
    auth_method: str = "none"
    """Authentication of the client at the token endpoint, by its name in RFC 7591."""
    access_token: str | None = Field(default=None, repr=False)
    """None once the login has ended."""
    refresh_token: str | None = Field(default=None, repr=False)
    expires_at: float | None = None
    """Expiry of the access token, in seconds since the epoch; None if unknown."""
    lifetime: float | None = None
    """Its lifetime in seconds when it was issued."""
    scopes: tuple[str, ...] = ()
    """The granted scopes."""
    wanted_scopes: tuple[str, ...] = ()
    """Scopes that the next login requests as well, because a call was refused without them."""
    resource: str | None = None
    """The resource that the token is for (RFC 8707)."""


def login_id(server: str, url: str, owner: Owner | None = None) -> str:
    """Return the id of an entry.

    It includes the name of the server, since one address can be configured under two names, for two accounts.
    """
    return hashlib.sha256(json.dumps([server, url, *(owner or ())]).encode()).hexdigest()[:32]


class LoginVault:
    """Stores logins for all processes of a user.

    The key comes from the environment, else from the file beside the vault, else from the keyring of the
    system. If there is none, a new key is stored in the keyring, or else in the file, which only its owner
    can read.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, shared: SharedLogins | None = None) -> None:
        """Open the vault of a user; with `shared`, what is stored here is stored there too."""
        self.shared = shared
        """The logins of all gateways; None if this one has its own."""
        self._environ = os.environ if environ is None else environ
        self.folder = data_folder(environ) / "vault"
        self.path = self.folder / "logins.json"
        self._stamp: tuple[int, int, int] | None = None
        self._document: dict[str, Any] = {}
        self._entries: dict[str, str] = {}
        """The encrypted logins of the document, by id."""
        self._opened: dict[str, StoredLogin] = {}
        self._cipher: tuple[_KeySource, AESGCM, str] | None = None

    def get(self, server: str, url: str, owner: Owner | None = None) -> StoredLogin | None:
        """Return the login of an owner to a server; None if there is none.

        Raises:
            VaultError: it is encrypted with another key, or cannot be read.
        """
        self._read()
        if not self._entries:
            return None
        name = login_id(server, url, owner)
        known = self._opened.get(name)
        if known is None and name in self._entries:
            known = self._opened[name] = self._unseal(name)
        return known if known is None or known.owner == owner else None

    def put(self, login: StoredLogin) -> None:
        """Store a login, and replace an earlier one of the same server and owner.

        Raises:
            VaultError: the others are encrypted with another key, or it cannot be written.
        """
        name = login_id(login.server, login.url, login.owner)

        def change(document: dict[str, Any]) -> None:
            source, cipher, mark = self._require_key()
            nonce = secrets.token_bytes(_NONCE_BYTES)
            sealed = cipher.encrypt(nonce, json.dumps(login.to_json()).encode(), name.encode())
            document["entries"][name] = base64.b64encode(nonce + sealed).decode()
            document |= {"key": mark, "keyFrom": source}

        self._change(change)
        self._read()
        if self.shared is not None:
            self.shared.write({name: self._entries[name]})

    def take_shared(self, name: str) -> None:
        """Take over the entry that another gateway has stored, or delete it if that one has removed it.

        Raises:
            StoreError: the shared logins cannot be read, or the file cannot be written.
        """
        if self.shared is not None:
            self._read()
            mine = self._entries
            self._take({name: self.shared.read(name)}, mine)

    def synchronize(self) -> None:
        """Take over all shared logins, and share those that only this gateway has.

        Raises:
            StoreError: the shared logins cannot be read, or the file cannot be written.
        """
        if self.shared is None:
            return
        self._read()
        mine, theirs = self._entries, self.shared.read_all()
        if unknown := {name: sealed for name, sealed in mine.items() if name not in theirs}:
            self.shared.write(unknown)
        self._take(theirs, mine)

    def _take(self, theirs: Mapping[str, str | None], mine: Mapping[str, str]) -> None:
        """Take over shared entries, except where the own one has changed since they were read."""
        changed = {
            name: sealed
            for name, sealed in theirs.items()
            if sealed is not None and mine.get(name, "") != sealed
        }
        if not changed:
            return

        def change(document: dict[str, Any]) -> None:
            source, _, mark = self._require_key()
            for name, sealed in changed.items():
                if document["entries"].get(name) != mine.get(name):
                    continue
                if sealed:
                    document["entries"][name] = sealed
                else:
                    document["entries"].pop(name, None)
            document |= {"key": mark, "keyFrom": source}

        self._change(change)

    def owners(self, server: str, url: str) -> tuple[Owner, ...]:
        """Return the persons who have their own login to a server.

        Raises:
            VaultError: it is encrypted with another key, or cannot be read.
        """
        self._read()
        known = [self._opened.get(name) or self._unseal(name) for name in self._entries]
        return tuple(each.owner for each in known if each.owner and (each.server, each.url) == (server, url))

    def remove(self, server: str, url: str, owner: Owner | None = None) -> bool:
        """Remove a login to a server, and return whether there was one; this needs no key.

        Raises:
            VaultError: it cannot be read or written.
        """
        self._read()
        name = login_id(server, url, owner)
        if name not in self._entries:
            return False
        self._change(lambda document: document["entries"].pop(name, None))
        if self.shared is not None:
            self.shared.delete(name)
        return True

    def _change(self, change: Callable[[dict[str, Any]], Any]) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_private(self.folder)
            with lock_path(self.folder):
                self._read()
                document = {**self._document, "version": _VERSION, "entries": dict(self._entries)}
                change(document)
                content = json.dumps(document, indent=1).encode()
                replace_file(self.path, content, rights=0o600, like=self.path)
        except VaultError:
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise VaultError(str(self.path), f"it cannot be written: {reason}") from error

    def _read(self) -> None:
        """Read the file if it has changed since the last time; a damaged file is moved away."""
        try:
            found = self.path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._stamp:
                return
            _make_private(self.folder)
            document = _parse_document(_read_own_file(self.path))
        except FileNotFoundError:
            stamp, document = None, {}
        except OSError as error:
            raise VaultError(str(self.path), f"it cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError):
            aside = self.path.with_name(f"{self.path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
            with suppress(OSError):
                self.path.replace(aside)
            _log.warning("the vault of logins was damaged, and was moved to %s; log in again", aside)
            stamp, document = None, {}
        self._stamp, self._document, self._opened = stamp, document, {}
        self._entries = document.get("entries", {})

    def _require_key(self) -> tuple[_KeySource, AESGCM, str]:
        """Return the key of the file; without entries, a new one is made."""
        source, cipher, mark = self._key(make=not self._entries)
        if self._entries and self._document["key"] != mark:
            advice = _ADVICE.get(self._document.get("keyFrom", ""), _ADVICE["environment"])
            reason = f"it is sealed with another key than that of the {source}; {advice}, or move it away"
            raise VaultError(str(self.path), f"{reason} and log in again")
        return source, cipher, mark

    def _unseal(self, name: str) -> StoredLogin:
        try:
            raw = base64.b64decode(self._document["entries"][name], validate=True)
            cipher = self._require_key()[1]
            text = cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], name.encode())
            return StoredLogin.from_json(text)
        except (InvalidTag, InvalidToolError, ValueError, TypeError) as error:
            reason = "one of its entries is damaged; `toolcrib logout NAME` removes it, then log in again"
            raise VaultError(str(self.path), reason) from error

    def _key(self, *, make: bool) -> tuple[_KeySource, AESGCM, str]:
        """Return the source of the key, its cipher, and a digest that shows which key encrypted a file."""
        if self._cipher is None:
            source, key = self._find_key(make=make)
            mark = hmac.digest(key, _SERVICE.encode(), "sha256").hex()[:16]
            self._cipher = source, AESGCM(key), mark
        return self._cipher

    def _find_key(self, *, make: bool) -> tuple[_KeySource, bytes]:
        phrase = self._environ.get(KEY_VARIABLE)
        if phrase:
            if len(phrase) < _MIN_PASSPHRASE:
                reason = (
                    f"the key in {KEY_VARIABLE} is too short: it needs {_MIN_PASSPHRASE} characters or more"
                )
                raise VaultError(str(self.path), reason)
            return "environment", _derive_key(phrase)
        file = self.folder / "key"
        try:
            if file.exists():
                _make_private(self.folder)
                return "file", _decode_key(_read_own_file(file))
            made_before = self._document.get("keyFrom") if self._entries else None
            in_file = made_before == "file"
            key = None if in_file else _read_keyring(str(self.folder), make=make and made_before is None)
            if key is not None:
                return "keyring", key
            if not make or made_before is not None:
                advice = _ADVICE.get(made_before or "", _ADVICE["environment"])
                raise VaultError(str(self.path), f"its key is missing; {advice}, or move it away")
            return "file", _make_key_file(file)
        except ValueError as error:
            raise VaultError(str(file), "it is not the key of a vault; put the right one there") from error
        except OSError as error:
            raise VaultError(str(file), f"it cannot be read: {error.strerror or error}") from error


def _make_private(path: Path) -> os.stat_result:
    """Make a file or folder private to its owner, and return its status.

    Raises:
        OSError: it belongs to another user, who could replace keys or logins.
    """
    found = path.stat()
    if os.name == "posix":
        if found.st_uid != os.geteuid():
            raise PermissionError(EPERM, f"{path} belongs to another user")
        if found.st_mode & 0o077:
            path.chmod(found.st_mode & 0o700)
    return found


def _read_own_file(path: Path) -> bytes:
    """Return the content of a regular file of this user; reading a pipe could wait for ever.

    Raises:
        OSError: it cannot be read, or is no regular file of this user.
    """
    found = _make_private(path)
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
        raise OSError(EINVAL, f"{path} is not a file, or is too large")
    return path.read_bytes()


def shared_key(environ: Mapping[str, str]) -> bytes | None:
    """Return a key for other secrets of all processes with this passphrase; None without a usable one."""
    phrase = environ.get(KEY_VARIABLE, "")
    if len(phrase) < _MIN_PASSPHRASE:
        return None
    return hmac.digest(_derive_key(phrase), b"toolcrib shared state", "sha256")


@lru_cache(maxsize=4)
def _derive_key(phrase: str) -> bytes:
    """Derive a key from a passphrase; cached, since scrypt is slow and each connection derives it."""
    return hashlib.scrypt(phrase.encode(), salt=_SERVICE.encode(), n=2**14, r=8, p=1, dklen=_KEY_BYTES)


def _parse_document(content: bytes) -> dict[str, Any]:
    """Parse the file of a vault; raise ValueError if it is none."""
    document = json.loads(content)
    entries = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(entries, dict) or not isinstance(document.get("key"), str):
        raise ValueError("it is not a vault")  # noqa: TRY004 - as `json.loads` raises
    return dict(document)


def _decode_key(text: bytes | str) -> bytes:
    key = base64.b64decode(text, validate=True)
    if len(key) != _KEY_BYTES:
        raise ValueError("it is not a key")
    return key


def _make_key_file(file: Path) -> bytes:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(file, base64.b64encode(secrets.token_bytes(_KEY_BYTES)), rights=0o600, like=file)
    return _decode_key(file.read_bytes())


def _read_keyring(folder: str, *, make: bool) -> bytes | None:
    """Return the key in the keyring of the system, a new one if `make`; None without a keyring."""
    try:
        import keyring  # noqa: PLC0415 - optional
    except ImportError:
        return None
    try:
        known = keyring.get_password(_SERVICE, folder)
        if known is None and make:
            keyring.set_password(_SERVICE, folder, base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode())
            known = keyring.get_password(_SERVICE, folder)
    except Exception:  # noqa: BLE001 - backends raise exceptions of their own libraries
        return None
    return None if known is None else _decode_key(known)

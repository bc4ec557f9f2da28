"""The vault: credentials of servers, each sealed with AES-GCM, in one file of the data folder."""

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
from toolcrib.model.record import Record
from toolcrib.paths import data_folder, lock_path, replace_file

Owner = tuple[str, str]
"""The issuer and the subject of the person that a login belongs to."""

KEY_VARIABLE = "TOOLCRIB_VAULT_KEY"
"""The variable that may hold the key, or a passphrase that it is made from."""
_log = logging.getLogger("toolcrib.oauth")
_VERSION = 1
_KEY_BYTES = 32
_NONCE_BYTES = 12
_MAX_BYTES = 16 * 2**20
_SHORTEST = 12
"""How many characters a passphrase must have."""
_SERVICE = "toolcrib vault"
_KeySource = Literal["environment", "keyring", "file"]
_ADVICE = {
    "environment": f"set {KEY_VARIABLE} to the key it was sealed with",
    "keyring": "unlock the keyring of this user",
    "file": "put the key file back",
}


class StoredLogin(Record):
    """What is known of the access to one server."""

    server: str
    """Its name in the configuration."""
    url: str = Field(repr=False)
    """Its address."""
    owner: Owner | None = None
    """Whose it is; None: of whoever runs toolcrib."""
    issuer: str | None = None
    """The authorization server that gave the tokens."""
    token_endpoint: str
    revocation_endpoint: str | None = None
    client_id: str
    client_secret: str | None = Field(default=None, repr=False)
    auth_method: str = "none"
    """How the client shows who it is at the token endpoint, as RFC 7591 names the methods."""
    access_token: str | None = Field(default=None, repr=False)
    """None once the login has ended."""
    refresh_token: str | None = Field(default=None, repr=False)
    expires_at: float | None = None
    """When the access token ends, in seconds since 1970; None where nobody said."""
    lifetime: float | None = None
    """For how many seconds it was given."""
    scopes: tuple[str, ...] = ()
    """What it allows."""
    wanted_scopes: tuple[str, ...] = ()
    """What the next login asks for as well, because a call was refused without it."""
    resource: str | None = None
    """What the token is for (RFC 8707)."""


def login_id(server: str, url: str, owner: Owner | None = None) -> str:
    """Return the id of an entry; one server can be configured under two names, for two accounts."""
    return hashlib.sha256(json.dumps([server, url, *(owner or ())]).encode()).hexdigest()[:32]


class LoginVault:
    """Keeps logins between runs, for all processes of a user.

    The key is taken from the environment, else from the file beside the vault, else from the keyring of the
    system; where there is none of them, it is made: in the keyring if that works, else in the file, which
    only its owner can read.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self.folder = data_folder(environ) / "vault"
        self.path = self.folder / "logins.json"
        self._stamp: tuple[int, int, int] | None = None
        self._document: dict[str, Any] = {}
        self._entries: dict[str, str] = {}
        """The sealed logins of the document, by id."""
        self._opened: dict[str, StoredLogin] = {}
        self._cipher: tuple[_KeySource, AESGCM, str] | None = None

    def get(self, server: str, url: str, owner: Owner | None = None) -> StoredLogin | None:
        """Return the login to a server, of one person where an owner is given; None where there is none.

        Raises:
            VaultError: it is sealed with another key, or cannot be read.
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
        """Keep a login, in the place of an earlier one to the same server of the same owner.

        Raises:
            VaultError: the others are sealed with another key, or it cannot be written.
        """
        name = login_id(login.server, login.url, login.owner)

        def change(document: dict[str, Any]) -> None:
            source, cipher, mark = self._require_key()
            nonce = secrets.token_bytes(_NONCE_BYTES)
            sealed = cipher.encrypt(nonce, json.dumps(login.to_json()).encode(), name.encode())
            document["entries"][name] = base64.b64encode(nonce + sealed).decode()
            document |= {"key": mark, "keyFrom": source}

        self._change(change)

    def owners(self, server: str, url: str) -> tuple[Owner, ...]:
        """Return the persons who have logins of their own to a server.

        Raises:
            VaultError: it is sealed with another key, or cannot be read.
        """
        self._read()
        known = [self._opened.get(name) or self._unseal(name) for name in self._entries]
        return tuple(each.owner for each in known if each.owner and (each.server, each.url) == (server, url))

    def remove(self, server: str, url: str, owner: Owner | None = None) -> bool:
        """Forget a login to a server, and return whether there was one; no key is needed.

        Raises:
            VaultError: it cannot be read or written.
        """
        self._read()
        name = login_id(server, url, owner)
        if name not in self._entries:
            return False
        self._change(lambda document: document["entries"].pop(name, None))
        return True

    def _change(self, change: Callable[[dict[str, Any]], Any]) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_ours(self.folder)
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
        """Read the file, if it has changed since it was last read; one that is damaged is moved away."""
        try:
            found = self.path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._stamp:
                return
            _check_ours(self.folder)
            document = _parse_document(_read_own_file(self.path))
        except FileNotFoundError:
            stamp, document = None, {}
        except OSError as error:
            raise VaultError(str(self.path), f"it cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError):
            aside = self.path.with_name(f"{self.path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
            with suppress(OSError):
                self.path.replace(aside)
            _log.warning("the vault of logins was damaged, and is moved to %s; log in again", aside)
            stamp, document = None, {}
        self._stamp, self._document, self._opened = stamp, document, {}
        self._entries = document.get("entries", {})

    def _require_key(self) -> tuple[_KeySource, AESGCM, str]:
        """Return the key of the file, which is made where nothing is sealed yet."""
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
        """Return where the key is from, what seals with it, and a mark that tells it from others."""
        if self._cipher is None:
            source, key = self._find_key(make=make)
            mark = hmac.digest(key, _SERVICE.encode(), "sha256").hex()[:16]
            self._cipher = source, AESGCM(key), mark
        return self._cipher

    def _find_key(self, *, make: bool) -> tuple[_KeySource, bytes]:
        phrase = self._environ.get(KEY_VARIABLE)
        if phrase:
            if len(phrase) < _SHORTEST:
                reason = f"the key in {KEY_VARIABLE} is too short: it needs {_SHORTEST} characters or more"
                raise VaultError(str(self.path), reason)
            return "environment", _derive_key(phrase)
        file = self.folder / "key"
        try:
            if file.exists():
                _check_ours(self.folder)
                return "file", _decode_key(_read_own_file(file))
            made_before = self._document.get("keyFrom") if self._entries else None
            in_file = made_before == "file"
            key = None if in_file else _read_keyring(str(self.folder), make=make and made_before is None)
            if key is not None:
                return "keyring", key
            if not make or made_before is not None:
                advice = _ADVICE.get(made_before or "", _ADVICE["environment"])
                raise VaultError(str(self.path), f"its key is not there; {advice}, or move it away")
            return "file", _make_key_file(file)
        except ValueError as error:
            raise VaultError(str(file), "it is not the key of a vault; put the right one there") from error
        except OSError as error:
            raise VaultError(str(file), f"it cannot be read: {error.strerror or error}") from error


def _check_ours(path: Path) -> os.stat_result:
    """Return what is known of a file or folder, which becomes its owner's alone.

    Raises:
        OSError: it is another user's, who could put keys or logins there.
    """
    found = path.stat()
    if os.name == "posix":
        if found.st_uid != os.geteuid():
            raise PermissionError(EPERM, f"{path} belongs to another user")
        if found.st_mode & 0o077:
            path.chmod(found.st_mode & 0o700)
    return found


def _read_own_file(path: Path) -> bytes:
    """Return what a file of this user holds; a pipe would be waited for.

    Raises:
        OSError: it cannot be read, or is no file of this user.
    """
    found = _check_ours(path)
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
        raise OSError(EINVAL, f"{path} is no file, or too large")
    return path.read_bytes()


@lru_cache(maxsize=4)
def _derive_key(phrase: str) -> bytes:
    """Return the key of a passphrase; it takes some 50 ms, and each connection has a vault."""
    return hashlib.scrypt(phrase.encode(), salt=_SERVICE.encode(), n=2**14, r=8, p=1, dklen=_KEY_BYTES)


def _parse_document(content: bytes) -> dict[str, Any]:
    """Return what the file of a vault says; raise ValueError where it is none."""
    document = json.loads(content)
    entries = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(entries, dict) or not isinstance(document.get("key"), str):
        raise ValueError("it is not a vault")  # noqa: TRY004 - json's own complaint is one too
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
    """Return the key in the keyring of the system, made there if wanted; None where there is none."""
    try:
        import keyring  # noqa: PLC0415 - it need not be installed
    except ImportError:
        return None
    try:
        known = keyring.get_password(_SERVICE, folder)
        if known is None and make:
            keyring.set_password(_SERVICE, folder, base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode())
            known = keyring.get_password(_SERVICE, folder)
    except Exception:  # noqa: BLE001 - systems without a keyring raise whatever theirs is made of
        return None
    return None if known is None else _decode_key(known)

"""The key that signs an audit: a file that only its owner can read."""

import base64
import os
from contextlib import suppress
from pathlib import Path

from toolcrib.errors import ConfigError, MissingExtraError, Problem
from toolcrib.execution.audit.hash_chain import Sign, Verify


def make_signer(path: Path) -> Sign:
    """Return a function that signs with the key in a file; a missing key is created.

    Raises:
        MissingExtraError: the package for signatures is not installed.
        ConfigError: the file is no such key, or cannot be created.
    """
    key = _load_private_key(path)
    return lambda data: bytes(key.sign(data))


def public_key(path: Path) -> str:
    """Return the public key of the key in a file, as text for `make_verifier`."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra
        Encoding,
        PublicFormat,
    )

    raw = _load_private_key(path).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return base64.b64encode(raw).decode()


def make_verifier(key: str) -> Verify:
    """Return a function that verifies signatures with a public key.

    Raises:
        ConfigError: the text is no such key.
    """
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("checking an audit", "mcp") from error
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key, validate=True))
    except ValueError as error:
        problem = Problem("", "key", "it is not the public key of an audit; `toolcrib audit key` shows it")
        raise ConfigError("key", (problem,)) from error

    def verify(signature: bytes, data: bytes) -> bool:
        try:
            public.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    return verify


def _load_private_key(path: Path):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a type of an extra
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("signing an audit", "mcp") from error
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()))
            with suppress(FileExistsError):  # the key of the other process is used
                os.link(fresh, path)
            fresh.unlink()
        return Ed25519PrivateKey.from_private_bytes(base64.b64decode(path.read_bytes(), validate=True))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not the key of an audit"
        raise ConfigError(str(path), (Problem("", "key", reason),)) from error

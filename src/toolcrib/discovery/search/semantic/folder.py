"""A folder that a model is kept in: whether it is whole, and the key that names what it holds."""

import hashlib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from toolcrib.errors import EmbeddingError

CHARACTERS_PER_TOKEN = 32
"""How much text is read for each token that a model takes; hardly any has more characters than that."""


def whole(folder: str | PathLike[str], *names: str) -> Path:
    """Return a folder that holds files of these names.

    Raises:
        EmbeddingError: there is no such folder, it cannot be read, or one of the files is missing.
    """
    path = Path(folder)
    try:
        there, missing = path.is_dir(), [name for name in names if not (path / name).is_file()]
    except OSError as error:
        raise EmbeddingError(f"the folder cannot be read: {error.strerror}", repr(str(path))) from error
    if not there:
        raise EmbeddingError("there is no such folder", repr(str(path)))
    if missing:
        raise EmbeddingError(f"the folder has no {' and no '.join(map(repr, missing))}", repr(str(path)))
    return path


def names_in(folder: Path) -> set[str]:
    """Return the names of what a folder holds; none if there is no such folder.

    Raises:
        EmbeddingError: it cannot be read.
    """
    try:
        return {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise EmbeddingError(f"the folder cannot be read: {error.strerror}", repr(str(folder))) from error


def key_of(kind: str, files: Iterable[Path], settings: object) -> str:
    """Return a key that differs wherever the kind, a file's name or content, or a setting differs.

    Raises:
        EmbeddingError: a file cannot be read.
    """
    total = hashlib.sha256(repr(settings).encode())
    for file in sorted(files):
        try:
            with file.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").digest()
        except OSError as error:
            reason = f"{file.name!r} cannot be read: {error.strerror}"
            raise EmbeddingError(reason, repr(str(file.parent))) from error
        total.update(file.name.encode() + b"\0" + digest)
    return f"{kind}-{total.hexdigest()[:32]}"


def at_least(least: int, model: str, **settings: int) -> None:
    """Refuse settings that are below what makes sense.

    Raises:
        EmbeddingError: one of them is.
    """
    for name, value in settings.items():
        if value < least:
            raise EmbeddingError(f"{name} must be at least {least}, not {value!r}", model)

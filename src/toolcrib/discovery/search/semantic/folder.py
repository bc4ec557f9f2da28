"""Model folders: check that the files are there, and compute the cache key of their content."""

import hashlib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from toolcrib.errors import EmbeddingError

CHARACTERS_PER_TOKEN = 32
"""Characters of a text read per token that a model takes; hardly any token is longer."""


def check_folder(folder: str | PathLike[str], *names: str) -> Path:
    """Check that a folder has files of these names, and return it as a path.

    Raises:
        EmbeddingError: the folder or one of the files is missing, or the folder cannot be read.
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


def list_names(folder: Path) -> set[str]:
    """Return the names in a folder; none if there is no such folder.

    Raises:
        EmbeddingError: the folder cannot be read.
    """
    try:
        return {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise EmbeddingError(f"the folder cannot be read: {error.strerror}", repr(str(folder))) from error


def content_key(kind: str, files: Iterable[Path], settings: object) -> str:
    """Return a cache key made of the kind, the names and contents of the files, and the settings.

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


def check_at_least(least: int, model: str, **settings: int) -> None:
    """Check that settings have a minimum value.

    Raises:
        EmbeddingError: a setting is lower.
    """
    for name, value in settings.items():
        if value < least:
            raise EmbeddingError(f"{name} must be at least {least}, not {value!r}", model)

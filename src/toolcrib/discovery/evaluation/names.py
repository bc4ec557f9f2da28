"""Names that a tool may have, for names that it may not, so that any catalogue can be measured."""

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable
from hashlib import blake2b

from toolcrib.model.toolid import MAX_NAME_LENGTH, name_fault

__all__ = ["admissible_names", "distinct", "loses_words"]

_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
_DIGEST = 8
_NAMELESS = "tool"


def admissible_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name that a tool may have for each of these; different names stay different.

    A name that is admissible stays as it is. In the others, what does not belong becomes `_`, so that words
    stay apart; two that would then be the same get a digest of what they were. The order does not matter.

    >>> admissible_names(["nasa/apod", "PDF&URLTool", "add"])
    {'nasa/apod': 'nasa_apod', 'PDF&URLTool': 'PDF_URLTool', 'add': 'add'}
    >>> admissible_names(["a b", "a/b", "a_b"])
    {'a b': 'a_b-7faae47c', 'a/b': 'a_b-82badf67', 'a_b': 'a_b'}
    """
    wanted = {name: _plain(name) for name in names}
    often = Counter(wanted.values())
    taken = set(wanted.values())
    changed = {}
    for name in sorted(name for name, plain in wanted.items() if plain != name and often[plain] > 1):
        changed[name] = distinct(wanted[name], name, taken)
        taken.add(changed[name])
    return wanted | changed


def distinct(name: str, original: str, taken: Container[str]) -> str:
    """Return a name with a digest of what it stands for, which is not among those taken."""
    attempt = 0
    while (found := _digested(name, f"{attempt or ''}{original}")) in taken:
        attempt += 1
    return found


def loses_words(original: str) -> bool:
    """Return whether letters or digits of a name have no place in an admissible one."""
    return any(char.isalnum() and not char.isascii() for char in _without_accents(original))


def _digested(name: str, original: str) -> str:
    digest = blake2b(original.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{name[: MAX_NAME_LENGTH - _DIGEST - 1]}-{digest}"


def _plain(name: str) -> str:
    if not name_fault(name):
        return name
    plain = _FOREIGN.sub("_", _without_accents(name))[:MAX_NAME_LENGTH]
    return plain.strip("_") or _NAMELESS


def _without_accents(text: str) -> str:
    """Return text with letters in their plain form, where they have one."""
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))

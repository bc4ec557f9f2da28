"""Tools that a question calls by their names."""

import re
from collections.abc import Iterator

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.text import fold, split_identifier

__all__ = ["Names"]

_READ = 10_000
"""How many characters of a question are looked at."""
_MAX_WORDS = 200
_MAX_PHRASE = 6
_TOKEN = re.compile(r"[\w.:\-]+")
_IDENTIFIER = re.compile(r"[_:]|\w[.\-]\w|\d|[a-z][A-Z]|[A-Z]{2}[a-z]")
"""What no ordinary word looks like."""
_QUOTED = re.compile(r"[`'\"\u2018\u201c]([\w.:\- ]{1,300})[`'\"\u2019\u201d]")
_JOINS = frozenset({"and", "or", "then", "vs", "the", "a", "tool", "tools", "use", "run", "call", "with"})


class Names:
    """Which tools answer to a name: an id, a bare name, an alias, in any case and with any separators."""

    def __init__(self) -> None:
        self._by_name: dict[str, set[str]] = {}

    def add(self, entry: Entry) -> None:
        """Learn the names of a tool."""
        for name in _names(entry):
            self._by_name.setdefault(name, set()).add(entry.id)

    def remove(self, entry: Entry) -> None:
        """Forget the names of a tool."""
        for name in _names(entry):
            self._by_name[name].discard(entry.id)
            if not self._by_name[name]:
                del self._by_name[name]

    def named_in(self, question: str) -> set[str]:
        """Return the tools that a question names.

        The whole question may be a name, or a list of names; within a sentence a name counts where it looks
        like an identifier or is quoted, since `search` or `time` are words before they are names.
        """
        text = question[:_READ].strip()
        tokens = [token.strip(".:-") for token in _TOKEN.findall(text)[:_MAX_WORDS]]
        named = self.answering(text) or self.answering(" ".join(tokens))
        if named:
            return set(named)
        said = [token for token in tokens if token.lower() not in _JOINS]
        if said and all(self.answering(token) for token in said):
            return set().union(*map(self.answering, said))
        spelt = (*filter(_IDENTIFIER.search, tokens), *_QUOTED.findall(text))
        return set().union(*map(self.answering, spelt))

    def answering(self, name: str) -> set[str]:
        """Return the tools that answer to a text, spelt so or in the same words."""
        return self._by_name.get(name.lower()) or self._by_name.get(_joined(name), set())


def _names(entry: Entry) -> Iterator[str]:
    """Yield everything a tool is called, each once."""
    yield from {form for name in entry.names for form in (name.lower(), _joined(name))}


def _joined(name: str) -> str:
    """Return the words of a name as one text that no name is spelt like."""
    return " ".join(split_identifier(fold(name)[:300])) + " "

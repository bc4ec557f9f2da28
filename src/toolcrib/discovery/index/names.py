"""Tools that a question calls by their names."""

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.search.text import split_identifier

ALIAS = 2
"""How directly an alias names a tool; its id does at 0, and its name at 1."""

_READ = 10_000
"""How many characters of a question are looked at."""
_MAX_WORDS = 200
_MAX_NAMED = 1_000
"""Of more tools that have a name, so many come first."""
_TOKEN = re.compile(r"[\w.:\-]+")
_IDENTIFIER = re.compile(r"\w[_:.]\w")
"""What no ordinary word looks like."""
_WRITTEN = re.compile(r"\w[_:.\-]\w|[a-z0-9][A-Z]")
"""What may be an identifier."""
_MAX_NAME_WORDS = 16
"""Longer questions are not names written as words."""
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_ORDINARY = re.compile(r"[A-Z]?[a-z]+")
"""What has no other spelling but for its case."""
_SPELLING = re.compile(r"(:)v(?=\d)|\+.*", re.DOTALL)
"""What makes no difference in a version."""
_LONGEST = 300
_QUOTED = re.compile(r"`([^`\n]{1,300})`|['\"\u2018\u201c](\w+(?: \w+)+)['\"\u2019\u201d]")
"""A name in backticks, or one of several words in quotes; one word in quotes may be a word."""
_JOINS = frozenset({"and", "or", "then", "vs", "tool", "tools", "use", "run", "call", "with"})
_AS_WRITTEN = "="
"""Before the words of a deprecated tool's name: only what is written as an identifier means it."""
_ARTICLES = frozenset({"a", "an", "the", "my", "our", "this", "that", "some", "please"})

_MARKS = ".:-"
"""Punctuation around a token."""

Named = dict[str, int]
"""The ids of tools, each with how directly it is named."""
Find = Callable[[str], Named | None]
"""Returns the tools that have exactly this name, in lower case."""


class Names:
    """Which tools answer to a name: an id, a bare name, an alias, in any case and with any separators."""

    def __init__(self) -> None:
        self._by_name: dict[str, Named] = {}

    def add(self, entry: Entry) -> None:
        """Learn the names of a tool."""
        for name, directness in _names(entry).items():
            self._by_name.setdefault(name, {})[entry.id] = directness

    def remove(self, entry: Entry) -> None:
        """Forget the names of a tool."""
        for name in _names(entry):
            self._by_name[name].pop(entry.id, None)
            if not self._by_name[name]:
                del self._by_name[name]

    def named_in(self, question: str, among: AbstractSet[str] | None = None) -> Named:
        """Return the tools that a question names, as if there were only those among which to look.

        The whole question may be a name, or a list of names; within a sentence a name counts where it is
        spelt as an identifier or stands in backticks, since `search`, `time` and even `follow-up` are words
        before they are names. A deprecated tool is not named by words: "read a file" does not mean
        `read_file` then, though `read_file` and `readFile` do.
        """
        text = question[:_READ].strip()
        tokens = _TOKEN.findall(text)[:_MAX_WORDS]
        kept = [token for token in tokens if token.strip(_MARKS).lower() not in _ARTICLES]
        find = self._finder(among)
        named = _find_by_whole(find, text, kept) or _find_by_list(find, kept)
        if not named:
            quoted = ("".join(found) for found in _QUOTED.findall(text))
            written = [token for token in tokens if _WRITTEN.search(token)] if _WRITTEN.search(text) else ()
            spelt = (
                *(_find_identifier(find, token) for token in written),
                *(_find_by_spelling(find, one) for one in quoted),
            )
            named = {tool_id: directness for found in spelt for tool_id, directness in found.items()}
        if len(named) <= _MAX_NAMED:
            return named
        return dict(sorted(named.items(), key=lambda pair: (pair[1], pair[0]))[:_MAX_NAMED])

    def answering(self, name: str, among: AbstractSet[str] | None = None) -> Named:
        """Return the tools that answer to a text, spelt so or in the same words.

        Where some have it as their id or name, those that have it as an alias are left out.
        """
        return _find_by_spelling(self._finder(among), name)

    def _finder(self, among: AbstractSet[str] | None) -> Find:
        """Return what finds the tools of exactly this name, among some of them."""
        if among is None:
            return self._by_name.get

        def find(name: str) -> Named:
            named = self._by_name.get(name) or {}
            return {tool_id: directness for tool_id, directness in named.items() if tool_id in among}

        return find


def _find_by_spelling(find: Find, *spellings: str) -> Named:
    """Return the tools of the first of some spellings that any tool has, exactly or in the same words."""
    for name in dict.fromkeys(spellings):
        named = find(name.lower())
        if not named and not _ORDINARY.fullmatch(name):
            # All spellings of an id with its version are the same to a reader: `v1.2`, `1.2+build`.
            named = _find_by_words(find, name) or find(_SPELLING.sub(r"\1", name.lower()))
        if named:
            most_direct = min(named.values())
            return {
                tool_id: directness
                for tool_id, directness in named.items()
                if directness < ALIAS or most_direct == ALIAS
            }
    return {}


def _find_by_whole(find: Find, text: str, tokens: list[str]) -> Named:
    """Return the tools that a whole question names, with or without its articles."""
    if len(tokens) > _MAX_NAME_WORDS:
        return dict(find(text.lower()) or {})
    return _find_by_spelling(find, text, " ".join(token.strip(_MARKS) for token in tokens))


def _find_by_list(find: Find, tokens: list[str]) -> Named:
    """Return the tools that a question names, if it consists of little else."""
    found: Named = {}
    for token in tokens:
        bare = token.strip(_MARKS)
        named = _find_by_spelling(find, token, bare)
        if not named and bare.lower() not in _JOINS:
            return {}
        found |= named
    return found


def _find_identifier(find: Find, token: str) -> Named:
    """Return the tools that a word within a sentence names; it must look like an identifier."""
    bare = token.strip(_MARKS)
    if _IDENTIFIER.search(token):
        return _find_by_spelling(find, token, bare)
    if _CAMEL.search(bare):
        return _find_by_words(find, bare)
    return (find(bare.lower()) or {}) if "-" in bare else {}


def _names(entry: Entry) -> Named:
    """Return everything a tool is called, and how directly: by two ids, its name, and its aliases."""
    found: Named = {}
    for place, name in enumerate(entry.names):
        joined = _join_words(name)
        same_words = f"{_AS_WRITTEN}{joined}" if joined and entry.is_deprecated else joined
        for form in (name.lower(), same_words):
            if form:
                found.setdefault(form, min(max(place - 1, 0), ALIAS))
    return found


def _find_by_words(find: Find, name: str) -> Named:
    """Return the tools whose names have the same words as a text, deprecated ones only for an identifier."""
    joined = _join_words(name)
    found = find(joined) or {}
    if any(map(str.isspace, name)):
        return found
    return found | (find(f"{_AS_WRITTEN}{joined}") or {})


def _join_words(name: str) -> str:
    """Return the words of a name as one text that no name is spelt like; none where it has no words."""
    return "".join(f"{word} " for word in split_identifier(name)) if len(name) <= _LONGEST else ""

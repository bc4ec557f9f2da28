"""Recognition of tool names in questions.

Each tool is filed under every form of its names: its id, its id without a version, its bare name and its
aliases, each in lower case and as a sequence of words, so that `createIssue`, `create-issue` and
"create issue" find `create_issue`. The number filed with it is its directness: 0 for an id, 1 for the name, 2
for an alias. Within a sentence only spellings that look like identifiers count, because `search` and `time`
are ordinary words first.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.filters import ALIAS as ALIAS_FACET
from toolcrib.discovery.search.text import split_identifier

ALIAS = 2
"""The directness of an alias; the id of a tool has 0, and its name 1."""

_MAX_QUESTION_LENGTH = 10_000
_MAX_WORDS = 200
_MAX_NAMED = 1_000
"""The maximum number of tools that one question can name; the most direct ones are kept."""
_TOKEN = re.compile(r"[\w.:\-]+")
_SURE_IDENTIFIER = re.compile(r"\w[_:.]\w")
"""No ordinary word has one of these characters inside."""
_POSSIBLE_IDENTIFIER = re.compile(r"\w[_:.\-]\w|[a-z0-9][A-Z]")
_MAX_NAME_WORDS = 16
"""Longer questions are not names written as words."""
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_PLAIN_WORD = re.compile(r"[A-Z]?[a-z]+")
"""A word that can be spelt in only one way, apart from case."""
_VERSION_DECORATION = re.compile(r"(:)v(?=\d)|\+.*", re.DOTALL)
"""The `v` before a version and its build metadata, which do not distinguish ids."""
_MAX_NAME_LENGTH = 300
_QUOTED = re.compile(r"`([^`\n]{1,300})`|['\"\u2018\u201c](\w+(?: \w+)+)['\"\u2019\u201d]")
"""A name in backticks, or several words in quotes; a single word in quotes is too often just a word."""
_LINKING_WORDS = frozenset({"and", "or", "then", "vs", "tool", "tools", "use", "run", "call", "with"})
_IDENTIFIER_ONLY = "="
"""Prefix of the words of a deprecated tool's name, so that only a spelling as an identifier finds it."""
_SEPARATORS = dict.fromkeys(map(ord, f"\t\n\v\f\r\x1c\x1d\x1e\x1f _.-{_IDENTIFIER_ONLY}"))
"""Characters that forms of one name differ in."""
_SEPARATORS_IN_LINE = {code: None for code in _SEPARATORS if code != ord("\n")}
_ARTICLES = frozenset({"a", "an", "the", "my", "our", "this", "that", "some", "please"})

_PUNCTUATION = ".:-"
"""Characters of `_TOKEN` that may also be punctuation around a name."""

Named = dict[str, int]
"""Ids of tools, each with its directness."""
Find = Callable[[str], Named | None]
"""Returns the tools with exactly this form of a name, in lower case."""


class Names:
    """Tools by name: id, bare name or alias, in any case and with any separators.

    A tool is filed under a short key of each of its names, which all forms of the name share; the forms
    themselves are compared when a key is looked up.
    """

    def __init__(self, get: Callable[[str], Entry | None]) -> None:
        """Begin without tools; `get` returns the entry of an id."""
        self._get = get
        self._by_key: dict[str, str | tuple[str, ...]] = {}
        """The ids under each key; a text where there is one, as for most keys."""

    def add(self, entries: Sequence[Entry]) -> None:
        """File tools under the keys of their names."""
        by_key = self._by_key
        for key, tool_id in _list_keys(entries):
            known = by_key.get(key)
            by_key[key] = tool_id if known is None else (*_as_tuple(known), tool_id)

    def remove(self, entry: Entry) -> None:
        """Remove a tool from under the keys of its names."""
        for key in _keys_of(entry):
            left = tuple(tool_id for tool_id in _as_tuple(self._by_key[key]) if tool_id != entry.id)
            if left:
                self._by_key[key] = left[0] if len(left) == 1 else left
            else:
                del self._by_key[key]

    def find_named_in(self, question: str, among: AbstractSet[str] | None = None) -> Named:
        """Return the tools that a question names; tools that are not in `among` are treated as absent.

        The whole question may be a name, or a list of names. Within a sentence a name counts if it is spelt
        as an identifier or stands in backticks, since `search`, `time` and even `follow-up` are words before
        they are names. A deprecated tool is not found by plain words: "read a file" does not name a
        deprecated `read_file`, though `read_file` and `readFile` do.
        """
        text = question[:_MAX_QUESTION_LENGTH].strip()
        tokens = _TOKEN.findall(text)[:_MAX_WORDS]
        kept = [token for token in tokens if token.strip(_PUNCTUATION).lower() not in _ARTICLES]
        find = self._find_among(among)
        named = _find_by_whole(find, text, kept) or _find_by_list(find, kept)
        if not named:
            quoted = ("".join(found) for found in _QUOTED.findall(text))
            written = (
                [token for token in tokens if _POSSIBLE_IDENTIFIER.search(token)]
                if _POSSIBLE_IDENTIFIER.search(text)
                else ()
            )
            spelt = (
                *(_find_identifier(find, token) for token in written),
                *(_find_by_spelling(find, one) for one in quoted),
            )
            named = {tool_id: directness for found in spelt for tool_id, directness in found.items()}
        if len(named) <= _MAX_NAMED:
            return named
        return dict(sorted(named.items(), key=lambda pair: (pair[1], pair[0]))[:_MAX_NAMED])

    def find_by_name(self, name: str, among: AbstractSet[str] | None = None) -> Named:
        """Return the tools with a name, spelt exactly so or with the same words.

        Tools with this alias are left out if another tool has it as its id or name.
        """
        return _find_by_spelling(self._find_among(among), name)

    def _find_among(self, among: AbstractSet[str] | None) -> Find:
        """Return a function that looks up one form of a name among some tools."""

        def find(form: str) -> Named:
            filed = _as_tuple(self._by_key.get(_key_of(form), ()))
            known = (self._get(tool_id) for tool_id in filed if among is None or tool_id in among)
            return {
                entry.id: directness
                for entry in known
                if entry is not None and (directness := _find_directness(entry, form)) is not None
            }

        return find


def _find_by_spelling(find: Find, *spellings: str) -> Named:
    """Return the tools with the first of some spellings that any tool has, exactly or with the same words."""
    for name in dict.fromkeys(spellings):
        named = find(name.lower())
        if not named and not _PLAIN_WORD.fullmatch(name):
            # Last, an id with its version spelt differently: `v1.2`, `1.2+build`.
            named = _find_by_words(find, name) or find(_VERSION_DECORATION.sub(r"\1", name.lower()))
        if named:
            most_direct = min(named.values())
            return {
                tool_id: directness
                for tool_id, directness in named.items()
                if directness < ALIAS or most_direct == ALIAS
            }
    return {}


def _find_by_whole(find: Find, text: str, tokens: list[str]) -> Named:
    """Return the tools whose name is the whole question, with or without its articles."""
    if len(tokens) > _MAX_NAME_WORDS:
        return dict(find(text.lower()) or {})
    return _find_by_spelling(find, text, " ".join(token.strip(_PUNCTUATION) for token in tokens))


def _find_by_list(find: Find, tokens: list[str]) -> Named:
    """Return the tools named by a question that consists of names and linking words alone."""
    found: Named = {}
    for token in tokens:
        bare = token.strip(_PUNCTUATION)
        named = _find_by_spelling(find, token, bare)
        if not named and bare.lower() not in _LINKING_WORDS:
            return {}
        found |= named
    return found


def _find_identifier(find: Find, token: str) -> Named:
    """Return the tools that a word within a sentence names, if it looks like an identifier."""
    bare = token.strip(_PUNCTUATION)
    if _SURE_IDENTIFIER.search(token):
        return _find_by_spelling(find, token, bare)
    if _CAMEL.search(bare):
        return _find_by_words(find, bare)
    return (find(bare.lower()) or {}) if "-" in bare else {}


def _as_tuple(ids: str | tuple[str, ...]) -> tuple[str, ...]:
    return (ids,) if isinstance(ids, str) else ids


def _list_keys(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yield each key of the names of tools, with the id of the tool."""
    plain: list[Entry] = []
    others: list[Entry] = []
    for entry in entries:
        (others if ALIAS_FACET in "\n".join(entry.facets) else plain).append(entry)
    # The keys of all ids as one text, which takes a fifth of the time of one by one.
    keys = "\n".join(entry.id for entry in plain).lower().translate(_SEPARATORS_IN_LINE).split("\n")
    if len(keys) == len(plain):
        for key, entry in zip(keys, plain, strict=True):
            yield key.split(":", 2)[1] if ":" in key else key, entry.id
    else:  # a stored id may have any character
        others += plain
    for entry in others:
        for key in _keys_of(entry):
            yield key, entry.id


def _keys_of(entry: Entry) -> set[str]:
    """Return the keys of every form of the names of a tool."""
    aliases = entry.aliases
    if not aliases:
        return {_key_of(entry.id.lower())}
    return {_key_of(form) for name in (entry.id, *aliases) for form in (name.lower(), _join_words(name))}


def _key_of(form: str) -> str:
    """Return a key that all forms of one name share, of tools in any namespace and of any version.

    >>> _key_of("github:create_issue:1.2"), _key_of("create issue ")
    ('createissue', 'createissue')
    """
    parts = form.translate(_SEPARATORS).split(":", maxsplit=2)
    return parts[min(1, len(parts) - 1)]


def _find_directness(entry: Entry, form: str) -> int | None:
    """Return the directness of a form of a name of a tool; None if it is none."""
    # `entry.names` begins with the id with and without a version (both 0), then the name (1), then aliases.
    by_words = form.endswith(" ")
    if by_words and entry.is_deprecated:
        if not form.startswith(_IDENTIFIER_ONLY):
            return None
        form = form.removeprefix(_IDENTIFIER_ONLY)
    colons = form.count(":")
    for place, name in enumerate(entry.names):
        same_words = by_words and name.count(":") == colons and _join_words(name) == form
        if same_words or name.lower() == form:
            return min(max(place - 1, 0), ALIAS)
    return None


def _find_by_words(find: Find, name: str) -> Named:
    """Return the tools whose names have the same words; deprecated ones only if `name` is an identifier."""
    joined = _join_words(name)
    found = find(joined) or {}
    if any(map(str.isspace, name)):
        return found
    return found | (find(f"{_IDENTIFIER_ONLY}{joined}") or {})


@lru_cache(maxsize=1 << 14)
def _join_words(name: str) -> str:
    """Return the words of a name as one key; empty if it has no words or is too long."""
    # The blank at the end keeps these keys apart from names, which never end in one.
    return "".join(f"{word} " for word in split_identifier(name)) if len(name) <= _MAX_NAME_LENGTH else ""

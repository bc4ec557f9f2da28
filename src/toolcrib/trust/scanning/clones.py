"""Clones: tools that pose as a tool of another server, or give orders about one."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from toolcrib.model import Tool
from toolcrib.trust.scanning.concepts import excerpt_of, mark_forms, read_sentence, split_sentences, words_of
from toolcrib.trust.scanning.definition import Text, names_in
from toolcrib.trust.scanning.report import ScanFinding

_WORD = re.compile(r"\w+")
_NAME_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_VERSION = re.compile(r"v?\d{1,3}|new|copy|clone|plus|pro|safe|secure|official|fixed|better|fast")
_LEAST_WORDS = 4
_RAREST = 3
_MAX_BUCKET = 50
_ALIKE = 0.8
"""Share of the words that the descriptions of clones have in common."""
_NAMES_ALIKE = 0.5
_LEAST_NAME = 6
_MAYBE_NAME = re.compile(rf"\w{{{_LEAST_NAME},}}")
_ORDERS = frozenset({"invoke", "alter", "prefer", "disparage", "override"})
_MAX_EXCERPT = 200
_MAX_CHARS = 500_000
"""Characters of a description that are compared; the scan withholds a longer one."""


class _Known(NamedTuple):
    tool: Tool
    name: frozenset[str]
    words: frozenset[str]


class KnownTools:
    """Tools that others are compared with.

    >>> text = "Sends a mail to a person."
    >>> mail = Tool(name="send_mail", namespace="mail", description=text, input_schema={})
    >>> clone = mail.replace(namespace="other", name="send_mail_v2")
    >>> [each.rule for each in KnownTools([mail]).compare(clone, text, list)]
    ['clone']
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools = [*map(_read, tools)]
        self._by_id = {id(known.tool): known for known in self._tools}
        counts = Counter(chain.from_iterable(each.words for each in self._tools))
        in_order = sorted(counts, key=lambda word: (counts[word], word))
        self._ranks = {word: place for place, word in enumerate(in_order)}
        """The words of the descriptions, the rarest first."""
        self._by_words: dict[str, dict[str, list[_Known]]] = defaultdict(dict)
        """The tools by the rarest words of their descriptions, and by the parts of their names."""
        self._spaces: dict[str, set[str | None]] = defaultdict(set)
        """The namespaces that have a tool of a name that no plain word could be."""
        for known in self._tools:
            for word in sorted(known.words, key=self._ranks.__getitem__)[:_RAREST]:
                for part in known.name:
                    self._by_words[word].setdefault(part, []).append(known)
            name = known.tool.name
            if len(name) >= _LEAST_NAME and ("_" in name or "-" in name or name.lower() != name):
                self._spaces[name.lower()].add(known.tool.namespace)
        self._names = frozenset(self._spaces)

    def compare(
        self, tool: Tool, mentioned: str, texts: Callable[[], Iterable[Text]]
    ) -> Iterator[ScanFinding]:
        """Yield the parts of a tool that imitate a tool of another server, or give instructions about one.

        Args:
            tool: the tool.
            mentioned: the result of `mentions` for all texts of its definition except the name.
            texts: returns these texts with their places; called only if one of them names another tool.
        """
        if not self._tools:
            return
        clone = self._original(tool)
        if clone:
            message = f"it has the name and the words of {str(clone.id)!r}"
            yield ScanFinding("clone", "hard", "/name", message, (tool.description or "")[:_MAX_EXCERPT])
        # Hardly any tool names one of another server, so this is asked of all texts at once.
        named = self._names.intersection(mentioned.split())
        foreign = {word for word in named if self._is_foreign(word, tool)}
        if foreign:
            yield from self._orders(tool, foreign, texts())

    def _original(self, tool: Tool) -> Tool | None:
        own = self._by_id.get(id(tool)) or _read(tool)
        name, words = own.name, own.words
        if len(words) < _LEAST_WORDS:
            return None
        least, most = _ALIKE * len(words), len(words) / _ALIKE
        # A clone lacks at most a quarter of these words, so one of its rarest is among the first of them.
        first = sorted(words & self._by_words.keys(), key=self._ranks.__getitem__)
        alike = {
            id(known): known
            for word in first[: _RAREST + len(words) // 4]
            for part in name & self._by_words[word].keys()
            for known in self._by_words[word][part][:_MAX_BUCKET]
            if least <= len(known.words) <= most
        }
        clones: list[tuple[float, str, Tool]] = []
        for known in alike.values():
            common = len(words & known.words)
            union = len(words) + len(known.words) - common
            if common < _ALIKE * union:
                continue
            if known.tool.namespace == tool.namespace:
                # A server may have a tool and its second version, and then says what sets them apart.
                is_clone = tool.name != known.tool.name and name == known.name and words == known.words
            else:
                is_clone = len(name & known.name) >= _NAMES_ALIKE * len(name | known.name)
            if is_clone:
                clones.append((-common / union, str(known.tool.id), known.tool))
        return min(clones, key=lambda each: each[:2])[2] if clones else None

    def _orders(self, tool: Tool, foreign: set[str], texts: Iterable[Text]) -> Iterator[ScanFinding]:
        """Yield the first order about a tool of another server."""
        foreign = foreign - names_in(tool.to_json(without={"backend", "icons", "name"}))
        for text in texts:
            if text.path == (None, "name") or foreign.isdisjoint(mentions(text.text).split()):
                continue
            words = words_of(mark_forms(text.text))
            for first, last in split_sentences(words):
                named = foreign.intersection(words[first:last])
                if named and read_sentence(words[first:last]) & _ORDERS:
                    message = f"it gives orders about {min(named)!r}, a tool of another server"
                    excerpt = excerpt_of(text.text, first, last)[:_MAX_EXCERPT]
                    yield ScanFinding("other-tool", "hard", text.pointer, message, excerpt)
                    return

    def _is_foreign(self, word: str, tool: Tool) -> bool:
        spaces = self._spaces.get(word)
        return spaces is not None and tool.namespace not in spaces and word != tool.name.lower()


def _read(tool: Tool) -> _Known:
    return _Known(tool, _name_parts(tool.name), _words(tool.description))


def mentions(text: str) -> str:
    """Return the words of a text that may be the name of a tool, in lower case, each once."""
    return " ".join(set(_MAYBE_NAME.findall(text.lower())))


def _words(text: str | None) -> frozenset[str]:
    return frozenset(_WORD.findall((text or "")[:_MAX_CHARS].lower()))


def _name_parts(name: str) -> frozenset[str]:
    parts = [part.lower() for part in _NAME_PART.findall(name)]
    return frozenset(part for part in parts if not _VERSION.fullmatch(part)) or frozenset(parts)

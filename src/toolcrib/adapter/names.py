"""Tool names that each provider accepts, kept distinct."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter

from toolcrib.model.canonical import CanonicalTool

_HASH = 8


@dataclass(frozen=True, slots=True)
class NameRule:
    """The names that a provider takes."""

    foreign: re.Pattern[str]
    """Any run of characters that may not stand in a name."""
    length: int
    """How many characters a name may have."""
    first: re.Pattern[str] | None = None
    """What a name must begin with, if anything."""
    own: Callable[[CanonicalTool], str] = attrgetter("name")
    """What a tool would like to be called."""

    def fit(self, name: str) -> str:
        """Return the nearest name that the provider takes; a long one ends in a digest of the whole.

        >>> NameRule(re.compile("[^a-z_]+"), 64).fit("get issue")
        'get_issue'
        """
        fitted = self.foreign.sub("_", name) or "tool"
        if self.first is not None and not self.first.match(fitted):
            fitted = f"_{fitted}"
        return fitted if len(fitted) <= self.length else self.mark(fitted, name)

    def mark(self, fitted: str, text: str) -> str:
        """Return a name that ends in a digest of some text, to tell it from others."""
        digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH]
        return f"{fitted[: self.length - _HASH - 1]}_{digest}"


def id_text(tool: CanonicalTool) -> str:
    """Return the id of a tool as text, even where its name is one that no id may have."""
    if not tool.namespace:
        return tool.name
    parts = (tool.namespace, tool.name, tool.version and tool.version.removeprefix("v"))
    return ":".join(part for part in parts if part)


def unique_names(tools: Sequence[CanonicalTool], rule: NameRule) -> list[str]:
    """Return a name for each tool, all of them different.

    A tool keeps its own name where no other has it. Tools that would share one are distinguished by their
    namespaces, then by a digest of their ids; so a name depends on the tools that share it, not on their
    order. The same id twice is distinguished by its place.
    """
    names = [rule.fit(rule.own(tool)) for tool in tools]
    names = _distinguished(
        names, [rule.fit(f"{tool.namespace}_{tool.name}" if tool.namespace else tool.name) for tool in tools]
    )
    names = _distinguished(
        names, [rule.mark(name, id_text(tool)) for name, tool in zip(names, tools, strict=True)]
    )
    taken, seen, counts = set(names), set[str](), Counter[str]()
    for index, name in enumerate(names):
        wanted = name
        while wanted in seen or (wanted is not name and wanted in taken):
            counts[name] += 1
            wanted = rule.mark(name, f"{id_text(tools[index])} {counts[name]}")
        names[index] = wanted
        seen.add(wanted)
    return names


def _distinguished(names: list[str], longer: list[str]) -> list[str]:
    """Return the longer names for those that are not unique."""
    count = Counter(names)
    return [other if count[name] > 1 else name for name, other in zip(names, longer, strict=True)]

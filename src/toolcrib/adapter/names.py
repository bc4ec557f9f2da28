"""Unique tool names that a provider accepts."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter

from toolcrib.model.canonical import CanonicalTool

_DIGEST_LENGTH = 8


@dataclass(frozen=True, slots=True)
class NameRule:
    """The rule for tool names of a provider."""

    foreign: re.Pattern[str]
    """Matches a run of characters that a name must not contain."""
    length: int
    """The maximum length of a name."""
    first: re.Pattern[str] | None = None
    """Matches the beginning that a name must have, if there is such a rule."""
    own: Callable[[CanonicalTool], str] = attrgetter("name")
    """Returns the preferred name of a tool."""

    def fit(self, name: str) -> str:
        """Return the most similar name that the provider accepts; a long name ends with a digest.

        >>> NameRule(re.compile("[^a-z_]+"), 64).fit("get issue")
        'get_issue'
        """
        fitted = self.foreign.sub("_", name) or "tool"
        if self.first is not None and not self.first.match(fitted):
            fitted = f"_{fitted}"
        return fitted if len(fitted) <= self.length else self.mark(fitted, name)

    def mark(self, fitted: str, text: str) -> str:
        """Return a name that ends with a digest of some text, which makes it unique."""
        digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
        return f"{fitted[: self.length - _DIGEST_LENGTH - 1]}_{digest}"


def id_text(tool: CanonicalTool) -> str:
    """Return the id of a tool as text, even if its name is not allowed in an id."""
    if not tool.namespace:
        return tool.name
    parts = (tool.namespace, tool.name, tool.version and tool.version.removeprefix("v"))
    return ":".join(part for part in parts if part)


def unique_names(tools: Sequence[CanonicalTool], rule: NameRule) -> list[str]:
    """Return a unique name for each tool.

    A tool keeps its own name if no other one has it. Tools that would share a name get their namespaces in
    front, or else a digest of their ids at the end; so a name depends on the tools that share it, not on
    their order. Only the same id given twice is distinguished by its position.
    """
    # Three passes, for names that are still shared: the name alone, with the namespace, with a digest.
    names = [rule.fit(rule.own(tool)) for tool in tools]
    names = _replace_duplicates(
        names, [rule.fit(f"{tool.namespace}_{tool.name}" if tool.namespace else tool.name) for tool in tools]
    )
    names = _replace_duplicates(
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


def _replace_duplicates(names: list[str], longer: list[str]) -> list[str]:
    """Return the longer names for those that are not unique."""
    count = Counter(names)
    return [other if count[name] > 1 else name for name, other in zip(names, longer, strict=True)]

"""Lint rules for the words of a tool: how a description begins, and which names it speaks of.

Every pattern here is linear: no two parts of one can read the same characters in many ways.
"""

import re
from collections.abc import Iterable

_STEERING = re.compile(
    r"\b(?:must|always)\*{0,2}\s(?:always\s)?(?:call|use|invoke|run)\sthis\s(?:tool|function)\s"
    r"(?:first|before)\b",
    re.IGNORECASE,
)
_SPACES = re.compile(r"\s+")
_ENDS = re.compile(r"[.!?。！？](?=\s|$)|(?<=[。！？])|\n\s*\n|\n\s*(?=[-*#•]|\w[\w ]{0,30}:)")  # noqa: RUF001 - of Chinese
_SHORT_FORMS = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|no|incl|max|min|[A-Za-z])\.$", re.IGNORECASE
)
_LONGEST_FORM = 10
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_SNAKE = re.compile(r"_*[a-z0-9]+(?:_[a-z0-9]+)+_*")
_CAMEL = re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+")
_CLASS = re.compile(
    r"(?:[A-Z][a-z0-9]+){1,}(?:Request|Response|Dto|DTO|Impl|Handler|Controller|Params|Args|Schema|Service|Client)"
)


def steering(text: str) -> str | None:
    """Return the phrase that makes a model prefer this tool to all others, or None.

    >>> steering("You must use this tool first.")
    'must use this tool first'
    """
    found = _STEERING.search(_SPACES.sub(" ", text))
    return found.group() if found else None


def first_sentence(text: str) -> str:
    """Return the beginning of a description: its first sentence, list item or heading.

    >>> first_sentence("Read a file, e.g. a log. It must be text.")
    'Read a file, e.g. a log.'
    """
    text = text.strip()
    for found in _ENDS.finditer(text):
        end = found.end()
        if end and not _SHORT_FORMS.search(text, max(0, end - _LONGEST_FORM), end):
            return _SPACES.sub(" ", text[:end]).strip()
    return _SPACES.sub(" ", text)


def program_names(names: Iterable[str]) -> frozenset[str]:
    """Return those names that no plain word could be: `repo_id`, `repoId`, and not `path`."""
    return frozenset(name for name in names if _SNAKE.fullmatch(name) or _CAMEL.fullmatch(name))


def identifiers(text: str, known: frozenset[str]) -> list[str]:
    """Return the names of a program that a text speaks of: those known, and those of classes.

    >>> identifiers("Uses repo_id of CreateIssueRequest on GitHub.", frozenset({"repo_id"}))
    ['repo_id', 'CreateIssueRequest']
    """
    words = dict.fromkeys(found.group() for found in _WORD.finditer(text))
    return [word for word in words if word in known or _CLASS.fullmatch(word)]

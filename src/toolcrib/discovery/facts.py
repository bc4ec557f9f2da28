"""Facts of a tool beside its schema, from its description, from `_meta` and from fields beside those of MCP.

They are anybody's JSON: what is not of the expected kind is passed over. In `_meta` each key is also read as
`toolcrib/<key>`, which wins. Everything returned is bounded, whatever the tool says.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

from toolcrib.discovery.keys import key_of
from toolcrib.discovery.records import MAX_SHORT_DESCRIPTION_LEN, Document, Summary
from toolcrib.model.tool import Tool

T = TypeVar("T")

_MAX_LISTED = 50
_MAX_PARAMETERS = 40
_MAX_SUMMARY = 500
_MAX_LABEL = 80
_MAX_QUESTION = 500
_MAX_SECURITY = 200
_WORD = re.compile(r"\S+")
ELLIPSIS = "…"
_MAX_CLUSTER = 32
"""How far to step back for a whole character; what is longer was not made to be read."""
_JOINER = "\u200d"
_MAX_NOTICE = 5_000
"""How many characters of a text are searched for a notice of deprecation."""
_NOTICE = re.compile(
    # at the beginning of a text, a line, a sentence or an emphasised phrase: "DEPRECATED: use ..."
    r"(?:^|\n|[.!?]\s|\*\*|__)[\W_]{0,12}deprecated"
    r"(?:\s*(?:[\])*_:.,;!\u2013\u2014-]|$)|\s+(?:and|as|by|in|please|since|use)\b)"
    # in brackets, with what to use instead: "... (deprecated, use ...)", or at the end: "... (deprecated)."
    r"|[\[(]\s?deprecated\s?(?:[,:;\u2013\u2014-]|\b(?:as|by|in|please|since|use)\b|[\])][\s.!]*$)"
    # as a sentence: "This tool is deprecated"
    r"|(?:^|\n|[.!?:]\s)[\W_]{0,12}(?:it|this|the\s(?:tool|function|method|endpoint|operation|api|command))\s"
    r"(?:[^.!?\n]{0,80}\s)?(?:is|has\sbeen|was)\s(?:now\s)?deprecated\b",
    re.IGNORECASE,
)


def short(text: str, limit: int) -> str:
    """Return text on one line of at most `limit` characters, cut after a word where that is possible.

    >>> short("Create   an issue in   a repository.", 24)
    'Create an issue in a…'
    """
    line = _one_line(text, limit)
    if len(line) <= limit:
        return line
    clipped = cut(line, limit)
    kept = clipped.removesuffix(ELLIPSIS)
    if not line.startswith(" ", len(kept)):
        whole_words = kept[: kept.rfind(" ") + 1]
        kept = whole_words if len(whole_words) * 2 > limit else kept
    return kept.rstrip(" ,;:") + ELLIPSIS if clipped else ""


def _one_line(text: str, limit: int) -> str:
    """Return as many words of a text as it takes to fill a line, parted by single spaces."""
    words: list[str] = []
    length = -1
    for match in _WORD.finditer(text):
        if length > limit:
            break
        words.append(match.group())
        length += len(words[-1]) + 1
    return " ".join(words)


def summary_text(tool: Tool, limit: int) -> str:
    """Return what a tool is for, in at most `limit` characters.

    That is `_meta.summary`, else the description, else a title.
    """
    annotated = tool.annotations.title if tool.annotations else None
    candidates = (_read_field(tool, "summary", _text), tool.description, tool.title, annotated)
    shortened = (short(text, limit) for text in candidates if text)
    return next(filter(None, shortened), "")


def category(tool: Tool) -> str | None:
    """Return the category that `_meta` names."""
    found = _read_field(tool, "category", _text)
    return short(found, _MAX_LABEL) if found else None


def input_modes(tool: Tool) -> tuple[str, ...]:
    """Return the kinds of content a tool takes, such as `text` or `image/png`."""
    return _labels(tool, "inputModes")


def output_modes(tool: Tool) -> tuple[str, ...]:
    """Return the kinds of content a tool gives back."""
    return _labels(tool, "outputModes")


def aliases(tool: Tool) -> tuple[str, ...]:
    """Return the other names that a tool goes by."""
    return _labels(tool, "aliases")


def examples_of(tool: Tool) -> tuple[str, ...]:
    """Return questions that a tool answers, as its maker wrote them."""
    found = (
        *(_read_field(tool, "examples", _texts) or ()),
        *(_read_field(tool, "exampleQueries", _texts) or ()),
    )
    return _distinct(found, _MAX_QUESTION)


def is_deprecated(tool: Tool) -> bool:
    """Return whether a tool says that it should no longer be used.

    That is `deprecated` in `_meta` under any prefix, among the annotations, beside the fields of MCP, in the
    input schema or among the tags, or a notice in title, summary or description.

    >>> is_deprecated(Tool(name="a", description="Reads. DEPRECATED: Use b.", input_schema={}))
    True
    >>> is_deprecated(Tool(name="a", description="Find deprecated packages.", input_schema={}))
    False
    """
    if "deprecated" in tool.tags or tool.input_schema.get("deprecated") is True:
        return True
    beside = (tool.model_extra or {}) | ((tool.annotations and tool.annotations.model_extra) or {})
    stated = [value for key, value in (tool.meta or {}).items() if key.rpartition("/")[2] == "deprecated"]
    stated += (beside.get("deprecated"), beside.get("deprecatedHint"))
    if any(value is True or (isinstance(value, str | dict) and value) for value in stated):
        return True
    texts = (tool.description, title_of(tool), _read_field(tool, "summary", _text))
    return any(
        "deprecated" in text[:_MAX_NOTICE].lower() and _NOTICE.search(text[:_MAX_NOTICE])
        for text in texts
        if text
    )


def security_summary(tool: Tool) -> str | None:
    """Return the names of the security schemes that a tool asks for: `apiKey, oauth`."""
    names = _read_field(tool, "securityRequirements", _required) or _read_field(
        tool, "securitySchemes", _keys
    )
    return cut(", ".join(sorted(set(names))), _MAX_SECURITY) if names else None


def _read_field(tool: Tool, key: str, read: Callable[[Any], T]) -> T | None:
    """Return what `_meta`, or else a field that MCP does not know, says under a key, if it can be read."""
    meta, beside = tool.shared("meta") or {}, tool.__pydantic_extra__ or {}
    if not meta and not beside:
        return None
    found = (meta.get(f"toolcrib/{key}"), meta.get(key), beside.get(key))
    return next(filter(None, map(read, found)), None)


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [text for member in value if (text := _text(member))]


def _keys(value: Any) -> list[str]:
    return [text for key in value if (text := _text(key))] if isinstance(value, dict) else []


def _required(value: Any) -> list[str]:
    return [name for need in value for name in _keys(need)] if isinstance(value, list) else []


def _labels(tool: Tool, key: str) -> tuple[str, ...]:
    return _distinct(_read_field(tool, key, _texts) or (), _MAX_LABEL)


def _distinct(texts: Iterable[str], limit: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(short(text, limit) for text in texts))[:_MAX_LISTED]


def cut(text: str, limit: int) -> str:
    """Return text of at most `limit` characters, ending in an ellipsis where some is missing.

    >>> cut("Create an issue", 9)
    'Create a…'
    >>> cut("cafe\u0301s", 5)  # the accent is not parted from its letter
    'caf…'
    """
    if len(text) <= limit:
        return text
    if limit < 1:
        return ""
    return text[: _boundary(text, limit - 1)] + ELLIPSIS


def _boundary(text: str, end: int) -> int:
    """Return the last place at or before `end` where no character is parted."""
    for place in range(end, max(0, end - _MAX_CLUSTER), -1):
        if not _parts(text, place):
            return place
    return end if end > _MAX_CLUSTER else 0


def _parts(text: str, place: int) -> bool:
    """Return whether a cut before `place` parts one character."""
    before, after = text[place - 1], text[place]
    if after.isascii():
        return before == "\r" and after == "\n"
    if _is_flag_half(after) and _is_flag_half(before):
        return _count_flag_halves(text, place) % 2 == 1
    return _JOINER in {before, after} or _extends(after)


def _extends(char: str) -> bool:
    """Return whether a character only changes the one before it."""
    return (
        unicodedata.category(char).startswith("M")
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # the letters of a flag
        or "\u1160" <= char <= "\u11ff"  # the later parts of a Korean syllable
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _count_flag_halves(text: str, place: int) -> int:
    """Return how many letters of flags stand right before a place, as far as it matters."""
    start = place
    while start > max(0, place - _MAX_CLUSTER) and _is_flag_half(text[start - 1]):
        start -= 1
    return place - start


def summarize(tool: Tool) -> Summary:
    """Return a tool at a glance.

    >>> summarize(Tool(name="add", description="Add numbers.", input_schema={})).short_description
    'Add numbers.'
    """
    text = summary_text(tool, MAX_SHORT_DESCRIPTION_LEN)
    return Summary(
        id=key_of(tool.id),
        name=tool.name,
        namespace=tool.namespace,
        short_description=text,
        summary=text,
        category=category(tool),
        input_modes=input_modes(tool),
        output_modes=output_modes(tool),
        security_summary=security_summary(tool),
        tags=tool.tags,
    )


def document_of(tool: Tool, examples: Iterable[str] = ()) -> Document:
    """Return a tool, and the questions that it is known to answer, as a document with its text built.

    >>> document_of(Tool(name="add", description="Adds.", tags=["sum"], input_schema={})).text
    'add Adds. sum'
    """
    properties = tool.shared("input_schema").get("properties")
    title = "" if tool.description else title_of(tool) or ""
    return Document.of_checked(
        id=key_of(tool.id),
        namespace=tool.namespace,
        name=tool.name,
        description=tool.description or "",
        tags=tool.tags,
        category=category(tool),
        summary=own_summary(tool) or title,
        modes=modes(tool),
        parameters=tuple(islice(properties, _MAX_PARAMETERS)) if isinstance(properties, dict) else (),
        examples=tuple(dict.fromkeys((*examples_of(tool), *examples))),
    ).normalized()


def title_of(tool: Tool) -> str | None:
    """Return the title for people, of the tool or of its annotations."""
    return _text(tool.title) or _text(tool.annotations and tool.annotations.title) or None


def own_summary(tool: Tool) -> str:
    """Return the summary, where it says something that title and description do not."""
    stated = _read_field(tool, "summary", _text)
    if not stated:
        return ""
    summary = short(stated, _MAX_SUMMARY)
    known = " ".join(f"{title_of(tool) or ''} {tool.description or ''}".split())
    return "" if summary[:-1] in known else summary


def modes(tool: Tool) -> tuple[str, ...]:
    """Return the kinds of content that a tool takes or gives back, each once."""
    return tuple(dict.fromkeys((*input_modes(tool), *output_modes(tool))))

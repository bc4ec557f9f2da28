"""Facts about a tool beside its schema: summary, category, modes, aliases, examples, deprecation, security.

They come from the description, from `_meta` and from fields that MCP does not define. These are untrusted
JSON: values of unexpected types are ignored, and everything returned is limited in length. In `_meta` a key
may also be written `toolcrib/<key>`, which takes precedence.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
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
"""The maximum number of code points of a displayed character; longer clusters are cut inside."""
_ZERO_WIDTH_JOINER = "\u200d"
_MAX_NOTICE_TEXT = 5_000
"""The maximum number of characters searched for a deprecation notice."""
_DEPRECATION_NOTICE = re.compile(
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


def shorten(text: str, limit: int) -> str:
    """Return a text on one line of at most `limit` characters, cut after a word if possible.

    >>> shorten("Create   an issue in   a repository.", 24)
    'Create an issue in a…'
    """
    # Most texts are short; only of a long one the first words alone are read.
    line = " ".join(text.split()) if len(text) <= limit else _one_line(text, limit)
    if len(line) <= limit:
        return line
    clipped = cut(line, limit)
    kept = clipped.removesuffix(ELLIPSIS)
    if not line.startswith(" ", len(kept)):
        # Not if it would lose more than half of the line, as with a URL at the end.
        whole_words = kept[: kept.rfind(" ") + 1]
        kept = whole_words if len(whole_words) * 2 > limit else kept
    return kept.rstrip(" ,;:") + ELLIPSIS if clipped else ""


def _one_line(text: str, limit: int) -> str:
    """Return the first words of a text, enough to fill a line, separated by single spaces."""
    words: list[str] = []
    length = -1
    for match in _WORD.finditer(text):
        if length > limit:
            break
        words.append(match.group())
        length += len(words[-1]) + 1
    return " ".join(words)


def summary_text(tool: Tool, limit: int) -> str:
    """Return a summary of a tool in at most `limit` characters.

    It is `_meta.summary`, else the description, else a title.
    """
    annotated = tool.annotations.title if tool.annotations else None
    candidates = (_read_field(tool, "summary", _read_text), tool.description, tool.title, annotated)
    shortened = (shorten(text, limit) for text in candidates if text)
    return next(filter(None, shortened), "")


def category(tool: Tool) -> str | None:
    """Return the category in `_meta`; None if there is none."""
    found = _read_field(tool, "category", _read_text)
    return shorten(found, _MAX_LABEL) if found else None


def input_modes(tool: Tool) -> tuple[str, ...]:
    """Return the kinds of content that a tool takes, such as `text` or `image/png`."""
    return _read_labels(tool, "inputModes")


def output_modes(tool: Tool) -> tuple[str, ...]:
    """Return the kinds of content that a tool returns."""
    return _read_labels(tool, "outputModes")


def aliases(tool: Tool) -> tuple[str, ...]:
    """Return the aliases of a tool."""
    return _read_labels(tool, "aliases")


def examples_of(tool: Tool, others: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the example questions in the definition of a tool, followed by others, without duplicates."""
    found = (
        *(_read_field(tool, "examples", _read_texts) or ()),
        *(_read_field(tool, "exampleQueries", _read_texts) or ()),
    )
    return tuple(dict.fromkeys((*_distinct(found, _MAX_QUESTION), *others)))


def is_deprecated(tool: Tool) -> bool:
    """Return whether a tool is marked as deprecated.

    It is, with `deprecated` in `_meta` (under any prefix), in the annotations, in a field that MCP does not
    define, in the input schema or among the tags, or with a notice in title, summary or description.

    >>> is_deprecated(Tool(name="a", description="Reads. DEPRECATED: Use b.", input_schema={}))
    True
    >>> is_deprecated(Tool(name="a", description="Find deprecated packages.", input_schema={}))
    False
    """
    if "deprecated" in tool.tags or tool.shared("input_schema").get("deprecated") is True:
        return True
    stated = _stated_deprecations(tool)
    if any(value is True or (isinstance(value, str | dict) and value) for value in stated):
        return True
    texts = (tool.description, title_of(tool), _read_field(tool, "summary", _read_text))
    return any(
        "deprecated" in text[:_MAX_NOTICE_TEXT].lower()
        and _DEPRECATION_NOTICE.search(text[:_MAX_NOTICE_TEXT])
        for text in texts
        if text
    )


def _stated_deprecations(tool: Tool) -> list[Any]:
    """Return the values of all fields that may state that a tool is deprecated."""
    meta = tool.shared("meta")
    stated = [value for key, value in meta.items() if key.rpartition("/")[2] == "deprecated"] if meta else []
    for beside in (tool.__pydantic_extra__, tool.annotations and tool.annotations.__pydantic_extra__):
        if beside:
            stated += (beside.get("deprecated"), beside.get("deprecatedHint"))
    return stated


def security_summary(tool: Tool) -> str | None:
    """Return the names of the security schemes that a tool needs, such as `apiKey, oauth`."""
    names = _read_field(tool, "securityRequirements", _read_requirements) or _read_field(
        tool, "securitySchemes", _read_keys
    )
    return cut(", ".join(sorted(set(names))), _MAX_SECURITY) if names else None


def _read_field(tool: Tool, key: str, read: Callable[[Any], T]) -> T | None:
    """Return the value of a key in `_meta`, or else in a field beside those of MCP; None if unreadable."""
    meta, beside = tool.shared("meta"), tool.__pydantic_extra__
    if meta:
        for name in (f"toolcrib/{key}", key):
            if name in meta and (found := read(meta[name])):
                return found
    if beside and key in beside:
        return read(beside[key]) or None
    return None


def _read_text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _read_texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [text for member in value if (text := _read_text(member))]


def _read_keys(value: Any) -> list[str]:
    return [text for key in value if (text := _read_text(key))] if isinstance(value, dict) else []


def _read_requirements(value: Any) -> list[str]:
    return [name for need in value for name in _read_keys(need)] if isinstance(value, list) else []


def _read_labels(tool: Tool, key: str) -> tuple[str, ...]:
    return _distinct(_read_field(tool, key, _read_texts) or (), _MAX_LABEL)


def _distinct(texts: Sequence[str], limit: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys([shorten(text, limit) for text in texts]))[:_MAX_LISTED] if texts else ()


def cut(text: str, limit: int) -> str:
    """Cut a text to at most `limit` characters, with an ellipsis at the end if it was longer.

    >>> cut("Create an issue", 9)
    'Create a…'
    >>> cut("cafe\u0301s", 5)  # the accent is not separated from its letter
    'caf…'
    """
    if len(text) <= limit:
        return text
    if limit < 1:
        return ""
    return text[: _cut_position(text, limit - 1)] + ELLIPSIS


def _cut_position(text: str, end: int) -> int:
    """Return the last position at or before `end` that is not inside a displayed character."""
    for place in range(end, max(0, end - _MAX_CLUSTER), -1):
        if not _splits_character(text, place):
            return place
    return end if end > _MAX_CLUSTER else 0


def _splits_character(text: str, place: int) -> bool:
    """Return whether a cut before `place` splits a displayed character (a grapheme cluster)."""
    before, after = text[place - 1], text[place]
    if after.isascii():
        return before == "\r" and after == "\n"
    if _is_flag_half(after) and _is_flag_half(before):
        return _count_flag_halves(text, place) % 2 == 1
    return _ZERO_WIDTH_JOINER in {before, after} or _is_combining(after)


def _is_combining(char: str) -> bool:
    """Return whether a code point modifies the character before it."""
    return (
        unicodedata.category(char).startswith("M")
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # the letters of a flag
        or "\u1160" <= char <= "\u11ff"  # the later parts of a Korean syllable
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _count_flag_halves(text: str, place: int) -> int:
    """Return the number of regional indicators right before a position, up to `_MAX_CLUSTER`."""
    start = place
    while start > max(0, place - _MAX_CLUSTER) and _is_flag_half(text[start - 1]):
        start -= 1
    return place - start


def summarize(tool: Tool) -> Summary:
    """Return the summary record of a tool.

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
    """Return the texts of a tool and its example questions as a document to embed.

    >>> document_of(Tool(name="add", description="Adds.", tags=["sum"], input_schema={})).text
    'add Adds. sum'
    """
    return Document.from_valid(
        id=key_of(tool.id),
        namespace=tool.namespace,
        name=tool.name,
        description=tool.description or "",
        tags=tool.tags,
        category=category(tool),
        summary=summary_or_title(tool),
        modes=modes(tool),
        parameters=parameters_of(tool),
        examples=examples_of(tool, examples),
    ).normalized()


def parameters_of(tool: Tool) -> tuple[str, ...]:
    """Return the names of the parameters of a tool, at most 40."""
    properties = tool.shared("input_schema").get("properties")
    return tuple(islice(properties, _MAX_PARAMETERS)) if isinstance(properties, dict) else ()


def title_of(tool: Tool) -> str | None:
    """Return the title of a tool, or else that of its annotations."""
    return _read_text(tool.title) or _read_text(tool.annotations and tool.annotations.title) or None


def own_summary(tool: Tool) -> str:
    """Return the summary in `_meta`; empty if title or description contain it."""
    stated = _read_field(tool, "summary", _read_text)
    if not stated:
        return ""
    summary = shorten(stated, _MAX_SUMMARY)
    known = " ".join(f"{title_of(tool) or ''} {tool.description or ''}".split())
    return "" if summary[:-1] in known else summary


def summary_or_title(tool: Tool) -> str:
    """Return the summary that `own_summary` reads, or else the title of a tool without a description."""
    return own_summary(tool) or ("" if tool.description else title_of(tool) or "")


def modes(tool: Tool) -> tuple[str, ...]:
    """Return the kinds of content that a tool takes or returns, without duplicates."""
    return tuple(dict.fromkeys((*input_modes(tool), *output_modes(tool))))

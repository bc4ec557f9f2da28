"""The check of results: secrets, personal data, and orders to the model.

A result is JSON of any shape, and what is looked for may stand in it in many ways: as a text, a key or a
number, in JSON that is a text, in base64, or across the parts of a list, such as the blocks of content or the
chunks of a stream, which a model reads as one. The time is in proportion to the size of the result; orders
are looked for in the first half million characters.
"""

import base64
import binascii
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple, get_args

from toolcrib.model.findings import CheckedResult, ResultAction, ResultFinding, SensitiveKind
from toolcrib.model.json_text import compact_json
from toolcrib.model.plain import parse_json, pointer
from toolcrib.redaction import find_secrets, find_split_keys
from toolcrib.trust.personal import find_personal_data, is_card_number
from toolcrib.trust.scanning.hidden import without_hidden
from toolcrib.trust.scanning.orders import MAX_CHARS, find_orders

_SHOWN = {
    "secret": "[secret]",
    "e-mail": "[e-mail address]",
    "card": "[card number]",
    "iban": "[IBAN]",
    "phone": "[phone number]",
}
"""What stands in place of each."""
_KEY = "(key)"
"""A key in a path that holds something itself."""
_ORDER = "[removed: an instruction to the model]"
_MAX_DEPTH = 6
"""How deep texts are read that are JSON or base64."""
_MAX_LEVELS = 100
"""How deep containers are read; those of JSON that is a text count too."""
_TOO_DEEP = "[removed: nested too deep to be checked]"
_MAX_FINDINGS = 50
"""Findings of a kind that are listed; each kind has its own, so that what blocks is always among them."""
_LEAST_CARD = 10**12
_SHORTEST = 5
"""Characters of a text in which something may be found."""
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}+={0,2}")
_SHORTEST_BASE64 = 16
_LEAST_PIECE = 6
"""Characters of a key in the first text that it is in; fewer may be a word of their own, such as `ASIA`."""
_NO_WORDS = frozenset({"type", "role", "mimeType", "data", "blob", "uri", "annotations", "_meta"})
"""Members of blocks of content that a model does not read on from one to the next."""
_PAGING = re.compile(
    r"(?:page|next|prev(?:ious)?|continuation|sync|cursor|start)[_-]?token(?:[\\\"'\s:=]{0,6})$",
    re.IGNORECASE,
)
"""The name of a place in a list, which is no secret."""
_WITH_BYTES = ("image", "audio")
"""Blocks whose data is base64; a tuple, because what a server calls a type may not be hashable."""
_SECRET_KEY = re.compile(
    r"passw(?:or)?d|pwd|passphrase|secret|token|credentials?|(?:api|access|secret|private|auth)[_-]?key"
    r"|client[_-]?secret|authorization|cookie|set-cookie",
    re.IGNORECASE,
)
_Path = tuple[Any, ...]


class _Span(NamedTuple):
    """Something in a text."""

    first: int
    last: int
    """The character after its last."""
    kind: SensitiveKind
    rule: str


@dataclass(frozen=True, slots=True)
class ResultScan:
    """Checks results for the selected kinds of content, and removes them on request.

    >>> checked = ResultScan(secrets="redact")({"note": "use AKIAIOSFODNN7EXAMPLE"})
    >>> checked.value, checked.findings[0].path
    ({'note': 'use [secret]'}, '/note')
    """

    secrets: ResultAction | None = None
    """The action for secrets; None: they are not looked for."""
    personal: ResultAction | None = None
    """The same for personal data."""
    instructions: ResultAction | None = None
    """The same for instructions to the model."""

    @property
    def may_remove(self) -> bool:
        """Whether it may remove something, or withhold the whole result."""
        return not {self.secrets, self.personal, self.instructions} <= {None, "log"}

    def __call__(self, value: Any, /) -> CheckedResult:
        """Check a JSON value; it is not changed, a copy is where something has to be removed."""
        reading = _Reading(self)
        checked = reading.read_apart(reading.read(value, ()))
        return CheckedResult(checked, tuple(reading.findings.values()))

    def action(self, kind: SensitiveKind) -> ResultAction | None:
        """Return the action for a kind."""
        return {"secret": self.secrets, "personal": self.personal, "instruction": self.instructions}[kind]


@dataclass(slots=True)
class _Reading:
    """The check of one result."""

    scan: ResultScan
    findings: dict[tuple[str, str, str], ResultFinding] = field(default_factory=dict)
    clean: set[str] = field(default_factory=set)
    """Texts in which nothing is."""
    bare: set[str] = field(default_factory=set)
    """Texts that themselves have no secrets and no personal data."""
    hits: int = 0
    """How often something was found, whether or not it is listed."""
    listed: Counter[SensitiveKind] = field(default_factory=Counter)
    room: int = MAX_CHARS
    """Characters in which orders are still looked for."""
    room_across: int = MAX_CHARS
    """The same for texts that are read as one."""

    def read(self, value: Any, path: _Path, depth: int = 0) -> Any:
        """Return a value without what has to be removed; the same object where that is nothing."""
        kind = type(value)
        if kind is str:
            return self._read_text(value, path, depth)
        if kind in {dict, list} and len(path) >= _MAX_LEVELS:
            return self._refuse_depth(value, path)
        if kind is dict:
            return self._read_object(value, path, depth)
        if kind is list:
            return self._read_list(value, path, depth)
        if kind is int and value >= _LEAST_CARD and self.scan.personal and is_card_number(str(value)):
            self._note("personal", "card", path)
            return _SHOWN["card"] if self.scan.personal == "redact" else value
        return value

    def read_apart(self, value: Any) -> Any:
        """Return a value without keys of known forms that stand in pieces in several of its texts.

        The texts are taken in their order, whatever is between them: blocks of content, then what is
        structured. Only whole forms count here, since parts of anything may look like something together.
        """
        if not self.scan.secrets or type(value) not in {dict, list}:
            return value
        leaves = [(path, text) for path, text in _texts_in(value) if text.strip()]
        stripped = [text.strip() for _, text in leaves]
        starts = [0, *accumulate(map(len, stripped))]
        for first, last in find_split_keys(stripped):
            begun, ended = bisect_right(starts, first) - 1, bisect_left(starts, last)
            if starts[begun + 1] - first < _LEAST_PIECE:
                continue
            for place in range(begun, ended):
                path, _ = leaves[place]
                self._note("secret", "secret", path)
                if self.scan.secrets == "redact":
                    text = stripped[place]
                    low, high = max(first - starts[place], 0), min(last - starts[place], len(text))
                    mark = _SHOWN["secret"] if place == begun else ""
                    value = _with_text(value, path, f"{text[:low]}{mark}{text[high:]}")
        return value

    def _refuse_depth(self, value: Any, path: _Path) -> Any:
        """Return what stands in place of a container that is too deep, which counts as all kinds."""
        kinds = [kind for kind in get_args(SensitiveKind) if self.scan.action(kind)]
        for kind in kinds:
            self._note(kind, "too-deep", path)
        return _TOO_DEEP if any(self.scan.action(kind) == "redact" for kind in kinds) else value

    def _read_object(self, value: dict[str, Any], path: _Path, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        is_changed = False
        for key, member in value.items():
            before = self.hits
            name = self._read_text(key, (*path, _KEY), depth)
            shown = key if self.hits == before else _KEY  # a place must not tell what is there
            new = self._read_member(value, key, member, (*path, shown), depth)
            is_changed = is_changed or new is not member or name is not key
            made[_number(name, made, numbers) if name in made else name] = new
        return made if is_changed else value

    def _read_member(self, holder: dict[str, Any], key: str, member: Any, path: _Path, depth: int) -> Any:
        """Return a member of an object, whose key says more about it."""
        if type(member) is str:
            if self.scan.secrets and _is_secret_member(key, member):
                self._note("secret", "secret", path)
                return _SHOWN["secret"] if self.scan.secrets == "redact" else member
            has_bytes = key == "blob" or (key == "data" and holder.get("type") in _WITH_BYTES)
            if has_bytes and _is_base64(member):
                return self._read_base64(member, path, depth) or member
        return self.read(member, path, depth)

    def _read_list(self, value: list[Any], path: _Path, depth: int) -> list[Any]:
        made = [self.read(member, (*path, place), depth) for place, member in enumerate(value)]
        is_changed = any(new is not old for new, old in zip(made, value, strict=True))
        texts = [_text_of(member) for member in made]
        begun = 0
        for end in range(len(texts) + 1):
            if end < len(texts) and texts[end] is not None:
                continue
            if end - begun > 1:
                for place, text in self._read_across([each or "" for each in texts[begun:end]], path, begun):
                    made[place] = text if type(made[place]) is str else {**made[place], "text": text}
                    is_changed = True
            begun = end + 1
        return made if is_changed else value

    def _read_text(self, text: str, path: _Path, depth: int) -> str:
        if len(text) < _SHORTEST or text in self.clean:
            return text
        before = self.hits
        checked = self._read_json(text, path, depth) if text.lstrip()[:1] in {"{", "[", '"'} else None
        if checked is None:
            checked = self._read_plain(text, path, depth)
        if self.hits == before:
            self.clean.add(text)
        return checked

    def _read_json(self, text: str, path: _Path, depth: int) -> str | None:
        """Return a text that is JSON, checked; None if it is none."""
        if depth >= _MAX_DEPTH:
            return None
        try:
            value = parse_json(text)
        except ValueError:
            return None
        checked = self.read(value, path, depth + 1)
        return text if checked is value else compact_json(checked)

    def _read_base64(self, text: str, path: _Path, depth: int) -> str | None:
        """Return base64 that is a text, checked; None if it is none, or nothing is in it."""
        plain = _decode(text) if depth < _MAX_DEPTH else None
        if plain is None:
            return None
        checked = self._read_text(plain, path, depth + 1)
        return None if checked is plain else base64.b64encode(checked.encode()).decode()

    def _read_plain(self, text: str, path: _Path, depth: int) -> str:
        own, orders = self._find(text), self._find_orders(text)
        spans = [*own, *orders]
        plain = without_hidden(text)
        if plain != text and len(hidden := self._find(plain)) > len(own):
            # Somebody has put characters into it that nobody sees.
            for each in orders:
                self._note(each.kind, each.rule, path)
            spans = [*hidden, *self._find_orders(plain)]
            text = plain if any(self.scan.action(each.kind) == "redact" for each in spans) else text
        for each in spans:
            self._note(each.kind, each.rule, path)
        text = self._remove(text, spans)
        if len(text) < _SHORTEST_BASE64:
            return text
        checked = _BASE64.sub(lambda run: self._read_base64(run[0], path, depth) or run[0], text)
        return text if checked == text else checked

    def _find(self, text: str) -> list[_Span]:
        """Return the secrets and the personal data in a text."""
        if text in self.bare:
            return []
        found: list[_Span] = []
        if self.scan.secrets:
            found += (
                _Span(first, last, "secret", "secret")
                for first, last in find_secrets(text)
                if not _PAGING.search(text[max(0, first - 40) : first])
            )
        if self.scan.personal:
            found += (
                _Span(each.first, each.last, "personal", each.kind) for each in find_personal_data(text)
            )
        if not found:
            self.bare.add(text)
        return found

    def _find_orders(self, text: str) -> list[_Span]:
        """Return the orders to the model in a text; what is not read any more counts as one."""
        if not self.scan.instructions:
            return []
        read = text[: self.room]
        self.room -= len(read)
        found = [_Span(each.first, each.last, "instruction", each.rule) for each in find_orders(read)]
        if len(read) < len(text):
            found.append(_Span(len(read), len(text), "instruction", "too-long"))
        return found

    def _read_across(self, texts: list[str], path: _Path, first: int) -> Iterator[tuple[int, str]]:
        """Yield texts that follow each other, by their places, without what stands across several of them."""
        joined = "".join(texts)
        starts = [0, *accumulate(map(len, texts))]
        own = _Cover(
            (starts[place] + each.first, starts[place] + each.last)
            for place, text in enumerate(texts)
            for each in self._find(text)
        )
        spans = [
            each
            for each in self._find(joined)
            if each.rule != "phone" and _has_between(starts, each) and not own.touches(each)
        ]
        spans += self._find_orders_across(texts, joined)
        within: defaultdict[int, list[_Span]] = defaultdict(list)
        for each in spans:
            for place in range(bisect_right(starts, each.first) - 1, bisect_left(starts, each.last)):
                within[place].append(each)
        for place, found in sorted(within.items()):
            low, high = starts[place], starts[place + 1]
            parts = [
                each._replace(first=max(each.first, low) - low, last=min(each.last, high) - low)
                for each in found
            ]
            for each in parts:
                self._note(each.kind, each.rule, (*path, first + place))
            new = self._remove(texts[place], parts, continued=any(each.first < low for each in found))
            if new != texts[place]:
                yield first + place, new

    def _find_orders_across(self, texts: list[str], joined: str) -> Iterator[_Span]:
        """Yield the order to the model that several texts are together; what is not read counts as one."""
        if not self.scan.instructions:
            return
        room = min(self.room_across, len(joined))
        self.room_across -= room
        for text in (joined[:room], " ".join(texts)[:room]):
            if (found := find_orders(text)) and not any(map(find_orders, texts)):
                yield _Span(0, len(joined), "instruction", found[0].rule)
                break
        if room < len(joined):
            yield _Span(room, len(joined), "instruction", "too-long")

    def _remove(self, text: str, spans: list[_Span], *, continued: bool = False) -> str:
        """Return a text with a mark in place of each span that has to be removed.

        The first of one that is `continued` began in the text before, which has its mark.
        """
        parts: list[str] = []
        after = 0
        for each in sorted(spans):
            if self.scan.action(each.kind) == "redact" and each.last > after:
                mark = _ORDER if each.kind == "instruction" else _SHOWN[each.rule]
                is_rest = continued and each.first == 0
                parts += [text[after : max(each.first, after)], "" if is_rest else mark]
                after = each.last
        return "".join((*parts, text[after:])) if parts else text

    def _note(self, kind: SensitiveKind, rule: str, path: _Path) -> None:
        self.hits += 1
        action = self.scan.action(kind)
        if action is None or self.listed[kind] >= _MAX_FINDINGS:
            return
        key = (kind, rule, pointer(path))
        if key not in self.findings:
            self.listed[kind] += 1
            self.findings[key] = ResultFinding.from_valid(kind=kind, rule=rule, path=key[2], action=action)


def _texts_in(value: Any) -> Iterator[tuple[_Path, str]]:
    """Yield the texts of a JSON value in their order, but for keys, each with its place."""
    waiting: list[tuple[_Path, Any]] = [((), value)]
    while waiting:
        path, member = waiting.pop()
        if type(member) is str:
            yield path, member
        elif len(path) < _MAX_LEVELS and type(member) in {dict, list}:
            items = member.items() if type(member) is dict else enumerate(member)
            waiting += reversed([((*path, key), each) for key, each in items if key not in _NO_WORDS])


def _with_text(value: Any, path: _Path, text: str) -> Any:
    """Return a copy of a JSON value with another text in a place."""
    if not path:
        return text
    copied = value.copy()
    copied[path[0]] = _with_text(value[path[0]], path[1:], text)
    return copied


class _Cover:
    """The parts of a text that are taken."""

    def __init__(self, parts: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(parts)
        self._firsts = [first for first, _ in ordered]
        self._lasts = list(accumulate((last for _, last in ordered), max))

    def touches(self, span: _Span) -> bool:
        """Return whether a span has a character of them."""
        begun = bisect_left(self._firsts, span.last)
        return begun > 0 and self._lasts[begun - 1] > span.first


def _has_between(borders: list[int], span: _Span) -> bool:
    """Return whether a span goes on after a border."""
    return bisect_right(borders, span.first) < bisect_left(borders, span.last)


def _number(name: str, taken: dict[str, Any], numbers: dict[str, int]) -> str:
    """Return a name that is free; `numbers` has the last number that was tried for each."""
    while True:
        numbers[name] = numbers.get(name, 0) + 1
        if (numbered := f"{name} {numbers[name] + 1}") not in taken:
            return numbered


def _is_secret_member(key: str, text: str) -> bool:
    """Return whether the value of a key is a secret, as it would be in a text: `"password": "..."`."""
    if not _SECRET_KEY.search(key) or _PAGING.search(key) or '"' in text:
        return False
    begin = len(key) + 5
    return any(first <= begin < last for first, last in find_secrets(f'"{key}": "{text}"'))


def _is_base64(text: str) -> bool:
    """Return whether the whole of a text is base64."""
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _decode(run: str) -> str | None:
    """Return the text that is base64; None if it is none."""
    plain = "".join(run.split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        text = base64.b64decode(plain + "=" * (-len(plain) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return text if all(char.isprintable() or char in "\n\r\t" for char in text) else None


def _text_of(member: Any) -> str | None:
    """Return the text of a member of a list that a model reads on from the one before; None if it is none."""
    if type(member) is str:
        return member
    if type(member) is dict and type(member.get("text")) is str and member.get("type", "text") == "text":
        text: str = member["text"]
        return text
    return None

"""Questions learned from use: what callers asked before they ran a tool, and how far that raises it.

A question is kept for a tool and an owner, the caller who asked it, without values that look like data or
secrets (`strip_values`). A search compares its question with those of the owner, or of all owners, and each
similar one raises its tool:

- Similarity is a cosine of two halves: the built-in word vectors, and the words themselves, hashed. No model
  is asked, so nothing leaves the process.
- The raise of a tool, its lift, is at most 1 and grows with each similar question. What one owner adds to a
  search for all owners is at most `_OWNER_SHARE`.
- A use that went wrong takes the evidence of its question away. It never lowers a tool.

The rows in the storage are all there is: everything else is computed from them, so a process that opens the
storage later finds the same.
"""

import logging
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt
from threading import Lock
from typing import Annotated, Any, Final, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from toolcrib.concurrency.lru import LruCache
from toolcrib.discovery.kept import TextCollection, Texts
from toolcrib.discovery.search.semantic.languages import is_english
from toolcrib.discovery.search.text import content_weights, words
from toolcrib.errors import InvalidToolError
from toolcrib.model.record import Record
from toolcrib.redaction import find_secrets

_LOG = logging.getLogger("toolcrib.discovery")
COLLECTION: Final = "learned"
"""The collection of texts in the store."""
UNNAMED: Final = "?"
"""How the owners begin that name themselves; they may have many names, so all of them count as one."""
MAX_QUESTIONS: Final = 20
"""The maximum number of questions of one owner for one tool."""
MAX_OF_OWNER: Final = 1_000
"""The maximum number of questions of one owner; all unnamed clients are one owner here."""
MAX_TOTAL: Final = 5_000
"""The maximum number of questions of all owners; beyond it the owner with the most loses the oldest."""
MAX_LENGTH: Final = 300
"""The maximum length of a question; longer ones are not learned."""
_LEAST_WORDS = 2
"""The minimum number of telling words of a question that is learned."""
_HALF_LIFE = 90.0
"""Days without use after which a question counts half."""
_MAX_AGE = 270
"""Days without use after which a question is forgotten."""
_DAY = 86_400
_MEANING_SHARE = 0.6
"""The share of the word vectors in a similarity; the rest is that of the words themselves."""
_HASHED = 256
_SIGN = 1 << 20
_LEAST_SIMILARITY = 0.35
_FULL_SIMILARITY = 0.9
_NEAREST = 10
"""The number of similar questions of one owner that a search takes into account, and of all for one tool."""
_ONE_QUESTION = 0.7
"""The lift by one question that is the same as that of the search."""
_OWNER_SHARE = 0.5
"""The maximum of what one owner adds to the lift of a tool in searches of others."""
_MAX_CACHED = 256

T = TypeVar("T")
Floats = NDArray[np.float32]
Encode = Callable[[Sequence[str]], NDArray[Any]]

_VALUE = re.compile(
    r"""
    "[^"\n]*" | \u201e[^\u201c\u201d\n]*[\u201c\u201d] | \u201c[^\u201d\n]*\u201d    # quoted
    | `[^`\n]*` | (?<!\w)'[^'\n]*'(?!\w) | [\u2018\u201a][^\u2018\u2019\n]*[\u2018\u2019](?!\w)
    | \u00ab[^\u00bb\n]*\u00bb | \u00bb[^\u00ab\n]*\u00ab
    | \u2039[^\u203a\n]*\u203a | [\u300c\u300e][^\u300d\u300f\n]*[\u300d\u300f]
    | \b[a-z][a-z0-9+.-]*://\S+ | \bwww\.\S+                                          # addresses
    | \S+@\S+                                                                      # mail, handles with a host
    | \S+\s+[\[(]?at[\])]?\s+\S+(?:\s+[\[(]?dot[\])]?\s+\w+)+                          # the same in words
    | (?<!\w)@\w+ | (?<!\w)\#\w+                                                      # handles, numbers
    | (?<!\w)~?(?:/[^\s/]+){2,}/? | \b[a-z]:\\\S+ | \\\\\S+ | (?<!\S)[\w.~-]+(?:/[^\s/]+){2,}/?  # paths
    | (?<!\w)\S*\.(?:[a-z]{2,4}\d?)(?!\w)                                             # files and hosts
    | (?<!\w)[^\s\d]*\d\S*                                                            # whatever has a digit
    | (?<!\w)[A-Za-z_\-+/=]{22,}(?!\w) | (?<!\w)(?:sk|pk|rk|gh[a-z]|glpat|xox[a-z])[_-][\w-]{8,}     # keys
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SAID_SECRET = re.compile(
    r"""
    \b((?:pass(?:word|phrase|code|wd) | secret | token | key | pin)\s)
    (?: (?:is|was)\s\S+ | \w+[^\w\s]\S*\w )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""A secret that is said: after the word for it and `is`, or two words joined right after it."""
_WITHIN = re.compile(r"(?:(?<=[\w,;:/] )|(?<=[(\[/\u2013\u2014]))[^\W\d_]\w+(?:[-'\u2019]\w+)*")
"""A word within a sentence; a proper noun if it is capitalised."""
_SPACE = re.compile(r"\s+")
_BEFORE_PUNCTUATION = re.compile(r"\s+(?=[,.;:!?])")

_DESTROYING = frozenset(
    {
        *("abort", "ban", "cancel", "clear", "close", "deactivate", "delete", "destroy", "detach", "disable"),
        *("discard", "drop", "erase", "evict", "expire", "flush", "format", "kill", "overwrite", "prune"),
        *("purge", "remove", "reset", "revert", "revoke", "rm", "rollback", "shutdown", "stop", "terminate"),
        *("truncate", "uninstall", "unlink", "unpublish", "wipe"),
    }
)
"""Words in the names of tools that may destroy something."""
_READ_ONLY = "readOnlyHint=True"
_DESTRUCTIVE = "destructiveHint=True"
_HARMLESS = "destructiveHint=False"


def strip_values(question: str, known: Iterable[str] = ()) -> str:
    """Return a question without what looks like data or secrets.

    These are texts in quotes, addresses, paths, files, whatever has a digit in it, long runs of letters, what
    is said to be a password, and names: capitalised words within a sentence that are not among the `known`
    words.

    >>> strip_values("Mail the invoice 4711 to ann@example.org, please")
    'Mail the invoice to please'
    >>> strip_values("Open an issue for Ann on GitHub", known=["github"])
    'Open an issue for on GitHub'
    """
    own = {word.casefold() for word in known}
    text = question
    for start, end in reversed(list(find_secrets(text))):
        text = text[:start] + " " + text[end:]
    text = _SAID_SECRET.sub(r"\1", _SPACE.sub(" ", text))
    text = _SPACE.sub(" ", _VALUE.sub(" ", text))
    text = _WITHIN.sub(
        lambda found: " " if found[0][0].isupper() and found[0].casefold() not in own else found[0], text
    )
    return _BEFORE_PUNCTUATION.sub("", _SPACE.sub(" ", text)).strip()


def learnable(question: str, known: Iterable[str] = ()) -> str | None:
    """Return a question as it may be learned; None if it is too long, or too little of it is left.

    A question in another language than English is not learned either: its names and nouns cannot be told
    apart, and of its other words alone many questions are made.

    >>> learnable("find 17") is None, learnable("tell me the weather of Oslo tomorrow")
    (True, 'tell me the weather of tomorrow')
    """
    if len(question) > MAX_LENGTH or not is_english(question):
        return None
    text = strip_values(question, known)
    telling = [weight for weight in content_weights(text).values() if weight >= 1]
    return text if len(telling) >= _LEAST_WORDS else None


def may_destroy(tool_id: str, facets: Iterable[str]) -> bool:
    """Return whether a tool may destroy something: by its hints, or without any by its name.

    >>> may_destroy("files:delete_file", ()), may_destroy("files:read_file", ())
    (True, False)
    >>> may_destroy("files:delete_file", ["destructiveHint=False"])
    False
    """
    hints = set(facets)
    if _READ_ONLY in hints or _HARMLESS in hints:
        return False
    name = tool_id.split(":")[1 if ":" in tool_id else 0]
    return _DESTRUCTIVE in hints or not _DESTROYING.isdisjoint(words(name))


class LearnedQuestion(Record):
    """A question that callers asked before they ran a tool."""

    tool_id: str
    """The id of the tool, without a version."""
    question: str
    """The question, without values."""
    owner: str = ""
    """A digest of the caller who asked it; empty for a program that names no caller."""
    uses: Annotated[int, Field(ge=0)] = 0
    """The number of runs that succeeded after it."""
    misses: Annotated[int, Field(ge=0)] = 0
    """The number of runs that failed on their arguments, or after which another tool was used for it."""
    day: Annotated[int, Field(ge=0)] = 0
    """The day of the last of them, counted from 1970."""

    @property
    def key(self) -> str:
        """The key of its row: one for each tool, question and owner, whatever case and punctuation."""
        same = " ".join(words(self.question, with_identifiers=False)) or self.question
        digest = blake2b(same.encode(errors="replace"), digest_size=10).hexdigest()
        return f"{self.tool_id} {digest} {self.owner}"


@dataclass(frozen=True, slots=True)
class Similar:
    """A learned question that is similar to that of a search, and what it adds to the lift of its tool."""

    question: str
    lift: float


@dataclass(frozen=True, slots=True)
class Lift:
    """How far learned questions raise a tool in one search."""

    strength: float
    """In (0, 1]."""
    questions: tuple[Similar, ...]
    """The similar questions, the one that adds most first; together they add `strength`."""


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The questions that count, with their vectors; replaced as a whole."""

    day: int
    """The day for which the weights hold."""
    rows: tuple[LearnedQuestion, ...]
    vectors: Floats
    weights: Floats
    """How far each counts, by its uses, its misses and its age."""
    owners: dict[str, NDArray[np.intp]]
    """The places of the rows of each owner."""


def _show_all(_: str) -> bool:
    return True


class LearnedQuestions:
    """Learned questions by tool and owner, kept in a storage. Every method may be called from any thread."""

    def __init__(
        self,
        texts: Texts | None = None,
        *,
        encode: Encode | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the questions in a storage.

        A row that cannot be read is left out with a warning, and stays in the storage until it is forgotten.

        Args:
            texts: where they are kept; None for the memory alone.
            encode: returns the word vectors of texts; without it only shared words count.
            clock: returns the seconds since 1970.

        Raises:
            StoreError: the storage cannot be read.
        """
        self._texts, self._encode, self._clock = TextCollection(texts, COLLECTION), encode, clock
        self._lock = Lock()
        self._rows: dict[str, LearnedQuestion] = {}
        self._stored: dict[str, LearnedQuestion | None] = self._texts.load(_read_row)
        """What the storage has, by its keys; None for a row that cannot be read."""
        self._load()
        self._vectors: dict[str, Floats] = {}
        self._asked: LruCache[str, Floats] = LruCache(_MAX_CACHED)
        self.count = len(self._rows)
        """The number of questions."""
        self._table: _Table | None = None

    def _load(self) -> None:
        """Take the rows from the storage, each by the key that it ought to have, and as many as may be."""
        for key, row in self._stored.items():
            if row is None:
                _LOG.warning(
                    "the learned question %r cannot be read and is left out; `toolcrib learned forget --all` "
                    "deletes it",
                    key,
                )
            elif row.key == key or row.key not in self._stored:
                self._rows[row.key] = row
        self._rows = _limit_numbers(self._rows)

    def learn(self, uses: Iterable[LearnedQuestion]) -> None:
        """Add uses and misses to the questions that they name; the `day` of each is set to today.

        Raises:
            StoreError: they cannot be stored; nothing is learned then.
        """
        today = self._today()
        with self._lock:
            rows = dict(self._rows)
            for use in uses:
                key = use.key
                known = rows.get(
                    key, LearnedQuestion(tool_id=use.tool_id, question=use.question, owner=use.owner)
                )
                rows[key] = known.replace(
                    uses=known.uses + use.uses, misses=known.misses + use.misses, day=today
                )
            self._store(_limited(rows, today))

    def forget(
        self,
        tool_id: str | None = None,
        question: str | None = None,
        owner: str | None = None,
        shows: Callable[[str], bool] = _show_all,
    ) -> int:
        """Delete the questions of a tool, of an owner, or all of them; return how many.

        Those of a tool for whose id `shows` is false are left alone.

        Raises:
            StoreError: they cannot be deleted; all are there still.
        """
        with self._lock:
            gone = {
                key
                for key, row in self._rows.items()
                if tool_id in {None, row.tool_id}
                and question in {None, row.question}
                and owner in {None, row.owner}
                and shows(row.tool_id)
            }
            unreadable = [
                key
                for key, row in self._stored.items()
                if row is None
                and question is None
                and (tool_id is None or key.startswith(f"{tool_id} "))
                and (owner is None or key.endswith(f" {owner}"))
                and shows(key.partition(" ")[0])
            ]
            self._store({key: row for key, row in self._rows.items() if key not in gone}, unreadable)
        return len(gone) + len(unreadable)

    def listed(self, tool_id: str | None = None, owner: str | None = None) -> tuple[LearnedQuestion, ...]:
        """Return the questions of a tool, of an owner, or all of them: by tool, the most used first."""
        rows = [
            row
            for row in self._rows.values()
            if tool_id in {None, row.tool_id} and owner in {None, row.owner}
        ]
        return tuple(sorted(rows, key=lambda row: (row.tool_id, row.misses - row.uses, row.key)))

    def lifts(self, query: str, owner: str | None) -> dict[str, Lift]:
        """Return how far the questions of an owner, or with None those of all, raise each tool."""
        table = self._table
        if table is None or table.day != self._today():
            table = self._make_table()
        places = None if owner is None else table.owners.get(owner)
        if not table.rows or (owner is not None and places is None):
            return {}
        asked = self._asked.get(query)
        if asked is None:
            asked = self._encode_texts([strip_values(query[: 4 * MAX_LENGTH])])[0]
            self._asked.put(query, asked)
        among = slice(None) if places is None else places
        similar = table.vectors[among] @ asked
        near = np.clip((similar - _LEAST_SIMILARITY) / (_FULL_SIMILARITY - _LEAST_SIMILARITY), 0, 1)
        near *= table.weights[among]
        found = np.flatnonzero(near)
        best = found[np.lexsort((found, -near[found]))]
        rows = best if places is None else places[best]
        return _lifts(
            [table.rows[row] for row in rows.tolist()], near[best].tolist(), is_shared=owner is None
        )

    def _today(self) -> int:
        return int(self._clock() // _DAY)

    def _store(self, rows: dict[str, LearnedQuestion], unreadable: Collection[str] = ()) -> None:
        """Write the difference to the storage as one batch, and replace the rows.

        Rows that cannot be read stay, except those named.
        """
        stored = self._stored
        put = {key: row.to_json() for key, row in rows.items() if stored.get(key) is not row}
        gone = [key for key, row in stored.items() if row is not None and key not in rows]
        self._texts.write(put, [*gone, *unreadable])
        kept = {key: None for key, row in stored.items() if row is None and key not in unreadable}
        self._stored = {**kept, **rows}
        self._rows, self.count = rows, len(rows)
        self._table = None

    def _make_table(self) -> _Table:
        """Compute the table of the rows as they are now."""
        with self._lock:
            rows, today = self._rows, self._today()
            counted = [
                (key, row, weight) for key, row in sorted(rows.items()) if (weight := _weight(row, today)) > 0
            ]
            known = self._vectors
            missing = [(key, row.question) for key, row, _ in counted if key not in known]
            made = self._encode_texts([question for _, question in missing])
            new = {key: vector for (key, _), vector in zip(missing, made, strict=True)}
            self._vectors = {key: new[key] if key in new else known[key] for key, _, _ in counted}
            owners: dict[str, list[int]] = defaultdict(list)
            for place, (_, row, _) in enumerate(counted):
                owners[row.owner].append(place)
            self._table = _Table(
                today,
                tuple(row for _, row, _ in counted),
                np.stack([*self._vectors.values()]) if counted else np.zeros((0, 1), np.float32),
                np.array([weight for _, _, weight in counted], np.float32),
                {owner: np.array(places, np.intp) for owner, places in owners.items()},
            )
            return self._table

    def _encode_texts(self, texts: Sequence[str]) -> Floats:
        """Return a row of length 1 for each text: its word vectors, and its words hashed."""
        if not texts:
            return np.zeros((0, 1), np.float32)
        hashed = np.stack([_hash_words(text) for text in texts])
        if self._encode is None:
            return hashed
        meaning = np.asarray(self._encode(texts), np.float32)
        # A text of unknown words alone has no vector; its words count for all then.
        known = meaning.any(axis=1, keepdims=True)
        share = np.where(known, np.float32(sqrt(1 - _MEANING_SHARE)), np.float32(1))
        return np.hstack((meaning * np.float32(sqrt(_MEANING_SHARE)), hashed * share)).astype(np.float32)


def _read_row(text: str) -> LearnedQuestion | None:
    """Read a row of the storage; None if it cannot be read."""
    try:
        return LearnedQuestion.from_json(text)
    except InvalidToolError:
        return None


def _hash_words(text: str) -> Floats:
    """Return the telling words of a text as a vector of length 1, by the hashing trick."""
    row = np.zeros(_HASHED, np.float32)
    for word, weight in content_weights(text).items():
        place = crc32(word.encode(errors="replace"))
        row[place % _HASHED] += weight if place & _SIGN else -weight
    length = float(np.linalg.norm(row))
    return row / np.float32(length) if length else row


def _weight(row: LearnedQuestion, today: int) -> float:
    """Return how far a question counts: 1 for one that was used today and never in vain."""
    surplus = row.uses - row.misses
    if surplus <= 0:
        return 0.0
    return float(surplus / (row.uses + row.misses) * 0.5 ** (max(today - row.day, 0) / _HALF_LIFE))


def _limited(rows: dict[str, LearnedQuestion], today: int) -> dict[str, LearnedQuestion]:
    """Return rows without those that are too old or too many."""
    return _limit_numbers({key: row for key, row in rows.items() if today - row.day <= _MAX_AGE})


def _limit_numbers(rows: dict[str, LearnedQuestion]) -> dict[str, LearnedQuestion]:
    """Return rows without those that are too many: of a tool and owner, of an owner, and in all."""
    kept = _limit_groups(rows, lambda row: (row.tool_id, row.owner), lambda _: MAX_QUESTIONS)
    limits = _share_out(Counter(_payer(row.owner) for row in kept.values()))
    return _limit_groups(kept, lambda row: _payer(row.owner), lambda owner: limits[owner])


def _share_out(counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many rows each owner keeps: as if the one with the most lost one at a time."""
    limits, left = {}, MAX_TOTAL
    smallest_first = sorted(counts, key=lambda owner: (counts[owner], owner))
    for place, owner in enumerate(smallest_first):
        others = len(counts) - place
        fair = left // others + (left % others > 0 and counts[owner] > left // others)
        limits[owner] = min(counts[owner], fair, MAX_OF_OWNER)
        left -= limits[owner]
    return limits


def _limit_groups(
    rows: dict[str, LearnedQuestion],
    group_of: Callable[[LearnedQuestion], T],
    limit_of: Callable[[T], int],
) -> dict[str, LearnedQuestion]:
    """Return rows, of each group at most its limit: those that count most."""
    groups: dict[T, list[str]] = defaultdict(list)
    for key, row in rows.items():
        groups[group_of(row)].append(key)
    dropped = {
        key
        for group, keys in groups.items()
        if len(keys) > (limit := limit_of(group))
        for key in sorted(keys, key=lambda key: _rank(rows, key))[: len(keys) - limit]
    }
    return {key: row for key, row in rows.items() if key not in dropped} if dropped else rows


def _rank(rows: Mapping[str, LearnedQuestion], key: str) -> tuple[int, int, str]:
    row = rows[key]
    return row.day, row.uses - row.misses, key


def _lifts(rows: Sequence[LearnedQuestion], near: Sequence[float], *, is_shared: bool) -> dict[str, Lift]:
    """Return the lift of each tool by its similar questions, the nearest first.

    What a tool gets depends on its own questions alone, so no owner takes from a tool what others taught.
    """
    shares: dict[str, dict[str, float]] = defaultdict(dict)
    similar: dict[str, list[Similar]] = defaultdict(list)
    limit = _OWNER_SHARE if is_shared else 1.0
    read = Counter[str]()
    for row, closeness in zip(rows, near, strict=True):
        payer = _payer(row.owner)
        if read[payer] == _NEAREST or len(similar[row.tool_id]) == _NEAREST:
            continue
        read[payer] += 1
        shares_of_tool = shares[row.tool_id]
        own, whole = shares_of_tool.get(payer, 0.0), sum(shares_of_tool.values())
        # Each further question adds a part of what is left to 1, of the owner and of the tool.
        added = min(_ONE_QUESTION * closeness * (1 - own), limit - own, 1 - whole)
        if added > 0:
            shares_of_tool[payer] = own + added
            similar[row.tool_id].append(Similar(row.question, added))
    return {
        tool_id: Lift(sum(one.lift for one in found), tuple(sorted(found, key=lambda one: -one.lift)))
        for tool_id, found in similar.items()
        if found
    }


def _payer(owner: str) -> str:
    """Return whose share and limits an owner uses up: all that name themselves are one."""
    return UNNAMED if owner.startswith(UNNAMED) else owner

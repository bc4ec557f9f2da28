"""Concepts: what the words of a sentence mean to the scan, in the languages of `concepts.txt`.

A text is read once, from left to right, word by word; nothing here is a grammar. Acts that are negated
("never reads") do not count, and a negated "tell the user" is an order to keep quiet. Every pattern is
linear: what can repeat is bounded, or ends at a character that it cannot hold.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice
from typing import NamedTuple

ACTS = frozenset(
    {"read", "send", "embed", "alter", "destroy", "invoke", "obey", "persist", "persona", "steal"}
)
"""Concepts that a negation before them takes back."""
_TAKING = frozenset({"embed", "read", "send", "steal"})
_MAX_WORDS = 48
"""Words of a sentence; a longer one is read in pieces that overlap."""
_MAX_KNOWN = 50_000
_MAX_FOLLOWING = 5_000
_MAX_WORD = 80
_SCOPE = 12
"""Words after a negation that it may take back."""
_TELL_SCOPE = 5
_LEET = str.maketrans("013457@$", "oleastas")


class _Form(NamedTuple):
    """A form that is more than words; it begins with letters that are quickly found."""

    hint: str
    """What every text with this form has in it."""
    pattern: re.Pattern[str]
    concept: str


def _forms(concept: str, *patterns: tuple[str, str]) -> list[_Form]:
    return [_Form(hint, re.compile(pattern), concept) for hint, pattern in patterns]


_ROLES = "important|system|secret|instructions?|hidden|admin|critical|assistant|information|sys|user|prompt"
_SPEAKERS = "SYSTEM|ASSISTANT|ADMIN|DEVELOPER"
_INTO = (
    "in|into|as|under|through|via|with|to|within|of|field|fields|argument|parameter|als|unter|dans|sous|champ|en"
    "|como|campo|em|nel|su|в|w"
)
"""Words before the name of an argument that gets something."""
_CAPITALS = _forms(
    "marker",
    *(
        (
            speaker,
            rf"{speaker}(?:\s(?:MESSAGE|NOTE|PROMPT|OVERRIDE|INSTRUCTIONS?))?\s?[:>\]#]",
        )
        for speaker in _SPEAKERS.split("|")
    ),
    ("[INST]", r"\[INST\]"),
)
"""Forms that are known by their capitals."""
_FORMS = [
    *_forms(
        "marker",
        ("<", rf"</?(?:{_ROLES}|cmd|command|override|directive|task|mandatory|internal)\b[^<>\n]{{0,40}}>"),
        ("<|", r"<\|[a-z_]{2,20}\|>"),
        ("<!--", r"<!--"),
        ("{{", r"\{\{\s?system"),
        ("system>", r"system>"),
        ("##", r"#{2,4}\s?(?:new\s)?(?:system|instruction)"),
        ("[", r"\[\[?\s?(?:to\sthe\s)?(?:system|assistant|ai|model|admin|llm)\b(?!\w*\])"),
    ),
    *_forms(
        "url",
        *((scheme, rf"{scheme}s?://[^\s\"'<>)`\]]{{1,300}}") for scheme in ("http", "ftp", "hxxp", "ws")),
    ),
    *_forms("slot", ("`", rf"\b(?:{_INTO})\s(?=`[\w.-]{{1,60}}`)")),
    *_forms("email", ("@", r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,32}){1,4}")),
    *_forms(
        "url",
        *(
            (f".{end}", rf"[a-z0-9][a-z0-9.-]{{1,80}}\.{end}\b(?!-|\.?\w)[\w/?=&%-]{{0,200}}")
            for end in ("example", "com", "net", "org", "io", "xyz", "site", "online", "top", "ru", "cn")
        ),
    ),
    *_forms(
        "shell",
        *(
            (tool, rf"{tool}\s[^\n|;&]{{0,200}}[|;&]{{1,2}}\s?(?:sudo\s)?(?:ba|z|da)?sh\b")
            for tool in ("curl", "wget")
        ),
        ("rm -", r"rm\s-[a-z]{0,4}[rf][a-z]{0,4}\b"),
        ("/dev/tcp/", r"/dev/tcp/\S{0,80}"),
        ("chmod", r"chmod\s(?:\+x|[0-7]{3,4})\b"),
        ("mkfifo", r"mkfifo\b"),
        ("powershell", r"powershell(?:\.exe)?\s-[a-z]"),
        ("base64 -", r"base64\s(?:-d|--decode)\b"),
        ("ssh-", r"ssh-(?:rsa|ed25519)\saaaa[\w+/=]{0,400}"),
        ("eval", r"eval(?<!\weval)(?<!\w eval)\s?\("),
        ("os.system", r"os\.system\b"),
        ("git push", r"git\spush\b"),
        ("crontab", r"crontab\b"),
        ("> ~/.", r">>?\s?~/\."),
        ("sudo ", r"sudo\s"),
        ("/bin/", r"/bin/(?:ba|z|da)?sh\b"),
    ),
    *_forms(
        "secret_path",
        *(
            (name, re.escape(name) + r"\b[\w/\\.-]{0,100}")
            for name in (
                ".ssh", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "/etc/passwd", "/etc/shadow",
                "/etc/sudoers", ".aws", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".kube",
                ".gnupg", ".docker/config", ".config/gcloud", ".config/gh", "application_default_credentials",
                "wallet.dat", ".pem", ".bash_history", ".zsh_history", "mcp.json", "claude_desktop_config",
                "credentials.json", "credentials.yml", "credentials.csv", "secrets.json", "secrets.yml",
                "secrets.yaml", "/proc/self/environ", "printenv", ".vault-token",
            )
        ),
        (".env", r"(?<![\w.])\.env\b(?!\.example)[\w.-]{0,40}"),
    ),
    *_forms(
        "path",
        *(
            (root, root + r"[\w./-]{1,200}")
            for root in ("~/", "/etc/", "/home/", "/root/", "/users/", "/var/", "/usr/", "/absolute/")
        ),
        (":\\", r"[a-z]:\\[\w.\\-]{1,200}"),
    ),
]  # fmt: skip
_IN_PIECES = frozenset(
    {"@", *(form.hint for form in _FORMS if form.hint[0] == "." and form.concept == "url")}
)
"""Hints of forms that begin with any letters, and so are looked for only in the words that have them."""
_SIGNS = "./~<>[{#@\\_:"
"""Signs in hints. Most texts have few of them, and then cannot have most of the forms."""
_DOTTED = re.compile(
    "|".join({rf"\.{re.escape(form.hint.partition('.')[2])}" for form in _FORMS if "." in form.hint})
)
"""What follows the dot of a hint."""
_MAYBE_EMAIL = re.compile(r"@[\w-]{1,64}\.[\w-]")
_MAYBE_IP = re.compile(r"\.\d{1,3}\.\d")
"""What every address has in it; beginning with a fixed character, it is found faster than the whole."""
_IP = re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")
_ALL_FORMS = [*_CAPITALS, *_FORMS, _Form("", _IP, "ip")]
_PLACEHOLDERS = {f"zz{place}": form.concept for place, form in enumerate(_ALL_FORMS)}
_PLACEHOLDER = re.compile(r"\bzz(\d{1,3})\b")
_TOKENS = re.compile(
    r"\w+|[.!?;](?=[\s\"')\]<]|$)|[。！？；।؟۔،、，,]|\n(?=\s*(?:\n|[-*#•]|\w[\w ]{0,30}:))"  # noqa: RUF001
)
_STOPS = frozenset(".!?;。！？；।؟۔\n")  # noqa: RUF001
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_DIGIT_INSIDE = re.compile(r"[a-z][013457]|[013457][a-z]")

Phrase = tuple[tuple[str, ...], str]
"""The words after the first, and the concept of the whole."""


class Word:
    """What a word means."""

    __slots__ = ("_before", "concepts", "inside", "phrases")

    def __init__(
        self, concepts: tuple[str, ...], phrases: tuple[Phrase, ...] = (), inside: tuple[str, ...] = ()
    ) -> None:
        self.concepts = concepts
        self.phrases = phrases
        """The phrases that begin with it, the longest first."""
        self.inside = inside
        """The concepts in a run of text without spaces, in their order."""
        self._before: dict[str, tuple[Phrase, ...]] = {}

    def phrases_before(self, word: str) -> tuple[Phrase, ...]:
        """Return those of its phrases whose second word may be a word."""
        found = self._before.get(word)
        if found is None:
            if len(self._before) > _MAX_FOLLOWING:
                self._before.clear()
            found = self._before[word] = tuple(each for each in self.phrases if _is(word, each[0][0]))
        return found

    def concepts_in(self, run: tuple[str, ...]) -> set[str] | None:
        """Return the concepts of it and of its phrases in a run that begins with it.

        None if a phrase may go on after the run.
        """
        found = {*self.concepts, *self.inside}
        for rest, concept in self.phrases_before(run[1]) if len(run) > 1 else self.phrases:
            if all(map(_is, run[1:], rest)):
                if len(rest) >= len(run):
                    return None
                found.add(concept)
        return found


class _Entry(NamedTuple):
    """What the list of concepts says of a word, or of all words with a beginning."""

    concepts: set[str]
    phrases: list[Phrase]
    """The phrases that begin with it."""

    @classmethod
    def make(cls) -> "_Entry":
        return cls(set(), [])


class Lexicon(dict[str, Word | None]):
    """The words of each concept; a word in lower case has what it means, None where that is nothing.

    >>> Lexicon("secret: password*, api key")["passwords"].concepts
    ('secret',)
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._exact: dict[str, _Entry] = defaultdict(_Entry.make)
        self._beginnings: dict[str, _Entry] = defaultdict(_Entry.make)
        """What words mean that begin so."""
        self._unspaced: dict[str, str] = {}
        self.concepts: list[str] = []
        """The names of the concepts."""
        for line in text.splitlines():
            if line and not line.startswith("#"):
                concept, _, entries = line.partition(":")
                self.concepts.append(concept)
                for entry in entries.split(","):
                    self._add(concept, entry.strip().lower())
        longest_first = sorted(self._unspaced, key=len, reverse=True)
        self._runs = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._restart()

    def _add(self, concept: str, entry: str) -> None:
        if _UNSPACED.search(entry):
            self._unspaced[entry.rstrip("*")] = concept
            return
        words = re.findall(r"\w+\*?", entry)
        if not words:
            return
        if len(words) > 1:
            self._entry(words[0]).phrases.append((tuple(words[1:]), concept))
        else:
            self._entry(words[0]).concepts.add(concept)

    def _entry(self, word: str) -> "_Entry":
        return self._beginnings[word[:-1]] if word[-1] == "*" else self._exact[word]

    def _restart(self) -> None:
        self.clear()
        self.update({name: Word((concept,)) for name, concept in _PLACEHOLDERS.items()})

    def __missing__(self, word: str) -> Word | None:
        if len(self) > _MAX_KNOWN:
            self._restart()
        found = self[word] = self._look_up(word) or self._look_up_digits(word)
        return found

    def _look_up(self, word: str) -> Word | None:
        if not word.isascii() and _UNSPACED.search(word):
            inside = tuple(self._unspaced[each] for each in self._runs.findall(word))
            return Word((), inside=inside) if inside else None
        entries = self._entries(word)
        concepts = {concept for each in entries for concept in each.concepts}
        phrases = [phrase for each in entries for phrase in each.phrases]
        if concepts or phrases:
            longest_first = tuple(sorted(phrases, key=lambda each: -len(each[0])))
            # A word that is an act and its negation, as Turkish has them, is the act first.
            in_order = tuple(sorted(concepts, key=lambda each: (each == "negation_after", each)))
            return Word(in_order, longest_first)
        return Word(("name",)) if "_" in word.strip("_") else None

    def _look_up_digits(self, word: str) -> Word | None:
        """Return what a word means whose letters are written as digits: `1gn0re`."""
        return self._look_up(word.translate(_LEET)) if _DIGIT_INSIDE.search(word) else None

    def _entries(self, word: str) -> "list[_Entry]":
        """Return the entries of a word: its own, and those of what it begins with, the shortest first."""
        found = [self._exact[word]] if word in self._exact else []
        starts = (word[:end] for end in range(2, min(len(word), _MAX_WORD) + 1))
        found += [self._beginnings[each] for each in starts if each in self._beginnings]
        return found


@cache
def lexicon() -> Lexicon:
    """Return the lexicon of the package."""
    return Lexicon(files(__package__).joinpath("concepts.txt").read_text(encoding="utf-8"))


@lru_cache(_MAX_KNOWN)
def split_name(name: str) -> str:
    """Return a name as words.

    >>> split_name("llmModel_name")
    'llm Model name'
    """
    return _CAMEL.sub(" ", name).replace("_", " ").replace("-", " ")


def mark_forms(text: str, kept: dict[int, list[str]] | None = None) -> str:
    """Return a text in lower case, with a word in place of each address, path, tag and piece of shell.

    Args:
        text: any text.
        kept: gets what stood in place of each word, in their order; for `excerpt_of`.
    """
    for place, (hint, pattern, _) in enumerate(_CAPITALS):
        if hint in text:
            text = _replace(place, pattern, text, kept)
    text = text.lower()
    signs = "".join([sign for sign in _SIGNS if sign in text])
    if "." in signs and not _DOTTED.search(text):
        signs = signs.replace(".", "")
    for place, (hint, pattern, _) in _forms_with(signs):
        if hint in text and (hint != "@" or _MAYBE_EMAIL.search(text)):
            text = _replace(place, pattern, text, kept, hint=hint if hint in _IN_PIECES else "")
    if _MAYBE_IP.search(text):
        text = _replace(len(_ALL_FORMS) - 1, _IP, text, kept)
    return text


@cache
def _forms_with(signs: str) -> list[tuple[int, _Form]]:
    """Return the forms, with their places, that a text with some signs may have."""
    numbered = enumerate(_FORMS, len(_CAPITALS))
    return [each for each in numbered if all(sign in signs for sign in _SIGNS if sign in each[1].hint)]


def _replace(
    place: int,
    pattern: re.Pattern[str],
    text: str,
    kept: dict[int, list[str]] | None,
    *,
    hint: str = "",
) -> str:
    if kept is not None:
        kept[place] = pattern.findall(text)
    word = f" zz{place} "
    if hint:  # what begins with any letters is looked for only beside what it must hold
        return " ".join(pattern.sub(word, each) if hint in each else each for each in text.split(" "))
    return pattern.sub(word, text)


def words_of(marked: str) -> list[str]:
    """Return the words of a text that `mark_forms` returned, and the signs that end sentences."""
    return _TOKENS.findall(marked)


def excerpt_of(text: str, first: int, last: int) -> str:
    """Return some words of a text, in lower case, with the forms as they were written."""
    kept: dict[int, list[str]] = {}
    marked = mark_forms(text, kept)
    spans = [found.span() for found in islice(_TOKENS.finditer(marked), last)]
    start, end = spans[first][0], spans[-1][1]
    skipped = Counter(map(int, _PLACEHOLDER.findall(marked[:start])))
    forms = {place: iter(found[skipped[place] :]) for place, found in kept.items()}
    # A text may itself hold such a word, for a form that it does not have.
    shown = _PLACEHOLDER.sub(lambda found: next(forms.get(int(found[1]), iter(())), "…"), marked[start:end])
    return " ".join(shown.split())


def split_sentences(words: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the first word of each sentence, and the one after its last; long ones in pieces that overlap."""
    start = 0
    for place in (*(place for place, word in enumerate(words) if word in _STOPS), len(words)):
        if place - start <= _MAX_WORDS:
            if place > start:
                yield start, place
        else:
            for first in range(start, place - _MAX_WORDS // 2, _MAX_WORDS // 2):
                yield first, min(place, first + _MAX_WORDS)
        start = place + 1


def read_sentence(words: list[str], own: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the concepts of a sentence.

    Args:
        words: of a sentence, as `words_of` returns them.
        own: names in lower case that are the definition's own, and no other tool's.
    """
    known = enumerate(map(lexicon().__getitem__, words))
    return _read(words, [(place, word) for place, word in known if word is not None], own)


def _meanings(
    words: list[str], events: list[tuple[int, Word]], own: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Yield the concepts of a sentence in their order; a phrase stands for its words."""
    after = 0
    for place, word in events:
        if place < after:
            continue
        for each in word.inside:
            yield place, each
        following = place + 1
        known = word.phrases_before(words[following]) if word.phrases and following < len(words) else ()
        for rest, concept in known:
            if len(rest) == 1 or _follows(words, following + 1, rest[1:]):
                yield place, concept
                after = following + len(rest)
                break
        else:
            for each in word.concepts:
                if each != "name" or words[place] not in own:
                    yield place, each


def _read(words: list[str], events: list[tuple[int, Word]], own: frozenset[str]) -> frozenset[str]:
    found: set[str] = set()
    denied = told = -1
    is_denied = False
    for place, concept in _meanings(words, events, own):
        if concept == "negation":
            # "Never answers without reading" has it read.
            is_double = place < denied and _means(words[place : place + 1], "without")
            denied = -1 if is_double else place + _SCOPE
            if not is_double and _forbids(words, place):
                told = place + _TELL_SCOPE
        elif concept in {"until", "then"}:
            denied = -1
        elif concept == "negation_after":
            is_denied = is_denied or not _TAKING.isdisjoint(found)
            found = _deny(found)
        elif place <= told and _hides(words, place, concept):
            found.add("hush")
        elif concept not in ACTS or place > denied:
            found.add(concept)
            is_denied = is_denied or (concept == "oblige" and place <= denied)
        else:
            is_denied = is_denied or concept in _TAKING
    # What is read or sent all the same is not denied by a denial beside it.
    if is_denied and _TAKING.isdisjoint(found):
        found.add("denied")
    return frozenset(found)


def _deny(found: set[str]) -> set[str]:
    """Return concepts without the acts that a negation after them takes back."""
    return (found - ACTS) | ({"hush"} if {"tell", "user"} <= found else set())


def _hides(words: list[str], place: int, concept: str) -> bool:
    """Return whether a forbidden "tell" or "show" is about the user."""
    if concept == "tell":
        near = words[max(0, place - 4) : place + 9]
        return _means(near, "user") or _means(near, "pronoun")
    return concept == "show" and _means(words[place : place + 11], "user")


def _means(words: list[str], concept: str) -> bool:
    return any(each and concept in each.concepts for each in map(lexicon().__getitem__, words))


def _forbids(words: list[str], place: int) -> bool:
    """Return whether a negation is an order: "do not", "without", and not "is not"."""
    word, before = words[place], words[place - 1] if place else ""
    if word in {"not", "t"}:
        return before in {"do", "don", "must", "should", "to", "shall", "need", "may", "please"}
    if word == "no":
        return words[place + 1 : place + 2] == ["need"]
    return word not in {"cannot", "neither", "nor", "none", "nothing"}


def _follows(words: list[str], place: int, rest: tuple[str, ...]) -> bool:
    return place + len(rest) <= len(words) and all(map(_is, words[place : place + len(rest)], rest))


def _is(word: str, wanted: str) -> bool:
    return word == wanted or (wanted[-1] == "*" and word.startswith(wanted[:-1]))

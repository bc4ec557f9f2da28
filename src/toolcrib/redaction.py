"""Redaction: exceptions and texts of others without secrets, and with nothing about this machine.

Secrets are found in two ways. `hide_secrets` knows forms (`ghp_...`, `password=...`) and serves any text.
`KnownSecrets` has the exact values that the settings of a server mark as secret, and finds them in what that
server sends, in their common encodings too. `named_secrets` decides which values of settings those are.

Every pattern here is linear: none can begin twice in one run of characters, and what it has read it never
reads again. A lookahead stands in an atomic group and not in a possessive repetition, in which Python
3.11.2 passes over it.
"""

import base64
import binascii
import html
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from toolcrib.errors import Problem, ToolcribError
from toolcrib.errors.text import truncate
from toolcrib.model.plain import parse_json, walk
from toolcrib.paths import HOME

_MAX_LENGTH = 2000
_MAX_VALUES = 10_000
"""Values of the arguments that are looked at."""
_MAX_PATHS = 200
"""Values that are read as paths."""
_MAX_PATH_LENGTH = 500
"""Characters of a path that are read."""
_MARK = "[secret]"
_SITE = re.compile(r'(?<!\s)\s*+File "[^"]*+", line \d++(?:, in \S++)?')

_ROOTS = frozenset(
    {
        "Applications", "Library", "System", "Users", "Volumes", "bin", "boot", "dev", "etc", "home", "lib",
        "lib64", "mnt", "nix", "opt", "private", "proc", "root", "sbin", "srv", "sys", "tmp", "usr", "var",
    }
)  # fmt: skip
"""Directories at the root of a machine; by these a path is known even where it is short."""
_PATH = re.compile(
    r"""
    (?P<address>(?<![\w+.-])(?!file:)[a-z][a-z0-9+.-]++://[^\s/'"<>][^\s'"<>]*+)     # kept: it is elsewhere
    | (?<=')(?:~\w*+)?/++[^\s/'":;,]++/++[^\s/'":;,][^'":;,\n]*+(?=')                # '/home/anna/My Notes/x'
    | (?<=")(?:~\w*+)?/++[^\s/'":;,]++/++[^\s/'":;,][^'":;,\n]*+(?=")
    | (?<![^\W_])[a-z]:[\\/]++[^\s'"<>|:;,]++                                        # C:\Users, C:/Users
    | (?<![\w\\])\\{2,4}+(?:[?.]\\++)?(?:[a-z]:)?[^\s\\/'"<>|:;,]*+\\++[^\s'"<>|:;,]++   # \\server\share
    | (?:(?<![\w/\\~])|(?<=\s-[a-z])|(?<=\\[nrt]))                                   # -I/usr, '\n/usr'
      (?P<home>~(?:[a-z_][\w.-]*+)?)?(?P<rest>(?:/++[^\s/'"<>|:;,]++)++/*+)          # /home/anna, ~anna/x
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SEGMENTS = re.compile(r"[^/\\]+")
_WEAK = frozenset(".*")
"""Before these a path is most likely relative, and what it is relative to is unknown."""

_KNOWN_KEYS = r"""
        gh[a-z]_\w{20,}+ | github_pat_\w{20,}+ | glpat-[\w-]{16,}+ | xox[a-z]-[\w-]{10,}+
        | xapp-[\w-]{20,}+ | npm_\w{30,}+ | hf_[A-Za-z]{30,}+ | pypi-[\w-]{50,}+ | dop_v1_[0-9a-f]{60,}+
        | SG\.[\w-]{16,}+\.[\w-]{16,}+ | shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32,}+ | ya29\.[\w-]{20,}+
        | GOCSPX-[\w-]{20,}+ | glsa_\w{32,}+
        | A[KS]IA[0-9A-Z]{16}(?!\w) | AIza[\w-]{30,}+ | eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]++
        | (?=[\w-]{0,60}\d)(?:sk-[\w-]{12,}+ | [rsp]k_(?:live|test)_\w{10,}+)
"""
"""Keys and tokens of known forms."""
_KEY_IN_PIECES = re.compile(_KNOWN_KEYS.replace(r"(?!\w)", ""), re.VERBOSE)
"""Such a key, whatever stands before and after it."""
_SECRET = re.compile(
    r"""
    (?P<pem>-----BEGIN\ [A-Z\ ]{0,30}PRIVATE\ KEY-----[^-]*+(?:-----END\ [A-Z\ ]{0,40}-----)?)
    | (?P<known>(?<![\w-])(?-i:
"""
    + _KNOWN_KEYS
    + r""" ))
    | (?P<login>(?<=://)[^\s/@:'"]++:[^\s/@'"]++(?=@))
    | (?P<scheme>(?<![^\W_])(?:bearer\s{1,3}|authorization\\?["']?\s{0,3}[:=]\s{0,3}\\?["']?
        (?P<kind>(?:bearer|basic|digest|negotiate|token)\s{1,3})?+))
      (?P<credentials>(?:\$\{[^\s{}"']{1,80}\}|[\w.~+/-])++=*+)(?!")
    | (?P<name>(?<![^\W_])(?:passw(?:or)?d|pwd|passphrase|secret|token|credentials?
        |(?:api|access|secret|private|auth)[_-]?key|client[_-]?secret)
        (?P<mark>\\?["'])?\s{0,3}(?P<sign>[:=])\s{0,3})
      (?P<quote>\\?["'])?+(?!-?\[secret\])(?P<value>(?(quote)(?>(?:(?!(?P=quote))(?:\\.|[^\n]))+)
        |(?:<[^<>\s"'][^<>\n"']{0,60}>|(?:\$?\{[^\s{}"']{1,80}\}|[^\s"'&;,)\]}])++)))
      (?P<prose>(?=\s[a-z]))?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MAYBE_SECRET = re.compile(r"[:=]|[\w.-]{15}|-----BEGIN|bearer\s", re.IGNORECASE)
"""What every text with a secret has in it; most short texts have none of it, and are read no further."""
_REFERENCE = re.compile(r"\$\{(?:[A-Za-z]+:)?[A-Za-z_][\w.-]{0,80}(?::-default)?\}|\{env:[A-Za-z_]\w{0,80}\}")
"""A value that stands elsewhere; one with a default in it may be a secret."""
_NO_SECRET = re.compile(
    r"""none|null|true|false|undefined|yes|no|on|off|\d{1,5}|\.\.\.|<[^<>]+>
    |debug|info|warn(?:ing)?|error|trace|verbose|quiet
    |(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?::\d{1,5})?/?
    |(?-i:[A-Z][A-Z0-9]*_(?:[A-Z0-9]+_)*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PAT|CREDENTIALS?))""",
    re.VERBOSE | re.IGNORECASE,
)
"""Switches, levels, this machine, placeholders, and names of variables."""
_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]?[a-z]*[.,]?")
_LEAST = 6
"""Characters of a secret that is known only by the word before it."""


def error_text(error: BaseException, args: Any = None) -> str:
    """Return the text of an exception in a form that may be shown to a model.

    >>> error_text(FileNotFoundError(2, "No such file or directory", "/home/anna/.config/key"))
    "FileNotFoundError: [Errno 2] No such file or directory: '<path>'"
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the __str__ of somebody else's exception may raise anything
        text = ""
    kind = type(error).__name__
    # Where our own errors say what is wrong with a value, that is a pointer into it, and no path.
    problems = getattr(error, "problems", ()) if isinstance(error, ToolcribError) else ()
    pointers = [problem.path for problem in problems if isinstance(problem, Problem)]
    return scrub(f"{kind}: {text}" if text else kind, [args, pointers])


def scrub(text: str, args: Any = None) -> str:
    """Return text without secrets and without paths on this machine, but those named in the arguments.

    A path is named by itself and by what is above or below it, in whole segments. What is long is cut.

    >>> scrub("no /data/shop/x.csv, token=4f8a91c2", {"path": "/data/shop"})
    'no /data/shop/x.csv, token=[secret]'
    """
    clean = hide_secrets(_SITE.sub("", text[: _MAX_LENGTH * 2]))
    if any(not found["address"] for found in _PATH.finditer(clean)):
        named = _Named(args)
        clean = _PATH.sub(lambda found: _without_path(found, named), clean)
    return truncate(clean, _MAX_LENGTH)


def hide_secrets(text: str) -> str:
    """Return text with `[secret]` for keys and tokens of known forms, and for what is called a password.

    >>> hide_secrets("401 for Bearer 4f8a91c2d7 at https://ann:sesame@example.org")
    '401 for Bearer [secret] at https://[secret]@example.org'
    """
    return _SECRET.sub(_without_secret, text)


def find_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of what `hide_secrets` hides: the first character, and the one after the last.

    >>> [text[first:last] for text in ("Bearer 4f8a91c2d7.",) for first, last in find_secrets(text)]
    ['4f8a91c2d7.']
    """
    if not _MAYBE_SECRET.search(text):
        return
    for found in _SECRET.finditer(text):
        shown = _without_secret(found)
        if shown != found.group():  # the mark is at the end, and what is before it stays
            yield found.start() + len(shown) - len(_MARK), found.end()


def find_split_keys(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the places, in all texts together, of keys of known forms that begin in one and end in another.

    >>> list(find_split_keys(["use AKIAIOSF", "ODNN7EXAMPLE", "ghp_"]))
    [(4, 24)]
    """
    joined = "".join(texts)
    starts = [0, *accumulate(map(len, texts))]
    for found in _KEY_IN_PIECES.finditer(joined):
        first, last = found.span()
        begun = bisect_right(starts, first) - 1
        if first > starts[begun] and _is_of_word(joined[first - 1]):
            continue
        # The words of the texts after it may look like more of the key.
        ends = [end for end in starts[begun + 1 : bisect_left(starts, last) + 1] if end < last]
        end = next((each for each in ends if _KEY_IN_PIECES.fullmatch(joined, first, each)), last)
        is_cut = end < len(joined) and end != starts[bisect_left(starts, end)] and _is_of_word(joined[end])
        if end > starts[begun + 1] and not is_cut:
            yield first, end


def _is_of_word(char: str) -> bool:
    return char.isalnum() or char in "_-"


def _without_secret(found: re.Match[str]) -> str:
    whole = found.group()
    if found["scheme"]:
        given = found["credentials"]
        hide = (found["kind"] or _is_opaque(given)) and not is_public(given)
        return f"{found['scheme']}[secret]" if hide else whole
    if found["login"]:
        return whole if not _REFERENCE.sub("", whole).strip(":") else "[secret]"
    return _without_value(found) if found["name"] else "[secret]"


def _without_value(found: re.Match[str]) -> str:
    """Return a name and its value, without the value where that may be a secret."""
    whole = found.group()
    value, quote = found["value"], found["quote"] or ""
    if found["sign"] == ":" and value.startswith("-"):  # the default in `${TOKEN:-default}`
        return whole if value == "-default" or is_public(value[1:]) else f"{found['name']}-[secret]"
    if is_public(value):
        return whole
    # A colon after a word that is not quoted is most likely one of a sentence; so is one before many words.
    is_sentence = found["prose"] is not None or not found["mark"]
    if found["sign"] == ":" and is_sentence and not (quote or _is_opaque(value)):
        return whole
    return f"{found['name']}{quote}[secret]"


def is_public(value: str) -> bool:
    """Return whether a value can be no secret: a reference (`${TOKEN}`), a switch, a level, this machine.

    >>> [is_public(value) for value in ("Bearer ${TOKEN}", "debug", "localhost:8080", "${TOKEN:-s3cret}")]
    [True, True, True, False]
    """
    rest = _REFERENCE.sub("", value)
    if rest != value and not _SCHEME.sub("", rest).strip(" :"):
        return True
    return _NO_SECRET.fullmatch(value) is not None


def _is_opaque(value: str) -> bool:
    return len(value) >= _LEAST and not _WORD.fullmatch(value)


def _without_path(found: re.Match[str], named: "_Named") -> str:
    path = found.group()
    if found["address"]:
        return path
    tail = _tail(path)
    path = path[: len(path) - len(tail)]
    segments = _segments(path)
    if found["rest"] and not found["home"] and not _is_path(found, segments):
        return found.group()
    return path + tail if segments in named else f"<path>{tail}"


def _is_path(found: re.Match[str], segments: tuple[str, ...]) -> bool:
    """Return whether what begins with a slash is a path of a machine."""
    first = next((segment.rstrip(".!?") for segment in segments if segment.strip(".")), "")
    if first in _ROOTS:
        return True
    before = found.string[found.start() - 1] if found.start() else ""
    return len(segments) > 1 and before not in _WEAK


def _tail(path: str) -> str:
    """Return the brackets at the end of a path that were opened before it, and what follows them."""
    end = len(path)
    excess = {close: path.count(close) - path.count(opening) for opening, close in ("()", "[]", "{}")}
    for place in range(len(path) - 1, -1, -1):
        sign = path[place]
        if excess.get(sign, 0) > 0:
            excess[sign] -= 1
            end = place
        elif sign not in ".!?":
            break
    return path[end:]


def _segments(path: str) -> tuple[str, ...]:
    return tuple(_SEGMENTS.findall(path))


class _Named:
    """The paths that arguments name, known by their segments."""

    def __init__(self, args: Any) -> None:
        self._named: set[tuple[str, ...]] = set()
        self._above: set[tuple[str, ...]] = set()
        for segments in map(_segments, _paths_in(args)):
            self._named.add(segments)
            self._above.update(segments[:end] for end in range(1, len(segments) + 1))

    def __contains__(self, path: tuple[str, ...]) -> bool:
        # One segment, such as /home, names a directory and not everything in it; and `..` leads out of any.
        below = () if ".." in path else range(2, len(path))
        return path in self._above or any(path[:end] in self._named for end in below)


def _paths_in(args: Any) -> Iterator[str]:
    """Yield the arguments that begin like a path, and the paths in the others."""
    values = (value for value in islice(walk(args), _MAX_VALUES) if type(value) is str)
    texts: Iterable[str] = (value[:_MAX_PATH_LENGTH] for value in values if "/" in value or "\\" in value)
    for text in islice(texts, _MAX_PATHS):
        found = [each.group() for each in _PATH.finditer(text) if not each["address"]]
        if found and text.startswith(found[0]):
            yield text
        yield from found


def host_of(url: str) -> str:
    """Return the public part of an address: users, paths and queries may be secrets.

    >>> host_of("https://me:pw@example.com:8000/mcp/s3cret?key=1")
    'https://example.com:8000/…'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…" if parts.netloc else "…"


# Settings: which of their values are secret.

_TABLES = frozenset({"env", "environment", "headers", "http_headers"})
"""Tables of which every value counts that is not plainly a setting."""
_SECRETS = "secrets"
"""The table of which every value counts."""
_LISTS = frozenset({"args", "command"})
_KEY = re.compile(r"token|secret|passw(?:or)?d|api[_-]?key|authorization|credential", re.IGNORECASE)
_VARIABLE = re.compile(r"_vars?$", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|pwd|credential|bearer|cookie|session|signature|private|dsn"
    r"|auth(?!or(?!i[sz]))|api[_-]?key|(?:^|[_-])(?:key|pass|pat|pin|salt)s?(?:$|[_-])|(?<=[a-z])Key$",
    re.IGNORECASE,
)
"""Names of variables and headers whose values are secret, however plain they look."""
_FILE = re.compile(r"(?:~|\.{0,2}[/\\]|[A-Za-z]:[/\\])[^\n]*")
_LONGEST_WORD = 20
"""Letters in a part of a plain value."""
_LONGEST_NUMBER = 8
"""Digits in one."""
_LONGEST_MIXED = 3
"""Letters and digits together in one."""
_FLAG = re.compile(
    r"--?[\w-]*(?:token|secret|passw(?:or)?d|pwd|key|auth|bearer|credential|header)[\w-]*", re.IGNORECASE
)
_MAX_DOCUMENT_DEPTH = 100


def secrets_in(document: Any) -> Iterator[str]:
    """Yield the values of a document that are most likely secret and not in the environment.

    >>> list(secrets_in({"a": {"env": {"K": "s3cret", "V": "${V}"}, "args": ["--api-key", "abc", "-v"]}}))
    ['s3cret', 'abc']
    """
    return (value for _, value in named_secrets(document))


def named_secrets(document: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the same, each with the key or the flag that it is the value of.

    >>> list(named_secrets({"env": {"DB_PASS": "sesame", "REGION": "eu-west-1", "DATA": "/srv/data"}}))
    [('DB_PASS', 'sesame')]
    """
    if depth > _MAX_DOCUMENT_DEPTH:
        return
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from _secrets_under(str(key), value)
    members = document.values() if isinstance(document, Mapping) else document
    for value in members:
        if isinstance(value, Mapping | list):
            yield from named_secrets(value, depth + 1)


def _secrets_under(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the secrets that are known by the key they stand under."""
    if key == _SECRETS and isinstance(value, Mapping):
        yield from _literals(value.items())
    elif key in _TABLES and isinstance(value, Mapping):
        found = _literals((name, each) for name, each in value.items() if name != HOME)
        yield from ((name, text) for name, text in found if not is_setting(name, text))
    elif key in _LISTS and isinstance(value, list):
        yield from _after_flags(value)
    elif _KEY.search(key) and not _VARIABLE.search(key):
        yield from _literals([(key, value)])


def is_secret_name(name: str) -> bool:
    """Return whether the name of a variable or a header says that its value is secret.

    >>> is_secret_name("GITHUB_TOKEN"), is_secret_name("REGION")
    (True, False)
    """
    return _SECRET_NAME.search(name) is not None


def is_setting(name: str, value: str) -> bool:
    """Return whether a variable or a header is plainly no secret, by its name and by its value.

    >>> [is_setting("X", each) for each in ("eu-central-1", "~/data2", "hunter2", "postgres://me:pw@db/x")]
    [True, True, False, False]
    >>> is_setting("AUTHOR", "Anna"), is_setting("AUTH", "Anna")
    (True, False)
    """
    if is_secret_name(name) or hide_secrets(value) != value:
        return False
    if _FILE.fullmatch(value):
        return True
    is_address = "://" in value
    if "\n" in value or (is_address and not {"@", "?"}.isdisjoint(value)):
        return False
    parts = re.findall(r"[^\W_]+", value)
    return all(_is_plain(part) for part in parts) and (len(parts) > 1 or not value.isdecimal())


def _is_plain(part: str) -> bool:
    if part.isdecimal():
        return len(part) <= _LONGEST_NUMBER
    return len(part) <= (_LONGEST_WORD if part.isalpha() else _LONGEST_MIXED)


def _literals(values: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, str]]:
    for name, value in values:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            text = str(value)
            if text and not is_public(text):
                yield str(name), text


def _after_flags(words: list[Any]) -> Iterator[tuple[str, str]]:
    for place, word in enumerate(words):
        flag, sign, value = str(word).partition("=")
        if not _FLAG.fullmatch(flag):
            continue
        if sign:
            yield from _literals([(flag, value)])
        elif place + 1 < len(words) and not str(words[place + 1]).startswith("-"):
            yield from _literals([(flag, words[place + 1])])


# Known secrets: their values, in the encodings that servers write them in.

_SHORTEST_KNOWN = 6
"""Shorter values are not looked for: they would be found by chance."""
_TRIVIAL = frozenset(
    {
        "anonymous", "application/json", "changeme", "default", "development", "disabled", "enabled",
        "example", "password", "postgres", "private", "production", "public", "secret",
        "secrets", "staging", "string", "testing", "text/event-stream", "tokens", "username",
    }
)  # fmt: skip
"""Words that stand in ordinary text; a secret that is one of them protects nothing."""
_SHORTEST_LINE = 16
"""Characters of a line that is looked for by itself, of a secret with several lines, such as a key."""
_AUTH_SCHEME = re.compile(r"(?:apikey|basic|bearer|digest|key|token)\s+(?=\S)", re.IGNORECASE)
_MOST_TOKENS = 16
"""Limit for known access tokens; the oldest are dropped."""


class KnownSecrets:
    """The secret values of one server's settings, hidden in all that the server sends.

    A value is found as it is and as JSON, HTML, percent-encoding, hexadecimal, base32 or base64 write it,
    most of them within another too, and as a part of a longer text in base64. Where there are no values,
    nothing is searched.

    >>> secrets = KnownSecrets(["s3cr3t-word"])
    >>> secrets.hide("Basic " + base64.b64encode(b"me:s3cr3t-word").decode())
    'Basic bWU6[secret]Q='
    >>> secrets.hide_in({"tried": ["'s3cr3t-word'", 1]}), KnownSecrets(["debug", "abc"]).has_any
    ({'tried': ["'[secret]'", 1]}, False)
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._forms: dict[str, str] = {}
        self._tokens: list[str] = []
        self._has_numbers = False
        self._pattern: re.Pattern[str] | None = None
        self.has_any = False
        """Whether there is anything to hide."""
        for value in values:
            self._note(value)
        self._compile()

    @property
    def longest(self) -> int:
        """Length of the longest form of a secret."""
        return max(map(len, self._forms), default=0)

    def add_token(self, token: str) -> None:
        """Know an access token too; only the latest are kept."""
        if token in self._tokens:
            return
        self._tokens.append(token)
        gone = {form for old in self._tokens[:-_MOST_TOKENS] for form in secret_forms(old)}
        del self._tokens[:-_MOST_TOKENS]
        # Always another dictionary: a thread may be searching with this one.
        self._forms = {form: shown for form, shown in self._forms.items() if form not in gone}
        self._note(token)
        self._compile()

    def show_as(self, text: str, shown: str) -> None:
        """Show a text as something else, such as an address as it is written in the settings."""
        self._forms = self._forms | {text: shown}
        self._compile()

    def _note(self, value: str) -> None:
        for part in _parts_of(value):
            self._forms = self._forms | dict.fromkeys(secret_forms(part), "[secret]")

    def _compile(self) -> None:
        forms = sorted(self._forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, forms))) if forms else None
        self.has_any = bool(forms)
        self._has_numbers = any(form.isdecimal() for form in forms)

    def hide(self, text: str) -> str:
        """Return a text with `[secret]` in place of each value."""
        forms, pattern = self._forms, self._pattern
        if pattern is None or not any(form in text for form in forms):
            return text
        return pattern.sub(lambda found: forms.get(found[0], "[secret]"), text)

    def hide_in(self, value: Any) -> Any:
        """Return a JSON value without the secrets in its texts, keys and numbers; the same where it has none.

        Looking for texts one by one in all of them together is many times faster than the pattern is.
        """
        if self._pattern is None:
            return value
        text = "\n".join(self._texts_in(value))
        return self._replace(value) if any(form in text for form in self._forms) else value

    def _texts_in(self, value: Any) -> Iterator[str]:
        for member in walk(value):
            if type(member) is str:
                yield member
            elif type(member) is dict:
                yield from member
            elif self._has_numbers and type(member) is int:
                yield str(member)

    def _replace(self, value: Any) -> Any:
        """Return a copy of a value, made level by level: a server may nest deeply."""
        holder: list[Any] = [value]
        pending: list[Any] = [holder]
        while pending:
            container = pending.pop()
            for key, member in list(container.items() if type(container) is dict else enumerate(container)):
                kind = type(member)
                if kind is str:
                    container[key] = self.hide(member)
                elif kind is dict:
                    container[key] = {self.hide(name): each for name, each in member.items()}
                    pending.append(container[key])
                elif kind is list:
                    container[key] = list(member)
                    pending.append(container[key])
                elif self._has_numbers and kind is int and self.hide(str(member)) != str(member):
                    container[key] = "[secret]"
        return holder[0]


def secret_forms(value: str) -> set[str]:
    """Return the forms of a secret: verbatim, and in the encodings of texts.

    >>> forms = secret_forms("k-9/v+")
    >>> "6B2D392F762B" in forms, "k-9%2Fv%2B" in forms
    (True, True)
    """
    escaped = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    twice = {json.dumps(each, ensure_ascii=False)[1:-1] for each in escaped}
    quoted = {quote(value, safe="", errors="replace"), quote(value, errors="replace")}
    quoted |= {quote_plus(value, errors="replace")}
    written = {value, *escaped, *quoted}
    forms = written | twice | {json.dumps(each, ensure_ascii=False)[1:-1] for each in twice}
    forms |= {
        repr(value)[1:-1],
        value.replace('"', '""'),
        *map(html.escape, escaped),
        *map(_lower_escapes, quoted),
    }
    forms |= {html.escape(value), *(quote(each, safe="", errors="replace") for each in written)}
    data = value.encode("utf-8", "surrogatepass")
    for case in "xX":
        digits = [f"{byte:02{case}}" for byte in data]
        forms |= {sign.join(digits) for sign in ("", ":", " ", "-")}
        forms |= {"".join(f"{sign}{each}" for each in digits) for sign in ("%", "\\x")}
        forms |= {", ".join(f"0x{each}" for each in digits)}
        forms |= {"".join(f"\\u{ord(each):04{case}}" for each in value)}
        forms |= {"".join(f"&#x{ord(each):{case}};" for each in value)}
    forms |= {"".join(f"&#{ord(each)};" for each in value), ", ".join(map(str, data))}
    forms |= {base64.b32encode(data).decode().rstrip("=")}
    inner = {each.encode("utf-8", "surrogatepass") for each in written}
    forms |= {each.hex() for each in inner} | {each.hex().upper() for each in inner}
    inner |= {value.encode("utf-16-le", "surrogatepass"), base64.b64encode(data), data.hex().encode()}
    for text in inner:
        forms |= _base64_forms(text)
    return forms | {base64.b64encode(data).hex()}


def _base64_forms(data: bytes) -> set[str]:
    """Return the base64 forms of some bytes for each alignment, whatever precedes and follows them."""
    forms: set[str] = set()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        whole = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        forms |= {whole, whole.replace("+", "-").replace("/", "_")}
    return forms


def _lower_escapes(text: str) -> str:
    return re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), text)


def _parts_of(value: str) -> Iterator[str]:
    """Yield a value and the secrets in it: credentials after a scheme, a password in an address, lines."""
    parts = [value.strip()]
    if found := _AUTH_SCHEME.match(value):
        credentials = value[found.end() :].strip()
        parts.append(credentials)
        if found[0].lower().startswith("basic"):
            try:
                login = base64.b64decode(credentials, validate=True).decode()
            except (binascii.Error, ValueError):
                login = ""
            parts += [login, login.partition(":")[2]]
    if "://" in value:
        parts += address_secrets(value)
    if "=" in value and ("; " in value or value.count("=") == 1):  # a cookie, or a name and its value
        parts += [each.partition("=")[2].strip(" \"'") for each in value.split("; ")]
    if value.lstrip().startswith(("{", "[")):  # such as the key of a service account
        parts += _texts_of(value)
    if "\n" in value:
        parts += [line for line in map(str.strip, value.splitlines()) if len(line) >= _SHORTEST_LINE]
    for part in parts:
        is_marker = part.startswith("-----") and "\n" not in part  # a line that says that a key begins
        is_ordinary = part.lower() in _TRIVIAL or is_public(part)
        if len(part) >= _SHORTEST_KNOWN and not is_marker and not is_ordinary:
            yield part


def _texts_of(document: str) -> list[str]:
    """Return the texts in a JSON document that are most likely secret."""
    try:
        parsed = parse_json(document)
    except ValueError:
        return []
    members = (each for each in islice(walk(parsed), _MAX_VALUES) if type(each) is dict)
    pairs = [(name, each) for member in members for name, each in member.items() if type(each) is str]
    return [
        text
        for name, text in pairs
        if is_secret_name(name) or (_is_opaque(text) and not is_setting(name, text))
    ]


def address_secrets(url: str) -> list[str]:
    """Return the password of an address, and the values of its query that are most likely secret.

    >>> address_secrets("https://me:pass%20word@example.org/mcp?key=abc&page=last")
    ['pass%20word', 'pass word', 'abc']
    """
    try:
        parts = urlsplit(url)
        password, pairs = parts.password or "", parse_qsl(parts.query)
    except ValueError:
        return []
    opaque = [value for name, value in pairs if not is_setting(name, value)]
    return [password, unquote(password), *opaque]

"""Redaction: exceptions and texts of others without secrets, and with nothing about this machine.

Every pattern here is linear: none can begin twice in one run of characters, and what it has read it never
reads again. A lookahead stands in an atomic group and not in a possessive repetition, in which Python
3.11.2 passes over it.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from toolcrib.errors import Problem, ToolcribError
from toolcrib.model.display import HIDDEN
from toolcrib.model.plain import walk

__all__ = ["HIDDEN", "error_text", "hide_secrets", "host_of", "is_public", "scrub"]

_MAX_LENGTH = 2000
_MAX_VALUES, _MAX_NAMED, _MAX_NAME = 10_000, 200, 500
"""How many values of the arguments are looked at, how many of them as paths, and how much of each."""
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

_SECRET = re.compile(
    r"""
    (?P<pem>-----BEGIN\ [A-Z\ ]{0,30}PRIVATE\ KEY-----[^-]*+(?:-----END\ [A-Z\ ]{0,40}-----)?)
    | (?P<known>(?<![\w-])(?-i:
        gh[a-z]_\w{20,}+ | github_pat_\w{20,}+ | glpat-[\w-]{16,}+ | xox[a-z]-[\w-]{10,}+
        | A[KS]IA[0-9A-Z]{16}(?!\w) | AIza[\w-]{30,}+ | eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]++
        | (?=[\w-]{0,60}\d)(?:sk-[\w-]{12,}+ | [rsp]k_(?:live|test)_\w{10,}+) ))
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
    """Return what an exception says in words that may be shown to a model.

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
    """Return text without secrets and without paths of this machine, but those named in the arguments.

    A path is named by itself and by what is above or below it, in whole segments. What is long is cut.

    >>> scrub("no /data/shop/x.csv, token=4f8a91c2", {"path": "/data/shop"})
    'no /data/shop/x.csv, token=[secret]'
    """
    clean = hide_secrets(_SITE.sub("", text[: _MAX_LENGTH * 2]))
    if any(not found["address"] for found in _PATH.finditer(clean)):
        named = _Named(args)
        clean = _PATH.sub(lambda found: _without_path(found, named), clean)
    return clean if len(clean) <= _MAX_LENGTH else f"{clean[:_MAX_LENGTH]}…"


def hide_secrets(text: str) -> str:
    """Return text with `[secret]` for keys and tokens of known forms, and for what is called a password.

    >>> hide_secrets("401 for Bearer 4f8a91c2d7 at https://ann:sesame@example.org")
    '401 for Bearer [secret] at https://[secret]@example.org'
    """
    return _SECRET.sub(_without_secret, text)


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
    texts: Iterable[str] = (value[:_MAX_NAME] for value in values if "/" in value or "\\" in value)
    for text in islice(texts, _MAX_NAMED):
        found = [each.group() for each in _PATH.finditer(text) if not each["address"]]
        if found and text.startswith(found[0]):
            yield text
        yield from found


def host_of(url: str) -> str:
    """Return what may be shown of an address: users, paths and queries may be secrets.

    >>> host_of("https://me:pw@example.com:8000/mcp/s3cret?key=1")
    'https://example.com:8000/…'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…" if parts.netloc else "…"

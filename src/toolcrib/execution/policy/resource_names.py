"""The names of resources and prompts in rules, `server:address` and `server:name`, in all spellings.

Servers read an address in different ways: as text, decoded and resolved, or by the rules of the WHATWG, as
those do that are built on the MCP SDK 1.x with pydantic's `AnyUrl`. A rule decides about all these readings.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from fnmatch import translate
from urllib.parse import unquote

from pydantic_core import Url

ROUTE = "toolcrib://servers/"
"""The address of a resource behind a gateway begins so; its server and the address there follow."""
_DECODINGS = 3
"""Rounds of percent-encoding that an address may have."""
_ENCODED_GLOB = re.compile(r"%(?:25)*(2a|3f|5b)", re.IGNORECASE)
"""A character that means something in a pattern, and is encoded to mean itself."""
_AFTER_PATH = re.compile(r"[?#\0]")
_DRIVE = re.compile(r"[A-Za-z][:|]")
_PORT = re.compile(r":\d*$")
_WEB = frozenset({"http", "https", "ws", "wss", "ftp"})
"""Schemes whose addresses have a host, whose port tells one service from another."""
_SLASHES = 3
"""Slashes after a scheme, at most."""
_SLASHES_BEFORE_QUERY = re.compile(r"/+\?")
_PATH_PARAMETER = re.compile(r";[^/]*")
_CONTROLS = frozenset({"Cc", "Cf"})
"""Categories of characters that are not seen, and that some parsers drop."""


def content_pattern(items: Sequence[str], *, denies: bool = False) -> re.Pattern[str]:
    """Return what a resource or prompt of one of these names or patterns is called, as written or in full.

    That of a rule that denies is also about what looks the same in Unicode, and about any number of slashes
    after a scheme that is not the web's, which not all servers count.

    >>> bool(content_pattern(["notes:file:///a%5B1%5D"]).fullmatch("notes:file:///a[1]"))
    True
    """
    whole = [item if ":" in item or item == "*" else f"{item}:*" for item in items]
    canonical = (
        f"{server}:{canonical_address(address) or address}" for server, _, address in map(_split, whole)
    )
    written = dict.fromkeys([*whole, *canonical])
    decoded = (_ENCODED_GLOB.sub(lambda found: f"[{unquote(f'%{found[1]}')}]", item) for item in written)
    spellings = dict.fromkeys([*written, *(each for item in decoded for each in _resolved_readings(item))])
    if denies:
        spellings |= dict.fromkeys([_plain_text(each) for each in spellings])
        spellings |= dict.fromkeys([each for item in spellings for each in _counts_of_slashes(item)])
    exact = [re.escape(item) for item in whole if "[" in item]
    return re.compile("|".join([*map(translate, spellings), *exact]) or r"(?!)")


def canonical_address(address: str) -> str | None:
    r"""Return an address as a parser of the WHATWG's rules for URLs writes it; None where it is no URL.

    >>> canonical_address("ht\ttp:/HOST:80/a/%2e%2e/b"), canonical_address("summary")
    ('http://host/b', None)
    """
    try:
        found = str(Url(address))
        return found if found == address or str(Url(found)) == found else None
    except ValueError:
        return None


def _resolved_readings(name: str) -> Iterator[str]:
    r"""Yield `server:address` as servers that resolve the address may read it, the fully decoded one last.

    One decodes it once, another twice, or not at all; a backslash separates parts here, and is a character of
    a name there; some drop blanks, parameters and characters that are not seen before they look for `..`.

    >>> list(_resolved_readings("notes:FILE://localhost/public/..//%73ecret/a"))
    ['notes:file:///%73ecret/a', 'notes:file:///secret/a']
    >>> list(_resolved_readings(r"notes:x:a/b\c/../d"))
    ['notes:x:a/d', 'notes:x:a/b/d']
    >>> list(_resolved_readings("notes:file:/a/..;/b")), list(_resolved_readings("notes: summary"))
    (['notes:file:///a/..;/b', 'notes:file:///b'], ['notes:summary'])
    """
    server, _, address = _split(name)
    texts = [address]
    while len(texts) <= _DECODINGS and "%" in texts[-1]:
        texts.append(unquote(texts[-1]))
    found: dict[str, None] = {}
    for text in dict.fromkeys(texts):
        for separated in dict.fromkeys((text, text.replace("\\", "/"))):
            parts = (_resolve(separated, dots=dots) for dots in (_same, _lenient_dots))
            found |= dict.fromkeys(f"{server}:{each}" if address else name for each in parts)
    yield from found


def _resolve(address: str, *, dots: Callable[[str], str]) -> str:
    """Return an address without `.`, `..` and empty parts; `dots` says what a part counts as."""
    scheme, colon, rest = address.partition(":")
    if not colon:
        return _plain_text(address)
    scheme = scheme.lower()
    authority, path = "//" if scheme == "file" and rest.startswith("/") else "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        authority, path = f"//{'' if host.lower() == 'localhost' else host.lower()}", slash + path
    root = [""] if path.startswith("/") else []
    parts: list[str] = []
    for part in path.split("/"):
        step = dots(part)
        if step == "..":
            del parts[-1:]
        elif step not in {"", "."}:
            parts.append(part)
    if scheme == "file" and parts and _DRIVE.fullmatch(parts[0]):
        parts[0] = f"{parts[0][0].upper()}:"
    parts = [*root, *parts]
    end = "/" if path.endswith("/") and parts not in ([], [""]) else ""
    return f"{scheme}:{authority}{'/'.join(parts)}{end}"


def _same(part: str) -> str:
    return part


def _lenient_dots(part: str) -> str:
    """Return `.` or `..` for a part of a path that some servers take for it, any other as it is.

    >>> _lenient_dots("..;v=1"), _lenient_dots(".. "), _lenient_dots("..a")
    ('..', '..', '..a')
    """
    if len(part) < 2 or part[0].isalnum():  # noqa: PLR2004 - most parts; those of one character are exact
        return part
    bare = _plain_text(part.partition(";")[0])
    return bare if bare in {".", ".."} else part


def needed_readings(name: str) -> dict[str, None]:
    """Return `server:address` as written and as correct servers read it: rules must allow each of these.

    >>> list(needed_readings("notes:file:public/../a"))
    ['notes:file:public/../a', 'notes:file:a', 'notes:file:///a']
    """
    server, _, address = _split(name)
    canonical = canonical_address(address)
    written = [name] if canonical is None else [name, f"{server}:{canonical}"]
    resolved = (each for spelling in written for each in _resolved_readings(spelling))
    return dict.fromkeys([*written[:1], *resolved, *written[1:]])


def other_readings(needed: Collection[str]) -> Iterator[str]:
    """Yield the addresses that a careless server may take those for: rules must deny none of them.

    One may not look at a final slash, at what follows the path, at the host of a file, at the parameters of
    a path, at a user in front of the host, at the port of a scheme that is not the web's, or at the form of a
    character in Unicode. Another toolcrib reads an address that
    names a server as that server's own address.

    >>> sorted(each for each in other_readings(["notes:http://u@h/a/?x"]) if "?" not in each)
    ['notes:http://h/a', 'notes:http://h/a/', 'notes:http://u@h/a', 'notes:http://u@h/a/']
    >>> "notes:file:///secret" in other_readings(["notes:file://any/secret"])
    True
    """
    pending, seen = list(needed), set(needed)
    while pending:
        server, _, address = _split(pending.pop())
        yield from _careless_readings(server, address)
        if address.startswith(ROUTE):
            behind = needed_readings(f"{server}:{address.removeprefix(ROUTE).partition('/')[2]}")
            yield from behind
            pending += [each for each in behind if each not in seen]
            seen.update(behind)


def _careless_readings(server: str, address: str) -> Iterator[str]:
    whole = _decoded(address)
    bare = _AFTER_PATH.split(whole, maxsplit=1)[0]
    queried = _SLASHES_BEFORE_QUERY.sub("?", whole.partition("#")[0])
    for spelling in dict.fromkeys((bare, queried, _PATH_PARAMETER.sub("", bare), _plain_text(bare))):
        scheme, colon, path = _resolve(spelling.replace("\\", "/"), dots=_lenient_dots).partition(":")
        if not colon:
            return
        for place in _places(scheme, path):
            read = f"{server}:{scheme}:{place.rstrip('/')}"
            yield from (read, f"{read}/")


def _places(scheme: str, path: str) -> list[str]:
    """Return the part after the scheme of an address, and other readings of it."""
    places = [path]
    if path.startswith("//"):
        host, slash, local = path[2:].partition("/")
        named = host.rpartition("@")[2].rstrip(".")
        hosts = dict.fromkeys((named, named if scheme in _WEB else _PORT.sub("", named)))
        places += [f"//{each}{slash}{local}" for each in hosts if each != host]
        places += [f"///{local}"] if scheme == "file" and host and slash else []
    return places


def _counts_of_slashes(item: str) -> Iterator[str]:
    """Yield a pattern with any number of slashes after its scheme, unless that is the web's.

    >>> list(_counts_of_slashes("notes:db://a/*"))
    ['notes:db:a/*', 'notes:db:/a/*', 'notes:db://a/*', 'notes:db:///a/*']
    """
    server, _, address = _split(item)
    scheme, colon, rest = address.partition(":")
    if colon and scheme not in _WEB:
        yield from (f"{server}:{scheme}:{'/' * count}{rest.lstrip('/')}" for count in range(_SLASHES + 1))


def _split(name: str) -> tuple[str, str, str]:
    return name.partition(":")


def _plain_text(text: str) -> str:
    """Return a name without characters that are not seen, in the compatible form of Unicode."""
    seen = (
        each for each in unicodedata.normalize("NFKC", text) if unicodedata.category(each) not in _CONTROLS
    )
    return "".join(seen).strip()


def _decoded(address: str) -> str:
    for _ in range(_DECODINGS):
        address = unquote(address)
    return address

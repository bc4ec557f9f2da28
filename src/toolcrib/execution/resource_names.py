"""The names of resources and prompts in rules, `server:address` and `server:name`, in all spellings.

Servers read an address in different ways: as text, decoded and resolved, or by the rules of the WHATWG, as
those do that are built on the MCP SDK 1.x with pydantic's `AnyUrl`. A rule decides about all these readings.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from fnmatch import translate
from urllib.parse import unquote

from pydantic_core import Url

ROUTE = "toolcrib://servers/"
"""The address of a resource behind a gateway begins so; its server and the address there follow."""
_DECODINGS = 3
"""How many times over an address may be percent-encoded."""
_ENCODED_GLOB = re.compile(r"%(?:25)*(2a|3f|5b)", re.IGNORECASE)
"""A character that means something in a pattern, and is encoded to mean itself."""
_AFTER_PATH = re.compile(r"[?#\0]")
_PATH_PARAMETER = re.compile(r";[^/]*")
_CONTROLS = frozenset({"Cc", "Cf"})
"""Categories of characters that are not seen, and that some parsers drop."""


def content_pattern(items: Sequence[str]) -> re.Pattern[str]:
    """Return what a resource or prompt of one of these names or patterns is called, as written or in full.

    >>> bool(content_pattern(["notes:file:///a%5B1%5D"]).fullmatch("notes:file:///a[1]"))
    True
    """
    whole = [item if ":" in item or item == "*" else f"{item}:*" for item in items]
    canonical = (
        f"{server}:{canonical_address(address) or address}" for server, _, address in map(_split, whole)
    )
    written = dict.fromkeys([*whole, *canonical])
    decoded = (_ENCODED_GLOB.sub(lambda found: f"[{unquote(f'%{found[1]}')}]", item) for item in written)
    spellings = dict.fromkeys([*written, *map(plain_address, decoded)])
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


def plain_address(name: str) -> str:
    """Return `server:address` as a server that decodes and resolves the address may read it.

    >>> plain_address("notes:FILE://localhost/public/..//%73ecret/a"), plain_address("notes: summary")
    ('notes:file:///secret/a', 'notes:summary')
    >>> plain_address("notes:file:/secret/a")
    'notes:file:///secret/a'
    """
    server, _, address = name.partition(":")
    scheme, colon, rest = _decoded(address).replace("\\", "/").partition(":")
    if not colon:
        return f"{server}:{_plain_text(address)}" if address else name
    scheme = scheme.lower()
    authority, path = "//" if scheme == "file" and rest.startswith("/") else "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        authority, path = f"//{'' if host.lower() == 'localhost' else host.lower()}", slash + path
    root = [""] if path.startswith("/") else []
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    parts = [*root, *parts]
    end = "/" if path.endswith("/") and parts not in ([], [""]) else ""
    return f"{server}:{scheme}:{authority}{'/'.join(parts)}{end}"


def needed_readings(name: str) -> dict[str, None]:
    """Return `server:address` as written and as correct servers read it: rules must allow each of these.

    >>> list(needed_readings("notes:file:public/../a"))
    ['notes:file:public/../a', 'notes:file:a', 'notes:file:///a']
    """
    server, _, address = _split(name)
    canonical = canonical_address(address)
    written = [name] if canonical is None else [name, f"{server}:{canonical}"]
    return dict.fromkeys([*written[:1], *map(plain_address, written), *written[1:]])


def other_readings(needed: Collection[str]) -> Iterator[str]:
    """Yield the addresses that a careless server may take those for: rules must deny none of them.

    One may not look at a final slash, at what follows the path, at the host of a file, at the parameters of
    a path, or at a user in front of the host. Another toolcrib reads an address that names a server as that
    server's own address.

    >>> sorted(other_readings(["notes:file://any/secret/?x"]))
    ['notes:file:///secret', 'notes:file:///secret/', 'notes:file://any/secret', 'notes:file://any/secret/']
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
    bare = _AFTER_PATH.split(_decoded(address), maxsplit=1)[0]
    for spelling in dict.fromkeys((bare, _PATH_PARAMETER.sub("", bare))):
        scheme, colon, path = plain_address(f"{server}:{spelling}").removeprefix(f"{server}:").partition(":")
        if not colon:
            return
        places = [path]
        if path.startswith("//"):
            host, slash, local = path[2:].partition("/")
            named = host.rpartition("@")[2].rstrip(".")
            places += [f"//{named}{slash}{local}"] if named != host else []
            places += [f"///{local}"] if scheme == "file" and host and slash else []
        for place in places:
            whole = f"{server}:{scheme}:{place.rstrip('/')}"
            yield from (whole, f"{whole}/")


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

"""The names of resources and prompts in rules, `server:address` and `server:name`, in all spellings."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from urllib.parse import unquote

__all__ = ["content_pattern", "plain_address", "readings"]

_DECODINGS = 3
"""How many times over an address may be percent-encoded."""
_ENCODED_GLOB = re.compile(r"%(?:25)*(2a|3f|5b)", re.IGNORECASE)
"""A character that means something in a pattern, and is encoded to mean itself."""
_AFTER_PATH = re.compile(r"[?#\0]")


def content_pattern(items: Sequence[str]) -> re.Pattern[str]:
    """Return what a resource or prompt of one of these names or patterns is called, as written or in full.

    >>> bool(content_pattern(["notes:file:///a%5B1%5D"]).fullmatch("notes:file:///a[1]"))
    True
    """
    whole = [item if ":" in item or item == "*" else f"{item}:*" for item in items]
    decoded = (_ENCODED_GLOB.sub(lambda found: f"[{unquote(f'%{found[1]}')}]", item) for item in whole)
    spellings = dict.fromkeys([*whole, *map(plain_address, decoded)])
    exact = [re.escape(item) for item in whole if "[" in item]
    return re.compile("|".join([*map(translate, spellings), *exact]) or r"(?!)")


@lru_cache(maxsize=1 << 14)
def plain_address(name: str) -> str:
    """Return `server:address` as a server that decodes and resolves the address may read it.

    >>> plain_address("notes:FILE://localhost/public/..//%73ecret/a"), plain_address("notes:summary")
    ('notes:file:///secret/a', 'notes:summary')
    >>> plain_address("notes:file:/secret/a")
    'notes:file:///secret/a'
    """
    server, _, address = name.partition(":")
    scheme, colon, rest = _decoded(address).replace("\\", "/").partition(":")
    if not colon:
        return name
    scheme = scheme.lower()
    authority, path = "//" if scheme == "file" and rest.startswith("/") else "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        authority, path = f"//{'' if host.lower() == 'localhost' else host.lower()}", slash + path
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[max(1, len(parts) - 1) :]
        elif part not in {"", "."} or not parts:
            parts.append(part)
    end = "/" if path.endswith("/") and len(parts) > 1 else ""
    return f"{server}:{scheme}:{authority}{'/'.join(parts)}{end}"


def readings(name: str) -> Iterator[str]:
    """Yield what a careless server may take `server:address` for: what a rule refuses of it is refused.

    One may not look at a final slash, at what follows the path, or at the host of a file.

    >>> sorted(readings("notes:file://any/secret/?x"))
    ['notes:file:///secret', 'notes:file:///secret/', 'notes:file://any/secret', 'notes:file://any/secret/']
    """
    server, _, address = name.partition(":")
    bare = _AFTER_PATH.split(_decoded(address), maxsplit=1)[0]
    scheme, colon, path = plain_address(f"{server}:{bare}").removeprefix(f"{server}:").partition(":")
    if not colon:
        return
    places = [path]
    if scheme == "file" and path.startswith("//"):
        host, slash, local = path[2:].partition("/")
        places += [f"///{local}"] if host and slash else []
    for place in places:
        whole = f"{server}:{scheme}:{place.rstrip('/')}"
        yield from (whole, f"{whole}/")


def _decoded(address: str) -> str:
    for _ in range(_DECODINGS):
        address = unquote(address)
    return address

"""Names of tools and prompts of several servers at one endpoint."""

import re
from hashlib import sha256

MAX_LENGTH = 64
"""Longest name, in characters, that model providers accept."""
_JOINT = "__"
_DIGEST = 12
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_HASHED = re.compile(rf".*-[0-9a-f]{{{_DIGEST}}}", re.DOTALL)


def public_name(namespace: str | None, name: str) -> str:
    """Return the name under which something of a server is listed among that of others.

    It depends on these two texts alone, so it stays the same whatever other servers there are, and no two are
    listed under the same. What cannot be written as `server__name` ends in a hash.

    >>> public_name("github", "create_issue"), public_name(None, "add")
    ('github__create_issue', 'add')
    >>> public_name("files", "read.text")
    'files__read_text-a7e1edac6ae9'
    """
    joined = _join(namespace, name)
    return joined if split_name(joined) == (namespace, name) else hashed_name(namespace, name)


def hashed_name(namespace: str | None, name: str) -> str:
    """Return the name that ends in a hash."""
    whole = f"{namespace or ''}\0{name}"
    digest = sha256(whole.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{_FOREIGN.sub('_', _join(namespace, name))[: MAX_LENGTH - _DIGEST - 1]}-{digest}"


def _join(namespace: str | None, name: str) -> str:
    return name if namespace is None else f"{namespace}{_JOINT}{name}"


def split_name(public: str) -> tuple[str | None, str] | None:
    """Return the namespace and the name in a public name; None if it ends in a hash.

    >>> split_name("github__create_issue"), split_name("add"), split_name("read_text-a7e1edac6ae9")
    (('github', 'create_issue'), (None, 'add'), None)
    """
    if not public or len(public) > MAX_LENGTH or _FOREIGN.search(public) or _HASHED.fullmatch(public):
        return None
    namespace, joint, name = public.partition(_JOINT)
    if not joint:
        return None, public
    return (namespace, name) if namespace and name else None

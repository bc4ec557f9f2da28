"""Python identifiers for tools and namespaces, whose own names allow more characters."""

import builtins
import re
from collections.abc import Iterable
from keyword import iskeyword, kwlist

from toolcrib.runtime.stubs.guest import FUNCTIONS

TOP_RESERVED = frozenset(
    {name for name in dir(builtins) if not name.startswith("_")}
    | set(kwlist)
    | {*FUNCTIONS, "__out", "asyncio"}
    | {"Any", "Literal", "NotRequired", "TypedDict"}
)
"""Identifiers that namespaces, and tools without one, cannot have: the guest's own names."""

_OTHER = re.compile(r"[^A-Za-z0-9_]")
_WORD = re.compile(r"[A-Za-z0-9]+")


def identifier(name: str) -> str:
    """Return the Python name closest to the name of a tool or a namespace.

    >>> identifier("create-issue"), identifier("2fa.check"), identifier("import"), identifier("_x")
    ('create_issue', 't2fa_check', 'import_', 'x')
    """
    spelt = _OTHER.sub("_", name).lstrip("_") or "t"
    if spelt[0].isdigit():
        spelt = f"t{spelt}"
    return f"{spelt}_" if iskeyword(spelt) else spelt


def names_of(names: Iterable[str], *, reserved: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return names by unique Python identifiers.

    A name that is an identifier already keeps it. The others get theirs in the order of the alphabet, so
    that the order in which they are given does not matter.

    >>> names_of(["b.c", "b_c", "b-c", "list"], reserved=frozenset({"list"}))
    {'b_c': 'b_c', 'b_c_2': 'b-c', 'b_c_3': 'b.c', 'list_': 'list'}
    """
    pending = sorted(set(names))
    exact = {name: name for name in pending if identifier(name) == name and name not in reserved}
    taken = dict(exact)
    counts: dict[str, int] = {}
    for name in pending:
        if name not in exact:
            wanted = identifier(name)
            spelt = f"{wanted}_" if wanted in reserved else wanted
            while spelt in taken or spelt in reserved:
                counts[wanted] = counts.get(wanted, 1) + 1
                spelt = f"{wanted}_{counts[wanted]}"
            taken[spelt] = name
    return {spelt: taken[spelt] for spelt in sorted(taken)}


def camel(name: str) -> str:
    """Return a name in the style of Python's classes (CapWords).

    >>> camel("create_issue"), camel("2fa"), camel("HTTPError"), camel("--")
    ('CreateIssue', 'T2fa', 'HTTPError', 'T')
    """
    spelt = "".join(word[0].upper() + word[1:] for word in _WORD.findall(name)) or "T"
    return f"T{spelt}" if spelt[0].isdigit() else spelt

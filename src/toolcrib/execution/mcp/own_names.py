"""The names of tools as their servers have them, and as a tool id can carry them."""

import re
from hashlib import sha256

from toolcrib.model.tool import Tool
from toolcrib.model.toolid import MAX_NAME_LENGTH, name_fault

OWN_NAME = "toolcrib.name"
"""The key of `_meta` under which a renamed tool keeps its name at the server."""
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
_DIGEST = 8


def own_name(tool: Tool) -> str:
    """Return the name of a tool at its server."""
    name = (tool.shared("meta") or {}).get(OWN_NAME)
    return name if isinstance(name, str) and mend_name(name) == tool.name else tool.name


def mend_name(name: str) -> str:
    """Return a name that a tool id can carry: the same one, if it can.

    A mended name ends in a hash of the whole one, so that two are never mended into the same, and the same
    one always into the same.

    >>> mend_name("create_issue")
    'create_issue'
    >>> mend_name("créer un ticket"), mend_name("créer/un/ticket")
    ('cr_er_un_ticket-eebac1f5', 'cr_er_un_ticket-e86ec33e')
    """
    if not name_fault(name):
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    plain = _FOREIGN.sub("_", name)[: MAX_NAME_LENGTH - _DIGEST - 1]
    return f"{plain}-{digest}"

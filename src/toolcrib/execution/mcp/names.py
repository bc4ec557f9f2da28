"""Names of servers and their tools that a tool id cannot carry, made into such that it can."""

import re
from hashlib import sha256

from toolcrib.model.toolid import MAX_NAME_LENGTH, name_fault

__all__ = ["mend_name"]

_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
_DIGEST = 8


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

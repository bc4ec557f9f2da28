"""Under which key a tool id is kept, however it was written."""

from toolcrib.model.toolid import ToolId

_COLONS = 2
"""How many of them an id with a version has."""


def key_of(tool_id: str | ToolId) -> str:
    """Return the text that all spellings of one id share.

    >>> key_of("git:log:v1.2.0+build.5")
    'git:log:1.2.0'

    Raises:
        InvalidToolIdError: it is no id.
    """
    parsed = tool_id if isinstance(tool_id, ToolId) else ToolId.parse(tool_id)
    return str(parsed).partition("+")[0]


def without_version(key: str) -> str:
    """Return the key of whatever version a key names.

    >>> without_version("git:log:1.2.0")
    'git:log'
    """
    return ":".join(key.split(":")[:2])


def is_exact(key: str) -> bool:
    """Return whether a key names a version.

    >>> is_exact("git:log:1.2.0"), is_exact("git:log")
    (True, False)
    """
    return key.count(":") == _COLONS


def namespace_of(ref: object) -> str:
    """Return the namespace that a reference names, or nothing.

    >>> namespace_of("github:create_issue:^1.2"), namespace_of("add")
    ('github', '')
    """
    namespace, colon, _ = str(ref).partition(":")
    return namespace if colon else ""

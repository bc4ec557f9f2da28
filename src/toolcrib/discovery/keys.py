"""Canonical keys of tool ids: the form under which the index and the stores keep a tool."""

from toolcrib.model.toolid import ToolId

_COLONS_WITH_VERSION = 2
"""An id with a version is `namespace:name:version`."""


def key_of(tool_id: str | ToolId) -> str:
    """Return the canonical key of a tool id; the `v` and the build metadata of a version are dropped.

    >>> key_of("git:log:v1.2.0+build.5")
    'git:log:1.2.0'

    Raises:
        InvalidToolIdError: the text is not a tool id.
    """
    parsed = tool_id if isinstance(tool_id, ToolId) else ToolId.parse(tool_id)
    return str(parsed).partition("+")[0]


def is_exact(key: str) -> bool:
    """Return whether a key names a version.

    >>> is_exact("git:log:1.2.0"), is_exact("git:log")
    (True, False)
    """
    return key.count(":") == _COLONS_WITH_VERSION


def namespace_of(ref: object) -> str:
    """Return the namespace in a reference; empty if it has none.

    >>> namespace_of("github:create_issue:^1.2"), namespace_of("add")
    ('github', '')
    """
    namespace, colon, _ = str(ref).partition(":")
    return namespace if colon else ""

"""What an HTTP method says of the tool that uses it."""

from toolcrib.model.tool import ToolAnnotations

__all__ = ["annotations_of", "is_idempotent"]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_IDEMPOTENT = _SAFE | {"PUT", "DELETE"}


def annotations_of(method: str) -> ToolAnnotations:
    """Return the hints that a method gives: GET changes nothing, DELETE destroys, PUT may be repeated.

    >>> annotations_of("DELETE").to_json()
    {'readOnlyHint': False, 'destructiveHint': True, 'idempotentHint': True, 'openWorldHint': True}
    """
    return ToolAnnotations(
        read_only_hint=method in _SAFE,
        destructive_hint=True if method == "DELETE" else None,
        idempotent_hint=method in _IDEMPOTENT,
        open_world_hint=True,
    )


def is_idempotent(method: str) -> bool:
    """Return whether a request with this method does the same sent once or twice."""
    return method in _IDEMPOTENT

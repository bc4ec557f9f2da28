"""Which tool a reference means: an id, the latest version, or the best that a constraint admits."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import chain, islice

from toolcrib.discovery.index.catalogue import Catalogue
from toolcrib.errors import InvalidToolIdError, InvalidVersionError, ToolNotFoundError
from toolcrib.model import ToolId
from toolcrib.version import Constraint, Version

__all__ = ["exact", "latest", "not_found"]

_MAX_PARTS = 3
_SCANNED = 2_000
_COMPARED = 200
_SUGGESTED = 3


def exact(reference: str | ToolId) -> str:
    """Return the id that a reference spells.

    Raises:
        InvalidToolIdError: it spells none.
    """
    return str(reference if isinstance(reference, ToolId) else ToolId.parse(reference))


def latest(catalogue: Catalogue, reference: str | ToolId) -> str:
    """Return the id of the tool that a reference means.

    Raises:
        InvalidToolIdError: it is neither an id nor an id with a constraint for its version.
        InvalidConstraintError: what stands in the place of the version is none.
        ToolNotFoundError: with the nearest ids, where nothing answers to it.
    """
    if isinstance(reference, str) and (constrained := _constrained(reference)):
        name, constraint = constrained
        return _highest(catalogue, str(name), reference, constraint)
    tool_id = exact(reference)
    if tool_id in catalogue:
        return tool_id
    if tool_id.count(":") == _MAX_PARTS - 1:
        raise not_found(catalogue, tool_id)
    return _highest(catalogue, tool_id, tool_id)


def not_found(catalogue: Catalogue, reference: str) -> ToolNotFoundError:
    """Return the error that no tool answers to a reference, with the ids that come nearest."""
    parts = reference.split(":")
    same_name = sorted(catalogue.names.answering(parts[min(1, len(parts) - 1)]))
    near: Iterable[str] = chain(
        catalogue.versions(":".join(parts[:2])),
        same_name,
        catalogue.starting(f"{parts[0]}:") if len(parts) > 1 else (),
        catalogue.starting(reference[:2]),
    )
    candidates = dict.fromkeys(islice(near, _SCANNED))
    alike = sorted(candidates, key=lambda tool_id: abs(len(tool_id) - len(reference)))[:_COMPARED]
    found = get_close_matches(reference[:200], alike, n=_SUGGESTED, cutoff=0.6)
    return ToolNotFoundError(reference, tuple(found or same_name[:_SUGGESTED]))


def _constrained(reference: str) -> tuple[ToolId, Constraint] | None:
    """Return a name and a constraint, where the last part of a reference is no exact version."""
    parts = reference.split(":", _MAX_PARTS - 1)
    if len(parts) < _MAX_PARTS or _is_exact(parts[-1]):
        return None
    if not parts[-1].strip():
        raise InvalidToolIdError(reference, "its version is empty; leave out the last colon, or write one")
    return ToolId(parts[0], parts[1]), Constraint.parse(parts[-1])


def _is_exact(text: str) -> bool:
    try:
        Version.parse(text)
    except InvalidVersionError:
        return False
    return True


def _highest(catalogue: Catalogue, name: str, reference: str, constraint: Constraint | None = None) -> str:
    """Return the highest version of a tool that a constraint admits, a stable one before any other."""
    found: list[tuple[bool, Version, str]] = []
    for tool_id in catalogue.versions(name):
        version = Version.parse(tool_id.split(":", 2)[2]) if tool_id.count(":") == _MAX_PARTS - 1 else None
        if version is None and constraint is None:
            return tool_id
        if version is not None and (constraint is None or version in constraint):
            found.append((not version.prerelease, version, tool_id))
    if not found:
        raise not_found(catalogue, reference)
    return max(found)[-1]

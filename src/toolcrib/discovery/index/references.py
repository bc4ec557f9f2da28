"""Which tool a reference means: an id, the latest version, or the best that a constraint admits."""

from difflib import get_close_matches
from itertools import chain, islice

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.keys import is_exact, key_of, without_version
from toolcrib.errors import InvalidToolIdError, InvalidVersionError, ToolNotFoundError
from toolcrib.model import ToolId
from toolcrib.version import Constraint, Version

_MAX_PARTS = 3
_SCANNED = 2_000
_COMPARED = 60
_BESIDE = 20
"""How many ids before and after the place of a reference are compared with it."""
_SUGGESTED = 3
_LONGEST = 200
_ALIKE = 0.6


def latest(lookup: Lookup, reference: str | ToolId) -> Entry:
    """Return the tool that a reference means.

    Raises:
        InvalidToolIdError: it is neither an id nor an id with a constraint for its version.
        InvalidConstraintError: its third part is neither a version nor a constraint.
        ToolNotFoundError: with the nearest ids, where nothing answers to it.
    """
    if isinstance(reference, str):
        if (found := lookup.get(reference)) is not None:  # most are ids just as they are kept
            return found
        parts = reference.split(":", _MAX_PARTS - 1)
        if len(parts) == _MAX_PARTS and ":" not in parts[-1] and not _is_exact(parts[-1]):
            if not parts[-1].strip():
                reason = "its version is empty; leave out the last colon, or write one"
                raise InvalidToolIdError(reference, reason)
            name = str(_parse_name(reference, *parts[:2]))
            return _highest(lookup, name, reference, Constraint.parse(parts[-1]))
    tool_id = key_of(reference)
    found = lookup.get(tool_id)
    if found is not None:
        return found
    if is_exact(tool_id):
        raise not_found(lookup, tool_id)
    return _highest(lookup, tool_id, tool_id)


def _parse_name(reference: str, namespace: str, name: str) -> ToolId:
    """Return the id before a constraint; an error names the whole reference."""
    try:
        return ToolId(namespace, name)
    except InvalidToolIdError as error:
        raise InvalidToolIdError(reference, error.reason) from None


def versions_of(lookup: Lookup, reference: str | ToolId) -> tuple[str, ...]:
    """Return the ids of all versions of a tool, the lowest first; one without a version is the lowest."""
    found = lookup.versions(without_version(key_of(reference)))
    return tuple(sorted(found, key=lambda tool_id: (_version(tool_id) is not None, _version(tool_id))))


def not_found(lookup: Lookup, reference: str) -> ToolNotFoundError:
    """Return the error that no tool answers to a reference, with the ids that come nearest."""
    parts = reference.split(":")
    name = _name(reference)
    same_name = sorted(lookup.answering(name))
    near = chain(
        lookup.versions(without_version(reference)),
        same_name,
        islice(lookup.following(reference, before=_BESIDE), 2 * _BESIDE),
    )
    others = chain(lookup.starting(f"{parts[0]}:"), lookup.starting(reference[:2]), lookup.following(""))
    scanned = dict.fromkeys(islice(others, _SCANNED))
    likely = sorted(scanned, key=lambda tool_id: abs(len(_name(tool_id)) - len(name)))
    candidates = dict.fromkeys((*islice(near, _COMPARED), *likely[:_COMPARED]))
    found = get_close_matches(reference[:_LONGEST], candidates, n=_SUGGESTED, cutoff=_ALIKE)
    return ToolNotFoundError(reference, tuple(found or same_name[:_SUGGESTED]))


def _name(reference: str) -> str:
    """Return the name in an id or in a reference."""
    return reference.split(":", 2)[1 if ":" in reference else 0]


def _is_exact(text: str) -> bool:
    try:
        Version.parse(text)
    except InvalidVersionError:
        return False
    return True


def _version(tool_id: str) -> Version | None:
    parts = tool_id.split(":", _MAX_PARTS - 1)
    return Version.parse(parts[-1]) if len(parts) == _MAX_PARTS else None


def _highest(lookup: Lookup, name: str, reference: str, constraint: Constraint | None = None) -> Entry:
    """Return the highest version of a tool that a constraint admits, a stable one before any other."""
    found = [
        (not version.prerelease, version, tool_id)
        for tool_id in lookup.versions(name)
        if (version := _version(tool_id)) and (constraint is None or version in constraint)
    ]
    best = lookup.get(max(found)[-1]) if found else None
    if best is None:
        raise not_found(lookup, reference)
    return best

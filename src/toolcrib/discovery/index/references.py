"""Resolves references to tools: an exact id, the highest version, or the highest that a constraint admits."""

from difflib import get_close_matches
from itertools import chain, islice

from toolcrib.discovery.index.entry import Entry
from toolcrib.discovery.index.lookup import Lookup
from toolcrib.discovery.keys import is_exact, key_of
from toolcrib.errors import InvalidToolIdError, InvalidVersionError, ToolNotFoundError
from toolcrib.model import ToolId
from toolcrib.model.toolid import without_version
from toolcrib.version import Constraint, Version

_ID_PARTS = 3
# The error of an unknown reference suggests similar ids. `difflib` is slow, and a mistyped id must not cost
# more in a large catalogue: ids are first ranked by length, then the few likely ones are compared.
_MAX_SCANNED = 2_000
_MAX_COMPARED = 60
_NEIGHBOURS = 20
"""Ids compared on each side of the place where the reference would be sorted in."""
_MAX_SUGGESTIONS = 3
_MAX_COMPARED_LENGTH = 200
_MIN_SIMILARITY = 0.6


def resolve_reference(lookup: Lookup, reference: str | ToolId) -> Entry:
    """Return the entry of the tool that a reference names.

    Raises:
        InvalidToolIdError: it is neither an id nor an id with a version constraint.
        InvalidConstraintError: its third part is neither a version nor a constraint.
        ToolNotFoundError: no tool matches; with the most similar ids.
    """
    if isinstance(reference, str):
        if (found := lookup.get(reference)) is not None:  # fast path: most references are canonical ids
            return found
        parts = reference.split(":", _ID_PARTS - 1)
        if len(parts) == _ID_PARTS and ":" not in parts[-1] and not _is_version(parts[-1]):
            if not parts[-1].strip():
                reason = "its version is empty; leave out the last colon, or write one"
                raise InvalidToolIdError(reference, reason)
            name = str(_parse_name(reference, *parts[:2]))
            return _highest_version(lookup, name, reference, Constraint.parse(parts[-1]))
    tool_id = key_of(reference)
    found = lookup.get(tool_id)
    if found is not None:
        return found
    if is_exact(tool_id):
        raise not_found_error(lookup, tool_id)
    return _highest_version(lookup, tool_id, tool_id)


def _parse_name(reference: str, namespace: str, name: str) -> ToolId:
    """Parse the id before a constraint; errors name the whole reference."""
    try:
        return ToolId(namespace, name)
    except InvalidToolIdError as error:
        raise InvalidToolIdError(reference, error.reason) from None


def versions_of(lookup: Lookup, reference: str | ToolId) -> tuple[str, ...]:
    """Return the ids of all versions of a tool, the lowest first; one without a version is the lowest."""
    found = lookup.versions(without_version(key_of(reference)))
    return tuple(sorted(found, key=lambda tool_id: (_version_in(tool_id) is not None, _version_in(tool_id))))


def not_found_error(lookup: Lookup, reference: str) -> ToolNotFoundError:
    """Return the error for a reference that no tool matches, with the most similar ids."""
    parts = reference.split(":")
    name = _name_in(reference)
    same_name = sorted(lookup.find_by_name(name))
    near = chain(
        lookup.versions(without_version(reference)),
        same_name,
        islice(lookup.ids_from(reference, before=_NEIGHBOURS), 2 * _NEIGHBOURS),
    )
    others = chain(
        lookup.ids_with_prefix(f"{parts[0]}:"), lookup.ids_with_prefix(reference[:2]), lookup.ids_from("")
    )
    scanned = dict.fromkeys(islice(others, _MAX_SCANNED))
    likely = sorted(scanned, key=lambda tool_id: abs(len(_name_in(tool_id)) - len(name)))
    candidates = dict.fromkeys((*islice(near, _MAX_COMPARED), *likely[:_MAX_COMPARED]))
    found = get_close_matches(
        reference[:_MAX_COMPARED_LENGTH], candidates, n=_MAX_SUGGESTIONS, cutoff=_MIN_SIMILARITY
    )
    return ToolNotFoundError(reference, tuple(found or same_name[:_MAX_SUGGESTIONS]))


def _name_in(reference: str) -> str:
    """Return the name part of an id or a reference."""
    return reference.split(":", 2)[1 if ":" in reference else 0]


def _is_version(text: str) -> bool:
    try:
        Version.parse(text)
    except InvalidVersionError:
        return False
    return True


def _version_in(tool_id: str) -> Version | None:
    parts = tool_id.split(":", _ID_PARTS - 1)
    return Version.parse(parts[-1]) if len(parts) == _ID_PARTS else None


def _highest_version(
    lookup: Lookup, name: str, reference: str, constraint: Constraint | None = None
) -> Entry:
    """Return the highest version that a constraint admits; any stable version beats a pre-release."""
    # The tuples sort by stability first, then by version.
    found = [
        (not version.prerelease, version, tool_id)
        for tool_id in lookup.versions(name)
        if (version := _version_in(tool_id)) and (constraint is None or version in constraint)
    ]
    best = lookup.get(max(found)[-1]) if found else None
    if best is None:
        raise not_found_error(lookup, reference)
    return best

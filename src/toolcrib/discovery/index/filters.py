"""Filters of lists and searches, as conditions on the facets of tools.

Every tool has facets, such as `tag=issues` and `backend=mcp`. A filter is a tuple of conditions that must all
hold. A condition is a set of facets of which the tool must have at least one or, if `NONE_OF` is in the set,
none.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypedDict

from toolcrib.discovery.facts import aliases, category, is_deprecated
from toolcrib.errors import Problem, ValidationError
from toolcrib.model import Tool, ToolBackend, normalize_tags
from toolcrib.model.suggest import did_you_mean

_HINTS = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
}

_OTHER_OPTIONS = ("limit", "cursor", "min_confidence")
"""The options beside the filters; the last one belongs to searches only."""
_SYNONYMS = dict.fromkeys(("count", "k", "max_results", "n", "size", "top", "top_k"), "limit")
"""Names that callers try for an option, for the hint of an error."""

NAMESPACE = "namespace="
"""Prefix of the namespace facet; every tool has exactly one, empty for a tool without a namespace."""
ID = "id="
"""Prefix of the facets for the id and for the id without a version; they are computed, not indexed."""
ALIAS = "alias="
"""Prefix of the facets for the aliases."""
ADMITTED = "admitted="
"""Prefix of the facet that an `Admission` gives to the tools it admits."""
DEPRECATED = "deprecated=True"
"""The facet of deprecated tools."""
NONE_OF = "none of"
"""Marker in a condition that holds if a tool has none of the other facets."""

Filter = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Admission:
    """A condition on ids and facets that a program computes, for example from its policy."""

    key: str
    """Identifies the condition: two with the same key must admit the same tools."""
    admits: Callable[[str, Collection[str]], bool] = field(compare=False)
    """Returns whether a tool with this id and these facets is admitted; must be deterministic."""

    @property
    def facet(self) -> str:
        """The facet of the admitted tools."""
        return ADMITTED + self.key


class FilterOptions(TypedDict, total=False):
    """Filters of a list or a search; a filter that is absent or None does not apply."""

    namespace: str | None
    """This namespace; an empty text means the tools without one."""
    tags: Iterable[str] | None
    """At least one of these tags."""
    all_tags: Iterable[str] | None
    """Every one of these tags."""
    category: str | None
    """This category, whatever its case."""
    backend: str | ToolBackend | None
    """This backend, or any of this kind (`mcp`, `provider`, `local`) or of this name."""
    annotations: Mapping[str, bool] | None
    """Hints that the tool itself gives, such as `readOnlyHint`."""


def tool_facets(tool: Tool) -> tuple[str, ...]:
    """Return the facets of a tool that come from its definition.

    >>> tool_facets(Tool(name="add", namespace="math", tags=["sum"], input_schema={}))
    ('namespace=math', 'tag=sum')
    """
    hints = tool.annotations.to_json() if tool.annotations else {}
    label = category(tool)
    return (
        f"{NAMESPACE}{tool.namespace or ''}",
        *(f"tag={tag}" for tag in tool.tags),
        *((f"category={_normalize_label(label)}",) if label else ()),
        *(f"{ALIAS}{alias}" for alias in aliases(tool)),
        *(f"{hint}={hints[hint]}" for hint in _HINTS.values() if hint in hints),
        *((DEPRECATED,) if is_deprecated(tool) else ()),
    )


def tags_of(facets: Collection[str]) -> set[str]:
    """Return the tags among some facets."""
    return {facet.removeprefix("tag=") for facet in facets if facet.startswith("tag=")}


def hints_among(facets: Collection[str]) -> dict[str, bool]:
    """Return the hints among some facets, by the names of their fields.

    >>> hints_among({"readOnlyHint=True", "namespace=git"})
    {'read_only_hint': True}
    """
    known = ((name, hint, value) for name, hint in _HINTS.items() for value in (True, False))
    return {name: value for name, hint, value in known if f"{hint}={value}" in facets}


def backend_facets(backends: Sequence[ToolBackend]) -> frozenset[str]:
    """Return the facets of a tool's backends: for each by kind, by name, by both, and exactly."""
    return frozenset().union(*map(_facets_of, backends))


@lru_cache(maxsize=1 << 12)  # many tools have the same few backends
def _facets_of(backend: ToolBackend) -> frozenset[str]:
    kind, name, *_ = backend.to_json().values()
    return frozenset({f"backend={kind}", f"backend={name}", f"backend={kind}:{name}", _exact_facet(backend)})


def read_filter(options: FilterOptions) -> Filter:
    """Convert filter options to conditions; equal options in any order give the same filter.

    Raises:
        ValidationError: with every problem.
    """
    given: dict[str, Any] = {**options}
    for name in ("tags", "all_tags"):
        tags = given.get(name)
        if isinstance(tags, Iterable) and not isinstance(tags, str):
            given[name] = list(tags)  # read more than once, and it may be an iterator
    problems = tuple(_find_problems(given))
    if problems:
        raise ValidationError(problems)
    return make_filter(_conditions(given))


def make_filter(conditions: Iterable[frozenset[str]]) -> Filter:
    """Return conditions as a filter, without duplicates and in canonical order."""
    return tuple(sorted(set(conditions), key=sorted))


def hint_name(hint: str) -> str | None:
    """Return the JSON name of an annotation hint; None if there is no such hint.

    >>> hint_name("read_only_hint"), hint_name("readOnlyHint"), hint_name("safe")
    ('readOnlyHint', 'readOnlyHint', None)
    """
    name = _HINTS.get(hint, hint)
    return name if name in _HINTS.values() else None


def filter_text(conditions: Filter) -> str:
    """Return a text that identifies a filter; equal filters have equal texts."""
    return repr([sorted(one) for one in conditions])


def _conditions(options: Mapping[str, Any]) -> Iterator[frozenset[str]]:
    namespace, label, backend = options.get("namespace"), options.get("category"), options.get("backend")
    tags = options.get("tags")
    if namespace is not None:
        yield frozenset({f"{NAMESPACE}{namespace}"})
    if label is not None:
        yield frozenset({f"category={_normalize_label(label)}"})
    if backend is not None:
        yield frozenset({f"backend={backend}" if isinstance(backend, str) else _exact_facet(backend)})
    if tags is not None:
        yield frozenset(map(_tag_facet, tags))
    yield from (frozenset({_tag_facet(tag)}) for tag in options.get("all_tags") or ())
    for hint, value in (options.get("annotations") or {}).items():
        yield frozenset({f"{_HINTS.get(hint, hint)}={value}"})


def _tag_facet(tag: str) -> str:
    """Return the facet of a tag, normalised; a text that cannot be a tag gives a facet of no tool."""
    return f"tag={''.join(normalize_tags([tag]))}"


def _normalize_label(label: str) -> str:
    return " ".join(label.split()).casefold()


def _exact_facet(backend: ToolBackend) -> str:
    """Return a facet that identifies one backend; fields have a length prefix against collisions."""
    return "backend:" + "".join(f"{len(value)}:{value}" for value in backend.to_json().values())


def _find_problems(given: dict[str, Any]) -> Iterator[Problem]:
    known = FilterOptions.__annotations__
    for name in sorted(given.keys() - known.keys()):
        yield Problem(f"/{name}", "name", _explain_unknown_option(name))
    for name in ("namespace", "category"):
        if not isinstance(given.get(name), str | None):
            yield Problem(f"/{name}", "type", f"must be text, not {type(given[name]).__name__}")
    for name in ("tags", "all_tags"):
        tags = given.get(name)
        if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
            yield Problem(f"/{name}", "type", "must be a list of tags, each a string")
    if not isinstance(given.get("backend"), str | ToolBackend | None):
        yield Problem("/backend", "type", "must be a kind, a name or a backend")
    if given.get("annotations") is not None:
        yield from _hint_problems(given["annotations"])


def _explain_unknown_option(name: str) -> str:
    *common, of_search = _OTHER_OPTIONS
    if name == of_search:
        return "is an option of a search alone"
    names = [*FilterOptions.__annotations__, *common]
    hint = did_you_mean(_SYNONYMS.get(name, name), [*names, of_search])
    return f"is not an option{hint}; there are {', '.join(names)} and, for a search, {of_search}"


def _hint_problems(annotations: Any) -> Iterator[Problem]:
    if not isinstance(annotations, Mapping):
        yield Problem("/annotations", "type", "must be a mapping from hints to booleans")
        return
    for hint, value in annotations.items():
        if hint_name(hint) is None:
            yield Problem(
                f"/annotations/{hint}", "name", f"is not a hint; there are {', '.join(_HINTS.values())}"
            )
        elif not isinstance(value, bool):
            yield Problem(f"/annotations/{hint}", "type", "must be true or false")

"""Which tools of the catalogue are looked at.

Every tool has facets, such as `tag=issues` and `backend=mcp`. A filter is a list of conditions that must all
hold, each a set of facets of which one is enough, or, where `NONE_OF` is among them, one is too many.
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

_BESIDE = ("limit", "cursor", "min_confidence")
"""What may be asked for beside the filters, the last of a search alone."""
_MEANT = dict.fromkeys(("count", "k", "max_results", "n", "size", "top", "top_k"), "limit")
"""What others call an option."""

NAMESPACE = "namespace="
"""How the facet begins that every tool has one of."""
ID = "id="
"""How the facet begins that a tool has for its id, and one for all its versions; these are not filed."""
ADMITTED = "admitted="
"""How the facet begins of a tool that an admission lets pass."""
DEPRECATED = "deprecated=True"
"""The facet of a tool that says it should no longer be used."""
NONE_OF = "none of"
"""What stands among the facets of a condition that holds where a tool has none of them."""

Filter = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may see a tool, by its id and facets: a condition that a program makes, such as of its policy."""

    key: str
    """Two with the same key let the same tools pass."""
    admits: Callable[[str, Collection[str]], bool] = field(compare=False)
    """Says whether the tool of an id, with these facets, may be seen; always the same of the same tool."""

    @property
    def facet(self) -> str:
        """The facet of the tools that it lets pass."""
        return ADMITTED + self.key


class FilterOptions(TypedDict, total=False):
    """How a list or a search is narrowed; what is absent or None does not narrow it."""

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
    """Return what a tool can be selected by.

    >>> tool_facets(Tool(name="add", namespace="math", tags=["sum"], input_schema={}))
    ('namespace=math', 'tag=sum')
    """
    hints = tool.annotations.to_json() if tool.annotations else {}
    label = category(tool)
    return (
        f"{NAMESPACE}{tool.namespace or ''}",
        *(f"tag={tag}" for tag in tool.tags),
        *((f"category={_normalize_label(label)}",) if label else ()),
        *(f"alias={alias}" for alias in aliases(tool)),
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
    """Return what a tool can be selected by for where it runs: by kind, by name, by both, exactly."""
    return frozenset().union(*map(_facets_of, backends))


@lru_cache(maxsize=1 << 12)  # many tools have the same few backends
def _facets_of(backend: ToolBackend) -> frozenset[str]:
    kind, name, *_ = backend.to_json().values()
    return frozenset({f"backend={kind}", f"backend={name}", f"backend={kind}:{name}", _exact(backend)})


def read_filter(options: FilterOptions) -> Filter:
    """Return the conditions that options describe; the order they were given in does not matter.

    Raises:
        ValidationError: with everything that is wrong with them.
    """
    if not options:
        return ()
    given: dict[str, Any] = {**options}
    for name in ("tags", "all_tags"):
        tags = given.get(name)
        if isinstance(tags, Iterable) and not isinstance(tags, str):
            given[name] = list(tags)  # it is read more than once
    problems = tuple(_problems(given))
    if problems:
        raise ValidationError(problems)
    return combined(_conditions(given))


def combined(conditions: Iterable[frozenset[str]]) -> Filter:
    """Return conditions as the filter that they are in any order."""
    return tuple(sorted(set(conditions), key=sorted))


def hint_name(hint: str) -> str | None:
    """Return a hint as it is written in JSON; None where there is no such hint.

    >>> hint_name("read_only_hint"), hint_name("readOnlyHint"), hint_name("safe")
    ('readOnlyHint', 'readOnlyHint', None)
    """
    name = _HINTS.get(hint, hint)
    return name if name in _HINTS.values() else None


def filter_text(conditions: Filter) -> str:
    """Return a text that all ways to write a filter share, and no other filter."""
    return repr([sorted(one) for one in conditions])


def _conditions(options: Mapping[str, Any]) -> Iterator[frozenset[str]]:
    namespace, label, backend = options.get("namespace"), options.get("category"), options.get("backend")
    tags = options.get("tags")
    if namespace is not None:
        yield frozenset({f"{NAMESPACE}{namespace}"})
    if label is not None:
        yield frozenset({f"category={_normalize_label(label)}"})
    if backend is not None:
        yield frozenset({f"backend={backend}" if isinstance(backend, str) else _exact(backend)})
    if tags is not None:
        yield frozenset(map(_tag_facet, tags))
    yield from (frozenset({_tag_facet(tag)}) for tag in options.get("all_tags") or ())
    for hint, value in (options.get("annotations") or {}).items():
        yield frozenset({f"{_HINTS.get(hint, hint)}={value}"})


def _tag_facet(tag: str) -> str:
    """Return the facet of a tag, however it is written; one that no tag can be written as has no tools."""
    return f"tag={''.join(normalize_tags([tag]))}"


def _normalize_label(label: str) -> str:
    return " ".join(label.split()).casefold()


def _exact(backend: ToolBackend) -> str:
    """Return a facet that no other backend has: the length of each field parts it from the next."""
    return "backend:" + "".join(f"{len(value)}:{value}" for value in backend.to_json().values())


def _problems(given: dict[str, Any]) -> Iterator[Problem]:
    known = FilterOptions.__annotations__
    for name in sorted(given.keys() - known.keys()):
        yield Problem(f"/{name}", "name", _unknown(name))
    for name in ("namespace", "category"):
        if not isinstance(given.get(name), str | None):
            yield Problem(f"/{name}", "type", f"must be text, not {type(given[name]).__name__}")
    for name in ("tags", "all_tags"):
        tags = given.get(name)
        if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
            yield Problem(f"/{name}", "type", "must be a list of tags, each a text")
    if not isinstance(given.get("backend"), str | ToolBackend | None):
        yield Problem("/backend", "type", "must be a kind, a name or a backend")
    if given.get("annotations") is not None:
        yield from _hint_problems(given["annotations"])


def _unknown(name: str) -> str:
    *common, of_search = _BESIDE
    if name == of_search:
        return "is an option of a search alone"
    names = [*FilterOptions.__annotations__, *common]
    hint = did_you_mean(_MEANT.get(name, name), [*names, of_search])
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

"""Writes docs/reference/ from the public packages; `--check` only compares.

A page lists the names of a package and leaves their docstrings to mkdocstrings. What that cannot say is
find_object here: a table of the fields of each record, and a table of the caps, both from the code itself.
"""

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, is_typeddict

import griffe
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from reference_docstrings import add_cap_values, caps_in

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
PACKAGES = (
    "toolcrib.errors",
    "toolcrib.version",
    "toolcrib.model.argschema",
    "toolcrib.model.schemas",
    "toolcrib.model",
    "toolcrib.adapter",
    "toolcrib.discovery",
    "toolcrib.discovery.evaluation",
    "toolcrib.execution",
    "toolcrib.execution.chains",
    "toolcrib.execution.mcp",
    "toolcrib.execution.middleware",
    "toolcrib.execution.http",
    "toolcrib.execution.audit",
    "toolcrib.execution.tracing",
    "toolcrib.runtime",
    "toolcrib.runs",
    "toolcrib.crib",
    "toolcrib.gateway",
    "toolcrib.setup.demo",
    "toolcrib.setup.doctor",
    "toolcrib.setup.editing",
    "toolcrib.setup.installing",
    "toolcrib.setup.lint",
    "toolcrib.setup.measuring",
    "toolcrib.trust",
    "toolcrib",
)
"""Packages that public names are imported from; a name of several is described on the page of the first."""
INNER = ("toolcrib.cli", "toolcrib.console", "toolcrib.paths")
"""Packages without names for programs."""
NOTICE = "<!-- Made by scripts/reference_pages.py; do not edit it by hand. -->"
INDEX = """\
# API reference

{notice}

Every public name, by the package that it is imported from. The texts are the docstrings; types, defaults and
caps are read from the code. What is not listed here may change without notice.

{packages}

The numbers behind the names of caps, such as `MAX_TAGS`, are on [a page of their own](caps.md).

## Records

What has a table of fields is made from them, as keyword arguments; "if left out" says what it means not to
give one. Those based on `Record` do not change once made, and have a JSON form, in which the fields are in
camelCase: `input_schema` is `inputSchema`.

{record}
"""
CAPS = """\
# Caps

{notice}

The public constants that bound what is kept, shown or read. Docstrings and tables name them; the numbers on
this page are those of the code.

| constant | value | module | what it bounds |
|---|---|---|---|
{rows}
"""
_BOUNDS = {
    "ge": "at least {}",
    "gt": "more than {}",
    "le": "at most {}",
    "lt": "less than {}",
    "min_length": "length at least {}",
    "max_length": "length at most {}",
}
"""Texts for pydantic's constraints, by their attributes."""
_LONG = 200
"""Values of constants that take more characters are not shown."""
Faults = list[str]
"""Gaps in the reference."""


@cache
def source() -> griffe.Module:
    """Return the package as it is find_object, with its docstrings."""
    loaded = griffe.load("toolcrib", search_paths=[ROOT / "src"], resolve_aliases=True)
    assert isinstance(loaded, griffe.Module)
    return loaded


def find_object(path: str) -> griffe.Object:
    """Return the object at a public path, wherever it is defined."""
    found = source() if path == "toolcrib" else source()[path.removeprefix("toolcrib.")]
    target = found.final_target if found.is_alias else found
    assert isinstance(target, griffe.Object)
    return target


@cache
def caps() -> dict[str, tuple[int, str]]:
    """Return the value and the description of each public cap, by its full path."""
    found = {}
    for module in _modules(source()):
        for name, member in module.members.items():
            if name.startswith("MAX_") and not member.is_alias:
                text = member.docstring.value if member.docstring else ""
                found[member.path] = (getattr(import_module(module.path), name), " ".join(text.split()))
    return found


def _modules(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for member in module.modules.values():
        if not member.is_alias:
            yield from _modules(member)


@cache
def numbers() -> dict[str, int]:
    """Return the value of each public cap, by its full path."""
    return {path: value for path, (value, _) in caps().items()}


def description(path: str, field: str) -> str:
    """Return the text below a field of a record, or of the record that it is inherited from."""
    owner = find_object(path)
    assert isinstance(owner, griffe.Class)
    for place in (owner, *owner.mro()):
        member = place.members.get(field)
        if member is not None and member.docstring:
            return " ".join(member.docstring.value.split())
    return ""


def types(annotation: Any) -> str:
    """Return the types that a value may have, in Markdown."""
    if get_origin(annotation) is Annotated:
        return types(annotation.__origin__)
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(types, get_args(annotation))))
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{choice!r}`" for choice in get_args(annotation))
    return f"`{kind(annotation)}`"


def kind(annotation: Any) -> str:
    """Return a type in Python's syntax, without its validators."""
    inner = get_args(annotation)
    match get_origin(annotation):
        case origin if origin is Annotated:
            text = kind(inner[0])
        case origin if origin is Literal:
            text = " | ".join(map(repr, inner))
        case origin if origin in (Union, UnionType):
            text = " | ".join(dict.fromkeys(map(kind, inner)))
        case None if isinstance(annotation, list):  # the parameters of a callable
            text = f"[{', '.join(map(kind, annotation))}]"
        case None if isinstance(annotation, str | TypeVar):
            text = str(annotation).lstrip("~")
        case None:
            names = {NoneType: "None", Ellipsis: "..."}
            text = names.get(annotation) or getattr(annotation, "__name__", str(annotation))
        case origin:
            text = f"{getattr(annotation, '__name__', origin.__name__)}[{', '.join(map(kind, inner))}]"
    return text


def bounds(annotation: Any, metadata: Iterable[Any] = ()) -> list[str]:
    """Return the numbers that a value, or a part of a union, may not pass."""
    found = []
    for rule in metadata:
        if isinstance(rule, FieldInfo):
            found += bounds(None, rule.metadata)
        for name, words in _BOUNDS.items():
            if isinstance(value := getattr(rule, name, None), int | float):
                found.append(words.format(f"{value:,}"))
    if get_origin(annotation) is Annotated:
        found += bounds(annotation.__origin__, annotation.__metadata__)
    elif get_origin(annotation) in (Union, UnionType):
        found += [bound for part in get_args(annotation) for bound in bounds(part)]
    return list(dict.fromkeys(found))


def fields_of(record: type, path: str, faults: Faults) -> list[str]:
    """Return the rows of the table of a record, in the order of its fields."""
    found = []
    for name, annotation, default, metadata in _read_fields(record):
        text = description(path, name)
        if not text:
            faults.append(f"{path}.{name} has no text below it")
        limits = bounds(annotation, metadata)
        for cap, value in caps_in(text, find_object(path).module.path, numbers()).items():
            if value is None:
                faults.append(f"{path}.{name} names {cap}, which is no cap, or several")
            else:
                limits.append(f"`{cap}` = {value:,}")
        shown = f"`{default}`" if default else ""
        left_out = _meaning_of_omission(record, default)
        found.append(row(f"`{name}`", types(annotation), shown, "; ".join(limits), left_out, text))
    return found


def _read_fields(record: type) -> Iterator[tuple[str, Any, str | None, list[Any]]]:
    """Yield the name, the type, the default as text (None: required) and the rules of each field."""
    if issubclass(record, BaseModel):
        for name, field in record.model_fields.items():
            default = (
                None if field.is_required() else _show_default(field.get_default(call_default_factory=True))
            )
            yield name, field.annotation, default, list(field.metadata)
    elif dataclasses.is_dataclass(record):
        for each in dataclasses.fields(record):
            if each.init and not each.name.startswith("_"):
                is_made = each.default_factory is not dataclasses.MISSING
                value = each.default_factory() if is_made else each.default
                yield each.name, each.type, None if value is dataclasses.MISSING else _show_default(value), []
    else:
        defaults = getattr(record, "_field_defaults", {})
        for name, annotation in record.__annotations__.items():
            optional = "" if is_typeddict(record) else None
            yield name, annotation, _show_default(defaults[name]) if name in defaults else optional, []


def _show_default(value: Any) -> str:
    """Return a default as text that is the same on every machine."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if type(value) is int:
        return f"{value:,}"
    if inspect.isroutine(value) or isinstance(value, type):
        return value.__qualname__
    text = repr(value)
    return f"{type(value).__name__}()" if " at 0x" in text or isinstance(value, BaseModel) else text


def _meaning_of_omission(record: type, default: str | None) -> str:
    """Return the meaning of an omitted field."""
    if default is None:
        return "an error"
    if is_typeddict(record):
        return "as described"
    in_json = not (issubclass(record, BaseModel) and default in ("None", "()", "{}"))
    return "the default" if in_json else "not in the JSON"


def is_record(value: Any) -> bool:
    """Return whether a table of fields describes a class."""
    if not isinstance(value, type) or issubclass(value, Enum):
        return False
    model = issubclass(value, BaseModel) or dataclasses.is_dataclass(value)
    return model or is_typeddict(value) or (issubclass(value, tuple) and hasattr(value, "_fields"))


def methods_of(record: type, path: str) -> list[str]:
    """Return the public methods and properties that a record adds to its fields."""
    owner = find_object(path)
    assert isinstance(owner, griffe.Class)
    known = {name for name, *_ in _read_fields(record)}
    return [
        name
        for place in (owner, *owner.mro())
        if place.path != "toolcrib.model.record.Record"
        for name, member in place.members.items()
        if not name.startswith("_")
        and name not in known
        and name != "model_config"
        and (member.is_function or "property" in member.labels)
    ]


def block(path: str, level: int, **options: bool) -> str:
    """Return the place where mkdocstrings puts a docstring."""
    lines = [f"::: {path}", "    options:", f"      heading_level: {level}", "      show_root_heading: true"]
    return "\n".join([*lines, *(f"      {name}: {str(value).lower()}" for name, value in options.items())])


def entry(path: str, value: Any, faults: Faults) -> str:
    """Return the part of a page about one name."""
    if not is_record(value):
        is_long = isinstance(value, tuple | dict | str) and len(repr(value)) > _LONG
        return block(path, 2, show_attribute_values=False) if is_long else block(path, 2)
    hidden = {"show_bases": False} if issubclass(value, BaseModel) else {}
    parts = [block(path, 2, members=False, inherited_members=False, show_signature=False, **hidden)]
    if rows := fields_of(value, path, faults):
        head = ["| field | type | default | cap | if left out | description |", "|---|---|---|---|---|---|"]
        parts.append("\n".join([*head, *rows]))
    parts += [block(f"{path}.{name}", 3) for name in dict.fromkeys(methods_of(value, path))]
    return "\n\n".join(parts)


def page(package: str, homes: dict[str, str], faults: Faults) -> str:
    """Return the page of one package; names described on an earlier page are links."""
    module = import_module(package)
    rows, entries = ["| name | description |", "|---|---|"], []
    for name in sorted(module.__all__, key=str.casefold):
        value = getattr(module, name)
        path = place_of(f"{package}.{name}", value)
        found = find_object(path)
        first = found.docstring.value.strip().partition("\n\n")[0] if found.docstring else ""
        if not first:
            faults.append(f"{package}.{name} has no description")
        if found.path not in homes:
            homes[found.path] = path
            entries.append(entry(path, value, faults))
        summary = add_cap_values(first, found.module.path, numbers())
        rows.append(row(f"[`{name}`][{homes[found.path]}]", summary))
    opening = f"::: {package}\n    options:\n      members: false\n      inherited_members: false"
    return "\n\n".join([f"# {package}", NOTICE, opening, "\n".join(rows), *entries]) + "\n"


def place_of(path: str, value: Any) -> str:
    """Return where a name is read from: where it is defined, if a module of its package has that name."""
    is_shadowed = find_object(path).is_module and not inspect.ismodule(value)
    return f"{value.__module__}.{value.__qualname__}" if is_shadowed else path


def row(*cells: str) -> str:
    """Return one row of a table."""
    return f"| {' | '.join(map(_escape_bars, cells))} |"


def _escape_bars(text: str) -> str:
    """Return text on one line, with the bars escaped that do not stand in code."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
    return "`".join(parts)


def pages(faults: Faults) -> dict[str, str]:
    """Return every page by its file name."""
    homes: dict[str, str] = {}
    made = {_file(package): page(package, homes, faults) for package in PACKAGES}
    for top in source().modules.values():
        if top.is_init_module and top.exports and not top.path.startswith((*PACKAGES[:-1], *INNER)):
            faults.append(f"{top.path} is neither in PACKAGES nor in INNER")
    for path, (_, text) in caps().items():
        if not text:
            faults.append(f"{path} has no text below it")
    listed = "\n".join(f"- [{package}]({_file(package)})" for package in ("toolcrib", *PACKAGES[:-1]))
    rows = [
        f"| `{path.rpartition('.')[2]}` | {value:,} | `{path.rpartition('.')[0]}` | {text} |"
        for path, (value, text) in sorted(caps().items())
    ]
    base = "toolcrib.model.record.Record"
    shared = [block(base, 3, members=False, inherited_members=False, show_bases=False, show_signature=False)]
    shared += [block(f"{base}.{method}", 4) for method in ("from_json", "to_json", "replace")]
    made["index.md"] = INDEX.format(notice=NOTICE, packages=listed, record="\n\n".join(shared))
    made["caps.md"] = CAPS.format(notice=NOTICE, rows="\n".join(rows))
    return made


def _file(package: str) -> str:
    return f"{package.removeprefix('toolcrib.').replace('.', '-')}.md"


def main() -> int:
    """Write the pages, or report their gaps."""
    faults = Faults()
    made = pages(faults)
    if "--check" in sys.argv:
        nav = (ROOT / "mkdocs.yml").read_text()
        for name, text in made.items():
            there = (FOLDER / name).read_text() if (FOLDER / name).exists() else ""
            named = re.findall(r"^::: (\S+)", text, re.MULTILINE)
            missing = [path for path in named if f"::: {path}\n" not in there]
            faults += [f"docs/reference/{name} does not describe {path}" for path in missing]
            if there != text and not missing:
                faults.append(f"docs/reference/{name} is out of date")
            if f"reference/{name}" not in nav:
                faults.append(f"docs/reference/{name} is not in the nav of mkdocs.yml")
        faults += [f"{path} is of no package" for path in FOLDER.glob("*.md") if path.name not in made]
        faults += ["run scripts/reference_pages.py"] if faults else []
    elif not faults:
        FOLDER.mkdir(exist_ok=True)
        for name, text in made.items():
            (FOLDER / name).write_text(text)
    sys.stderr.write("".join(f"{fault}\n" for fault in faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

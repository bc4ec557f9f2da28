"""What a docstring says about a function and its parameters, in Google, NumPy or Sphinx style."""

import inspect
import re
from dataclasses import dataclass, field

__all__ = ["Docstring", "read_docstring"]

_SECTIONS = frozenset(
    {
        "args", "arguments", "attributes", "example", "examples", "keyword", "note", "notes", "other",
        "parameters", "params", "raises", "references", "return", "returns", "todo", "warning", "warnings",
        "yield", "yields",
    }
)  # fmt: skip
_ARGS = frozenset(
    {"args", "arguments", "parameters", "params", "keyword arguments", "other parameters", "keyword args"}
)
_GOOGLE_HEADER = re.compile(r"^([A-Z][A-Za-z ]{0,30}):\s*$")
_UNDERLINE = re.compile(r"^-{3,}\s*$")
_GOOGLE_ARG = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ARG = re.compile(r"^\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX_FIELD = re.compile(r"^:(\w+)(?:\s+[^:]*?)?(?:\s*\*{0,2}(\w+))?\s*:\s*(.*)$")
_SPHINX_PARAMS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring taken apart."""

    description: str = ""
    """Everything before the first section."""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Docstring:
    r"""Return the description and the parameters of a docstring.

    >>> read_docstring("Add.\n\nArgs:\n    a: The first.\n    b (int): The\n        second.").parameters
    {'a': 'The first.', 'b': 'The second.'}
    """
    lines = inspect.cleandoc(text or "").splitlines()
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    section, current = "", ""
    for number, line in enumerate(lines):
        if header := _header(lines, number):
            section, current = header, ""
        elif _UNDERLINE.match(line) and section:
            continue
        elif sphinx := _SPHINX_FIELD.match(line):
            section, current = "sphinx", _open(parameters, sphinx)
        elif not section:
            description.append(line)
        elif section in _ARGS and (named := _names(lines, number)):
            current = named[0]
            for name in named[0].split(","):
                parameters[name.strip(" *")] = [named[1]]
        elif current and line.strip():
            for name in current.split(","):
                parameters[name.strip(" *")].append(line.strip())
    joined = {name: " ".join(part for part in parts if part) for name, parts in parameters.items()}
    return Docstring("\n".join(description).strip(), {name: text for name, text in joined.items() if text})


def _header(lines: list[str], number: int) -> str:
    """Return the section that a line opens, in Google's or NumPy's way, in lower case."""
    line = lines[number]
    google = _GOOGLE_HEADER.match(line)
    if google and google[1].lower().split()[0] in _SECTIONS:
        return google[1].lower()
    underlined = number + 1 < len(lines) and _UNDERLINE.match(lines[number + 1])
    return line.strip().lower() if underlined and line.strip() else ""


def _names(lines: list[str], number: int) -> tuple[str, str] | None:
    """Return the parameter, and the start of its text, that a line of an argument section opens."""
    line = lines[number]
    if line.startswith((" ", "\t")):
        indent = len(line) - len(line.lstrip())
        first = next(other for other in lines[: number + 1][::-1] if _is_outer(other, indent))
        is_entry = not first.startswith((" ", "\t")) and _GOOGLE_HEADER.match(first)
        google = _GOOGLE_ARG.match(line.strip()) if is_entry else None
        return (google[1], google[2]) if google else None
    numpy = _NUMPY_ARG.match(line)
    return (numpy[1], "") if numpy else None


def _is_outer(line: str, indent: int) -> bool:
    return bool(line.strip()) and len(line) - len(line.lstrip()) < indent


def _open(parameters: dict[str, list[str]], found: re.Match[str]) -> str:
    """Start the parameter that a Sphinx field names, and return its name; nothing for other fields."""
    if found[1] not in _SPHINX_PARAMS or not found[2]:
        return ""
    parameters[found[2]] = [found[3]]
    return found[2]

"""Parsing of docstrings in Google, NumPy or Sphinx style."""

import inspect
import re
from dataclasses import dataclass, field

_ARGS = frozenset(
    {"args", "arguments", "parameters", "params", "keyword arguments", "other parameters", "keyword args"}
)
_SECTIONS = _ARGS | {
    "attributes", "example", "examples", "note", "notes", "raises", "references", "return", "returns",
    "see also", "todo", "warning", "warnings", "warns", "yield", "yields",
}  # fmt: skip
_SPHINX_PARAMS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_SPHINX_FIELDS = _SPHINX_PARAMS | {
    "except", "exception", "meta", "raise", "raises", "return", "returns", "rtype", "type", "yield", "yields",
}  # fmt: skip
_GOOGLE_HEADER = re.compile(r"([A-Z][A-Za-z ]{0,30}):\s*")
_UNDERLINE = re.compile(r"-{3,}\s*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\)\s*)?:\s*(.*)")
_SPHINX_FIELD = re.compile(r":(\w+)(?:[ \t]([^:`]*))?:(?:\s+(.*))?")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A parsed docstring."""

    description: str = ""
    """The text before the first section."""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Docstring:
    r"""Parse the description and the parameters of a docstring.

    >>> read_docstring("Add.\n\nArgs:\n    a: The first.\n    b (int): The\n        second.").parameters
    {'a': 'The first.', 'b': 'The second.'}
    """
    lines = inspect.cleandoc(text or "").splitlines()
    reader = _Reader()
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        reader.read(line, following)
    parameters = {name: " ".join(filter(None, lines)) for name, lines in reader.parameters.items()}
    return Docstring(
        "\n".join(reader.description).strip(),
        {name: description for name, description in parameters.items() if description},
    )


class _Reader:
    """State machine that reads a docstring line by line."""

    def __init__(self) -> None:
        self.description: list[str] = []
        self.parameters: dict[str, list[str]] = {}
        self._style = ""
        """The style of the current section; `other` if it lists no parameters, empty before the first one."""
        self._names: list[str] = []
        self._indent = 0
        """The indentation of the entries of a Google section; 0 before the first entry."""

    def read(self, line: str, following: str) -> None:
        if header := _section_style(line, following):
            self._style, self._names, self._indent = header, [], 0
        elif (field := _SPHINX_FIELD.fullmatch(line)) and field[1] in _SPHINX_FIELDS:
            self._style = "sphinx"
            words = (field[2] or "").split() if field[1] in _SPHINX_PARAMS else []
            self._begin_entries(words[-1:], field[3] or "")
        elif not self._style:
            self.description.append(line)
        elif line.strip() and not _UNDERLINE.fullmatch(line):
            self._read_in_section(line)

    def _read_in_section(self, line: str) -> None:
        """Read a line inside a section: a new entry, or a continuation of the current one."""
        indent = len(line) - len(line.lstrip())
        if self._style == "numpy" and not indent:
            names = [name.strip() for name in line.partition(":")[0].split(",")]
            self._begin_entries(names if all(name.strip("*").isidentifier() for name in names) else [], "")
        elif not indent:
            self._style, self._names = "other", []
        elif self._style == "google" and indent <= (self._indent or indent):
            self._indent = indent
            entry = _GOOGLE_ENTRY.fullmatch(line.strip())
            self._begin_entries([entry[1]] if entry else [], entry[2] if entry else "")
        else:
            for name in self._names:
                self.parameters[name].append(line.strip())

    def _begin_entries(self, names: list[str], text: str) -> None:
        self._names = [name.strip("*") for name in names]
        self.parameters |= {name: [text] for name in self._names}


def _section_style(line: str, following: str) -> str:
    """Return the style of the section that a line begins; empty if it begins none."""
    google = _GOOGLE_HEADER.fullmatch(line)
    title = (google[1] if google else line.strip()).lower()
    if title not in _SECTIONS or not (google or _UNDERLINE.fullmatch(following)):
        return ""
    if title not in _ARGS:
        return "other"
    return "google" if google else "numpy"

"""Docstrings as the API reference shows them: doctests as code, and the numbers behind the names of caps."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import griffe

CAPS = Path(__file__).parent.parent / "docs" / "reference" / "caps.md"
_ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| `([\w.]+)` \|", re.MULTILINE)
_NAMED = re.compile(r"`(MAX_\w+)`")


class Docstrings(griffe.Extension):
    """Rewrites each docstring before mkdocstrings reads it."""

    def __init__(self) -> None:
        super().__init__()
        rows = _ROW.findall(CAPS.read_text())
        self._caps = {f"{module}.{name}": int(value.replace(",", "")) for name, value, module in rows}

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = add_cap_values(
                fence_doctests(obj.docstring.value), obj.module.path, self._caps
            )


def fence_doctests(text: str) -> str:
    """Return a docstring with its doctests fenced as code, which Markdown would take for quotations."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"```pycon\n{each.strip()}\n```" if each.lstrip().startswith(">>>") else each for each in paragraphs
    )


def add_cap_values(text: str, module: str, caps: Mapping[str, int]) -> str:
    """Return text in which the name of each cap is followed by its number."""

    def with_number(found: re.Match[str]) -> str:
        value = find_cap(found[1], module, caps)
        return found[0] if value is None else f"{found[0]} ({value:,})"

    return _NAMED.sub(with_number, text)


def caps_in(text: str, module: str, caps: Mapping[str, int]) -> dict[str, int | None]:
    """Return the caps that a text names; None for a name that is of no cap, or of several."""
    return {name: find_cap(name, module, caps) for name in _NAMED.findall(text)}


def find_cap(name: str, module: str, caps: Mapping[str, int]) -> int | None:
    """Return the cap that a module means by a name: its own, or the only one."""
    values = {value for path, value in caps.items() if path.endswith(f".{name}")}
    own = caps.get(f"{module}.{name}")
    return own if own is not None or len(values) != 1 else values.pop()

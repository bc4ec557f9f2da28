"""`${NAME}` and `${NAME:-default}` in the settings of a server, filled from the environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolcrib.errors import Problem

_OPENED = re.compile(r"\$(\$?)\{(?:([^{}]*)\})?")
"""`${...}`, or a `${` that is never closed; with a second `$` before it the text is meant as it stands."""
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_FORMS = "write ${NAME} or ${NAME:-default}, or $${ for the two characters themselves"


def has_variables(text: str) -> bool:
    """Return whether a text holds something that is to be filled in.

    >>> has_variables("https://${HOST}/mcp"), has_variables("costs $5")
    (True, False)
    """
    return "${" in text


@dataclass(slots=True)
class Expansion:
    """Fills in many texts, and keeps every problem met on the way.

    A default is used where the variable is not set or is empty, as in a shell. `${env:NAME}` means `${NAME}`.
    `$NAME` and `$$` stay as they are; `$${NAME}` becomes `${NAME}`; defaults are not filled in themselves.
    Anything else between `${` and `}`, and a `${` without its `}`, is a problem and not a guess.

    >>> fill = Expansion({"HOST": "example.com"})
    >>> fill.text("https://${HOST}:${PORT:-443}/$${raw}", path="/url")
    'https://example.com:443/${raw}'
    >>> fill.text("Bearer ${TOKEN}", path="/headers/Authorization")
    'Bearer '
    >>> print(fill.problems[0])
    /headers/Authorization: the variable 'TOKEN' is not set; set it, or write ${TOKEN:-default}
    """

    environ: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)
    used: dict[str, str] = field(default_factory=dict, repr=False)
    """The variables that were filled in from the environment, and their values."""

    def text(self, text: str, *, path: str) -> str:
        """Return a text with its variables filled in; one that cannot be is left out and noted."""
        return _OPENED.sub(lambda found: self._value(found, path), text) if has_variables(text) else text

    def _value(self, found: re.Match[str], path: str) -> str:
        escaped, inside = found.groups()
        if escaped:
            return found.group()[1:]
        form = None if inside is None else _NAME.fullmatch(inside)
        if form is None:
            self.problems.append(
                Problem(path, "variable", f"{found.group()[:40]!r} is no variable; {_FORMS}")
            )
            return ""
        name, default = form.groups()
        value = self.environ.get(name)
        if value:
            self.used[name] = value
        if default is not None:
            return value or default
        if value is None:
            reason = f"the variable {name!r} is not set; set it, or write ${{{name}:-default}}"
            self.problems.append(Problem(path, "variable", reason))
        return value or ""

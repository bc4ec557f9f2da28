"""`${NAME}` and `${NAME:-default}` in the settings of a server, filled from the environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolcrib.errors import Problem

_VARIABLE = re.compile(r"\$(\$?)\{(?:([^{}]*)\})?")
"""`${...}`, or a `${` without an end; a second `$` before it escapes it."""
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_SYNTAX_HINT = "write ${NAME} or ${NAME:-default}, or $${ for the two characters themselves"


def has_variables(text: str) -> bool:
    """Return whether a text contains variables or escaped ones.

    >>> has_variables("https://${HOST}/mcp"), has_variables("costs $5")
    (True, False)
    """
    return "${" in text


@dataclass(slots=True)
class Expansion:
    """Replaces variables in texts, and collects all problems.

    A default is used if the variable is not set or empty, as in a shell. `${env:NAME}` means `${NAME}`.
    `$NAME` and `$$` are unchanged; `$${NAME}` becomes `${NAME}`; variables in defaults are not replaced.
    Anything else between `${` and `}`, and a `${` without `}`, is a problem.

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
    """The replaced variables with their values from the environment."""

    def text(self, text: str, *, path: str) -> str:
        """Return a text with its variables replaced; an invalid one becomes empty and a problem."""
        return _VARIABLE.sub(lambda found: self._replace(found, path), text) if has_variables(text) else text

    def _replace(self, found: re.Match[str], path: str) -> str:
        escaped, inside = found.groups()
        if escaped:
            return found.group()[1:]
        form = None if inside is None else _NAME.fullmatch(inside)
        if form is None:
            self.problems.append(
                Problem(path, "variable", f"{found.group()[:40]!r} is not a variable; {_SYNTAX_HINT}")
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

"""Know toolcrib on a command line, however it is started."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

_OURS = re.compile(r"toolcrib(?:\.exe)?(?:\[[\w,]*\])?(?:[=@<>~!].*)?", re.IGNORECASE)
_MODULE = re.compile(r"toolcrib(?:\.cli(?:\.__main__)?)?")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*w?|py", re.IGNORECASE)
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish", "ksh", "cmd", "powershell", "pwsh"})
_RUNNERS = {
    "uvx": frozenset[str](),
    "uv": frozenset({"run", "tool", "x"}),
    "pipx": frozenset({"run"}),
    "poetry": frozenset({"run"}),
    "pdm": frozenset({"run"}),
    "hatch": frozenset({"run"}),
    "rye": frozenset({"run"}),
    "env": frozenset[str](),
}
"""Programs that start another one, and the words that may stand before that."""
_WITH_VALUE = frozenset({"--from", "--with", "--python", "-p", "--directory", "--project", "--spec"})
"""Options of theirs after which a word follows that belongs to them."""


def own_arguments(words: Sequence[str]) -> list[str] | None:
    """Return the arguments of toolcrib on a command line; None where another program is started.

    >>> own_arguments(["uvx", "--from", "toolcrib[cli]", "toolcrib", "serve"])
    ['serve']
    >>> own_arguments(["docs", "serve", "/src/toolcrib"]) is None
    True
    """
    if not words:
        return None
    program, rest = PurePath(words[0].replace("\\", "/")).name, list(words[1:])
    if _OURS.fullmatch(program):
        return rest
    name = program.lower().removesuffix(".exe")
    if name in _SHELLS:
        return _shell_arguments(rest)
    if _PYTHON.fullmatch(name):
        return _module_arguments(rest)
    return own_arguments(_run_by(rest, _RUNNERS[name])) if name in _RUNNERS else None


def _run_by(words: list[str], verbs: frozenset[str]) -> list[str]:
    """Return what a runner starts: what follows its own words and options."""
    while words:
        word = words[0]
        if word == "--":
            return words[1:]
        if word in _WITH_VALUE:
            words = words[2:]
        elif word.startswith("-") or word in verbs or re.fullmatch(r"\w+=.*", word):
            words = words[1:]
        else:
            return words
    return []


def _module_arguments(words: list[str]) -> list[str] | None:
    for place, word in enumerate(words):
        if word.startswith("-m"):
            after = [word[2:], *words[place + 1 :]] if word != "-m" else words[place + 1 :]
            return after[1:] if after and _MODULE.fullmatch(after[0]) else None
        if not word.startswith("-"):
            return None  # a script, whatever it is called
    return None


def _shell_arguments(words: list[str]) -> list[str] | None:
    try:
        tokens = shlex.split(" ".join(words).replace(";", " ; "))
    except ValueError:  # a quote that does not end
        tokens = " ".join(words).split()
    begins = [place + 1 for place, word in enumerate(tokens) if word in {"&&", "||", ";", "exec"}]
    first = [place for place, word in enumerate(tokens) if not word.startswith(("-", "/c", "/C"))][:1]
    found = (own_arguments(tokens[place:]) for place in [*first, *begins])
    return next((arguments for arguments in found if arguments is not None), None)

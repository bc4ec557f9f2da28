"""Know toolcrib among the servers of a client, however it is started or reached."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

from toolcrib.crib.config.gateway import GatewaySettings, is_loopback
from toolcrib.execution.mcp.config import ServerConfig

__all__ = ["ITSELF", "is_toolcrib"]

ITSELF = "it is toolcrib itself"
"""Why one server is never taken over."""
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
_ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - told apart, not bound to
_DEFAULT_PORT: int = GatewaySettings.model_fields["port"].default


def is_toolcrib(server: ServerConfig, port: int | None = None) -> bool:
    """Return whether a server is toolcrib itself.

    Args:
        server: how it is started or reached.
        port: where our gateway listens; None for where it usually does.

    >>> is_toolcrib(ServerConfig(command="uvx", args=["toolcrib[cli]", "serve"]))
    True
    >>> is_toolcrib(ServerConfig(command="docs", args=["serve", "/src/toolcrib"]))
    False
    """
    if server.url is not None:
        return _reaches_us(server.url, _DEFAULT_PORT if port is None else port)
    return _starts_us([server.command or "", *server.args])


def _reaches_us(url: str, port: int) -> bool:
    try:
        parts = urlsplit(url)
        host, given = parts.hostname or "", parts.port
    except ValueError:
        return False
    local = is_loopback(host) or host in _ANYWHERE
    return local and given == port and (parts.path == "/mcp" or parts.path.startswith("/mcp/"))


def _starts_us(words: Sequence[str]) -> bool:
    """Return whether a command line starts the gateway."""
    if not words:
        return False
    program, rest = PurePath(words[0].replace("\\", "/")).name, list(words[1:])
    if _OURS.fullmatch(program):
        return "serve" in rest
    name = program.lower().removesuffix(".exe")
    if name in _SHELLS:
        return _shell_starts_us(rest)
    if _PYTHON.fullmatch(name):
        return _module_is_us(rest)
    return name in _RUNNERS and _starts_us(_run_by(rest, _RUNNERS[name]))


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


def _module_is_us(words: list[str]) -> bool:
    for place, word in enumerate(words):
        if word.startswith("-m"):
            after = [word[2:], *words[place + 1 :]] if word != "-m" else words[place + 1 :]
            return bool(after) and _MODULE.fullmatch(after[0]) is not None and "serve" in after
        if not word.startswith("-"):
            return False  # a script, whatever it is called
    return False


def _shell_starts_us(words: list[str]) -> bool:
    try:
        said = shlex.split(" ".join(words).replace(";", " ; "))
    except ValueError:  # a quote that does not end
        said = " ".join(words).split()
    begins = [place + 1 for place, word in enumerate(said) if word in {"&&", "||", ";", "exec"}]
    first = [place for place, word in enumerate(said) if not word.startswith(("-", "/c", "/C"))][:1]
    return any(_starts_us(said[place:]) for place in [*first, *begins])

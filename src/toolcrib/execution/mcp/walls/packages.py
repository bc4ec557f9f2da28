"""Packages that a launcher such as `npx` or `uvx` fetches before it starts a server.

They are fetched behind a wall of their own, once a day at most. There every host can be reached by its name,
since an index may lead to any other host and to one in the user's own network; but nothing of the user is
seen, neither what the server may read nor its secrets. So a package may run what it likes while it is
installed. Then the server starts offline, with what is in its home, and no registry is a way out for it.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from toolcrib.execution.mcp.walls.hosts import plain_name

_DAY = 24 * 60 * 60
_URL = re.compile(r"https?://[^\s\"']+")
_NPM_VARIABLES = ("npm_config_*", "NPM_CONFIG_*", "NODE_*")
_UV_VARIABLES = ("UV_*", "PIP_*")
_NPX_VALUES = frozenset({"-p", "--package", "-c", "--call", "--registry", "-w", "--workspace", "--cache"})
_UVX_FLAGS = frozenset(
    {
        *(
            "-q",
            "--quiet",
            "-v",
            "--verbose",
            "-n",
            "--no-cache",
            "-U",
            "--upgrade",
            "--isolated",
            "--reinstall",
        ),
        *("--refresh", "--no-index", "--no-sources", "--no-build", "--no-binary", "--no-build-isolation"),
        *("--native-tls", "--system-certs", "--managed-python", "--no-managed-python", "--no-config"),
        *("--no-python-downloads", "--no-progress", "--offline", "--compile-bytecode", "--no-env-file"),
    }
)
"""Options of `uvx` without a value; all others have one."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """The way in which a server's packages are fetched."""

    args: tuple[str, ...]
    """The arguments with which its launcher fetches them, and starts nothing."""
    hosts: tuple[str, ...]
    """The hosts that settings name, some by their address; others are reached by name alone."""
    variables: tuple[str, ...]
    """Patterns of the variables that the launcher reads."""
    offline: Mapping[str, str]
    """Variables of the server with which the launcher asks no registry."""

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of an environment that the launcher reads."""
        return {
            name: value
            for name, value in environment.items()
            if any(fnmatchcase(name, pattern) for pattern in self.variables)
        }

    def is_due(self, mark: Path) -> bool:
        """Return whether to fetch, going by the mark of the last time."""
        with suppress(OSError, ValueError, TypeError, AttributeError):
            known = json.loads(mark.read_text(encoding="utf-8"))
            return known.get("args") != list(self.args) or not 0 <= time.time() - known["time"] < _DAY
        return True

    def was_done(self, mark: Path) -> bool:
        """Return whether they were ever fetched."""
        with suppress(OSError, ValueError, AttributeError):
            return bool(json.loads(mark.read_text(encoding="utf-8")).get("args") == list(self.args))
        return False

    def note_done(self, mark: Path) -> None:
        """Mark that they were fetched now."""
        mark.write_text(json.dumps({"args": list(self.args), "time": time.time()}), encoding="utf-8")


def plan_fetch(program: str, args: Sequence[str], environment: Mapping[str, str]) -> Fetch | None:
    """Return how the packages of a server are fetched; None for a program that fetches none.

    >>> plan_fetch("npx", ["-y", "some-server", "--debug"], {}).args
    ('-y', '-p', 'some-server', '-c', 'true')
    >>> plan_fetch("uvx", ["some-server@1.2", "--debug"], {}).args
    ('--from', 'some-server==1.2', 'python', '-c', 'pass')
    """
    match program, *args[:2]:
        case ["npx", *_]:
            before, rest = [], args
        case ["npm", "exec" | "x", *_]:
            before, rest = [args[0]], args[1:]
        case ["uvx", *_]:
            return _plan_uv([], args, environment)
        case ["uv", "tool", "run"]:
            return _plan_uv(["tool", "run"], args[2:], environment)
        case _:
            return None
    options, package = _split(rest, lambda word: word in _NPX_VALUES)
    names = _values_of(options, ("-p", "--package")) or ([package] if package else [])
    if not names:
        return None
    fetching = [*before, "-y", *(word for name in names for word in ("-p", name)), "-c", "true"]
    fetching += [f"--registry={url}" for url in _values_of(options, ("--registry",))]
    hosts = tuple(dict.fromkeys(_hosts_in(environment, _NPM_VARIABLES, options)))
    return Fetch(tuple(fetching), hosts, _NPM_VARIABLES, {"npm_config_offline": "true"})


def _plan_uv(before: Sequence[str], args: Sequence[str], environment: Mapping[str, str]) -> Fetch | None:
    options, package = _split(args, lambda word: word not in _UVX_FLAGS)
    if package is None:
        return None
    source = [] if _values_of(options, ("--from",)) else ["--from", _requirement(package)]
    hosts = tuple(dict.fromkeys(_hosts_in(environment, _UV_VARIABLES, options)))
    fetching = (*before, *options, *source, "python", "-c", "pass")
    return Fetch(fetching, hosts, _UV_VARIABLES, {"UV_OFFLINE": "1"})


def _requirement(package: str) -> str:
    """Return the requirement for an argument of `uvx`, such as `name@1.2`."""
    name, sign, version = package.partition("@")
    return package if not sign or "/" in version else name if version == "latest" else f"{name}=={version}"


def _split(args: Sequence[str], takes_value: Callable[[str], bool]) -> tuple[list[str], str | None]:
    """Return the options of a launcher, and the first word that is none."""
    options: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            return options, next(words, None)
        if not word.startswith("-"):
            return options, word
        options.append(word)
        if "=" not in word and takes_value(word):
            options += [value for value in [next(words, None)] if value is not None]
    return options, None


def _values_of(options: Sequence[str], names: tuple[str, ...]) -> list[str]:
    """Return the values of an option, in both of its spellings: `--x y` and `--x=y`."""
    values = [value for name, value in pairwise(options) if name in names]
    return values + [
        word.partition("=")[2] for word in options if word.partition("=")[0] in names and "=" in word
    ]


def _hosts_in(
    environment: Mapping[str, str], patterns: Sequence[str], options: Sequence[str]
) -> Iterator[str]:
    """Yield the hosts of registries that variables and options name."""
    texts = [
        value
        for name, value in environment.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns) and "proxy" not in name.lower()
    ]
    for url in _URL.findall(" ".join([*texts, *options])):
        if host := urlsplit(url).hostname:
            yield plain_name(host)

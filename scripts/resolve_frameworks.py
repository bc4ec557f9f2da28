"""Resolves toolcrib beside the current release of each agent framework, and prints which fit together.

Usage: resolve_frameworks.py [FRAMEWORK...]

It fails where a requirement of toolcrib is the reason that the two cannot be installed together. Where the
framework itself excludes the MCP SDK that toolcrib speaks with, it says so: the core of toolcrib, without
extras, must fit even then. Releases are looked up by `uv`, with the package index that it is configured for.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_path

ROOT = Path(__file__).parent.parent
FRAMEWORKS: dict[str, tuple[str, ...]] = {
    "Agno": ("agno[mcp]",),
    "CrewAI": ("crewai", "crewai-tools[mcp]"),
    "Google ADK": ("google-adk[mcp]",),
    "LangChain, LangGraph": ("langchain", "langgraph"),
    "LangChain MCP adapters": ("langchain-mcp-adapters",),
    "LlamaIndex": ("llama-index-core", "llama-index-tools-mcp"),
    "OpenAI Agents": ("openai-agents",),
    "Pydantic AI": ("pydantic-ai",),
    "smolagents": ("smolagents[mcp]",),
    "Strands": ("strands-agents",),
    "OpenAI, Anthropic, Google": ("openai", "anthropic", "google-genai"),
}
"""The packages of each framework; the last are the SDKs of the providers."""
TOGETHER = "together"
CORE = "core alone"
BROKEN = "not checked"
CONFLICT = "conflict"
_WORKERS = 4


class ResolutionError(Exception):
    """Requirements that cannot be installed together; the message is uv's explanation."""


@dataclass(frozen=True)
class Verdict:
    """The result of installing a framework beside toolcrib."""

    kind: str
    """`together`, `core alone`, `not checked` (it cannot be installed alone), or `conflict`."""
    releases: tuple[str, ...] = ()
    """The current releases of the framework."""
    sdk: str = ""
    """The version of the MCP SDK in that environment."""
    reason: str = ""
    """The reason if it is not `together`, in the words of uv."""


def resolve(requirements: Sequence[str], *, project: Path | None = None, extra: str = "") -> dict[str, str]:
    """Return the versions that are installed for requirements, beside a project where one is given.

    Raises:
        ResolutionError: they exclude each other, or cannot be looked up.
    """
    command = [
        str(Path(get_path("scripts")) / "uv"),
        "pip",
        "compile",
        "--quiet",
        "--no-header",
        "--no-annotate",
    ]
    command += ["--python-version", "3.11", "--color", "never", "-"]
    command += [] if project is None else [str(project)]
    command += ["--extra", extra] if extra else []
    done = subprocess.run(command, input="\n".join(requirements), text=True, capture_output=True, check=False)
    if done.returncode:
        raise ResolutionError(" ".join(done.stderr.split()))
    return dict(re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==(\S+)", done.stdout, re.MULTILINE))


def judge(requirements: Sequence[str], project: Path, extra: str = "all") -> Verdict:
    """Return whether the current releases of a framework can be installed beside a project with an extra."""
    try:
        alone = resolve(requirements)
    except ResolutionError as error:
        return Verdict(BROKEN, reason=str(error))
    releases = tuple(f"{each}=={alone[each.partition('[')[0]]}" for each in requirements)
    try:
        return Verdict(TOGETHER, releases, resolve(releases, project=project, extra=extra).get("mcp", ""))
    except ResolutionError as error:
        reason = str(error)
    sdk = _required_sdk(project, extra)
    try:
        resolve([*releases, sdk])
    except ResolutionError as error:
        excluded = str(error)  # by the framework itself, whatever else toolcrib requires
    else:
        return Verdict(CONFLICT, releases, reason=reason)
    try:
        return Verdict(CORE, releases, resolve(releases, project=project).get("mcp", ""), excluded)
    except ResolutionError as error:
        return Verdict(CONFLICT, releases, reason=str(error))


def _required_sdk(project: Path, extra: str) -> str:
    """Return the requirement of the MCP SDK that an extra, or one that it names, has."""
    extras = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"[\w-]+", " ".join(re.findall(r"\[(.*?)\]", " ".join(extras[extra]))))
    wanted = [each for name in (extra, *named) for each in extras[name]]
    return next(each for each in wanted if re.match(r"mcp\b", each))


def report(verdicts: Mapping[str, Verdict]) -> int:
    """Print the verdicts, and return the exit code: 1 where toolcrib is the reason for a conflict."""
    for name, verdict in verdicts.items():
        sdk = f"mcp {verdict.sdk}" if verdict.sdk else "no mcp"
        print(f"{verdict.kind:<12} {name:<26} {', '.join(verdict.releases)}; {sdk}")
        if verdict.reason:
            print(f"{'':<12} {verdict.reason}")
    kinds = {verdict.kind for verdict in verdicts.values()}
    if CONFLICT in kinds:
        print("A requirement in pyproject.toml keeps a framework out: loosen it.", file=sys.stderr)
        return 1
    if kinds == {BROKEN}:
        print("No framework could be resolved: is the package index reachable for uv?", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    """Check the frameworks that are named, or all."""
    names = sys.argv[1:] or list(FRAMEWORKS)
    unknown = [name for name in names if name not in FRAMEWORKS]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known are {', '.join(FRAMEWORKS)}", file=sys.stderr)
        return 2
    project = ROOT / "pyproject.toml"
    with ThreadPoolExecutor(_WORKERS) as workers:
        verdicts = workers.map(lambda name: judge(FRAMEWORKS[name], project), names)
        return report(dict(zip(names, verdicts, strict=True)))


if __name__ == "__main__":
    sys.exit(main())

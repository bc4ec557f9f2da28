"""Tests the integrations with each agent framework in an environment of its own, below `.frameworks`.

Usage: test_frameworks.py [NAME...]

The pins of frameworks clash, so each has a folder with its current release, toolcrib and pytest, made once;
delete the folder to have a newer release. `together` is one with all frameworks that admit the MCP SDK of
toolcrib. Prints the versions, and whether the tests passed.
"""

import subprocess
import sys
from pathlib import Path
from sysconfig import get_path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".frameworks"
FRAMEWORKS: dict[str, tuple[str, ...]] = {
    "pydantic_ai": ("pydantic-ai-slim",),
    "langchain": ("langchain", "langgraph"),
    "openai_agents": ("openai-agents",),
    "llama_index": ("llama-index-core",),
    "smolagents": ("smolagents",),
    "strands": ("strands-agents",),
    "agno": ("agno", "openai"),
    "adk": ("google-adk",),
    "crewai": ("crewai",),
}
"""The packages of each framework, by the name of its module in `toolcrib.integrations`."""
_APART = frozenset({"strands", "crewai"})
"""Frameworks whose pins exclude the MCP SDK that toolcrib uses."""
TOGETHER = "together"
_MODULES = {name: (name,) for name in FRAMEWORKS} | {
    TOGETHER: tuple(name for name in FRAMEWORKS if name not in _APART)
}
"""The modules that are tested in each environment."""
_TOOLS = ("certifi", "hypothesis", "pytest", "pytest-randomly", "pytest-timeout", "pytest-xdist", "sybil")


def install(name: str) -> Path:
    """Return the Python of a framework's environment, which is made if it is not there."""
    folder = FOLDER / name
    python = folder / "bin" / "python"
    marker = folder / "installed"
    if marker.exists():
        return python
    uv = str(Path(get_path("scripts")) / "uv")
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
    command = [uv, "pip", "install", "--quiet", "--python", str(python), "--editable"]
    own = f"{ROOT}[mcp]" if name == TOGETHER else str(ROOT)
    subprocess.run([*command, own, *packages(name), *_TOOLS], check=True)
    marker.touch()
    return python


def packages(name: str) -> tuple[str, ...]:
    """Return the packages of the frameworks in an environment."""
    return tuple(dict.fromkeys(package for module in _MODULES[name] for package in FRAMEWORKS[module]))


def versions(python: Path, packages: tuple[str, ...]) -> str:
    """Return the installed releases of packages."""
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    found = subprocess.check_output([str(python), "-c", code, *packages], text=True).split()
    return ", ".join(f"{package} {version}" for package, version in zip(packages, found, strict=True))


def test(name: str, python: Path) -> bool:
    """Run the tests of an environment, and return whether they passed; warnings of others are not ours."""
    files = [f"tests/integrations/test_{module}.py" for module in _MODULES[name]]
    command = [str(python), "-m", "pytest", "-q", "--numprocesses=0", "-W", "ignore", *files]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main() -> int:
    """Test the frameworks that are named, or all."""
    names = sys.argv[1:] or list(_MODULES)
    if unknown := [name for name in names if name not in _MODULES]:
        print(f"unknown: {', '.join(unknown)}; known are {', '.join(_MODULES)}", file=sys.stderr)
        return 2
    verdicts = {}
    for name in names:
        python = install(name)
        verdicts[versions(python, packages(name))] = test(name, python)
    for releases, passed in verdicts.items():
        print(f"{'passed' if passed else 'FAILED':<8} {releases}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

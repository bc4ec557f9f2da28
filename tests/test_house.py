"""The rules of the house that no linter knows."""

import ast
import importlib
import inspect
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest
from promises import read_rows
from servers.launch import python

import toolcrib

MAX_README = 119
PACKAGES = [
    "toolcrib",
    "toolcrib.errors",
    "toolcrib.paths",
    "toolcrib.version",
    "toolcrib.model",
    "toolcrib.model.argschema",
    "toolcrib.adapter",
    "toolcrib.adapter.rules",
    "toolcrib.discovery",
    "toolcrib.discovery.docs",
    "toolcrib.discovery.evaluation",
    "toolcrib.discovery.index",
    "toolcrib.discovery.search.lexical",
    "toolcrib.discovery.search.semantic",
    "toolcrib.discovery.store",
    "toolcrib.discovery.search.text",
    "toolcrib.execution",
    "toolcrib.execution.chains",
    "toolcrib.execution.mcp",
    "toolcrib.execution.middleware",
    "toolcrib.execution.http",
    "toolcrib.execution.audit",
    "toolcrib.execution.tracing",
    "toolcrib.runtime",
    "toolcrib.runtime.typecheck",
    "toolcrib.runtime.sandboxes.docker",
    "toolcrib.runtime.sandboxes.monty",
    "toolcrib.runtime.sandboxes.process",
    "toolcrib.runtime.stubs",
    "toolcrib.runtime.sandboxes.wasm",
    "toolcrib.crib",
    "toolcrib.crib.config",
    "toolcrib.setup.doctor",
    "toolcrib.setup.editing",
    "toolcrib.setup.installing",
    "toolcrib.setup.lint",
    "toolcrib.crib.sources",
    "toolcrib.gateway",
    "toolcrib.gateway.frontends.meta",
    "toolcrib.trust",
    "toolcrib.cli",
]
HOSTS = re.compile(r"pythonhosted|pypi\.org|registry\.npmjs|index-url|/simple\b")


def tracked(root: Path) -> list[Path]:
    listed = subprocess.check_output(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, text=True
    )
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def sources(root: Path) -> list[Path]:
    """Return every module that is installed: ours, and those of the distributions beside it."""
    return [file for folder in (root / "src", root / "packages") for file in folder.rglob("*.py")]


@cache
def modules(root: Path) -> dict[str, ast.Module]:
    """Return the modules of the package by their names."""
    package = root / "src" / "toolcrib"
    return {
        ".".join(("toolcrib", *file.relative_to(package).with_suffix("").parts)): ast.parse(file.read_text())
        for file in package.rglob("*.py")
    }


def test_a_class_name_means_one_thing(root: Path) -> None:
    places = defaultdict(list)
    for name, tree in modules(root).items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def imports(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Yield the modules that a module imports, within functions and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else node.module


@pytest.mark.proof  # and of `make check`
def test_modules_have_no_import_cycle(root: Path) -> None:
    # The package itself, which loads its names when they are first used, is left out.
    trees = {name.removesuffix(".__init__"): tree for name, tree in modules(root).items()}
    known = trees.keys() - {"toolcrib"}
    graph = {name: known.intersection(imports(trees[name], known)) - {name} for name in known}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError, which shows the cycle
    assert order.index("toolcrib.adapter.rewrite") > order.index("toolcrib.errors")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def of_the_sdk(module: str | None) -> bool:
    return (module or "").partition(".")[0] in {"mcp", "mcp_types"}


def sdk_insides(name: str, tree: ast.Module) -> set[str]:
    """Return the private names of the MCP SDK that a module imports, reads from an object, or overrides."""
    found, knows_the_sdk = set[str](), False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and of_the_sdk(node.module):
            knows_the_sdk = True
            is_inside = any(map(is_private, str(node.module).split(".")))
            found |= {each.name for each in node.names if is_inside or is_private(each.name)}
        elif isinstance(node, ast.Import) and any(of_the_sdk(each.name) for each in node.names):
            knows_the_sdk = True
            found |= {each.name for each in node.names if any(map(is_private, each.name.split(".")))}
    for node in ast.walk(tree) if knows_the_sdk else ():
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node.value):
            found.add(node.attr)
    # The integrations import frameworks, which may not be installed; import-linter keeps the SDK out of them.
    for node in () if name.startswith("toolcrib.integrations.") else tree.body:
        if isinstance(node, ast.ClassDef):
            found |= inherited_insides(getattr(importlib.import_module(name), node.name)) & used_in(node)
    return found


def is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in {"self", "cls"}


def inherited_insides(cls: type) -> set[str]:
    """Return the private names of the classes of the SDK that a class is made from."""
    sources = [inspect.getsource(base) for base in cls.__mro__ if of_the_sdk(base.__module__)]
    return {name for source in sources for name in used_in(ast.parse(source))}


def used_in(tree: ast.AST) -> set[str]:
    """Return the private names that a class defines, or reads from itself or its bases."""
    defined = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return set(filter(is_private, defined | read))


@pytest.mark.proof  # and of `make check`
def test_the_insides_of_the_sdk_are_used_in_one_module_and_each_is_tried(root: Path) -> None:
    found = {name: insides for name, tree in modules(root).items() if (insides := sdk_insides(name, tree))}
    assert list(found) == ["toolcrib.mcp_internals"]
    insides = found["toolcrib.mcp_internals"]
    tests = (root / "tests" / "test_mcp_internals.py").read_text()
    assert [name for name in sorted(insides) if name not in tests] == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from mcp.client._transport import TransportStreams", {"TransportStreams"}),
        ("from mcp.server.runner import _dump_result", {"_dump_result"}),
        ("import mcp.shared._otel", {"mcp.shared._otel"}),
        ("import mcp\ncontext.session._connection", {"_connection"}),
        ("import mcp\nself._connection", set()),
        ("from mcp.server.runner import ServerRunner", set()),
    ],
)
def test_the_insides_of_the_sdk_are_found(line: str, found: set[str]) -> None:
    assert sdk_insides("toolcrib", ast.parse(line)) == found


def test_overridden_private_names_of_the_sdk_are_found() -> None:
    from toolcrib.mcp_internals import SessionTransport  # noqa: PLC0415 - it needs an extra

    assert "_handle_post_request" in inherited_insides(SessionTransport)
    assert "_outgoing" not in inherited_insides(SessionTransport)
    text = "class Other:\n def _handle_post_request(self): super()._validate_session()"
    assert used_in(ast.parse(text)) == {"_handle_post_request", "_validate_session"}


def test_both_extras_require_the_sdk_version_with_known_internals(root: Path) -> None:
    from toolcrib.mcp_internals import SUPPORTED  # noqa: PLC0415 - it needs an extra

    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {name: [each for each in extras[name] if re.match(r"mcp\b", each)] for name in ("cli", "mcp")}
    assert asked == {"cli": [f"mcp{SUPPORTED}"], "mcp": [f"mcp{SUPPORTED}"]}


@pytest.mark.proof  # and of `make check`
def test_every_module_says_what_it_is_for(root: Path) -> None:
    silent = [
        str(file.relative_to(root))
        for file in sources(root)
        if not ast.get_docstring(ast.parse(file.read_text()))
    ]
    assert silent == []


def test_the_readme_is_short(root: Path) -> None:
    assert len((root / "README.md").read_text().splitlines()) <= MAX_README


def test_no_committed_file_names_a_package_host(root: Path) -> None:
    naming = [
        str(file.relative_to(root))
        for file in tracked(root)
        if file.suffix in {".py", ".md", ".toml", ".txt", ".yml", ""} and file.name != "test_house.py"
        if HOSTS.search(file.read_text(errors="replace"))
    ]
    assert naming == []


@pytest.mark.parametrize("name", PACKAGES)
def test_the_public_names_exist(name: str) -> None:
    module = importlib.import_module(name)
    assert [public for public in module.__all__ if not hasattr(module, public)] == []


@pytest.mark.parametrize("name", PACKAGES[1:])
def test_nothing_public_is_left_out(name: str) -> None:
    module = importlib.import_module(name)
    imported = {
        public
        for public, value in vars(module).items()
        if not public.startswith("_") and not isinstance(value, ModuleType)
        if getattr(value, "__module__", name).startswith("toolcrib")
    }
    assert imported - set(module.__all__) == set()


@pytest.mark.proof  # and of `make check`
def test_the_table_of_features_is_up_to_date(root: Path) -> None:
    subprocess.run(python(str(root / "scripts" / "feature_table.py"), "--check"), check=True)


def test_the_version_is_that_of_the_distribution(root: Path) -> None:
    assert f'version = "{toolcrib.__version__}"' in (root / "pyproject.toml").read_text()


def test_the_architecture_page_names_files_that_exist(root: Path) -> None:
    page = (root / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`", page)) - {"src/toolcrib"}
    assert len(named) > 40
    assert [
        name
        for name in sorted(named)
        if not (root / ("" if name.startswith("tests/") else "src/toolcrib") / name).exists()
    ] == []


def test_each_promise_names_a_test_that_exists(root: Path) -> None:
    """`tests/promises.py` decides it after a run of all tests; this finds a renamed test earlier."""
    lost = []
    for row in read_rows(root):
        file, *_, name = row["test"].split("::")
        source = root / file
        if not source.is_file() or not re.search(rf"\bdef {re.escape(name)}\b", source.read_text()):
            lost.append((row["id"], row["test"]))
    assert lost == []

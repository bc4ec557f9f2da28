"""The requirement manifest: every row names a test that exists, and every marked test the row that names it."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MANIFEST = Path(__file__).with_name("requirements.toml")
FIELDS = {"id", "source", "promise", "test"}
WORD = r"[a-z0-9]+(?:-[a-z0-9]+)*"
ID = re.compile(rf"{WORD}(?:\.{WORD})+")
SOURCE = re.compile(
    r"(?:toolfoundation|tooldiscovery|toolexec|contract): [a-z][a-z -]+|argument schema \d{4}-\d\d-\d\d"
)
CLASS = re.compile(r"^class (\w+)(?:\(([^)]*)\))?:", re.MULTILINE)
PROMISES = 254
"""So many promises the documents that are followed make, at the least."""

Row = dict[str, Any]


def rows() -> list[Row]:
    """Return the rows of the manifest."""
    found: list[Row] = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))["requirement"]
    return found


@cache
def functions(file: Path) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the tests of a file by name, `Class::test` for those of a class."""

    def inside(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, Any]]:
        for each in body:
            if isinstance(each, ast.ClassDef):
                yield from inside(each.body, f"{prefix}{each.name}::")
            elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
                yield f"{prefix}{each.name}", each

    return dict(inside(ast.parse(file.read_text(encoding="utf-8")).body, ""))


@cache
def collected_classes(root: Path) -> frozenset[str]:
    """Return the classes whose tests run: those of test modules, and the contracts that they subclass."""
    bases: dict[str, set[str]] = {}
    waiting: list[str] = []
    for file in (root / "tests").rglob("*.py"):
        for name, parents in CLASS.findall(file.read_text(encoding="utf-8")):
            bases.setdefault(name, set()).update(re.findall(r"\w+", parents))
            if file.name.startswith("test_") and name.startswith("Test"):
                waiting.append(name)
    known: set[str] = set()
    while waiting:
        if (name := waiting.pop()) not in known:
            known.add(name)
            waiting.extend(bases.get(name, ()))
    return frozenset(known)


def exists(test: str, root: Path) -> bool:
    """Return whether a test such as `tests/a.py::test_b` is there and runs."""
    path, _, name = test.partition("::")
    file = root / path
    if not (path.startswith("tests/") and file.is_file() and name in functions(file)):
        return False
    if "::" in name:
        return name.partition("::")[0] in collected_classes(root)
    return file.name.startswith("test_")


def row_faults(row: Row, root: Path) -> Iterator[str]:
    """Yield what is wrong with a row."""
    if set(row) != FIELDS or not all(isinstance(value, str) for value in row.values()):
        yield f"{row.get('id')}: a row has the texts id, source, promise and test, not {sorted(row)}"
        return
    if not ID.fullmatch(row["id"]):
        yield f"{row['id']}: an id is words of a-z, 0-9 and '-' with dots between, two or more"
    if not SOURCE.fullmatch(row["source"]):
        yield f"{row['id']}: no document is called {row['source']!r}"
    if not re.fullmatch(r"[^\n]+[^.\n]\.", row["promise"]):
        yield f"{row['id']}: the promise is one sentence that ends with a full stop"
    if not exists(row["test"], root):
        yield f"{row['id']}: there is no test {row['test']}"


def faults(manifest: list[Row], root: Path = ROOT) -> list[str]:
    """Return what is wrong with a manifest."""
    wrong = [fault for row in manifest for fault in row_faults(row, root)]
    twice = [name for name, count in Counter(row.get("id") for row in manifest).items() if count > 1]
    parts = Counter(source for source, _ in groupby(row.get("source") for row in manifest))
    return [
        *wrong,
        *(f"{name}: the id occurs twice" for name in twice),
        *(f"{source}: its rows do not stand together" for source, count in parts.items() if count > 1),
    ]


def marked(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield each test that a mark names rows for, with each id."""
    for file in sorted((root / "tests").rglob("*.py")):
        if "mark.requirement(" not in file.read_text(encoding="utf-8"):
            continue
        for name, function in functions(file).items():
            for decorator in function.decorator_list:
                if ast.unparse(decorator).startswith("pytest.mark.requirement(") and isinstance(
                    decorator, ast.Call
                ):
                    for each in decorator.args:
                        yield f"{file.relative_to(root).as_posix()}::{name}", ast.literal_eval(each)


def unnamed(manifest: list[Row], root: Path = ROOT) -> list[str]:
    """Return the marks whose row is not there, or names another test."""
    named = {row["id"]: row["test"] for row in manifest}
    return [f"{test}: no row {each!r} names it" for test, each in marked(root) if named.get(each) != test]


@pytest.mark.untraced
def test_every_promise_has_a_row_and_every_row_a_test() -> None:
    manifest = rows()
    assert faults(manifest) == []
    assert len(manifest) >= PROMISES


def test_every_marked_test_is_named_by_its_row() -> None:
    assert unnamed(rows()) == []
    assert list(marked()) != []


GOOD = {
    "id": "a.b",
    "source": "toolexec: run",
    "promise": "It runs.",
    "test": "tests/test_a.py::test_it_runs",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_a.py").write_text(
        "class TestOne(Contract):\n    async def test_own(self): ...\n\ndef test_it_runs(): ...\n\ndef helper(): ...\n"
    )
    (folder / "contract.py").write_text(
        "class Contract(Base):\n    def test_it(self): ...\n\nclass Base:\n    def test_base(self): ...\n\n"
        "class Nobody:\n    def test_it(self): ...\n\ndef test_alone(): ...\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "test",
    [
        "tests/test_a.py::test_it_runs",
        "tests/test_a.py::TestOne::test_own",
        "tests/contract.py::Contract::test_it",
        "tests/contract.py::Base::test_base",
    ],
)
def test_a_test_of_a_module_of_a_class_and_of_a_contract_may_be_named(tree: Path, test: str) -> None:
    assert faults([GOOD | {"test": test}], tree) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"test": "tests/test_a.py::test_gone"}, "there is no test"),
        ({"test": "tests/test_b.py::test_it_runs"}, "there is no test"),
        ({"test": "tests/test_a.py::helper"}, "there is no test"),
        ({"test": "tests/test_a.py"}, "there is no test"),
        ({"test": "tests/contract.py::test_alone"}, "there is no test"),
        ({"test": "tests/contract.py::Nobody::test_it"}, "there is no test"),
        ({"id": "A.b"}, "an id is words"),
        ({"id": "alone"}, "an id is words"),
        ({"source": "a page"}, "no document is called"),
        ({"promise": "It runs"}, "one sentence"),
        ({"promise": 5}, "a row has the texts"),
        ({"note": "x"}, "a row has the texts"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_row_that_is_wrong_is_reported(tree: Path, change: Row, fault: str) -> None:
    [found] = faults([GOOD | change], tree)
    assert fault in found


def test_an_id_that_occurs_twice_and_a_source_in_two_places_are_reported(tree: Path) -> None:
    other = GOOD | {"id": "a.c", "source": "toolexec: runtime"}
    assert faults([GOOD, GOOD, other, GOOD | {"id": "a.d"}], tree) == [
        "a.b: the id occurs twice",
        "toolexec: run: its rows do not stand together",
    ]


@pytest.mark.parametrize(("mark", "wrong"), [("a.b", 0), ("a.c", 1), ("a.d", 1)])
def test_a_mark_without_its_row_is_reported(tree: Path, mark: str, wrong: int) -> None:
    test = tree / "tests" / "test_b.py"
    test.write_text(f"@pytest.mark.slow\n@pytest.mark.requirement({mark!r})\ndef test_it(): ...\n")
    manifest = [GOOD | {"test": "tests/test_b.py::test_it"}, GOOD | {"id": "a.d"}]
    assert len(unnamed(manifest, tree)) == wrong

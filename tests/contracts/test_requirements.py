"""The requirement manifest: its rows are in order, and a run of all tests fails where one of them is not shown."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from promises import MANIFEST, Row, read_rows

TESTS = Path(__file__).parents[1]
FIELDS = {"id", "source", "promise", "test"}
WORD = r"[a-z0-9]+(?:-[a-z0-9]+)*"
ID = re.compile(rf"{WORD}(?:\.{WORD})+")
SOURCE = re.compile(
    r"(?:toolfoundation|tooldiscovery|toolexec|contract): [a-z][a-z -]+|argument schema \d{4}-\d\d-\d\d"
)
PROMISES = 254
"""So many promises the documents that are followed make, at the least."""


def row_faults(row: Row) -> Iterator[str]:
    """Yield the faults of a row."""
    if set(row) != FIELDS or not all(isinstance(value, str) for value in row.values()):
        yield f"{row.get('id')}: a row has the texts id, source, promise and test, not {sorted(row)}"
        return
    if not ID.fullmatch(row["id"]):
        yield f"{row['id']}: an id is words of a-z, 0-9 and '-' with dots between, two or more"
    if not SOURCE.fullmatch(row["source"]):
        yield f"{row['id']}: no document is called {row['source']!r}"
    if not re.fullmatch(r"[^\n]+[^.\n]\.", row["promise"]):
        yield f"{row['id']}: the promise is one sentence that ends with a full stop"


def faults(manifest: list[Row]) -> list[str]:
    """Return the faults of a manifest."""
    wrong = [fault for row in manifest for fault in row_faults(row)]
    twice = [name for name, count in Counter(row.get("id") for row in manifest).items() if count > 1]
    parts = Counter(source for source, _ in groupby(row.get("source") for row in manifest))
    return [
        *wrong,
        *(f"{name}: the id occurs twice" for name in twice),
        *(f"{source}: its rows do not stand together" for source, count in parts.items() if count > 1),
    ]


def test_rows_of_the_manifest_are_in_order(root: Path) -> None:
    manifest = read_rows(root)
    assert faults(manifest) == []
    assert len(manifest) >= PROMISES


GOOD = {
    "id": "a.b",
    "source": "toolexec: run",
    "promise": "It runs.",
    "test": "tests/test_a.py::test_it_runs",
}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"id": "A.b"}, "an id is words"),
        ({"id": "alone"}, "an id is words"),
        ({"source": "a page"}, "no document is called"),
        ({"promise": "It runs"}, "one sentence"),
        ({"promise": 5}, "a row has the texts"),
        ({"note": "x"}, "a row has the texts"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_row_that_is_wrong_is_reported(change: Row, fault: str) -> None:
    [found] = faults([GOOD | change])
    assert fault in found


def test_an_id_that_occurs_twice_and_a_source_in_two_places_are_reported() -> None:
    other = GOOD | {"id": "a.c", "source": "toolexec: runtime"}
    assert faults([GOOD, GOOD, other, GOOD | {"id": "a.d"}]) == [
        "a.b: the id occurs twice",
        "toolexec: run: its rows do not stand together",
    ]


MODULE = """
import pytest
from contract import Contract
from needs import lack

class TestOne(Contract):
    def test_own(self): ...
    def test_replaced(self): ...

@pytest.mark.parametrize("number", [1, 2])
def test_in_part(number):
    if number == 1:
        pytest.skip("not this row")

def helper(): ...
def test_that_passes(): ...
def test_that_fails(): raise AssertionError

@pytest.mark.skip(reason="one day")
def test_that_is_skipped(): ...

@pytest.mark.xfail(reason="a known bug")
def test_that_is_expected_to_fail(): raise AssertionError

@pytest.mark.proof
@pytest.mark.skip(reason="too long")
def test_of_the_proofs(): ...

@pytest.mark.requirement("names.another")
def test_that_is_marked(): ...

def test_that_lacks_something(monkeypatch):
    monkeypatch.setattr("needs.IN_CI", False)
    lack("npm")
"""
CONTRACT = """
class Base:
    def test_of_the_base(self): ...

class Contract(Base):
    def test_of_the_contract(self): ...
    def test_replaced(self): ...

class Unused:
    def test_it(self): ...

def test_alone(): ...
"""
SHOWN = (
    "tests/test_a.py::test_that_passes",
    "tests/test_a.py::test_in_part",
    "tests/test_a.py::TestOne::test_own",
    "tests/contract.py::Contract::test_of_the_contract",
    "tests/contract.py::Base::test_of_the_base",
    "tests/test_a.py::test_that_lacks_something",
)
NOT_SHOWN = {
    "tests/test_a.py::test_that_is_skipped": "was skipped: one day",
    "tests/test_a.py::test_that_is_expected_to_fail": "was skipped: expected to fail: a known bug",
    "tests/test_a.py::test_gone": "there is no test",
    "tests/test_b.py::test_that_passes": "there is no test",
    "tests/test_a.py::helper": "there is no test",
    "tests/test_a.py": "there is no test",
    "tests/contract.py::test_alone": "there is no test",
    "tests/contract.py::Unused::test_it": "there is no test",
    "tests/contract.py::Contract::test_replaced": "there is no test",
}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return the folder of a small suite, whose manifest is empty."""
    (tmp_path / MANIFEST).parent.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\npythonpath = tests\naddopts = --import-mode=importlib -p no:cacheprovider\n"
        "markers =\n    proof\n    requirement\n"
    )
    (tmp_path / "tests" / "test_a.py").write_text(MODULE)
    (tmp_path / "tests" / "contract.py").write_text(CONTRACT)
    return tmp_path


def run(suite: Path, tests: dict[str, str], *options: str) -> tuple[int, dict[str, str]]:
    """Run a suite whose manifest has these rows; return the exit code, and the reason for each reported row."""
    rows = [GOOD | {"id": each, "test": test} for each, test in tests.items()]
    lines = [f"{key} = {json.dumps(value)}\n" for row in rows for key, value in row.items()]
    lines = [f"[[requirement]]\n{line}" if line.startswith("id = ") else line for line in lines]
    (suite / MANIFEST).write_text("".join(lines))
    environ = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "promises", "-p", "no:randomly", "-rf", *options]
    done = subprocess.run(command, cwd=suite, env=environ, capture_output=True, text=True, check=False)
    told = re.findall(rf"^FAILED {MANIFEST.as_posix()}::(\S+)", done.stdout, re.MULTILINE)
    return done.returncode, {
        each: line for each in told for line in done.stdout.splitlines() if line.startswith(f"{each}: ")
    }


@pytest.mark.parametrize(
    "workers", [(), ("-p", "xdist.plugin", "--numprocesses=2")], ids=["alone", "workers"]
)
def test_a_run_of_all_tests_fails_for_each_row_whose_test_did_not_pass(
    suite: Path, workers: tuple[str, ...]
) -> None:
    (suite / "tests" / "test_other.py").write_text("def test_that_passes(): ...\n")
    failing = "tests/test_a.py::test_that_fails"
    tests = {f"row.n{number}": test for number, test in enumerate([*SHOWN, *NOT_SHOWN, failing])}
    code, told = run(suite, tests, *workers)
    wrong = {each: fault for each, test in tests.items() if (fault := NOT_SHOWN.get(test))}
    assert code == 1
    assert told.keys() == wrong.keys() | {"names.another"}
    assert all(fault in told[each] and tests[each] in told[each] for each, fault in wrong.items())
    assert "test_that_is_marked is marked with this row, which names no test" in told["names.another"]


def test_a_row_without_its_test_fails_a_suite_that_passes(suite: Path) -> None:
    (suite / "tests" / "test_a.py").write_text("def test_that_passes(): ...\n")
    assert run(suite, {"a.b": "tests/test_a.py::test_that_passes"}) == (0, {})
    code, told = run(suite, {"a.b": "tests/test_a.py::test_gone"})
    assert (code, list(told)) == (1, ["a.b"])


def test_a_proof_is_left_to_the_run_that_selects_it(suite: Path) -> None:
    tests = {
        "a.b": "tests/test_a.py::test_of_the_proofs",
        "names.another": "tests/test_a.py::test_that_is_marked",
    }
    assert run(suite, tests, "-m", "not proof")[1] == {}
    assert list(run(suite, tests, "-m", "proof")[1]) == ["a.b"]


def test_a_run_of_some_files_reports_no_row(suite: Path) -> None:
    tests = {"a.b": "tests/test_b.py::test_it"}
    assert run(suite, tests, "tests/test_a.py")[1] == {}
    assert run(suite, tests, "--collect-only")[1] == {}

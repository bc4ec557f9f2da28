"""Tables of versions and ranges, in proofs npm's own, row by row."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import InvalidConstraintError, InvalidVersionError
from toolcrib.version import Constraint, Version, compare

Row = list[Any]
Tables = dict[str, list[Row]]
LeftOut = dict[str, dict[str, list[Row]]]

LOOSE = "loose mode: the text is a version or a range only for npm's `loose` option"
BIG = "2^53: npm refuses numbers that a JavaScript number cannot hold, Python has no such limit"
RAISES = "not a version: npm answers no, toolcrib raises InvalidVersionError"

_LOOSE_EQUALS = [
    [version, f"{prefix}{version}"]
    for version in ("1.2.3", "1.2.3-0", "1.2.3-1", "1.2.3-beta")
    for prefix in ("=", "v ", "= ", " =", " v ", " = ")
]

NPM_LEFT_OUT: LeftOut = {
    "equality": {
        LOOSE: [
            *_LOOSE_EQUALS,
            ["1.2.3-beta+build", " = 1.2.3-beta+otherbuild"],
            ["1.2.3+build", " = 1.2.3+otherbuild"],
        ]
    },
    "range-include": {
        LOOSE: [
            ["1.2.3pre+asdf - 2.4.3-pre+asdf", "1.2.3"],
            ["1.2.3-pre+asdf - 2.4.3pre+asdf", "1.2.3"],
            ["1.2.3pre+asdf - 2.4.3pre+asdf", "1.2.3"],
            ["~ 1.0.3alpha", "1.0.12"],
        ]
    },
    "range-exclude": {
        LOOSE: [
            ["1", "1.0.0beta"],
            ["<1", "1.0.0beta"],
            ["< 1", "1.0.0beta"],
            ["1", "2.0.0beta"],
            ["== 1.0.0 || foo", "2.0.0"],
        ],
        RAISES: [["*", "not a version"], [">=2", "glorp"], [">=2", False]],
    },
    "range-parse": {
        LOOSE: [
            [">01.02.03", ">1.2.3"],
            ["~1.2.3beta", ">=1.2.3-beta <1.3.0-0"],
            [">=09090", ">=9090.0.0"],
        ],
        BIG: [["^9007199254740991.0.0", None]],
    },
    "invalid-versions": {
        BIG: [
            ["90071992547409910.0.0", "too big"],
            ["0.90071992547409910.0", "too big"],
            ["0.0.90071992547409910", "too big"],
        ]
    },
    "version-gt-range": {LOOSE: [["1", "2.0.0beta"], ["<1", "1.0.0beta"], ["< 1", "1.0.0beta"]]},
    "version-lt-range": {
        LOOSE: [
            ["1", "0.0.0beta"],
            ["2", "1.0.0beta"],
            [">1", "1.0.0beta"],
            ["> 1", "1.0.0beta"],
            ["1", "1.0.0beta"],
        ]
    },
}
"""The first two cells of every row of npm with behaviour we do not follow, by table and reason."""
SAMPLE_LEFT_OUT: LeftOut = {
    "equality": {LOOSE: [["4.5.6", "=4.5.6"], ["4.5.6", "v 4.5.6"]]},
    "range-include": {LOOSE: [["~ 4.5.6alpha", "4.5.9"]]},
    "range-exclude": {LOOSE: [["4", "5.0.0beta"]], RAISES: [["*", "nonsense"]]},
    "range-parse": {LOOSE: [[">03.02.01", ">3.2.1"]], BIG: [["^9007199254740992.0.0", None]]},
    "invalid-versions": {BIG: [["9007199254740992.0.0", "too big"]]},
    "version-gt-range": {LOOSE: [["4", "6.0.0beta"]]},
    "version-lt-range": {LOOSE: [["4", "3.0.0beta"]]},
}
"""The same of the sample."""
LEFT_OUT = {"tests": SAMPLE_LEFT_OUT, "shared": NPM_LEFT_OUT}
"""Both, by the folder that holds the tables."""
ROWS = {"tests": (80, 10), "shared": (572, 53)}
"""The numbers of rows that are run and that are left out."""
VERSIONS = {"tests": 50, "shared": 200}
"""The number of different versions in the tables, at least."""

TABLES_LEFT_OUT = {"increments": "toolcrib compares and chooses versions; it does not increment them"}


@pytest.fixture(scope="session")
def tables(data: Path) -> Tables:
    loaded: Tables = json.loads((data / "semver-fixtures.json").read_text(encoding="utf-8"))
    return loaded


@pytest.fixture(scope="session")
def left_out(data: Path) -> Tables:
    """The first two cells of every row that is left out, by table."""
    reasons = LEFT_OUT[data.parent.name]
    return {table: [pair for pairs in reasons.get(table, {}).values() for pair in pairs] for table in RULES}


@pytest.fixture(scope="session")
def pool(tables: Tables) -> list[Version]:
    """Every version that any table mentions, anywhere in its rows."""
    return sorted({version for rows in tables.values() for row in rows for version in _versions(row)})


def _versions(value: object) -> Iterator[Version]:
    if isinstance(value, list):
        for item in value:
            yield from _versions(item)
    if isinstance(value, str):
        for text in value.replace("||", " ").split():
            try:
                yield Version.parse(text.lstrip("^~<>="))
            except InvalidVersionError:
                continue


def _version(text: Any) -> Version:
    return Version.parse(text.strip() if isinstance(text, str) else text)


def _includes_prereleases(row: Row) -> bool:
    return len(row) > 2 and isinstance(row[2], dict) and bool(row[2].get("includePrerelease"))


def _check(row: Row) -> bool:
    return Constraint.parse(row[0]).check(_version(row[1]), include_prerelease=_includes_prereleases(row))


def first_is_newer(row: Row, _: list[Version]) -> bool:
    a, b = _version(row[0]), _version(row[1])
    return compare(a, b) == 1 and compare(b, a) == -1 and a > b and not a <= b


def both_are_equal(row: Row, _: list[Version]) -> bool:
    a, b = _version(row[0]), _version(row[1])
    return compare(a, b) == 0 and a == b and hash(a) == hash(b) and b.compatible_with(a)


def satisfies(row: Row, _: list[Version]) -> bool:
    return _check(row)


def does_not_satisfy(row: Row, _: list[Version]) -> bool:
    return not _check(row)


def reads_as(row: Row, pool: list[Version]) -> bool:
    """The canonical text; where prereleases are included, its meaning, for `str()` shows the default form."""
    text, canonical = row[:2]
    if canonical is None:
        return _raises(InvalidConstraintError, Constraint.parse, text)
    constraint, expected = Constraint.parse(text), Constraint.parse(canonical)
    if not _includes_prereleases(row):
        return bool(str(constraint) == canonical)
    return all(
        constraint.check(version, include_prerelease=True) == expected.check(version, include_prerelease=True)
        for version in pool
    )


def has_these_parts(row: Row, _: list[Version]) -> bool:
    version = Version.parse(row[0])
    prerelease = [int(part) if part.isdigit() else part for part in version.prerelease.split(".") if part]
    build = [part for part in version.build.split(".") if part]
    return [version.major, version.minor, version.patch, prerelease, build] == row[1:]


def is_refused(row: Row, _: list[Version]) -> bool:
    return _raises(InvalidVersionError, Version.parse, row[0])


def share_a_version_or_not(row: Row, pool: list[Version]) -> bool:
    a, b = Constraint.parse(row[0]), Constraint.parse(row[1])
    return any(version in a and version in b for version in pool) is row[2]


def _raises(error: type[ValueError], call: Callable[[Any], object], argument: object) -> bool:
    try:
        call(argument)
    except error:
        return True
    return False


RULES: dict[str, Callable[[Row, list[Version]], bool]] = {
    "comparisons": first_is_newer,
    "equality": both_are_equal,
    "range-include": satisfies,
    "range-exclude": does_not_satisfy,
    "range-parse": reads_as,
    "valid-versions": has_these_parts,
    "invalid-versions": is_refused,
    "range-intersection": share_a_version_or_not,
    "version-gt-range": does_not_satisfy,
    "version-lt-range": does_not_satisfy,
}


def _agrees(table: str, row: Row, pool: list[Version]) -> bool:
    try:
        return RULES[table](row, pool)
    except (InvalidConstraintError, InvalidVersionError):
        return False


@pytest.mark.parametrize("table", RULES)
def test_every_row_agrees_with_npm_but_for_those_left_out(
    tables: Tables, left_out: Tables, pool: list[Version], table: str
) -> None:
    run = [row for row in tables[table] if row[:2] not in left_out[table]]
    failing = [row for row in run if not _agrees(table, row, pool)]
    assert failing == []


@pytest.mark.parametrize("table", RULES)
def test_no_row_is_left_out_that_would_agree_or_does_not_exist(
    tables: Tables, left_out: Tables, pool: list[Version], table: str
) -> None:
    disagreeing = [row[:2] for row in tables[table] if not _agrees(table, row, pool)]
    assert sorted(map(repr, left_out[table])) == sorted(map(repr, disagreeing))


def test_every_table_has_a_rule_or_a_reason(tables: Tables) -> None:
    assert set(tables) == {*RULES, *TABLES_LEFT_OUT}


def test_the_number_of_rows_run_is_known(data: Path, tables: Tables, left_out: Tables) -> None:
    rows = sum(len(tables[table]) for table in RULES)
    left = sum(map(len, left_out.values()))
    assert (rows - left, left) == ROWS[data.parent.name]


def test_the_pool_of_versions_is_large_enough_to_tell_ranges_apart(data: Path, pool: list[Version]) -> None:
    assert len(pool) > VERSIONS[data.parent.name]
    assert any(version.prerelease for version in pool)

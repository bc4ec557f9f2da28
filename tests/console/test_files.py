"""The files of the console: third-party files are as published, and all of it is small."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from toolcrib.console import ConsolePages
from toolcrib.model.display import HIDDEN

MAX_COMPRESSED = 150_000
PAGES = Path("src/toolcrib/console/pages")


@pytest.fixture
def folder(root: Path) -> Path:
    return root / PAGES


def test_vendored_files_match_the_table(folder: Path) -> None:
    rows = json.loads((folder / "vendor" / "versions.json").read_text(encoding="utf-8"))
    assert {row["file"] for row in rows} == {
        each.name for each in (folder / "vendor").iterdir() if each.suffix in {".js", ".css"}
    }
    for row in rows:
        content = (folder / "vendor" / row["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == row["sha256"], row["file"]
        assert re.fullmatch(r"[0-9a-f]{64}", row["published"])
        assert row["licence"] in {"MIT", "Apache-2.0"}
        assert (folder / "vendor" / row["licenceFile"]).stat().st_size > 500


def test_everything_together_is_small() -> None:
    sizes = {name: len(page.compressed) for name, page in ConsolePages().all().items()}
    assert sum(sizes.values()) <= MAX_COMPRESSED, sizes


def test_nothing_comes_from_elsewhere_or_stands_in_a_page(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\bstyle=|\bon\w+=", page) == []
    for name, file in ConsolePages().all().items():
        if "/vendor/" not in name:
            text = file.content.decode()
            assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == [], name
            assert (
                re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function", text)
                == []
            )


def test_modules_load_only_what_is_there(folder: Path) -> None:
    pages = ConsolePages().all()
    for name, file in pages.items():
        if name.endswith(".js"):
            place = folder / name
            for found in re.findall(r"""(?:from|import\()\s*["']([^"'$]+)["']""", file.content.decode()):
                wanted = (place.parent / found).resolve().relative_to(folder.resolve())
                assert wanted.as_posix() in pages, f"{name}: {found}"
    linked = re.findall(r'(?:href|src)="([^"]+)"', pages["index.html"].content.decode())
    assert len(linked) > 8
    for each in linked:
        assert pages[each].is_fixed, each


def test_modules_of_the_first_page_are_asked_for_at_once(folder: Path) -> None:
    """None of them is found only when another one has arrived."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'(?:href|src)="\./([^"]+\.js)"', page))
    wanted, seen = ["app.js", "views/overview.js"], set[str]()
    while wanted:
        name = wanted.pop()
        seen.add(name)
        for found in re.findall(r"""from\s*["']([^"']+)["']""", (folder / name).read_text(encoding="utf-8")):
            path = ((folder / name).parent / found).resolve().relative_to(folder.resolve()).as_posix()
            wanted += [] if path in seen else [path]
    assert seen == linked


def test_the_pages_know_the_same_hidden_characters(folder: Path) -> None:
    text = (folder / "lib.js").read_text(encoding="utf-8")
    (pattern,) = re.findall(r"HIDDEN =\s*/(\[.*\])/gu;", text)
    same = re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: f"\\U{int(found[1], 16):08x}", pattern)
    ours = re.compile(same)
    points = [*range(0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE0200)]
    assert [
        hex(each) for each in points if bool(HIDDEN.match(chr(each))) != bool(ours.match(chr(each)))
    ] == []


def test_no_file_is_served_that_is_not_for_browsers() -> None:
    pages = ConsolePages()
    assert pages.find("index.html") is not None
    for name in ("__init__.py", "../__init__.py", "vendor/versions.json", "vendor/licences/preact.txt", ""):
        assert pages.find(name) is None

"""Fetch the libraries of the console from npm, and write them and the table of what they are.

Usage: vendor_console.py [--check]

Browsers resolve `import "preact"` by an import map alone, which would be an inline script: so the names of
packages are replaced by addresses. The rest stays as it was published, and the table has the digests of both.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "src" / "toolcrib" / "console" / "pages" / "vendor"
TABLE = FOLDER / "versions.json"


@dataclass(frozen=True)
class Part:
    """A file of a package."""

    package: str
    version: str
    source: str
    target: str
    adds: str = ""
    """Text appended to make a module of a script."""


PARTS = (
    Part("preact", "11.2.0", "dist/preact.mjs", "preact.js"),
    Part("preact", "11.2.0", "hooks/dist/hooks.mjs", "hooks.js"),
    Part("htm", "3.1.1", "dist/htm.mjs", "htm.js"),
    Part("@preact/signals-core", "1.14.5", "dist/signals-core.mjs", "signals-core.js"),
    Part("@preact/signals", "2.11.4", "dist/signals.mjs", "signals.js"),
    Part("uplot", "1.6.32", "dist/uPlot.iife.min.js", "uplot.js", adds="\nexport default uPlot;\n"),
    Part("uplot", "1.6.32", "dist/uPlot.min.css", "uplot.css"),
)
PLACES = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
_IMPORT = re.compile(r'(?<=from)\s*"([^"./][^"]*)"')
_MAP = re.compile(r"\n?//# sourceMappingURL=\S+\s*$|\n?/\*# sourceMappingURL=\S+ \*/\s*$")


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(content).hexdigest()


def adapt(text: str, part: Part) -> str:
    """Return a file with the addresses of the packages that it imports, and without that of its map."""
    return _MAP.sub("", _IMPORT.sub(lambda found: f'"{PLACES[found[1]]}"', text)).rstrip("\n") + (
        part.adds or "\n"
    )


def fetch(package: str, version: str, folder: Path) -> Path:
    """Download a package from npm, and return its folder."""
    packed = subprocess.check_output(
        ["npm", "pack", f"{package}@{version}", "--silent", "--pack-destination", str(folder)], text=True
    )
    target = folder / f"{package.replace('/', '-')}-{version}"
    with tarfile.open(folder / packed.split()[-1]) as archive:
        archive.extractall(target, filter="data")
    return next(target.iterdir())


def gather(folder: Path) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """Return the files as they are kept, and the rows of the table."""
    packages = {(part.package, part.version) for part in PARTS}
    places = {each: fetch(*each, folder) for each in sorted(packages)}
    files: dict[str, bytes] = {}
    rows = []
    for part in PARTS:
        place = places[part.package, part.version]
        published = (place / part.source).read_bytes()
        files[part.target] = adapt(published.decode(), part).encode()
        licence = next(place.glob("LICEN[CS]E*"), None)
        name = f"licences/{part.package.replace('/', '-').removeprefix('@')}.txt"
        if licence is not None:
            files[name] = licence.read_bytes()
        rows.append(
            {
                "file": part.target,
                "package": part.package,
                "version": part.version,
                "source": part.source,
                "licence": json.loads((place / "package.json").read_text())["license"],
                "licenceFile": name,
                "published": digest(published),
                "sha256": digest(files[part.target]),
            }
        )
    return files, rows


def main() -> None:
    """Write the files, or compare them."""
    options = argparse.ArgumentParser()
    options.add_argument("--check", action="store_true", help="Write nothing; fail where something differs.")
    check = options.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        files, rows = gather(Path(folder))
    files[TABLE.name] = (json.dumps(rows, indent=2) + "\n").encode()
    for name, content in files.items():
        path = FOLDER / name
        if check and (not path.exists() or path.read_bytes() != content):
            sys.exit(f"{name} differs from what npm has")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    print(f"{len(PARTS)} files {'are as published' if check else 'written'}")


if __name__ == "__main__":
    main()

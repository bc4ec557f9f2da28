"""Runs the reference servers behind both walls, and writes the table of docs/server-walls.md.

With `--check` it only compares the table, and runs nothing.

It needs npm, uv, bubblewrap, docker and dockerd, and fetches packages from npm and PyPI.
"""

import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from runtime.engines import dockerd  # noqa: E402 - they are found by the line above
from servers.reference import REFERENCES, Reference, is_reachable, make_data  # noqa: E402

from toolcrib import SyncCrib  # noqa: E402
from toolcrib.errors import ToolcribError  # noqa: E402

PAGE = ROOT / "docs" / "server-walls.md"
START = "<!-- servers -->\n"
END = "<!-- /servers -->\n"
KINDS = ("bubblewrap", "docker")


def fill(value: Any, data: Path) -> Any:
    """Return arguments with the folder of the data."""
    if isinstance(value, str):
        return value.replace("$DATA", str(data))
    return {key: fill(member, data) for key, member in value.items()} if isinstance(value, dict) else value


def run(reference: Reference, kind: str) -> str:
    """Run a server behind a wall, and return the number of its tools and the calls made."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_data(Path(folder) / "data")
        settings = reference.settings(kind, data)
        if not is_reachable(reference):
            settings["network"] = "none"
        with SyncCrib({"mcpServers": {reference.name: settings}}) as crib:
            tools = crib.ready(400)[reference.name].tools
            if not is_reachable(reference):
                return f"{tools} tools; nothing called: {', '.join(reference.network)} is out of reach"
            for tool, arguments, expected in reference.calls:
                if expected == "created" and kind != KINDS[0]:
                    (data / "shop.db").unlink(missing_ok=True)
                result = crib.run(f"{reference.name}:{tool}", fill(arguments, data))
                if expected not in str(result.structured) + str(result.mcp_result):
                    raise AssertionError(f"{reference.name}:{tool} gave {result}")
            called = ", ".join(dict.fromkeys(f"`{each[0]}`" for each in reference.calls))
            return f"{tools} tools; called: {called}"


def needs(reference: Reference) -> str:
    """Return the settings that a server needs beside its command and `sandbox`."""
    keys = (("read", reference.read), ("write", reference.write), ("network", reference.network))
    found = [f"`{key} = [{', '.join(repr(each) for each in values)}]`" for key, values in keys if values]
    found += [f"`{name}`" for name in reference.env]
    return (", ".join(found) or "nothing").replace("'", '"')


def rows() -> list[str]:
    """Return the table; nothing is run."""
    lines = ["| server | started by | needs | called | notes |", "|---|---|---|---|---|"]
    for reference in REFERENCES:
        words = reference.command.replace("|", "\\|")
        called = ", ".join(dict.fromkeys(f"`{each[0]}`" for each in reference.calls))
        lines.append(f"| {reference.name} | `{words}` | {needs(reference)} | {called} | {reference.note} |")
    return [line.replace("$DATA", "/data") for line in lines]


def outcome() -> str:
    """Return the sentence about the servers that could not be called here."""
    out = [reference for reference in REFERENCES if not is_reachable(reference)]
    if not out:
        return "All calls succeeded in both sandboxes."
    names = " and ".join(f"`{each.name}`" for each in out)
    hosts = " or ".join(f"`{host}`" for each in out for host in each.network)
    return (
        f"All calls succeeded in both sandboxes, except that {names} only started and listed their tools: "
        f"the machine used for this run could not reach {hosts}, so their calls have not been tried."
    )


def main() -> None:
    """Run the servers, and write the table."""
    before = PAGE.read_text(encoding="utf-8")
    head, _, rest = before.partition(START)
    table = "\n".join(rows()) + "\n"
    if "--check" in sys.argv:
        if not rest.startswith(table):
            sys.exit(f"{PAGE.name} is not what {Path(__file__).name} writes")
        return
    failed = []
    with dockerd():
        for reference in REFERENCES:
            for kind in KINDS:
                began = time.monotonic()
                try:
                    found = run(reference, kind)
                except (ToolcribError, AssertionError) as error:
                    found = f"FAILED: {error}"
                    failed.append((reference.name, kind))
                sys.stdout.write(f"{reference.name} {kind}: {found} ({time.monotonic() - began:.0f} s)\n")
                sys.stdout.flush()
    if failed:
        sys.exit(f"these do not work: {failed}")
    made = f"{table}\n{textwrap.fill(outcome(), 125)}\n"
    PAGE.write_text(head + START + made + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()

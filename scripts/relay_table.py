"""Writes the table of relayed messages into docs/gateway-reference.md; `--check` only compares.

The table is made of the rows that `tests/gateway/test_relays.py` runs, each in every combination of eras.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from gateway.relays import ERAS, RELAYS  # noqa: E402 - they are found by the line above

PAGE = ROOT / "docs" / "gateway-reference.md"
START = "<!-- relays -->\n"
END = "<!-- /relays -->\n"


def table() -> str:
    """Return the table as Markdown."""
    pairs = [(client, server) for client in ERAS for server in ERAS]
    short = {era: era[:4] for era in ERAS}
    head = ["what a server does", *(f"{short[client]} to {short[server]}" for client, server in pairs)]
    head += [f"in {era}" for era in ERAS]
    rows = [[relay.what, *("yes" for _ in pairs), relay.older, relay.newer] for relay in RELAYS]
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    """Write the table, or report that it is out of date."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(START)
    made = before + START + table() + END + rest.split(END)[1]
    if "--check" in sys.argv:
        if made != page:
            sys.exit(f"{PAGE.name} is not up to date; run scripts/relay_table.py")
        return
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Counts the tokens that tools of ten well-known servers take of a context, with and without toolcrib.

`--write` draws the picture that README.md shows. The servers are started by npx and uvx.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import anyio

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests"), str(ROOT / "scripts")]

from pictures import Bar, draw_bars  # noqa: E402 - as above
from servers.reference import REFERENCES, make_data  # noqa: E402 - as above

from toolcrib import Crib  # noqa: E402 - as above
from toolcrib.gateway.frontends.meta import MetaTools  # noqa: E402 - as above
from toolcrib.gateway.frontends.meta.token_usage import TokenUsage  # noqa: E402 - as above

PICTURE = ROOT / "docs" / "images" / "context.svg"
PATIENCE = 300.0
WALL = ("sandbox", "read", "write", "network")
"""The settings of a server that only a wall reads."""


async def measure() -> TokenUsage:
    """Start the servers, and count the tokens of their definitions and of the tools that stand for them."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_data(Path(folder) / "data")
        servers = {
            each.name: {key: value for key, value in each.settings("", data).items() if key not in WALL}
            for each in REFERENCES
        }
        async with Crib({"servers": servers}) as crib:
            await crib.ready(PATIENCE)
            return MetaTools(crib, crib.settings.gateway).measure_tokens()


def main() -> None:
    """Print the numbers, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="draw the picture")
    options = parser.parse_args()
    # The launchers of servers are installed with the development tools, which need not be activated.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    usage = anyio.run(measure)
    print(f"{usage.tools} tools of {len(REFERENCES)} servers: {usage.direct:,} tokens")
    print(f"the eight tools of toolcrib in their place: {usage.surface:,} tokens ({usage.saved:.0%} saved)")
    if options.write:
        bars = [
            Bar(f"{usage.tools} tools of {len(REFERENCES)} servers", usage.direct, f"{usage.direct:,}"),
            Bar("toolcrib in their place", usage.surface, f"{usage.surface:,}", is_ours=True),
        ]
        about = "tokens of definitions in the context of a model, before its first question"
        PICTURE.write_text(draw_bars("What tools cost before they are used", about, bars), encoding="utf-8")


if __name__ == "__main__":
    main()

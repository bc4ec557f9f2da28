"""A gateway in a process of its own, over the little face or with a configuration file.

Usage: child.py stdio|http [configuration]
"""

import os
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent))

from gateway.little_face import LittleFace

from toolcrib.gateway import Gateway


async def main() -> None:
    config = sys.argv[2] if len(sys.argv) > 2 else None
    face = LittleFace()
    gateway = Gateway(config, frontends=lambda *_: face)
    print("this goes where it goes", file=sys.stderr, flush=True)  # noqa: T201 - a program says something
    async with gateway:
        await gateway.crib.ready()
        if sys.argv[1] == "stdio":
            await gateway.serve_stdio()
        else:
            await gateway.serve_http(port=0, on_ready=lambda url: print(url, flush=True))  # noqa: T201 - for the test
    os.write(2, b"the end\n")


if __name__ == "__main__":
    anyio.run(main)

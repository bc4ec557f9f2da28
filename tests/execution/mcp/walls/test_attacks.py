"""Every attack on the host by a server behind its wall is stopped, without effect on the host."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import pytest
from ears import Ears
from execution.mcp.walls.attacks import ATTACKS, Attack

from toolcrib import SyncCrib

INTRUDER = Path(__file__).parents[3] / "servers" / "intruder.py"
CANARY = "canary-3f6c2b90"


@dataclass
class Target:
    """A server behind a wall, and the secrets that it must not reach."""

    crib: SyncCrib
    ears: Ears
    places: dict[str, Any]

    def attempt(self, code: str) -> dict[str, Any]:
        """Have the server run code; return its result, or the error that stopped it."""
        written = Template(code).safe_substitute(self.places)
        found: dict[str, Any] = self.crib.run("it:attempt", {"code": written}).structured
        return found


def _address() -> str:
    """Return the address of this machine in its network, where it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        try:
            end.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return str(end.getsockname()[0])


@pytest.fixture(scope="module", params=["nothing", "named hosts"])
def target(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    base = tmp_path_factory.mktemp("wall")
    home, shared, drop, outside, data = (
        base / name for name in ("home", "shared", "drop", "outside", "data")
    )
    for folder in (home / ".ssh", shared, drop, outside, data / "servers" / "other" / "home"):
        folder.mkdir(parents=True)
    secrets = [home / ".ssh" / "id_ed25519", home / "notes.txt", outside / "secret.txt", data / "vault.json"]
    for file in [*secrets, data / "servers" / "other" / "home" / "secret.txt"]:
        file.write_text(CANARY)
    (shared / "open.txt").write_text("open")
    ears = Ears(tmp_path_factory.mktemp("ears"))
    ears.open()
    before = {path: path.read_bytes() for path in sorted(base.rglob("*")) if path.is_file()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("TOOLCRIB_HOME", str(data))
        patch.setenv("OTHER_TOKEN", CANARY)
        engine = os.environ.get("DOCKER_HOST", "").removeprefix("unix://")
        places = {
            "HOME": home,
            "SHARED": shared,
            "DROP": drop,
            "OUTSIDE": outside,
            "DATA": data,
            "PROGRAM": INTRUDER,
            "PORT": ears.port,
            "ADDRESS": _address(),
            "SOCKET": ears.path,
            "ABSTRACT": ears.abstract,
            "DOCKER": engine or "/run/docker.sock",
            "PID": os.getpid(),
            "CANARY": CANARY,
        }
        server = {
            "command": sys.executable,
            "args": [str(INTRUDER)],
            "sandbox": kind,
            "read": [str(shared)],
            "write": [str(drop)],
            "network": "none"
            if request.param == "nothing"
            else ["localhost", "*.example.com", "127.0.0.1:9"],
        }
        with SyncCrib({"mcpServers": {"it": server}}) as crib:
            yield Target(crib, ears, places)
            assert crib.status()["it"].starts == 1  # none of them ended it
    changed = {path for path, content in before.items() if path.read_bytes() != content}
    made = {
        path for path in base.rglob("*") if path.is_file() and not path.is_relative_to(data)
    } - before.keys()
    assert not changed
    assert not [path for path in made if not path.is_relative_to(drop)]
    ears.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack.group}: {attack.name}")
def test_an_attack_of_a_server_is_stopped(target: Target, attack: Attack) -> None:
    found = target.attempt(attack.code)
    assert "refused" in found or attack.is_harmless(found["got"]), found
    assert CANARY not in json.dumps(found)
    assert target.ears.heard() == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("got = open('$SHARED/open.txt').read()", "open"),
        ("open('$DROP/mine.txt', 'w').write('x')\ngot = open('$DROP/mine.txt').read()", "x"),
        ("import os\nopen(os.path.expanduser('~/kept'), 'w').write('x')\ngot = os.listdir(os.path.expanduser('~'))", ["kept"]),
        ("open('/tmp/scratch', 'w').write('x')\ngot = open('/tmp/scratch').read()", "x"),
        ("import subprocess\ngot = subprocess.run(['sh', '-c', 'echo from a child'], capture_output=True, text=True).stdout", "from a child\n"),
        ("import threading\nend = []\nthread = threading.Thread(target=end.append, args=(1,))\nthread.start(); thread.join()\ngot = end", [1]),
        ("import socket\nwith socket.create_server(('127.0.0.1', 0)) as server, socket.create_connection(server.getsockname()) as end:\n    got = 'connected'", "connected"),
        ("import os\nos.mkfifo('$DROP/pipe')\nos.utime('$SHARED/../drop/pipe')\ngot = 'made'", "made"),
        ("import multiprocessing\nwith multiprocessing.get_context('fork').Pool(1) as pool:\n    got = pool.map(abs, [-1])", [1]),
        ("import pwd, os\ngot = pwd.getpwuid(os.getuid()).pw_name", "server"),
    ],
)  # fmt: skip
def test_permitted_access_works_behind_the_wall(target: Target, code: str, expected: Any) -> None:
    assert target.attempt(code) == {"got": expected}

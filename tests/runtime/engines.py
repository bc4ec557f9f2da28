"""A container engine of the tests' own, and the module of CPython for WebAssembly."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path

from needs import lack
from waiting import wait_until

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.isolation.owner import own_mark
from toolcrib.paths import lock_path
from toolcrib.runtime.sandboxes.docker.engine import IMAGE, OWNER_LABEL, find_engine
from toolcrib.runtime.sandboxes.docker.image import build_from_host
from toolcrib.runtime.sandboxes.wasm.module import build_module, compiled_path

ENGINE = "TOOLCRIB_TEST_ENGINE"
"""The variable that names the socket of another engine, such as `unix:///run/podman/podman.sock`."""
FLAGS = ("--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=overlay2")
RUNSC = '#!/bin/sh\nexec runsc --platform=ptrace --network=none --host-uds=open "$@"\n'


@contextmanager
def dockerd() -> Iterator[None]:
    """Start an engine that has the image, unless one is named, and have `DOCKER_HOST` lead to it."""
    before = os.environ.get("DOCKER_HOST")
    try:
        with nullcontext(os.environ.get(ENGINE)) if ENGINE in os.environ else _started() as address:
            os.environ["DOCKER_HOST"] = str(address)
            wait_until(answers, "the engine answers")
            engine = find_engine("docker")
            build_from_host(engine, IMAGE)
            engine.close()
            yield
    finally:
        if before is None:
            os.environ.pop("DOCKER_HOST", None)
        else:
            os.environ["DOCKER_HOST"] = before


@contextmanager
def _started() -> Iterator[str]:
    """Start an engine, and yield its address."""
    if not all(map(shutil.which, ("dockerd", "runsc"))) or find_spec("docker") is None or os.geteuid() != 0:
        lack("docker")
    # A short path, for sockets, and one that gVisor reaches: it starts as nobody, whom a private TMPDIR stops.
    folder = Path(tempfile.mkdtemp(prefix="dockerd-", dir="/tmp"))
    runsc, config = folder / "runsc", folder / "daemon.json"
    runsc.write_text(RUNSC)
    runsc.chmod(0o755)
    config.write_text(json.dumps({"runtimes": {"runsc": {"path": str(runsc)}}}))
    places = {"--data-root": "data", "--exec-root": "exec", "-p": "pid", "--config-file": "daemon.json"}
    options = [word for name, place in places.items() for word in (name, str(folder / place))]
    command = ["dockerd", *options, "-H", f"unix://{folder / 'sock'}", *FLAGS]
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(folder)})
    try:
        wait_until(lambda: daemon.poll() is not None or (folder / "sock").exists(), "the engine listens")
        assert daemon.poll() is None, (folder / "log").read_text()[-3000:]
        yield f"unix://{folder / 'sock'}"
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)


def answers() -> bool:
    try:
        find_engine("docker").close()
    except RuntimeUnavailableError:
        return False
    return True


def running(*, own: bool = False) -> list[str]:
    """Return the guests that run in the engine, or those of this process."""
    engine = find_engine("docker")
    label = f"{OWNER_LABEL}={own_mark()}" if own else OWNER_LABEL
    try:
        return [found["Id"] for found in engine.client.containers(filters={"label": label})]
    finally:
        engine.close()


def wasm_module(folder: Path) -> Path:
    """Return the compiled module, which is made once and kept in a folder."""
    if find_spec("wasmtime") is None or shutil.which("npm") is None:
        lack("wasmtime")
    found = compiled_path(folder)
    with lock_path(folder, within=300):
        return found if found.exists() else build_module(folder=folder)

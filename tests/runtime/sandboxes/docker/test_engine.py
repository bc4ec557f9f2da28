"""Containers: options, choice of the engine, contents of the image; most of it without an engine."""

import json
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from threading import Thread
from typing import ClassVar

import pytest
from runtime.engines import running
from runtime.workbench import Bench
from waiting import until, wait_until

from toolcrib.errors import CodeError, RuntimeUnavailableError
from toolcrib.runtime import backends
from toolcrib.runtime.sandboxes.docker import DockerSandbox, GvisorSandbox
from toolcrib.runtime.sandboxes.docker.engine import (
    HOME,
    SOCKET_FOLDER,
    ContainerEngine,
    Exit,
    Image,
    Size,
    find_engine,
)
from toolcrib.runtime.sandboxes.docker.image import build_from_dockerfile, host_files, write_archive
from toolcrib.runtime.sandboxes.process.wall import interpreter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers are Linux's")
IMAGE = Image("sha256:1", "/usr/bin/python3", "")


def config(size: Size, runtime: str | None = None) -> dict[str, object]:
    engine = ContainerEngine("docker", "/nowhere", "", frozenset(), None)
    found: dict[str, object] = engine.container_config(IMAGE, ["-c", "pass"], "/bridge", size, runtime)
    return found


def test_container_has_no_network_and_no_rights_and_one_writable_folder() -> None:
    asked = config(Size(memory=1 << 28, pids=33, disk=1 << 20))
    host = asked["HostConfig"]
    assert isinstance(host, dict)
    assert (asked["User"], asked["NetworkDisabled"], host["NetworkMode"]) == ("65534:65534", True, "none")
    assert (host["ReadonlyRootfs"], host["CapDrop"], host["IpcMode"]) == (True, ["ALL"], "none")
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (1 << 28, 1 << 28, 33)
    assert host["Binds"] == [f"/bridge:{SOCKET_FOLDER}:ro"]
    assert list(host["Tmpfs"]) == [HOME]
    assert "size=1048576" in host["Tmpfs"][HOME]
    assert "Privileged" not in host
    assert "Runtime" not in host


def test_container_without_disk_has_no_writable_folder() -> None:
    host = config(Size(memory=1 << 28, pids=33, disk=0), runtime="runsc")["HostConfig"]
    assert isinstance(host, dict)
    assert (host["Tmpfs"], host["Runtime"]) == ({}, "runsc")


@pytest.mark.parametrize("late", [0, 3])
def test_exit_reports_out_of_memory_that_the_engine_reports_late(late: int) -> None:
    class Client:
        """A client that learns of a container's kill before the reason."""

        asked = 0

        def wait(self, name: str, timeout: float) -> None: ...

        def inspect_container(self, name: str) -> dict[str, object]:  # noqa: ARG002 - the SDK has it
            self.asked += 1
            return {"State": {"ExitCode": 137, "OOMKilled": self.asked > late}}

    pytest.importorskip("docker")
    engine = ContainerEngine("docker", "/nowhere", "", frozenset(), Client())
    assert engine.wait_for_exit("guest", 1.0) == Exit(137, out_of_memory=True)


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("tcp://127.0.0.1:2375", "must name a unix socket"),
        ("unix:///nowhere/docker.sock", "apt install docker.io"),
    ],
)
def test_missing_engine_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, address: str, remedy: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(RuntimeUnavailableError, match=remedy):
        find_engine("docker")
    for kind in ("docker", "gvisor"):
        details = backends()[kind].details
        assert (details["available"], details["profiles"], details["isolation"]) == (False, [], [])
        assert remedy in details["remedy"]


def test_gvisor_without_an_engine_names_runsc_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    assert "apt install docker.io runsc" in backends()["gvisor"].details["remedy"]
    assert "runsc" not in backends()["docker"].details["remedy"]


class Questions(BaseHTTPRequestHandler):
    """Answers like an engine, and waits for more questions on the same connection."""

    protocol_version = "HTTP/1.1"
    connections: ClassVar[set[BaseHTTPRequestHandler]] = set()

    def setup(self) -> None:
        super().setup()
        self.connections.add(self)

    def do_GET(self) -> None:
        body = json.dumps({"ApiVersion": "1.41", "Id": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...

    def finish(self) -> None:
        self.connections.discard(self)
        super().finish()


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/sock")
    with ThreadingUnixStreamServer(f"{tmp_path}/sock", Questions) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("listening")
def test_client_keeps_no_connection_between_requests() -> None:
    pytest.importorskip("docker")
    engine = find_engine("docker")
    with closing(engine.client):
        assert engine.image("one").id == "/v1.41/images/one/json"
        wait_until(lambda: not Questions.connections, "every connection is closed")
        assert engine.image("two").id == "/v1.41/images/two/json"


@pytest.mark.proof
def test_image_has_the_interpreter_and_its_libraries_but_no_packages() -> None:
    files = host_files()
    names = {path.name for path in files}
    assert Path(interpreter()[0]) in files
    assert any(name.startswith(("libc.so", "ld-")) for name in names)
    assert "os.py" in names
    assert not any({"site-packages", "dist-packages"}.intersection(path.parts) for path in files)


def test_archive_of_equal_files_has_an_equal_digest(tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.write_text("1")
    first, second = BytesIO(), BytesIO()
    assert write_archive(first, [one]) == write_archive(second, [one])
    first.seek(0)
    with tarfile.open(fileobj=first) as archive:
        member = archive.extractfile(str(one).lstrip("/"))
        assert member is not None
        assert member.read() == b"1"
        assert "tmp" in archive.getnames()
    one.write_text("2")
    assert write_archive(BytesIO(), [one]) != write_archive(
        BytesIO(), [tmp_path / "one", tmp_path / "one"][:0]
    )


@pytest.mark.proof
@pytest.mark.anyio
@pytest.mark.usefixtures("needs_docker")
async def test_image_from_a_dockerfile_runs_code(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("from the file")
    (tmp_path / "Dockerfile").write_text("FROM toolcrib-sandbox:latest\nCOPY note /note\n")
    engine = find_engine("docker")
    built = build_from_dockerfile(engine, tmp_path / "Dockerfile", "toolcrib-other:1")
    engine.close()
    assert built.digest.startswith("sha256:")
    async with DockerSandbox(image="toolcrib-other:1", warm=0) as sandbox:
        assert (await Bench(sandbox).run("__out = open('/note').read()")).value == "from the file"


@pytest.mark.proof
@pytest.mark.anyio
@pytest.mark.usefixtures("needs_docker")
async def test_missing_image_error_names_the_build_command() -> None:
    sandbox = DockerSandbox(image="toolcrib-missing:1")
    assert "toolcrib sandbox build" in sandbox.info().details["remedy"]
    async with sandbox:
        with pytest.raises(RuntimeUnavailableError, match="toolcrib sandbox build"):
            await Bench(sandbox).run("__out = 1")


@pytest.mark.proof
@pytest.mark.anyio
@pytest.mark.usefixtures("needs_docker")
@pytest.mark.parametrize("make", [DockerSandbox, GvisorSandbox])
async def test_container_is_removed_after_its_run(make: type[DockerSandbox]) -> None:
    before = set(running())
    async with make(warm=0) as sandbox:
        with pytest.raises(CodeError):
            await Bench(sandbox).run("1 / 0")
    await until(lambda: not set(running()) - before)

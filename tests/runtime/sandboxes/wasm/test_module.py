"""The sandbox in WebAssembly: requirements, initial state, and the separation of prints from frames."""

import os
import platform
from dataclasses import replace
from pathlib import Path

import pytest
from runtime.backends import BACKENDS
from runtime.sandboxes.wasm.modules import like_cpython
from runtime.workbench import Bench

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.runtime import backends
from toolcrib.runtime.sandboxes.process.child import GUEST_FILES, guest_program
from toolcrib.runtime.sandboxes.wasm import WasmSandbox, guest_host
from toolcrib.runtime.sandboxes.wasm.module import _run_module, build_module, compiled_path, find_module
from toolcrib.runtime.sandboxes.wasm.snapshot import MemorySnapshot, with_snapshot, with_stack_export

MARK = b"0123456789abcdef"


def split(*writes: bytes) -> tuple[bytes, bytes]:
    """Return the printed and the sent bytes of a guest that writes this."""
    printed, prints = os.pipe()
    sent, sends = os.pipe()
    splitter = guest_host._Splitter(MARK, sends, prints)
    for data in writes:
        splitter(data)
    for end in (prints, sends):
        os.close(end)
    found = os.read(printed, 1 << 16), os.read(sent, 1 << 16)
    os.close(printed)
    os.close(sent)
    return found


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def test_splitter_separates_frames_from_printed_text() -> None:
    stream = b"one" + MARK + frame(b"{1}") + b"two" + MARK + frame(b"{22}") + b"three"
    assert split(stream) == (b"onetwothree", frame(b"{1}") + frame(b"{22}"))
    assert split(*(bytes([byte]) for byte in stream)) == (b"onetwothree", frame(b"{1}") + frame(b"{22}"))


def test_splitter_prints_the_beginning_of_a_mark() -> None:
    assert split(MARK[:9] + b"x" + MARK[:5], b"!") == (MARK[:9] + b"x" + MARK[:5] + b"!", b"")


def test_splitter_prints_nothing_of_an_unfinished_frame() -> None:
    assert split(MARK + b"\xff\xff\xff\xff" + b"x" * 1000, b"y") == (b"", b"\xff" * 4 + b"x" * 1000 + b"y")


@pytest.mark.usefixtures("home")
def test_missing_module_error_names_the_build_command() -> None:
    with pytest.raises(RuntimeUnavailableError, match="toolcrib sandbox build --backend wasm"):
        find_module()
    details = backends()["wasm"].details
    assert (details["available"], details["profiles"]) == (False, [])
    assert "toolcrib sandbox build --backend wasm" in details["remedy"]
    assert not WasmSandbox().info().details["available"]


@pytest.mark.usefixtures("home")
def test_module_of_another_version_is_outdated() -> None:
    pytest.importorskip("wasmtime")
    old = compiled_path().with_name("python-50.0.1-x86_64.cwasm")
    old.parent.mkdir(parents=True)
    old.touch()
    with pytest.raises(RuntimeUnavailableError, match=r"outdated.*toolcrib sandbox build --backend wasm"):
        find_module()
    details = WasmSandbox(module=old).info().details
    assert (details["available"], "outdated" in details["remedy"]) == (False, True)


def snapshot_of(content: bytes, folder: Path) -> MemorySnapshot:
    import wasmtime  # noqa: PLC0415 - of an extra

    engine = wasmtime.Engine()
    return _run_module(engine, wasmtime.Module(engine, with_stack_export(content)), "", str(folder))


def test_snapshot_continues_with_its_memory_and_stack(tmp_path: Path) -> None:
    content = like_cpython()
    first = snapshot_of(content, tmp_path)
    second = snapshot_of(with_snapshot(content, replace(first, printed=b"200")), tmp_path)
    assert (first.memory[8], first.stack) == (1 + 70, 1024 - 16)
    assert (second.memory[8], second.stack) == ((1 + 70 + 200) % 256, 1024 - 32)


def test_snapshot_of_another_program_is_refused(tmp_path: Path) -> None:
    wasmtime = pytest.importorskip("wasmtime")
    content = like_cpython()
    with pytest.raises(RuntimeUnavailableError, match="not CPython"):
        with_snapshot(content, replace(snapshot_of(content, tmp_path), functions=[3]))
    (tmp_path / "x.wasm").write_bytes(wasmtime.wat2wasm("(module)"))
    with pytest.raises(RuntimeUnavailableError, match="not CPython"):
        build_module(tmp_path / "x.wasm", tmp_path)


def laid(folder: Path, *names: str) -> None:
    """Have compiled modules in a folder, each with its library."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.cwasm").touch()
        (folder / f"{name}.lib").mkdir()
        (folder / f"{name}.lib" / "os.py").touch()


@pytest.mark.usefixtures("home")
def test_build_removes_modules_of_other_versions(tmp_path: Path) -> None:
    (tmp_path / "x.wasm").write_bytes(like_cpython())
    known, machine = compiled_path(), platform.machine()
    laid(known.parent, f"python-1.0-{machine}", f"python-1.0-{machine}-00", "python-1.0-other-00", "mine")
    assert build_module(tmp_path / "x.wasm") == known
    stay = {known.stem, "python-1.0-other-00", "mine"}
    assert {path.name for path in known.parent.iterdir()} == {
        f"{n}.{e}" for n in stay for e in ("cwasm", "lib")
    }
    assert find_module() == known


def test_build_in_another_folder_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.wasm").write_bytes(like_cpython())
    folder, old = tmp_path / "modules", f"python-1.0-{platform.machine()}-00"
    laid(folder, old)
    build_module(tmp_path / "x.wasm", folder)
    assert (folder / f"{old}.cwasm").exists()
    assert (folder / f"{old}.lib" / "os.py").exists()


@pytest.mark.usefixtures("home")
def test_failed_build_removes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("wasmtime")
    old = f"python-1.0-{platform.machine()}-00"
    laid(compiled_path().parent, old)
    (tmp_path / "x.wasm").write_bytes(b"no module")
    with pytest.raises(RuntimeUnavailableError):
        build_module(tmp_path / "x.wasm")
    assert (compiled_path().parent / f"{old}.cwasm").exists()


@pytest.mark.proof
@pytest.mark.anyio
@pytest.mark.usefixtures("needs_wasm")
async def test_guests_have_their_own_random_seed_and_can_import() -> None:
    code = """
import calendar, logging, random, sys, time
age = time.time() - logging._startTime
__out = [random.random(), calendar.__spec__.origin, age < 60]
"""
    async with BACKENDS["wasm"]() as sandbox:
        drawn = [(await Bench(sandbox).run(code)).value for _ in range(2)]
    assert drawn[0][0] != drawn[1][0]
    assert [rest for _, *rest in drawn] == [["/lib/calendar.pyc", True]] * 2


def test_file_that_is_no_module_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("wasmtime")
    (tmp_path / "x.wasm").write_bytes(b"no module")
    with pytest.raises(RuntimeUnavailableError, match="cannot be compiled"):
        build_module(tmp_path / "x.wasm", tmp_path)


def test_guest_program_compiles() -> None:
    compile(guest_program(), "<guest>", "exec")
    folder = Path(guest_host.__file__).parent
    compile(guest_program((*GUEST_FILES[:2], folder / "guest_host.py"), "_host_main"), "<guest>", "exec")

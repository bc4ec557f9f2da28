"""The files of a program that a server is started with: an installation, a package, a script.

A program in a folder of the system needs nothing more. One that a user has installed has a folder of its
own, and so have the interpreter that runs it and the packages that it loads. A home folder is never among
them, nor what holds one: of a script that lies in it, the script alone is.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
"""The folders of the system that hold programs, and nothing that belongs to a user."""
_COMPANIONS = {
    **dict.fromkeys(("npx", "npm", "pnpm", "pnpx", "yarn"), ("node",)),
    "uvx": ("uv", "python3"),
    "uv": ("python3",),
    "pipx": ("python3",),
}
"""Further programs that a program starts."""
_INTERPRETER = re.compile(r"(node|nodejs|bun|deno|tsx|ts-node|python|pypy|ruby|php|perl|bash|sh)[\d.]*")
_MANAGERS = (".pyenv", ".nodenv", ".asdf", ".volta", ".bun", ".deno")
"""Folders of version managers, whose programs find each other below them."""
_PROJECTS = ("--directory", "--project")
"""Options of `uv` that name the project folder."""
_SHEBANG_BYTES = 512
_ABSOLUTE = re.compile(r"(?<![\w.])/[^\s'\"]+")
_LINKS = 40
_SHARED = 2
"""Folders of so many parts are those of everybody."""


def absolute(path: str, folder: Path | str = "") -> Path:
    """Return a path with `~` filled in, from a folder on or else from that of this process; links stay."""
    return Path(os.path.abspath(os.path.join(folder, os.path.expanduser(path))))  # noqa: PTH100, PTH111, PTH118 - a Path raises where there is no home, and follows links


def find_program(command: str, path: str, folder: Path) -> Path | None:
    """Return where a command is; None if it is nowhere."""
    if os.sep in command:
        found = absolute(command, folder)
        return found if os.access(found, os.X_OK) and found.is_file() else None
    where = shutil.which(command, path=path)
    return None if where is None else Path(where).absolute()


def program_files(program: Path, args: Sequence[str], path: str, folder: Path) -> list[Path]:
    """Return the files and folders that a program needs beside those of the system.

    Args:
        program: Where it is, as `find_program` has it.
        args: Its arguments, of which the script of an interpreter counts.
        path: The variable `PATH` that it gets.
        folder: The one that relative paths in the arguments begin in.
    """
    found = dict.fromkeys(_files_of(program, path))
    for name in _COMPANIONS.get(program.name, ()):
        if companion := find_program(name, path, folder):
            found |= dict.fromkeys(_files_of(companion, path))
    found |= dict.fromkeys(_files_of_arguments(program.name, args, folder))
    return list(found)


def interpreter_files(program: str) -> list[Path]:
    """Return the files of an interpreter of ours, which runs the launcher."""
    return list(dict.fromkeys(_files_of(Path(program), "")))


def is_below(path: Path, folders: Sequence[Path | str]) -> bool:
    """Return whether a path is one of some folders, or below one."""
    return any(path.is_relative_to(folder) for folder in folders)


def _files_of(program: Path, path: str) -> Iterator[Path]:
    """Yield the files of a program: itself, the targets of its links, and its interpreter."""
    for place in _follow_links(program):
        yield from _installation_of(place)
    for interpreter in _interpreters_of(program, path):
        if interpreter != program:
            for place in _follow_links(interpreter):
                yield from _installation_of(place)


def _follow_links(path: Path) -> Iterator[Path]:
    """Yield a path, all that it is a link to, and where it ends."""
    place = path
    for _ in range(_LINKS):
        yield place
        if not place.is_symlink():
            break
        place = Path(os.path.normpath(place.parent / place.readlink()))
    yield Path(os.path.realpath(path))


def _installation_of(program: Path) -> Iterator[Path]:
    """Yield the folder that a program is installed in, or the program alone where that holds other things."""
    if is_below(program, SYSTEM):
        return
    for parent in program.parents:
        if parent.name in _MANAGERS:
            yield parent
            return
    modules = [parent for parent in program.parents if parent.name == "node_modules"]
    if modules:
        yield modules[-1]
    if program.parent.name != "bin":
        yield program
        return
    prefix = program.parent.parent
    if _is_shared(prefix) or prefix.name in {".local", ".cargo"}:
        yield program
        if (packages := prefix / "lib").is_dir():
            yield packages
    elif (prefix / "lib").is_dir():
        yield prefix
    else:
        yield program


def _interpreters_of(program: Path, path: str) -> Iterator[Path]:
    """Yield the interpreters that the first lines of a script name."""
    try:
        with program.open("rb") as file:
            start = file.read(_SHEBANG_BYTES)
    except OSError:
        return
    if not start.startswith(b"#!"):
        return
    lines = start.decode(errors="replace").splitlines()
    words = lines[0][2:].split()
    if words and Path(words[0]).name == "env":
        name = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
        if found := shutil.which(name, path=path or None):
            yield Path(found)
    for line in lines[:2]:  # the second one where the first would be too long for the kernel
        yield from (place for word in _ABSOLUTE.findall(line) if (place := Path(word)).is_file())


def _files_of_arguments(name: str, args: Sequence[str], folder: Path) -> Iterator[Path]:
    """Yield the script that an interpreter is started with, and the folder of a project."""
    for option, value in pairwise(args):
        if option in _PROJECTS and name == "uv" and (project := folder / value).is_dir():
            yield project
    if not _INTERPRETER.fullmatch(name):
        return
    script = next((word for word in args if not word.startswith("-")), "")
    place = absolute(script, folder)
    if script and place.is_file() and "-m" not in args[: args.index(script)]:
        yield from _files_of_script(place)


def _files_of_script(script: Path) -> Iterator[Path]:
    """Yield the folder of a script, and the packages that Node.js finds from there."""
    if is_below(script, SYSTEM):
        return
    modules = [parent for parent in script.parents if parent.name == "node_modules"]
    if modules:
        yield modules[-1]
        return
    yield script if _is_shared(script.parent) else script.parent
    for parent in script.parents:
        if _is_shared(parent):
            break
        yield from (place for name in ("package.json", "node_modules") if (place := parent / name).exists())


def _is_shared(folder: Path) -> bool:
    """Return whether a folder holds the home of the user, or is one such as `/tmp` or `/etc`."""
    home = absolute("~")
    return len(folder.parts) <= _SHARED or any(
        Path(each).is_relative_to(folder) for each in (home, os.path.realpath(home))
    )

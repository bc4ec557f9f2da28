"""Runs the commands of deploy/Dockerfile without Docker, in root directories that have Python alone.

It needs no base image: bubblewrap makes a directory the root of each stage, with the programs and the
Python of this machine. Then it starts the entry point as the image would, until the health check passes.
Run it as root, because the commands change owners.
"""

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
_SYSTEM = ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/bin", "/lib", "/lib64", "/etc/ssl")
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")
_PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PATIENCE = 60.0
_CONFIG = 'store = "memory"\n\n[gateway]\ntoken = "a-token-of-many-characters"\n'


@dataclass
class Stage:
    """One stage of the build: its root directory, and what its instructions have set so far."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    health: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def command(self, *command: str, readable: tuple[str, ...] = ()) -> list[str]:
        """Return the command line that runs a command in this stage."""
        python = str(Path(sys.base_prefix).resolve())
        line = ["bwrap", "--bind", str(self.root), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108
        for path in (*_SYSTEM, *_NETWORK, *readable):
            line += ["--ro-bind-try", path, path]
        line += [
            "--ro-bind",
            python,
            "/usr/local",
            "--chdir",
            self.folder,
            "--die-with-parent",
            "--unshare-pid",
        ]
        line += [
            "--clearenv",
            "--setenv",
            "LD_LIBRARY_PATH",
            "/usr/local/lib",
        ]  # an image has it in ld.so.cache
        line += [*(word for pair in self.environ.items() for word in ("--setenv", *pair))]
        user, group = self.user.split(":")
        drop = (
            []
            if user == "0"
            else ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs"]
        )
        return [*line, "--cap-add", "ALL", *drop, *command] if drop else [*line, *command]

    def path(self, inside: str) -> Path:
        """Return where a path of the stage is outside of it."""
        return self.root / (Path(self.folder) / inside).relative_to("/")


def read_instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments."""
    joined = text.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest) for name, rest in (line.split(maxsplit=1) for line in lines)]


def build(instructions: list[tuple[str, str]], folder: Path) -> Stage:
    """Run the instructions, and return the last stage."""
    stages: dict[str, Stage] = {}
    stage = Stage(folder)
    for name, rest in instructions:
        words = rest.split()
        if name == "FROM":
            print(f"{name} {rest}: the programs of this machine and its Python stand in for the image")
            stage = Stage(folder / str(len(stages)), {"PATH": _PATH})
            for part in ("etc", "usr"):  # bubblewrap would make them for root alone
                (stage.root / part).mkdir(parents=True)
            stages[words[2] if len(words) == 3 else ""] = stage  # noqa: PLR2004 - FROM image AS name
        else:
            _apply(stage, name, rest, stages)
    return stage


def _apply(stage: Stage, name: str, rest: str, stages: dict[str, Stage]) -> None:
    match name:
        case "RUN":
            print(f"{name} {rest}")
            _run(stage, rest)
        case "COPY":
            _copy(stage, shlex.split(rest), stages)
        case "ENV":
            stage.environ.update([rest.split("=", 1)])
        case "WORKDIR":
            stage.folder = rest
            stage.path(".").mkdir(parents=True, exist_ok=True)
        case "USER":
            stage.user = rest
        case "HEALTHCHECK":
            stage.health = json.loads(rest[rest.index("CMD") + 3 :])
        case "ENTRYPOINT":
            stage.entry = json.loads(rest)
        case "CMD":
            stage.arguments = json.loads(rest)
        case _ if name not in {"EXPOSE", "VOLUME"}:  # which do nothing while an image is built
            sys.exit(f"{DOCKERFILE.name}: this script does not know {name}")


def _run(stage: Stage, line: str) -> None:
    settings, folders = _read_pip_settings()
    command = stage.command("env", *settings, "sh", "-c", line, readable=folders)
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"this command of {DOCKERFILE.name} failed: {line}")


def _copy(stage: Stage, words: list[str], stages: dict[str, Stage]) -> None:
    source = ROOT
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")].root
    *names, target = words
    for name in names:
        found, to = source / name.lstrip("/"), stage.path(target)
        if target.endswith("/"):
            to /= Path(name).name
        to.parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            shutil.copytree(found, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(found, to)


def _read_pip_settings() -> tuple[list[str], tuple[str, ...]]:
    """Return the settings of pip on this machine as variables, and the folders of local indexes in them."""
    pip = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(pip, capture_output=True, text=True, check=True).stdout
    settings = {}
    for line in listed.splitlines():
        name, value = line.split("=", 1)
        settings[f"PIP_{name.split('.')[-1].upper().replace('-', '_')}"] = value.strip("'").replace(
            "\\n", " "
        )
    words = " ".join(settings.values()).replace("file://", "").split()
    found = [Path(word) for word in words if word.startswith("/") and Path(word).is_dir()]
    # an index refers to files beside its pages
    folders = tuple(str(path.parent if len(path.parts) > 3 else path) for path in found)  # noqa: PLR2004 - /opt/index/pages
    return [f"{name}={value}" for name, value in settings.items()], folders


def serve_until_healthy(stage: Stage) -> float:
    """Start what the image would start, and return after how many seconds its health check passes."""
    config = stage.root / "etc" / "toolcrib" / "toolcrib.toml"
    config.parent.mkdir(parents=True)
    config.write_text(_CONFIG)
    started = time.monotonic()
    with subprocess.Popen(stage.command(*stage.entry, *stage.arguments)) as serving:
        try:
            while time.monotonic() - started < _PATIENCE and serving.poll() is None:
                if (
                    subprocess.run(
                        stage.command(*stage.health), stderr=subprocess.DEVNULL, check=False
                    ).returncode
                    == 0
                ):
                    return time.monotonic() - started
                time.sleep(0.1)
            sys.exit("the health check of the Dockerfile does not pass")
        finally:
            serving.terminate()


def main() -> None:
    """Build the stages, and start the last one."""
    if shutil.which("bwrap") is None:
        sys.exit("needs bubblewrap: apt install bubblewrap")
    with tempfile.TemporaryDirectory() as name:
        stage = build(read_instructions(DOCKERFILE.read_text()), Path(name))
        took = serve_until_healthy(stage)
        size = sum(file.lstat().st_size for file in stage.root.rglob("*") if not file.is_dir())
        print(f"healthy after {took:.1f} s as user {stage.user}; {size / 1e6:.0f} MB beside the base image")


if __name__ == "__main__":
    main()

"""What a release publishes: versions that agree, the entry for registries, and the desktop extension."""

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import pytest

from toolcrib import __version__
from toolcrib.setup.registry import plan_server, read_entry


@pytest.fixture(scope="module")
def script(root: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(
        "build_distributions", root / "scripts" / "build_distributions.py"
    )
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_all_that_is_published_has_one_version(root: Path) -> None:
    def version_of(folder: str) -> str:
        version: str = tomllib.loads((root / folder / "pyproject.toml").read_text())["project"]["version"]
        return version

    server = json.loads((root / "server.json").read_text())
    manifest = json.loads((root / "bundle" / "manifest.json").read_text())
    versions = [version_of("."), version_of("packages/toolcrib-minilm"), server["version"]]
    versions += [manifest["version"], *(each["version"] for each in server["packages"])]
    assert set(versions) == {__version__}


def test_a_registry_says_how_the_gateway_is_started(root: Path) -> None:
    server = json.loads((root / "server.json").read_text())
    plan = plan_server(read_entry(str(root / "server.json"), server["name"]))
    extras = f"toolcrib[cli,code,openapi]=={__version__}"
    started = [plan.settings["command"], *plan.settings["args"]]
    assert started == ["uvx", "--with", extras, f"toolcrib@{__version__}", "serve"]
    assert len(server["description"]) <= 100
    assert f"<!-- mcp-name: {server['name']} -->" in (root / "README.md").read_text()


def test_the_desktop_extension_has_what_it_needs_and_is_the_same_each_time(
    script: Any, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "DIST", tmp_path)
    made = script.build_bundle(__version__)
    first = made.read_bytes()
    with ZipFile(made) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    manifest = json.loads(files["manifest.json"])
    assert manifest["server"]["entry_point"] in files
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["dependencies"] == [f"toolcrib[cli,code,openapi]=={__version__}"]
    assert files["LICENSE"] == (root / "LICENSE").read_text()
    assert script.build_bundle(__version__).read_bytes() == first


@pytest.mark.parametrize("config", ["", "${user_config.config}"])
def test_the_extension_serves_a_demo_where_nothing_is_configured(
    script: Any, root: Path, tmp_path: Path, config: str
) -> None:
    asked = "".join(f"{json.dumps(each)}\n" for each in (script._INITIALIZE, script._READY, script._LIST))
    ran = subprocess.run(
        [sys.executable, root / "bundle" / "server.py", config],
        input=asked,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "TOOLCRIB_HOME": str(tmp_path / "home"), "PATH": "/nowhere"},
    )
    answers = {each.get("id"): each for each in map(json.loads, ran.stdout.splitlines())}
    assert "search_tools" in [tool["name"] for tool in answers[2]["result"]["tools"]], ran.stderr

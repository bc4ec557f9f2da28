"""The inventory of the servers that clients use, and its CycloneDX document."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.setup.inventory import Inventory, Package, find_package, take_inventory, to_cyclonedx


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["npx", "-y", "@acme/notes@1.2.0", "--key", "secret"], Package("npm", "@acme/notes", "1.2.0")),
        (["npx", "acme-notes"], Package("npm", "acme-notes")),
        (["npx", "-y", "acme-notes@latest"], Package("npm", "acme-notes")),
        (["npx", "-p", "acme@1.0.0", "notes"], Package("npm", "acme", "1.0.0")),
        (["npm", "exec", "-y", "acme"], Package("npm", "acme")),
        (["C:\\bin\\npx.cmd", "acme"], Package("npm", "acme")),
        (["uvx", "mcp-server-time==1.0"], Package("pypi", "mcp-server-time", "1.0")),
        (["uvx", "--from", "acme[all]==2.0", "notes"], Package("pypi", "acme", "2.0")),
        (["uv", "tool", "run", "acme@3.1"], Package("pypi", "acme", "3.1")),
        (
            ["docker", "run", "-i", "--rm", "-p", "1:2", "acme/notes:2.0"],
            Package("docker", "acme/notes", "2.0"),
        ),
        (["docker", "run", "host:5000/notes"], Package("docker", "host:5000/notes")),
        (["docker", "run", "a/b@sha256:ff"], Package("docker", "a/b", "sha256:ff")),
        (["uvx", "-p", "3.12", "acme"], Package("pypi", "acme")),
        (["uvx", "-v", "acme"], Package("pypi", "acme")),
        (["pipx", "run", "--spec", "acme==1.0", "notes"], Package("pypi", "acme", "1.0")),
        (["docker", "run", "--memory", "1g", "-it", "--rm", "a/b:1"], Package("docker", "a/b", "1")),
        (["docker", "--context", "far", "run", "-iteKEY", "-v/x:/y", "a/b"], Package("docker", "a/b")),
        (["docker", "container", "run", "--read-only", "--cpus=2", "a/b"], Package("docker", "a/b")),
        (["docker", "mcp", "gateway", "run"], None),
        (["npx", "-y", "--", "acme"], Package("npm", "acme")),
        (["python", "server.py"], None),
        (["npx"], None),
        (["npx", "--token", "x1y2z3", "acme"], Package("npm", "acme")),
        (["npx", "--node-options=--inspect", "acme"], Package("npm", "acme")),
        (["uvx", "--from", "git+https://github.com/o/r", "r"], Package("generic", "https://github.com/o/r")),
        (
            ["uvx", "--from", "r @ git+https://github.com/o/r", "r"],
            Package("generic", "https://github.com/o/r"),
        ),
        (["npx", "github:o/r"], Package("npm", "github:o/r")),
        (["docker", "run", "ann:pw@host/a/b"], None),
    ],
)
def test_the_package_of_a_command_is_found(command: list[str], found: Package | None) -> None:
    assert find_package(command[0], command[1:]) == found


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    cursor = tmp_path / ".cursor" / "mcp.json"
    cursor.parent.mkdir()
    servers: dict[str, Any] = {
        "notes": {"command": "npx", "args": ["-y", "@acme/notes@1.2.0"], "env": {"KEY": "s3cret"}},
        "time": {"command": "uvx", "args": ["mcp-server-time"], "disabled": True},
        "toolcrib": {"command": "uvx", "args": ["toolcrib[cli]", "serve"]},
        "mine": {"command": "/opt/mine", "args": ["--token=s3cret"]},
    }
    cursor.write_text(json.dumps({"mcpServers": servers}))
    project = tmp_path / "project"
    project.mkdir()
    remote = {"type": "http", "url": "https://ann:s3cret@example.com/mcp?key=s3cret"}
    same = {"command": "npx", "args": ["-y", "@acme/notes@1.2.0"]}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"api": remote, "notes": same}}))
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text("broken [")
    ours = {"kept": ServerConfig(command="npx", args=["-y", "@acme/notes@1.0.0"])}
    return take_inventory(project, ours, environ={})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:${PORT}/mcp", "http://localhost:${PORT}/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
        ("https://Example.com/s/9f8a7b6c5d4e/mcp", "https://example.com/s/[secret]/mcp"),
    ],
)
def test_an_address_is_shown_as_it_is_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, shown: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    project = tmp_path / "project"
    project.mkdir()
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"api": {"type": "http", "url": url}}}))
    ours = {"same": ServerConfig(url=url)}
    items = [each for each in take_inventory(project, ours, environ={}).items if each.client == "claude"]
    assert [(each.url, each.status) for each in items] == [(shown, "both")]


def test_every_client_is_read_and_what_is_past_the_gateway_is_told(inventory: Inventory) -> None:
    found = {(each.client, each.name): each for each in inventory.items}
    assert {key: each.status for key, each in found.items()} == {
        ("claude", "api"): "direct",
        ("claude", "notes"): "both",
        ("cursor", "mine"): "direct",
        ("cursor", "notes"): "both",
        ("cursor", "time"): "direct",
        ("cursor", "toolcrib"): "gateway",
    }
    assert [each.name for each in inventory.outside] == ["api", "notes", "mine", "notes"]
    assert found["cursor", "notes"].origin == "npm:@acme/notes@1.2.0"
    assert found["claude", "api"].origin == "https://example.com/mcp"
    assert len(inventory.notes) == 1
    assert "Codex" in inventory.notes[0]


def test_nothing_secret_is_in_an_inventory(inventory: Inventory) -> None:
    text = json.dumps([each.to_json() for each in inventory.items]) + json.dumps(to_cyclonedx(inventory))
    assert "s3cret" not in text


KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2


@pytest.mark.parametrize(
    "server",
    [
        {"command": "uvx", "args": ["--from", f"git+https://x-access-token:{KEY}@github.com/o/r", "r"]},
        {"command": "uvx", "args": [f"r@git+https://{KEY}@github.com/o/r"]},
        {"command": "npx", "args": [f"git+https://ann:{KEY}@example.com/o/r"]},
        {"command": "npx", "args": ["git+ssh://ann:s3cret@example.com/o/r"]},
        {"command": "npx", "args": [f"https://example.com/x.tgz?token={KEY}"]},
        {"command": "npx", "args": ["https://example.com/x.tgz#s3cret"]},
        {"command": "npx", "args": ["--token", KEY, "acme"]},
        {"command": "npx", "args": ["--//registry.example.com/:_authToken", "s3cret", "acme"]},
        {"command": "uvx", "args": ["--token", "s3cret", "acme"]},
        {"command": "npx", "args": [KEY]},
        {"command": "docker", "args": ["run", "-e", f"K={KEY}", "--what", KEY, "a/b"]},
        {"command": f"npx acme --token={KEY}"},
        {"command": "npx acme --token=a/s3cret"},
        {"command": f"API_KEY={KEY} npx acme"},
        {"command": f'API_KEY="{KEY} s3cret" npx acme'},
        {"command": f"API_KEY={KEY}"},
        {"command": f"/opt/serve {KEY}"},
    ],
)
def test_secrets_of_command_lines_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: dict[str, Any]
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"mine": server}}))
    found = take_inventory(tmp_path, {}, environ={})
    (item,) = [each for each in found.items if each.client == "claude"]
    shown = item.origin + json.dumps(item.to_json()) + json.dumps(to_cyclonedx(found))
    assert KEY not in shown
    assert "s3cret" not in shown


@pytest.mark.parametrize(
    "servers",
    [
        {"mine": {"command": "npx", "args": ["acme"], "url": "https://example.com"}},
        {"mine": {"command": "npx", "args": None}},
        {"mine": "npx acme"},
        {"mine": {"command": ["npx", 5]}},
        [{"name": "mine", "command": "npx"}],
        "mine",
    ],
)
def test_servers_that_cannot_be_read_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Any
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    found = take_inventory(tmp_path, {}, environ={})
    assert any(each.client == "claude" for each in found.items) or "Claude Code: " in " ".join(found.notes)


def test_a_cyclonedx_document_has_each_package_once(inventory: Inventory) -> None:
    document = to_cyclonedx(inventory)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    components = {each["bom-ref"]: each for each in document["components"]}
    assert components.keys() == {
        "pkg:npm/%40acme/notes@1.2.0",
        "pkg:pypi/mcp-server-time",
        "program:mine:mine",
    }
    notes = components["pkg:npm/%40acme/notes@1.2.0"]
    assert (notes["name"], notes["version"], notes["type"]) == ("@acme/notes", "1.2.0", "application")
    assert [each["value"] for each in notes["properties"] if each["name"] == "toolcrib:client"] == [
        "claude",
        "cursor",
    ]
    assert [each["endpoints"] for each in document["services"]] == [["https://example.com/mcp"]]

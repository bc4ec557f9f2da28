"""The files of deploy/: each is checked by the program that reads it, or by its published schema."""

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import kubernetes_validate
import pytest
import yaml
from gateway.support import ERAS, Place, Served
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from needs import lack
from servers.launch import command as command_of_toolcrib
from servers.launch import tiny
from servers.temporal import find_program
from waiting import until

from toolcrib.crib.config import load
from toolcrib.crib.config.files import load_text

TOKEN = {"authorization": "Bearer a-token-of-many-characters"}
KUBERNETES = ["1.30", "1.37"]
NAMED = re.compile(r"\$\{(\w+)")


@pytest.fixture
def deploy(root: Path) -> Path:
    return root / "deploy"


def manifests(deploy: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((deploy / "kubernetes.yaml").read_text()))


def variables(deploy: Path) -> set[str]:
    """Return the names that .env.example has a line for."""
    return set(re.findall(r"^(\w+)=", (deploy / ".env.example").read_text(), re.MULTILINE))


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_manifests_fit_the_schemas_of_kubernetes(deploy: Path, version: str) -> None:
    kinds = []
    for manifest in manifests(deploy):
        kubernetes_validate.validate(manifest, version, strict=True)
        kinds.append(manifest["kind"])
    assert kinds == ["ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "Ingress"]


def test_configuration_in_the_manifests_is_valid_and_its_variables_are_documented(deploy: Path) -> None:
    text = manifests(deploy)[0]["data"]["toolcrib.toml"]
    settings = load_text(deploy / "toolcrib.toml", text)
    assert settings.gateway.public_url == "https://crib.example.com"
    assert set(NAMED.findall(text)) <= variables(deploy)


def test_compose_file_asks_for_the_documented_variables_and_no_others(deploy: Path) -> None:
    text = (deploy / "compose.yaml").read_text()
    assert set(NAMED.findall(text)) == variables(deploy)
    services = yaml.safe_load(text)["services"]
    assert services.keys() == {"gateway-1", "gateway-2", "worker", "temporal", "proxy", "db"}
    assert services["worker"]["deploy"] == {"replicas": 2}
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert not source.startswith(".") or (deploy / source).is_file()
        assert service.get("depends_on", {}).keys() <= services.keys()


def test_configuration_of_the_compose_file_is_valid_and_its_variables_reach_the_gateways(
    deploy: Path,
) -> None:
    settings = load(deploy / "toolcrib.toml")
    assert settings.gateway.public_url == "https://crib.example.com"
    given = yaml.safe_load((deploy / "compose.yaml").read_text())["services"]["gateway-1"]["environment"]
    assert set(NAMED.findall((deploy / "toolcrib.toml").read_text())) <= given.keys()


@pytest.mark.parametrize("command", ["command", "healthcheck"])
def test_temporal_knows_the_commands_of_the_compose_file(deploy: Path, command: str) -> None:
    program = find_program()
    if program is None:
        lack("the Temporal server")
    service = yaml.safe_load((deploy / "compose.yaml").read_text())["services"]["temporal"]
    arguments = service["command"] if command == "command" else service["healthcheck"]["test"][2:]
    asked = subprocess.run([program, *arguments, "--help"], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    assert f"temporal {' '.join(arguments[: 2 if command == 'command' else 3])} [flags]" in asked.stdout
    unknown = subprocess.run([program, *arguments, "--none", "--help"], capture_output=True, check=False)
    assert unknown.returncode != 0


def test_command_of_the_workers_in_the_compose_file_is_known(deploy: Path) -> None:
    service = yaml.safe_load((deploy / "compose.yaml").read_text())["services"]["worker"]
    asked = subprocess.run(
        [*command_of_toolcrib(), *service["command"], "--help"], capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    assert "Execute durable runs as a worker of a Temporal server" in asked.stdout
    assert load(deploy / "toolcrib.toml").engine is not None


def test_image_has_what_the_compose_file_needs(root: Path, deploy: Path) -> None:
    locked = (root / "requirements" / "run.txt").read_text()
    assert {"psycopg", "temporalio"} <= set(re.findall(r"^([a-z0-9-]+)(?:\[\w+\])?==", locked, re.MULTILINE))
    assert "requirements/run.txt" in (deploy / "Dockerfile").read_text()


def test_systemd_accepts_the_unit_and_finds_it_confined(deploy: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        lack("systemd")
    text = (deploy / "toolcrib.service").read_text()
    program = re.search(r"^ExecStart=(\S+)", text, re.MULTILINE)
    assert program is not None
    unit = tmp_path / "toolcrib.service"
    unit.write_text(text.replace(program[1], "/bin/true"))  # which is there
    verify = [analyze, "verify", "--man=no", "--recursive-errors=no", str(unit)]
    verified = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    secure = [analyze, "security", "--offline=true", "--threshold=35", "--no-pager", str(unit)]
    judged = subprocess.run(secure, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout[-300:]


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[list[Served]]:
    """Serve two gateways whose clients come through a proxy."""
    with ExitStack() as stack:
        running = []
        for name in "ab":
            (tmp_path / name).mkdir()
            place = Place(tmp_path / name, {"tiny": tiny()}, gateway={"token": "a-token-of-many-characters"})
            running.append(stack.enter_context(Served(place)))
        yield running


class Proxy:
    """Caddy with the Caddyfile of deploy/, in front of gateways, with a certificate of its own."""

    def __init__(self, deploy: Path, folder: Path, gateways: list[Served]) -> None:
        program = shutil.which("caddy")
        if program is None:
            lack("caddy")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.host = f"localhost:{free.getsockname()[1]}"
        config = folder / "Caddyfile"
        text = (deploy / "Caddyfile").read_text()
        # other ports than the web's, and nothing is installed for the whole machine
        config.write_text(
            text.replace("admin off", "admin off\n\tskip_install_trust\n\tauto_https disable_redirects")
        )
        self._command = [program, "run", "--config", str(config), "--adapter", "caddyfile"]
        self._environ = {
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder),
            "CRIB_HOST": self.host,
            "GATEWAYS": " ".join(f"127.0.0.1:{each.port}" for each in gateways),
        }
        self.authority = folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ssl.SSLContext]:
        """Run it, and yield the context in which its certificate is valid."""
        nothing = subprocess.DEVNULL
        async with await anyio.open_process(
            self._command, env=self._environ, stdout=nothing, stderr=nothing
        ) as process:
            try:
                await until(
                    lambda: (
                        self.authority.is_file()
                        and self.authority.read_text().endswith("END CERTIFICATE-----\n")
                    )
                )
                trusted = ssl.create_default_context(cafile=str(self.authority))
                async with httpx2.AsyncClient(verify=trusted) as http:
                    await until(lambda: self.answers(http))
                yield trusted
            finally:
                process.terminate()

    async def answers(self, http: httpx2.AsyncClient) -> bool:
        with suppress(httpx2.TransportError):
            return (await http.get(f"https://{self.host}/health")).status_code == 200
        return False


async def count_sessions(served: Served) -> float:
    """Return how many sessions of the older protocol are open at a gateway."""
    async with httpx2.AsyncClient(headers=TOKEN) as http:
        metrics = (await http.get(served.url.replace("/mcp", "/metrics"))).text
    return sum(map(float, re.findall(r"^toolcrib_sessions\S* (\S+)", metrics, re.MULTILINE)))


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_clients_reach_the_gateways_through_the_proxy_with_tls(
    deploy: Path, tmp_path: Path, gateways: list[Served], era: str
) -> None:
    proxy = Proxy(deploy, tmp_path, gateways)
    async with (
        proxy.running() as trusted,
        httpx2.AsyncClient(headers=TOKEN, verify=trusted, timeout=60) as http,
        Client(
            streamable_http_client(f"https://{proxy.host}/mcp", http_client=http), mode=ERAS[era]
        ) as client,
    ):
        for _ in range(4):
            assert len((await client.list_tools()).tools) == 8
        open_at = sorted([await count_sessions(each) for each in gateways])
        assert open_at == ([0, 1] if era == "handshake" else [0, 0])

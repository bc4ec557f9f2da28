"""HTTP APIs in the configuration, against a real server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from waiting import PATIENCE

from toolcrib import Crib
from toolcrib.crib import load
from toolcrib.errors import BackendUnavailableError, PolicyDeniedError, ServerUnavailableError

pytestmark = pytest.mark.anyio
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "paths": {
        "/pets/{id}": {
            "get": {
                "operationId": "get_pet",
                "summary": "Look up a pet.",
                "security": [{"key": []}],
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "A pet."}},
            }
        }
    },
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
}


class Pets(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"path": self.path, "key": self.headers["X-Key"] == "hush-hush"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pets) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def config(tmp_path: Path, address: str) -> Path:
    (tmp_path / "pets.json").write_text(json.dumps(DOCUMENT))
    path = tmp_path / "toolcrib.toml"
    path.write_text(f"""
        [openapi.pets]
        document = "pets.json"
        base_url = "{address}"
        secrets = {{ key = "${{PETS_KEY}}" }}
        allow_private = true
    """)
    return path


async def test_the_operations_of_a_document_are_found_and_run(config: Path) -> None:
    for _ in range(2):
        async with Crib(
            config, environ={"PETS_KEY": "hush-hush", "TOOLCRIB_HOME": str(config.parent)}
        ) as crib:
            with anyio.fail_after(PATIENCE):
                result = await crib.run("pets:get_pet", {"id": 5})
                assert result.structured == {"path": "/pets/5", "key": True}
                assert (await crib.search("look up a pet")).items[0].summary.id == "pets:get_pet"
                status = (await crib.ready())["pets"]
                assert (status.state, status.transport, status.tools) == ("ready", "openapi", 1)
        assert crib.status()["pets"].state == "closed"


async def test_the_tools_of_an_api_are_kept_until_its_document_changes(config: Path) -> None:
    environ = {"PETS_KEY": "hush-hush", "TOOLCRIB_HOME": str(config.parent)}
    async with Crib(config, environ=environ) as crib:
        with anyio.fail_after(PATIENCE):
            await crib.ready()
    async with Crib(config, environ=environ) as crib:
        assert [summary.id for summary in crib.index.list_all()] == ["pets:get_pet"]
        status = crib.status()["pets"]
        assert (status.state, status.tools, status.kept) == ("stopped", 1, True)
        with anyio.fail_after(PATIENCE):
            assert (await crib.run("pets:get_pet", {"id": 5})).structured == {"path": "/pets/5", "key": True}
            status = (await crib.ready())["pets"]
        assert (status.state, status.tools, status.kept) == ("ready", 1, None)
    async with Crib(config, environ={"TOOLCRIB_HOME": str(config.parent)}) as crib:
        with (
            anyio.fail_after(PATIENCE),
            pytest.raises(BackendUnavailableError, match="'PETS_KEY' is not set") as error,
        ):
            await crib.run("pets:get_pet", {"id": 5})
        assert (error.value.backend, error.value.sent) == ("provider:pets", False)
    document = config.parent / "pets.json"
    document.write_text(document.read_text().replace("get_pet", "find_pet"))
    async with Crib(config, environ=environ) as crib:
        assert crib.index.list_all() == ()
        with anyio.fail_after(PATIENCE):
            assert [summary.id for summary in await crib.tools()] == ["pets:find_pet"]


async def test_a_private_address_is_refused_unless_allowed(config: Path) -> None:
    settings = load(config)
    careful = settings.openapi["pets"].replace(allow_private=False)
    async with Crib(settings.replace(openapi={"pets": careful}), environ={"PETS_KEY": "x"}) as crib:
        with anyio.fail_after(PATIENCE), pytest.raises(PolicyDeniedError):
            await crib.run("pets:get_pet", {"id": 5})


async def test_an_api_that_cannot_be_read_is_told_when_it_is_needed(config: Path) -> None:
    async with Crib(config, environ={}) as crib:
        with anyio.fail_after(PATIENCE):
            assert (await crib.search("look up a pet")).total == 0
            with pytest.raises(BackendUnavailableError, match="the variable 'PETS_KEY' is not set") as error:
                await crib.run("pets:get_pet", {"id": 5})
            assert error.value.backend == "provider:pets"
    (config.parent / "pets.json").unlink()
    async with Crib(config, environ={"PETS_KEY": "x"}) as crib:
        with (
            anyio.fail_after(PATIENCE),
            pytest.raises(BackendUnavailableError, match="provider:pets is unavailable"),
        ):
            await crib.run("pets:get_pet", {"id": 5})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"pets.json"', '"no.json"', "no.json"),
        ("PETS_KEY", "NO_KEY", "the variable 'NO_KEY' is not set"),
        ("base_url", "# base_url", "base_url"),
        ("{ key =", "{ kye =", "the document has no scheme 'kye'"),
    ],
    ids=["file", "variable", "address", "secret"],
)
async def test_an_api_that_cannot_work_is_seen_in_the_status_and_in_the_log(
    config: Path, caplog: pytest.LogCaptureFixture, before: str, after: str, said: str
) -> None:
    config.write_text(config.read_text().replace(before, after))  # noqa: ASYNC240 - a few bytes
    async with Crib(config, environ={"PETS_KEY": "x", "TOOLCRIB_HOME": str(config.parent)}) as crib:
        with anyio.fail_after(PATIENCE):
            status = (await crib.ready())["pets"]
    assert (status.state, status.tools) == ("failed", None)
    assert said in (status.last_error or "")
    (line,) = [line for line in caplog.messages if said in line]
    assert line.startswith("api 'pets': ")


async def test_a_required_api_that_cannot_work_is_told_by_ready(config: Path) -> None:
    settings = load(config)
    needed = settings.openapi["pets"].replace(required=True)
    async with Crib(settings.replace(openapi={"pets": needed}), environ={}) as crib:
        with anyio.fail_after(PATIENCE), pytest.raises(ServerUnavailableError, match="PETS_KEY") as error:
            await crib.ready()
        assert error.value.server == "pets"


def test_an_api_has_no_status_before_it_is_read(config: Path) -> None:
    assert Crib(config).status() == {}

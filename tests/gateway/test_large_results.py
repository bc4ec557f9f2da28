"""A result of ten megabytes through a gateway that shows the tools themselves: nothing of it is lost."""

from pathlib import Path

import anyio
import pytest
from gateway.passing import asked
from gateway.support import Place, Served, Stdio, connected
from servers.launch import HttpServer, faulty
from waiting import PATIENCE

pytestmark = pytest.mark.anyio
SIZE = 10_000_000


@pytest.mark.parametrize(
    ("era", "over"),
    [
        ("stateless", "http"),
        pytest.param("handshake", "stdio", marks=pytest.mark.proof),
        pytest.param("stateless", "stdio", marks=pytest.mark.proof),
        pytest.param("handshake", "http", marks=pytest.mark.proof),
    ],
)
async def test_ten_megabytes_are_linked_to_and_read_whole_or_sent_whole(
    era: str, over: str, tmp_path: Path
) -> None:
    with anyio.fail_after(3 * PATIENCE), HttpServer() as http:
        servers = {"near": faulty(start_timeout=PATIENCE), "far": http.config}
        settings = {"timeout": PATIENCE, "gateway": {"expose": "all"}}
        place = Place(tmp_path, servers, **settings)
        if over == "http":
            with Served(place) as served:
                await check_results_pass(served, era)
        else:
            await check_results_pass(Stdio(place), era)


async def check_results_pass(where: Served | Stdio, era: str) -> None:
    async with connected(where, era) as client:
        for server in ("near", "far"):
            result = await asked(client, "tools/call", name=f"{server}__big", arguments={"size": SIZE})
            beginning, link = result["content"]
            (read,) = (await client.read_resource(link["uri"])).contents
            value = await asked(client, "tools/call", name=f"{server}__big_value", arguments={"size": SIZE})
            assert len(beginning["text"]) < 10_000
            assert (link["type"], link["size"]) == ("resource_link", SIZE)
            assert getattr(read, "text", "").count("x") == SIZE
            assert str(value["structuredContent"]).count("x") == SIZE

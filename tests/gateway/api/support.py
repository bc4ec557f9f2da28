"""A gateway with a console, and programs that use its API as a browser does."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import httpx
from gateway.little_face import serving
from waiting import PATIENCE

from toolcrib.gateway import Gateway
from toolcrib.setup.demo import _tools

ROOT = "/api/v1"


class Browser:
    """A client that holds a cookie and a key, as the pages do."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.AsyncClient(base_url=url, timeout=PATIENCE)
        self.key = ""

    async def log_in(self, link: str) -> Self:
        """Log in with the code of a link."""
        return await self.send_login({"code": link.partition("#login=")[2]})

    async def send_login(self, body: dict[str, Any], **headers: str) -> Self:
        """Log in, and keep the key."""
        answer = await self.http.post(
            f"{ROOT}/login", json=body, headers={"x-toolcrib-key": "login", **headers}
        )
        answer.raise_for_status()
        self.key = answer.json()["key"]
        return self

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, and return the response whatever its status."""
        headers = {"x-toolcrib-key": self.key, **options.pop("headers", {})}
        return await self.http.request(method, f"{ROOT}{path}", headers=headers, **options)

    async def get(self, path: str, **query: Any) -> Any:
        """Return the JSON body of a successful GET."""
        answer = await self.send("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, **body: Any) -> Any:
        """Return the JSON body of a successful POST."""
        answer = await self.send("POST", path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def run(self, tool_id: str, args: Any = None, **more: Any) -> list[tuple[str, Any]]:
        """Run a tool, and return the events."""
        answer = await self.send("POST", "/run", json={"toolId": tool_id, "args": args or {}, **more})
        assert answer.status_code == 200, answer.text
        return [read_event(part) for part in answer.text.split("\n\n") if part]

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        """Subscribe to the event stream."""
        headers = {"x-toolcrib-key": self.key}
        async with self.http.stream("GET", f"{ROOT}/events", headers=headers) as answer:
            assert answer.status_code == 200

            async def read() -> AsyncIterator[tuple[str, Any]]:
                kind = ""
                async for line in answer.aiter_lines():
                    if line.startswith("event: "):
                        kind = line[7:]
                    elif line.startswith("data: "):
                        yield kind, json.loads(line[6:])

            yield read()


def started(*args: str) -> dict[str, Any]:
    """Return how a server is started that is a program of Python."""
    return {"command": sys.executable, "args": [*args]}


def read_event(text: str) -> tuple[str, Any]:
    """Return the kind and the data of an event."""
    kind, data = text.split("\n")
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@asynccontextmanager
async def console(tools: Any = None, **config: Any) -> AsyncIterator[tuple[Gateway, Browser]]:
    """Serve a gateway with the tools of the demonstration, and yield it with a browser that is logged in."""
    config["console"] = {"enabled": True, **config.get("console", {})}
    gateway = Gateway(config, tools=_tools() if tools is None else tools)
    async with gateway, serving(gateway) as url:
        browser = Browser(url)
        async with browser.http:
            link = gateway.make_console_link()
            if link is not None:
                await browser.log_in(link)
            yield gateway, browser


async def next_event(events: AsyncIterator[tuple[str, Any]], kind: str) -> Any:
    """Return the data of the next event of a kind."""
    async for found, data in events:
        if found == kind:
            return data
    raise AssertionError(f"the stream ended without {kind}")

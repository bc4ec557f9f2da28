"""A web API with the tools of the contract, in FastAPI, served on 127.0.0.1 by a thread of this process."""

import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from waiting import PATIENCE


class Pair(BaseModel):
    a: int
    b: int


class Sum(BaseModel):
    sum: int


class Kept(BaseModel):
    value: Any


class Words(BaseModel):
    text: str


class Key(BaseModel):
    key: str


class Count(BaseModel):
    count: int


class Steps(BaseModel):
    steps: int


class WebApi:
    """The application, and a record of its requests."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.told: set[str] = set()
        self.inside = 0
        self.met: anyio.Event | None = None
        self.app = FastAPI()
        for path in ("add", "keep", "fail", "hang", "meet", "progress"):
            self.app.post(f"/{path}", operation_id=path)(getattr(self, path))

    async def add(self, body: Pair) -> Sum:
        """Add two numbers."""
        return Sum(sum=body.a + body.b)

    async def keep(self, body: Kept) -> Kept:
        """Give the value back."""
        return body

    async def fail(self, body: Words) -> None:
        """Say no."""
        raise HTTPException(409, body.text)

    async def hang(self, body: Key, request: Request) -> None:
        """Wait until the caller is gone."""
        self.begun.add(body.key)
        while not await request.is_disconnected():  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.01)
        self.told.add(body.key)

    async def meet(self, body: Count) -> dict[str, int]:
        """Wait until so many calls are here at once."""
        self.met = self.met or anyio.Event()
        self.inside += 1
        if self.inside == body.count:
            self.met.set()
        await self.met.wait()
        return {"met": body.count}

    async def progress(self, body: Steps) -> StreamingResponse:
        """Give so many steps, one line each."""

        async def lines() -> AsyncIterator[str]:
            for step in range(body.steps):
                yield json.dumps({"progress": step + 1}) + "\n"
                await anyio.lowlevel.checkpoint()

        return StreamingResponse(lines(), media_type="application/x-ndjson")


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application and give its address."""
    # Without its protocol, asyncio would not switch off the delay of small packets.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()

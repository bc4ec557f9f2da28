"""The contract of executors, kept by tools that are operations of a web API."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import anyio
import pytest
from contracts.executor import STEPS, CallContract, Listener, Subject
from execution.provider.server import serving
from execution.provider.support import LOCAL
from fastapi import Body, FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from toolcrib.execution.provider import OpenApiProvider
from toolcrib.execution.records import Update
from toolcrib.model import ProviderBackend


class Sum(BaseModel):
    sum: int


class Workshop:
    """An application with the tools of the contract, and a book of who began and who was told to stop."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.told: set[str] = set()
        self.inside = 0
        self.app = FastAPI()
        for method in (self.add, self.keep, self.fail, self.hang, self.meet, self.progress):
            name = method.__name__
            self.app.post(f"/{name}", operation_id=name)(method)

    async def add(self, a: int = Body(), b: int = Body()) -> Sum:
        return Sum(sum=a + b)

    async def keep(self, value: Annotated[Any, Body(embed=True)]) -> dict[str, Any]:
        return {"value": value}

    async def fail(self, text: str = Body(embed=True)) -> None:
        raise HTTPException(409, text)

    async def hang(self, request: Request, key: str = Body(embed=True)) -> None:
        self.begun.add(key)
        while not await request.is_disconnected():  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.01)
        self.told.add(key)

    async def meet(self, count: int = Body(embed=True)) -> dict[str, int]:
        self.inside += 1
        while self.inside < count:  # noqa: ASYNC110 - the application has no place for an event of its loop
            await anyio.sleep(0.01)
        return {"met": count}

    async def progress(self, steps: int = Body(embed=True)) -> StreamingResponse:
        lines = (f'{{"progress": {step}}}\n'.encode() for step in range(1, steps + 1))
        return StreamingResponse(lines, media_type="application/x-ndjson")


@pytest.fixture(scope="module")
def workshop() -> Workshop:
    return Workshop()


@pytest.fixture(scope="module")
def address(workshop: Workshop) -> Iterator[str]:
    with serving(workshop.app) as url:
        yield url


class TestOperations(CallContract):
    @pytest.fixture
    async def subject(self, workshop: Workshop, address: str) -> AsyncIterator[Subject]:
        async def begun(key: str) -> bool:
            return key in workshop.begun

        async def told(key: str) -> bool:
            return key in workshop.told

        document = workshop.app.openapi()
        provider = OpenApiProvider.from_document(
            document, id="contract", base_url=address, allow_private=LOCAL
        )
        async with provider:
            yield Subject(
                executor=provider,
                backend=lambda name: ProviderBackend(provider_id="contract", tool_id=name),
                begun=begun,
                told=told,
                tools={tool.name: tool for tool in provider.tools()},
            )

    # A web API tells no progress: its stream is the result itself, told part by part.

    @pytest.mark.anyio
    @pytest.mark.parametrize("delay", [0.0, 0.02], ids=["quick", "slow"])
    async def test_updates_come_in_order_while_it_runs_and_never_after(
        self, subject: Subject, delay: float
    ) -> None:
        listener = Listener(delay)
        answer = await subject.call("progress", listener, steps=STEPS)
        listener.ended = True
        assert [self.step(update) for update in listener.heard] == list(range(1, STEPS + 1))
        assert answer.structured == [update.data for update in listener.heard]
        await subject.call("add", a=1, b=1)
        assert listener.late == []

    @pytest.mark.anyio
    async def test_updates_that_nobody_listens_to_are_no_error(self, subject: Subject) -> None:
        assert len((await subject.call("progress", steps=STEPS)).structured) == STEPS

    @staticmethod
    def step(update: Update) -> float:
        assert update.kind == "chunk"
        return float(update.data["progress"])

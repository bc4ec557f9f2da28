"""Servers on this machine that the tests of providers call: a FastAPI application, and one that misbehaves."""

import base64
import gzip
import socket
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import uvicorn
from fastapi import (
    Cookie,
    Depends,
    FastAPI,
    File,
    Form,
    Header,
    HTTPException,
    Query,
    Request,
    Response,
    UploadFile,
)
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from fastapi.security import (
    APIKeyCookie,
    APIKeyHeader,
    APIKeyQuery,
    HTTPBasic,
    HTTPBasicCredentials,
    HTTPBearer,
)
from pydantic import BaseModel, Field
from waiting import PATIENCE, wait_until

KEY = "k3y-that-nobody-may-see"


class Pet(BaseModel):
    name: str
    age: int = 0
    tags: list[str] = []
    parent: "Pet | None" = None


class Order(BaseModel):
    item_id: int
    note: str | None = Field(default=None, description="What to say.")


app = FastAPI(title="tests", version="1.2.3")
# Set when a call that is answered slowly has begun, and when its client has gone away.
came = threading.Event()
gone = threading.Event()


@app.get("/pets/{pet_id}", operation_id="get_pet", tags=["Pet Store"], summary="Get a pet")
def get_pet(pet_id: int, verbose: bool = False) -> Pet:
    """Return one pet, by its number."""
    if pet_id == 404:
        raise HTTPException(404, "no such pet")
    return Pet(name=f"pet {pet_id}", tags=["verbose"] if verbose else [])


@app.post("/pets", operation_id="create_pet", status_code=201)
def create_pet(pet: Pet, dry_run: bool = False) -> Pet:
    return pet.model_copy(update={"age": -1}) if dry_run else pet


@app.put("/orders/{item_id}", operation_id="put_order")
def put_order(item_id: int, order: Order) -> dict[str, Any]:
    return {"path": item_id, "body": order.model_dump()}


@app.delete("/pets/{pet_id}", operation_id="delete_pet", status_code=204)
def delete_pet(pet_id: int) -> None:
    """Delete a pet."""


@app.get("/search", operation_id="search")
def search(
    q: str,
    ids: Annotated[list[int] | None, Query()] = None,
    x_trace: Annotated[str | None, Header()] = None,
    x_many: Annotated[list[str] | None, Header()] = None,
    session: Annotated[str | None, Cookie()] = None,
) -> dict[str, Any]:
    return {"q": q, "ids": ids, "x_trace": x_trace, "x_many": x_many, "session": session}


@app.post("/form", operation_id="send_form")
def send_form(
    name: Annotated[str, Form()], sizes: Annotated[list[int] | None, Form()] = None
) -> dict[str, Any]:
    return {"name": name, "sizes": sizes}


@app.post("/upload", operation_id="upload")
def upload(
    title: Annotated[str, Form()], file: UploadFile, more: Annotated[list[UploadFile] | None, File()] = None
) -> dict[str, Any]:
    content = file.file.read()
    others = [base64.b64encode(other.file.read()).decode() for other in more or []]
    return {
        "title": title,
        "size": len(content),
        "content": base64.b64encode(content).decode(),
        "more": others,
    }


@app.api_route(
    "/echo/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"], include_in_schema=False
)
async def echo(request: Request) -> Response:
    body = await request.body()
    return JSONResponse(
        {
            "method": request.method,
            "raw_path": request.scope["raw_path"].decode("latin-1"),
            "path": request.scope["path"],
            "raw_query": request.scope["query_string"].decode("latin-1"),
            "query": [[name, value] for name, value in request.query_params.multi_items()],
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "cookies": dict(request.cookies),
            "type": request.headers.get("content-type"),
            "body": base64.b64encode(body).decode(),
        },
        headers={"ETag": "w1"},
    )


@app.get("/secret/header", operation_id="by_header")
def by_header(
    key: Annotated[str, Depends(APIKeyHeader(name="X-Key", scheme_name="InHeader"))],
) -> dict[str, Any]:
    return {"ok": key == KEY}


@app.get("/secret/query", operation_id="by_query")
def by_query(key: Annotated[str, Depends(APIKeyQuery(name="key", scheme_name="InQuery"))]) -> dict[str, Any]:
    return {"ok": key == KEY, "echo": f"your key is {key}"}


@app.get("/secret/cookie", operation_id="by_cookie")
def by_cookie(
    key: Annotated[str, Depends(APIKeyCookie(name="key", scheme_name="InCookie"))],
) -> dict[str, Any]:
    return {"ok": key == KEY}


@app.get("/secret/basic", operation_id="by_basic")
def by_basic(
    user: Annotated[HTTPBasicCredentials, Depends(HTTPBasic(scheme_name="Basic"))],
) -> dict[str, Any]:
    return {"ok": (user.username, user.password) == ("ann", KEY)}


@app.get("/secret/bearer", operation_id="by_bearer")
def by_bearer(token: Annotated[Any, Depends(HTTPBearer(scheme_name="Bearer"))]) -> dict[str, Any]:
    if token.credentials != KEY:
        raise HTTPException(403, f"bad token {token.credentials}")
    return {"ok": True}


def _raw_deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


JSON = "application/json"
TEXT = "text/plain"
ANSWERS: dict[str, tuple[bytes, str | None, str | None]] = {
    "text": ("grüße".encode("latin-1"), "text/plain; charset=latin-1", None),
    "oddly": (b"text", "text/plain; charset=klingon", None),
    "hex": (b"text", "text/plain; charset=hex", None),
    "xml": (b"<a/>", "application/xml", None),
    "bytes": (b"\x00\x01", "image/png", None),
    "untyped": (b"plain", None, None),
    "odd": (b"\xff\xfe\xfd", None, None),
    "empty": (b"", JSON, None),
    "problem": (b'{"a": 1}', "application/problem+json", None),
    "lie": (b"{not json", JSON, None),
    "nan": (b'{"a": NaN}', JSON, None),
    "deep": (b"[" * 200_000, JSON, None),
    "latin": ('"grüße"'.encode("latin-1"), "application/json; charset=latin-1", None),
    "packed": (gzip.compress(b'{"packed": true}'), JSON, "gzip"),
    "twice": (gzip.compress(b'{"a"') + gzip.compress(b": 1}"), JSON, "gzip"),
    "zlib": (zlib.compress(b"[1]"), JSON, "deflate"),
    "raw": (_raw_deflate(b"[2]"), JSON, "deflate"),
    "raw long": (_raw_deflate(b"x" * 65_537), TEXT, "deflate"),
    "cut": (gzip.compress(b"hello " * 1000)[:30], TEXT, "gzip"),
    "packed nothing": (b"", TEXT, "gzip"),
    "infinite": (b'{"a": -1e999}', JSON, None),
    "surrogate": (b'["\\ud800"]', JSON, None),
    "surrogate key": (b'{"\\uDC00": 1}', JSON, None),
    "raw surrogate": (b'"\xed\xa0\x80"', JSON, None),
    "pair": (b'"\\ud83d\\ude00"', JSON, None),
    "wide": ('{"a": 1}'.encode("utf-16"), JSON, None),
    "badly": (b"not gzip", TEXT, "gzip"),
    "brotli": (b"x", TEXT, "br"),
    "bomb": (gzip.compress(b"\x00" * (1 << 20)) * 64, TEXT, "gzip"),
    "large": (b"x" * (1 << 20), TEXT, None),
}


@app.get("/say/{what}", operation_id="say", response_model=None)
def say(what: str) -> Response:
    if what == "endless":
        return StreamingResponse(_endless(), media_type="text/html")
    if what == "redirect":
        return RedirectResponse("http://169.254.169.254/latest")
    content, media_type, encoding = ANSWERS[what]
    headers = {"Content-Encoding": encoding} if encoding else {}
    return Response(content, media_type=media_type, headers=headers)


async def _endless() -> AsyncIterator[bytes]:
    for _ in range(100_000):
        yield b"x" * 65536
        await anyio.lowlevel.checkpoint()


@app.post("/status/{code}", include_in_schema=False, response_model=None)
@app.get("/status/{code}", operation_id="status", response_model=None)
def status(code: int, wait: str | None = None, kind: str = "detail") -> Response:
    bodies: dict[str, Any] = {
        "detail": {"detail": "it says no"},
        "nested": {"error": {"message": "deep down"}},
        "list": {"errors": [{"msg": "too small", "loc": ["body", "age"]}, {"msg": "odd"}]},
        "silent": {"odd": 1},
        "odd places": {"detail": [{"loc": 5, "msg": "x"}, {"loc": None, "msg": "y"}]},
        "long": {"message": "x" * 5_000},
    }
    headers = {"Retry-After": wait} if wait else {}
    if kind == "text":
        return PlainTextResponse("plain no", status_code=code, headers=headers)
    if kind == "huge":
        return PlainTextResponse("y" * 200_000, status_code=code, headers=headers)
    return JSONResponse(bodies[kind], status_code=code, headers=headers)


def _events() -> Iterator[bytes]:
    yield b': comment\r\ndata: {"n": 1}\r\n\r'
    yield b"\nid: 7\nevent: delta\ndata: line one\ndata: line two\n\n"
    yield "data: grü".encode()[:-1]
    yield "ü".encode()[1:] + b"ne\n\nretry: 3\n\ndata: unfinished"


@app.get("/stream/{kind}", operation_id="stream", response_model=None)
def stream(kind: str) -> Response:
    match kind:
        case "sse":
            return StreamingResponse(_events(), media_type="text/event-stream")
        case "lines":
            return StreamingResponse(
                iter([b'{"a": 1}\n{"a"', b": 2}\n\nno json\n3"]), media_type="application/x-ndjson"
            )
        case "text":
            euro = "€".encode()
            return StreamingResponse(iter([b"one ", euro[:1], euro[1:], b" two"]), media_type="text/plain")
        case _:
            return StreamingResponse(_slow(), media_type="text/event-stream")


async def _slow() -> AsyncIterator[bytes]:
    yield b"data: 1\n\n"
    try:
        await anyio.sleep(PATIENCE)
    finally:
        gone.set()
    yield b"data: 2\n\n"


@app.get("/slow", operation_id="slow", response_model=None)
async def slow(request: Request) -> str:
    came.set()
    while not await request.is_disconnected():  # noqa: ASYNC110 - there is no event for it
        await anyio.sleep(0.01)
    gone.set()
    return "late"


@contextmanager
def serving(served: FastAPI = app) -> Iterator[str]:
    """Serve an application, and return where."""
    config = uvicorn.Config(served, port=0, log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started, "the application has started")
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(PATIENCE)


Talk = Callable[[socket.socket], None]
"""The behaviour of a raw socket server on a connection."""


@contextmanager
def talking(talk: Talk) -> Iterator[str]:
    """Accept connections and handle each with `talk`, until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    talk(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)

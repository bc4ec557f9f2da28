"""Web servers on this machine for the length of a block."""

import gc
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from waiting import PATIENCE


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()


@contextmanager
def serving(app: Any, **options: Any) -> Iterator[str]:
    """Serve an ASGI application on a free port, and give its address; one that is `tidy` leaves nothing open."""
    settings = {"port": 0, "log_level": "critical", "ws": "none", "timeout_graceful_shutdown": 1} | options
    server = _Server(uvicorn.Config(app, host="127.0.0.1", **settings))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert server.up.wait(PATIENCE)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"{'https' if 'ssl_keyfile' in options else 'http'}://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
        if not getattr(app, "tidy", False):
            with warnings.catch_warnings(action="ignore", category=ResourceWarning):
                gc.collect()  # the SDK's servers leave streams unclosed

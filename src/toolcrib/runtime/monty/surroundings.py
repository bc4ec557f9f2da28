"""What a guest finds around it: an empty environment, and somewhere to print."""

from threading import Lock
from typing import Any

from pydantic_monty import NOT_HANDLED

from toolcrib.runtime.output import Output, Stream

__all__ = ["Printed", "environment"]


def environment(*, name: str, args: tuple[Any, ...], **_: Any) -> Any:
    """Answer what code asks of the system: its environment is empty, and it has nothing else."""
    if name == "os.environ":
        return {}
    if name == "os.getenv":
        return args[1] if len(args) > 1 else None
    return NOT_HANDLED


class Printed:
    """Passes on what the guest prints; the engine calls it from threads of its own."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._lock = Lock()
        self._closed = False

    def write(self, stream: Stream, text: str) -> None:
        """Keep what fits, until the end of the run."""
        with self._lock:
            if not self._closed:
                self._output.write(stream, text)

    def close(self) -> None:
        """Take no more."""
        with self._lock:
            self._closed = True

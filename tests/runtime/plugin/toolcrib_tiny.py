"""A sandbox of somebody else's: it has a name of its own, and borrows its walls."""

from typing import ClassVar

from toolcrib.runtime.process import ProcessSandbox


class TinySandbox(ProcessSandbox):
    """One interpreter at a time."""

    kind: ClassVar[str] = "tiny"

    def __init__(self) -> None:
        super().__init__(warm=1, concurrency=4)

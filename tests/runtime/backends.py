"""The sandboxes that the tests run code in, by the names under which the tables show them."""

from collections.abc import Callable

from toolcrib.runtime import Sandbox

__all__ = ["BACKENDS"]


def _monty() -> Sandbox:
    from toolcrib.runtime.monty import MontySandbox  # noqa: PLC0415 - each is made on its own

    return MontySandbox()


def _process() -> Sandbox:
    from toolcrib.runtime.process import ProcessSandbox  # noqa: PLC0415 - each is made on its own

    return ProcessSandbox()


def _unsafe() -> Sandbox:
    from toolcrib.runtime.unsafe import UnsafeSandbox  # noqa: PLC0415 - each is made on its own

    return UnsafeSandbox()


BACKENDS: dict[str, Callable[[], Sandbox]] = {"monty": _monty, "process": _process, "unsafe": _unsafe}

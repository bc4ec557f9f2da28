"""The `monty` sandbox: an interpreter of its own, for a part of Python, in a worker behind a second wall."""

from toolcrib.runtime.sandboxes.monty.sandbox import MontySandbox

__all__ = ["MontySandbox"]

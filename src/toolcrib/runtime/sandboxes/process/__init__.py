"""Full CPython behind namespaces, system-call filters and control groups."""

from toolcrib.runtime.sandboxes.process.sandbox import ProcessSandbox

__all__ = ["ProcessSandbox"]

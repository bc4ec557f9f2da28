"""CPython compiled to WebAssembly, run by wasmtime in a child process."""

from toolcrib.runtime.sandboxes.wasm.sandbox import WasmSandbox

__all__ = ["WasmSandbox"]

"""CPython compiled to WebAssembly, run by wasmtime in a child process."""

from toolcrib.runtime.wasm.sandbox import WasmSandbox

__all__ = ["WasmSandbox"]

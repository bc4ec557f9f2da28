"""A module in WebAssembly that ends as CPython does, and compiles fast."""

import pytest

_TEXT = """
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (global $stack (mut i32) (i32.const 1024))
  (data (i32.const 8) "\\01")
  (data (i32.const 16) "70")
  (data (i32.const 24) "\\10\\00\\00\\00\\02\\00\\00\\00")
  (func $compile (param i32 i32 i32 i32 i32) (result i32)
    (i32.store (i32.const 8) (i32.add (i32.load (i32.const 8)) (local.get 0)))
    (global.set $stack (i32.sub (global.get $stack) (i32.const 16)))
    (drop (call $write (i32.const 1) (i32.const 24) (i32.const 1) (i32.const 32)))
    (call $exit (i32.const 0))
    (i32.const 0))
  (func $run (param i32 i32) (result i32)
    (call $compile (local.get 0) (local.get 1) (i32.const 0) (i32.const 0) (i32.const 0)))
  (func (export "_start") (drop (call $run (i32.const 70) (i32.const 0)))))
"""
"""Adds its argument, 70 at first, to a number in its memory, prints 70, and exits inside the call."""


def like_cpython() -> bytes:
    """Return the module; skip where there is no engine for it."""
    return bytes(pytest.importorskip("wasmtime").wat2wasm(_TEXT))

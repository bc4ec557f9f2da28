"""Code mode: untrusted code calls tools through a bridge that records every call on the host.

`Runtime` runs code in a sandbox: `monty`, an interpreter for a subset of Python; `process`, CPython isolated
by the operating system; containers, WebAssembly, or a plug-in.
"""

from toolcrib.model import ToolCallRecord, ToolGateway
from toolcrib.runtime.bridge import Bridge
from toolcrib.runtime.guest_errors import GuestError
from toolcrib.runtime.protocols import Catalogue, Job, Sandbox
from toolcrib.runtime.registry import backends
from toolcrib.runtime.request import (
    BackendInfo,
    ExecuteRequest,
    ExecuteResult,
    Limits,
    LimitsEnforced,
    Output,
    ProfileName,
    SandboxKind,
    SecurityProfile,
)
from toolcrib.runtime.runtime import Prepare, Runtime
from toolcrib.runtime.stubs import GUIDE

__all__ = [
    "GUIDE",
    "BackendInfo",
    "Bridge",
    "Catalogue",
    "ExecuteRequest",
    "ExecuteResult",
    "GuestError",
    "Job",
    "Limits",
    "LimitsEnforced",
    "Output",
    "Prepare",
    "ProfileName",
    "Runtime",
    "Sandbox",
    "SandboxKind",
    "SecurityProfile",
    "ToolCallRecord",
    "ToolGateway",
    "backends",
]

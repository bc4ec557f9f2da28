"""The part of a guest that needs an operating system: it drops privileges and sets resource limits."""

import base64
import ctypes
import math
import os
import resource
import struct
from contextlib import suppress
from typing import Any

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9
_CAPABILITY_VERSION = 0x20080522


def _drop_privileges(payload: dict[str, Any]) -> None:
    """Give up every privilege for good.

    The order counts: groups before the user, since only root may change them; the filter last, since it
    forbids the calls before it.
    """
    if payload.get("uid") is not None:
        os.setgroups([])
        os.setresgid(payload["gid"], payload["gid"], payload["gid"])
        os.setresuid(payload["uid"], payload["uid"], payload["uid"])
        _drop_capabilities()
    # after the change of the user, which clears the signal; bubblewrap does this itself where it is used
    if payload.get("die_with_parent"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(_SIGKILL))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if payload.get("filter"):
        _install_filter(base64.b64decode(payload["filter"]))


def _drop_capabilities() -> None:
    """Empty every set of capabilities: changing the user id leaves the inheritable set as it was."""
    if ctypes.CDLL(None, use_errno=True).capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")


def _install_filter(program: bytes) -> None:
    """Install a filter of system calls, which cannot be removed."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(program, len(program))
    argument = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    zero, mode = ctypes.c_ulong(0), ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    # the kernel demands this of processes without CAP_SYS_ADMIN
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if libc.prctl(_PR_SET_SECCOMP, mode, ctypes.c_void_p(ctypes.addressof(argument)), zero, zero):
        raise OSError(ctypes.get_errno(), "seccomp")


def _set_rlimits(limits: dict[str, int]) -> None:
    """Lower the limits of this process to those of the job."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        soft = math.ceil(used.ru_utime + used.ru_stime + value / 1000) if name == "CPU" else value
        most = soft + (name == "CPU")  # SIGXCPU at the soft limit, SIGKILL a second later
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(ValueError, OSError):  # some systems define a limit but refuse to set it
            resource.setrlimit(kind, (min(soft, most), most))

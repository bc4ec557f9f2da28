"""The first program inside a wall: it sets limits, opens the way to the proxy, and becomes the server.

Its text is passed to an interpreter there, which has the standard library alone. Settings are its first
argument, as JSON; the command of the server follows.

- `limits`: rlimits by name. They are set here because that of processes counts within the user namespace.
- `line`: a socket of toolcrib's.
- `listen`: addresses and ports at which the server finds its proxy and named hosts. A socket belongs to the
  network in which it is made: so listeners are made here and sent to toolcrib, and nothing inside takes part
  in what passes. `addresses` are those that the loopback has to be given first. For both the launcher has
  capabilities, in a network that has nothing but this loopback.
- `user`: whose rights it has from then on, and no capability; None where it has been that user before.
- `apart`: on the network of the machine, abstract sockets of others are out of reach (from Linux 6.12 on).
- `stays`: it does not become the server but starts it, and ends all when the line is closed: then toolcrib is
  gone. It is the first process of a container, which ends with it, and which nothing inside can kill.
"""

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress
from typing import Any

_LANDLOCK_CREATE = 444
_LANDLOCK_RESTRICT = 446
_SCOPE_ABSTRACT_SOCKETS = 1
_NO_DUMP = 4
_DROP_BOUNDING = 24
_AMBIENT = 47
_CLEAR_ALL = 4
_CAPABILITIES = (6, 7, 10, 12, 8)
"""CAP_SETGID, CAP_SETUID, CAP_NET_BIND_SERVICE, CAP_NET_ADMIN and last, since it drops them, CAP_SETPCAP."""
_SET_ADDRESS = 0x8916
_CAPABILITY_VERSION = 0x20080522
_NO_NEW_PRIVILEGES = 38
_NOT_FOUND = 127
_SIGNALS = 128


def _set_limits(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))


def _listen(settings: dict[str, Any]) -> list[socket.socket]:
    """Give the loopback more addresses, and return the listeners at which the server finds named hosts."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for number, address in enumerate(settings["addresses"]):
            family = struct.pack("=H2x", socket.AF_INET)
            request = struct.pack("16s4s4s16x", f"lo:{number}".encode(), family, socket.inet_aton(address))
            fcntl.ioctl(control, _SET_ADDRESS, request)
    return [socket.create_server((address, port)) for address, port in settings["listen"]]


def _drop_rights(user: list[int] | None) -> None:
    """Become the user, and give up every capability for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    if user is not None:
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
    for number in _CAPABILITIES:
        libc.prctl(_DROP_BOUNDING, number, 0, 0, 0)
    libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    if user is not None:
        os.setresuid(user[0], user[0], user[0])
    if libc.capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")


def _open_line(path: str, listeners: list[socket.socket]) -> socket.socket:
    """Connect to toolcrib, and send it the listeners."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    if listeners:
        socket.send_fds(line, [b"+"], [listener.fileno() for listener in listeners])
    for listener in listeners:
        listener.close()
    return line


def _set_apart() -> None:
    """Refuse connections to abstract sockets of others, where the kernel can."""
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = (ctypes.c_uint64 * 3)(0, 0, _SCOPE_ABSTRACT_SOCKETS)
    ruleset = libc.syscall(_LANDLOCK_CREATE, attributes, ctypes.sizeof(attributes), 0)
    if ruleset < 0:  # an older kernel
        return
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0):
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(ruleset)


def _become(command: list[str]) -> None:
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command of the server
    except OSError as error:
        sys.stderr.write(f"{command[0]!r} cannot be started in the sandbox: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(_NOT_FOUND)


def _stay(command: list[str], line: socket.socket) -> None:
    """Start the server, wait for its end, and end with its status; end before, where the line is closed."""
    ctypes.CDLL(None).prctl(_NO_DUMP, 0, 0, 0, 0)  # what runs as the same user cannot trace it
    child = os.fork()
    if child == 0:
        _become(command)
    with open(os.devnull, "r+b", buffering=0) as nothing:  # noqa: PTH123 - it is loaded without pathlib
        for number in (0, 1):  # else the server could not close them
            os.dup2(nothing.fileno(), number)

    def follow() -> None:
        with suppress(OSError):
            line.recv(1)
        os._exit(0)

    def pass_on(number: int, _: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, number)

    threading.Thread(target=follow, daemon=True).start()
    signal.signal(signal.SIGTERM, pass_on)
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else _SIGNALS - code)


def _main() -> None:
    settings, command = json.loads(sys.argv[1]), sys.argv[2:]
    _set_limits(settings["limits"])
    listeners = _listen(settings)
    _drop_rights(settings["user"])
    line = _open_line(settings["line"], listeners)
    if settings["apart"]:
        _set_apart()
    if settings["stays"]:
        _stay(command, line)
    else:
        _become(command)

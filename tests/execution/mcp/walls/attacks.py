"""Attacks that a hostile server may try behind its wall, and the outcome that each must have: on both kinds
the same.

`$WORDS` in the code stand for places of the host: see `test_attacks.places`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from typing import Any


@dataclass(frozen=True)
class Attack:
    """Code of a hostile server. It is stopped if it raises, or if its result does no harm."""

    group: str
    name: str
    code: str
    is_harmless: Callable[[Any], bool] = lambda _: False


def _made(group: str, name: str, code: str, is_harmless: Callable[[Any], bool] = lambda _: False) -> Attack:
    return Attack(group, name, dedent(code).strip() + "\n", is_harmless)


def _reads(name: str, path: str) -> Attack:
    return _made("read", name, f"got = open({path!r}).read()")


def _calls(name: str, *numbers: int, arguments: str = "0, 0, 0, 0, 0") -> Attack:
    """Return an attack by a system call, with its number on each architecture: x86-64, then arm64."""
    code = f"""
    import ctypes, os, platform
    libc = ctypes.CDLL(None, use_errno=True)
    number = dict(zip(("x86_64", "aarch64"), {numbers!r}))[platform.machine()]
    result = libc.syscall(number, {arguments})
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    got = result
    """
    return _made("kernel", name, code)


_NOTHING = [[], "", None, {}]


def is_nothing(got: Any) -> bool:
    return got in _NOTHING


READ = (
    _reads("a private key", "$HOME/.ssh/id_ed25519"),
    _reads("a file beside what it may read", "$OUTSIDE/secret.txt"),
    _reads("passwords of the system", "/etc/shadow"),
    _reads("the vault of toolcrib", "$DATA/vault.json"),
    _reads("the home of another server", "$DATA/servers/other/home/secret.txt"),
    _reads("a file of the host by the root of the first process", "/proc/1/root$OUTSIDE/secret.txt"),
    _reads("a file of the host by its own root", "/proc/self/root$OUTSIDE/secret.txt"),
    _reads("a file above what it may read", "$SHARED/../outside/secret.txt"),
    _made(
        "read",
        "all folders of the home",
        "import os\ngot = [each for each in os.listdir('$HOME') if each in ('.ssh', 'notes.txt')]",
        is_nothing,
    ),
    _made(
        "read",
        "the temporary files of others",
        "import os\ngot = os.listdir('/tmp')",
        lambda got: "host.txt" not in got,
    ),
    _made(
        "read",
        "a file by a link that it makes",
        "import os\nos.symlink('$OUTSIDE/secret.txt', '$DROP/link')\ngot = open('$DROP/link').read()",
    ),
    _made(
        "read",
        "a file by a second name",
        "import os\nos.link('$OUTSIDE/secret.txt', '$DROP/name')\ngot = open('$DROP/name').read()",
    ),
    _made(
        "read",
        "the disk",
        "import glob\ngot = glob.glob('/dev/[hsv]d*') + glob.glob('/dev/nvme*')",
        is_nothing,
    ),
    _made(
        "read",
        "the disk by a device that it makes",
        "import os, stat\nos.mknod('$DROP/disk', stat.S_IFBLK | 0o600, os.makedev(254, 0))",
    ),
    _made("read", "the memory of the machine", "got = open('/dev/mem', 'rb').read(1)"),
)
WRITE = (
    _made("write", "into the home", "open('$HOME/.bashrc', 'a').write('x')"),
    _made("write", "beside what it may write", "open('$OUTSIDE/new.txt', 'w').write('x')"),
    _made("write", "what it may read", "open('$SHARED/open.txt', 'a').write('x')"),
    _made("write", "a new file where it may read", "open('$SHARED/new.txt', 'w').write('x')"),
    _made("write", "its own program", "open('$PROGRAM', 'a').write('x')"),
    _made("write", "a program of the system", "open('/usr/bin/toolcrib-was-here', 'w').write('x')"),
    _made("write", "the settings of the system", "open('/etc/toolcrib-was-here', 'w').write('x')"),
    _made("write", "into the root", "open('/toolcrib-was-here', 'w').write('x')"),
    _made(
        "write",
        "a file of the host by a link that it makes",
        "import os\nos.symlink('$OUTSIDE', '$DROP/way')\nopen('$DROP/way/new.txt', 'w').write('x')",
    ),
    _made("write", "the rights of a folder of the system", "import os\nos.chmod('/usr', 0o777)"),
    _made("write", "a setting of the kernel", "open('/proc/sys/kernel/core_pattern', 'w').write('core')"),
    _made("write", "a restart", "open('/proc/sysrq-trigger', 'w').write('h')"),
    _made(
        "write",
        "the root, by mounting it anew",
        "import subprocess\nsubprocess.run(['mount', '-o', 'remount,rw', '/usr'], check=True)",
    ),
)
_CONNECT = (
    "import socket\nwith socket.create_connection(({host!r}, {port}), 3) as got:\n    got = 'connected'"
)
_LOCAL = "import socket\nend = socket.socket(socket.AF_UNIX)\nend.settimeout(3)\nend.connect({address!r})\ngot = 'connected'"
_SOCKETS = "import socket\ngot = socket.socket({arguments}).fileno()"
NETWORK = (
    _made("network", "TCP to a program of this machine", _CONNECT.format(host="127.0.0.1", port="$PORT")),
    _made("network", "TCP to this machine by its address", _CONNECT.format(host="$ADDRESS", port="$PORT")),
    _made("network", "TCP to the internet", _CONNECT.format(host="1.1.1.1", port=443)),
    _made("network", "TCP by IPv6", _CONNECT.format(host="::1", port="$PORT")),
    _made("network", "TCP to the metadata of a cloud", _CONNECT.format(host="169.254.169.254", port=80)),
    _made("network", "a name", "import socket\ngot = socket.getaddrinfo('example.com', 443)"),
    _made(
        "network",
        "UDP to a program of this machine",
        """
        import socket
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.connect(("127.0.0.1", $PORT))
            end.send(b"x")
            end.settimeout(0.2)
            got = end.recv(1)
        """,
    ),
    _made(
        "network",
        "UDP to the internet",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))",
    ),
    _made("network", "the socket of Docker", _LOCAL.format(address="$DOCKER")),
    _made(
        "network", "the socket of Docker where it usually is", _LOCAL.format(address="/var/run/docker.sock")
    ),
    _made("network", "the socket of the system's bus", _LOCAL.format(address="/run/dbus/system_bus_socket")),
    _made("network", "a socket of a program of this machine", _LOCAL.format(address="$SOCKET")),
    _made("network", "an abstract socket", _LOCAL.format(address="\0$ABSTRACT")),
    _made("network", "the socket of its own launcher", _LOCAL.format(address="/run/toolcrib/line")),
    _made("network", "raw packets", _SOCKETS.format(arguments="socket.AF_INET, socket.SOCK_RAW, 1")),
    _made("network", "packets of the device", _SOCKETS.format(arguments="17, socket.SOCK_RAW, 0")),
    _made(
        "network", "sockets of the host of a machine", _SOCKETS.format(arguments="40, socket.SOCK_STREAM, 0")
    ),
    _made("network", "messages of the kernel", _SOCKETS.format(arguments="16, socket.SOCK_RAW, 15")),
    _made(
        "network",
        "TCP to a program of this machine by the proxy",
        """
        import socket
        with socket.create_connection(("127.0.0.1", 3128), 3) as end:
            end.sendall(b"CONNECT localhost:$PORT HTTP/1.1\\r\\n\\r\\n")
            got = end.recv(100).decode()
        """,
        lambda got: got.startswith("HTTP/1.1 403 "),
    ),
    _made(
        "network",
        "TCP to a program of this machine by a name",
        """
        import socket
        with socket.create_connection(("localhost", $PORT), 3) as end:
            got = "connected"
        """,
    ),
)
PROCESSES = (
    _made(
        "processes",
        "variables of other processes",
        """
        import glob
        got = []
        for file in glob.glob("/proc/[0-9]*/environ"):
            try:
                got.append(open(file).read())
            except OSError:
                pass
        """,
        lambda got: "$CANARY" not in str(got) and "OTHER_TOKEN" not in str(got),
    ),
    _made(
        "processes",
        "other processes",
        "import os\ngot = [each for each in os.listdir('/proc') if each.isdigit()]",
        lambda got: len(got) <= 4,
    ),
    _made("processes", "the end of toolcrib", "import os\nos.kill($PID, 9)"),
    _made(
        "processes",
        "the end of all",
        "import os, signal\nos.kill(-1, 0)\ngot = len(os.listdir('/proc'))",
        lambda _: True,
    ),
    _made(
        "processes",
        "its environment",
        "import os\ngot = dict(os.environ)",
        lambda got: "OTHER_TOKEN" not in got,
    ),
    _made(
        "processes",
        "rights",
        "got = [line for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapPrm', 'CapBnd'))]",
        lambda got: all(line.split()[1].strip("0") == "" for line in got) and len(got) == 3,
    ),
    _made(
        "processes",
        "new privileges",
        "got = [line.split()[1] for line in open('/proc/self/status') if line.startswith(('NoNewPrivs', 'Seccomp:'))]",
        lambda got: got == ["1", "2"],
    ),
    _made(
        "processes",
        "open files of toolcrib",
        """
        import os
        got = []
        for each in os.listdir("/proc/self/fd"):
            try:
                got += [os.readlink(f"/proc/self/fd/{each}")] if int(each) > 2 else []
            except FileNotFoundError:  # that of this list
                pass
        """,
        is_nothing,
    ),
    _made("processes", "another user", "import os\nos.setuid(12345)"),
    _made("processes", "another root", "import os\nos.chroot('/usr')"),
)
KERNEL = (
    _calls("namespaces of its own", 272, 97, arguments="0x10000000"),
    _calls("the namespaces of another", 308, 268),
    _calls("a process in new namespaces", 56, 220, arguments="0x10000011, 0, 0, 0, 0"),
    _calls("a mount", 165, 40),
    _calls("a mount by a context", 430, 430),
    _calls("another root of all", 155, 41),
    _calls("keys", 250, 219),
    _calls("programs in the kernel", 321, 280),
    _calls("queues of requests", 425, 425, arguments="8, 0"),
    _calls("counters of events", 298, 241),
    _calls("its own page faults", 323, 282),
    _calls("a file by its handle", 304, 265),
    _calls("a module", 175, 105),
    _calls("another kernel", 246, 104),
    _calls("the log of the kernel", 103, 116, arguments="3, 0, 0"),
    _calls("a restart of the machine", 169, 142, arguments="0, 0, 0, 0"),
    _calls("the memory of the first process", 310, 270, arguments="1, 0, 0, 0, 0, 0"),
)
TRACING = _made(
    "kernel",
    "the first process, by tracing it",
    """
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, 1, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    got = "attached"
    """,
)
ATTACKS = (*READ, *WRITE, *NETWORK, *PROCESSES, *KERNEL, TRACING)
"""All of them."""

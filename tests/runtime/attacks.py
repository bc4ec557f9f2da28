"""Attacks on sandboxes, and the outcome that each must have on each of them; tests run them and the docs show
them.

`$WORDS` in the code stand for places of the host: see `test_attacks.places`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from textwrap import dedent
from typing import Any

from runtime.workbench import SECRET, Ran

from toolcrib.errors import CodeError, LimitExceededError, SandboxViolationError, ToolcribError


@dataclass(frozen=True)
class Outcome:
    """One way in which an attack may end."""

    said: str
    """The outcome as the table shows it."""
    fits: Callable[[Ran | ToolcribError], bool]
    way: str
    """Of which kind it is: a value, an error, a violation, an unsupported feature, or a limit."""

    def __or__(self, other: "Outcome") -> "Outcome":
        said = f"{self.said} or {other.said}"
        return Outcome(said, lambda end: self.fits(end) or other.fits(end), self.way)


def stopped(*limits: str) -> Outcome:
    """Return that a limit ends it."""
    names = " or ".join(f"`{limit}`" for limit in limits)
    return Outcome(
        f"limit {names}", lambda end: isinstance(end, LimitExceededError) and end.limit in limits, limits[0]
    )


def raises(*kinds: str) -> Outcome:
    """Return that it is the code's own error."""
    names = " or ".join(f"`{kind}`" for kind in kinds if kind) or "an error"
    return Outcome(names, lambda end: isinstance(end, CodeError) and end.reason.startswith(kinds), "error")


def gives(said: str, check: Callable[[Any], bool]) -> Outcome:
    """Return that it ends well, with a value that does no harm."""
    return Outcome(said, lambda end: isinstance(end, Ran) and bool(check(end.value)), "value")


def all_refused(value: Any) -> bool:
    """Return whether each of the attempts that the code reports came to nothing."""
    return bool(value) and all(
        isinstance(tried, str) and tried.endswith(("Error", "refused")) for tried in value
    )


violates = Outcome("violation", lambda end: isinstance(end, SandboxViolationError), "violation")
harmless = gives("harmless", lambda _: True)
refused = gives("refused", all_refused)
unsupported = Outcome("unsupported", lambda end: isinstance(end, CodeError), "unsupported")
memory = stopped("memory_bytes")
cpu = stopped("cpu")
deadline = stopped("timeout")
slow = cpu


@dataclass(frozen=True)
class Attack:
    """Code that means harm, and how it must end on each backend that it concerns."""

    group: str
    name: str
    code: str
    expected: Mapping[str, Outcome]
    limits: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 5.0
    """Seconds that it has where it may end by its deadline; everywhere else it has all the time it needs."""
    hangs: str | None = None
    """The key under which it calls a tool that never answers: its time counts from there."""
    calls: int | None = None
    """The number of tool calls that the host must have counted, whatever the code reports."""


def _made(group: str, name: str, code: str, expected: Mapping[str, Outcome], **more: Any) -> Attack:
    return Attack(group, name, dedent(code).strip() + "\n", expected, **more)


def _both(outcome: Outcome) -> dict[str, Outcome]:
    return {"monty": outcome, "process": outcome}


def _all(outcome: Outcome) -> dict[str, Outcome]:
    return {"monty": outcome, "process": outcome, "unsafe": outcome}


_NONE_MADE = gives("no call made", lambda value: value == "none was made")

TRY = """
tried = []
def attempt(function, *args):
    try:
        tried.append("got " + repr(function(*args))[:300])
    except BaseException as error:
        tried.append(type(error).__name__)
"""
"""Records the outcome of an attempt: the name of its exception, or its result."""

TIME = (
    _made("time", "infinite loop", "while True:\n    pass", _all(slow)),
    _made(
        "time",
        "loop that catches everything",
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
        _all(slow),
    ),
    _made("time", "`time.sleep`", "import time\ntime.sleep(60)", _all(deadline), timeout=0.5),
    _made("time", "`asyncio.sleep`", "import asyncio\nawait asyncio.sleep(60)", _all(deadline), timeout=0.5),
    _made(
        "time",
        "sleeping in small steps",
        "import time\nwhile True:\n    time.sleep(0.01)",
        _all(deadline),
        timeout=0.5,
    ),
    _made(
        "time",
        "waiting for an event that is never set",
        "import asyncio\nawait asyncio.Event().wait()",
        {"monty": unsupported, "process": deadline, "unsafe": deadline},
        timeout=0.5,
    ),
    _made(
        "time",
        "a tool that never answers",
        "await odd.hang(key='attack')",
        _all(deadline),
        timeout=0.5,
        hangs="attack",
        calls=1,
    ),
    _made(
        "time",
        "a tool that never answers, caught",
        "while True:\n    try:\n        await odd.hang(key='attack')\n    except BaseException:\n        pass",
        _all(deadline),
        timeout=0.5,
        hangs="attack",
    ),
    _made(
        "time",
        "ReDoS",
        "import re\n__out = bool(re.match(r'(a+)+$', 'a' * 60 + 'b'))",
        {"monty": gives("harmless", lambda value: value is False), "process": slow, "unsafe": slow},
    ),
    _made(
        "time",
        "`str(7**10**7)`",
        "__out = len(str(7**10**7))",
        {"monty": slow, "process": slow | raises("ValueError"), "unsafe": slow | raises("ValueError")},
    ),
    _made("time", "`10**10**8`", "x = 10**10**8", {"monty": memory, "process": slow | memory}),
    _made("time", "`math.factorial(10**6)`", "import math\n__out = math.factorial(10**6) > 0", _both(slow)),
    _made(
        "time",
        "a sort that never ends",
        "class K:\n    def __init__(self, n):\n        self.n = n\nwhile True:\n    sorted(range(100000), key=lambda n: -n)",
        _both(slow),
    ),
    _made(
        "time",
        "a comparison that never ends",
        "a, b = [], []\na.append(a)\nb.append(b)\n__out = a == b",
        _both(raises("RecursionError")),
    ),
    _made(
        "time",
        "ignoring signals",
        "import signal\nfor n in range(1, 65):\n    try:\n        signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError):\n        pass\nwhile True:\n    pass",
        {"monty": unsupported, "process": slow, "unsafe": slow},
    ),
    _made(
        "time",
        "a thread that computes while the code waits",
        "import threading, asyncio\ndef spin():\n    while True:\n        pass\nthreading.Thread(target=spin, daemon=True).start()\nawait asyncio.sleep(60)",
        {"monty": unsupported, "process": slow | stopped("pids") | raises("RuntimeError")},
    ),
)

MEMORY = (
    _made(
        "memory",
        "memory bomb",
        "x = []\nwhile True:\n    x.append('y' * 1000000 + str(len(x)))",
        _both(memory),
    ),
    _made(
        "memory",
        "memory bomb that catches everything",
        "x = []\nwhile True:\n    try:\n        x.append('y' * 1000000 + str(len(x)))\n    except BaseException:\n        pass",
        {"monty": memory, "process": memory | slow},
    ),
    _made("memory", "`'a' * 10**10`", "x = 'a' * 10**10", _both(memory)),
    _made(
        "memory",
        "`'a' * 10**10`, caught",
        "try:\n    x = 'a' * 10**10\nexcept MemoryError:\n    pass\n__out = 'went on'",
        _both(memory | gives("harmless", lambda value: value == "went on")),
    ),
    _made("memory", "doubling a string", "x = 'a'\nwhile True:\n    x += x", _both(memory)),
    _made("memory", "doubling a list", "x = [1]\nwhile True:\n    x = x + x", _both(memory)),
    _made("memory", "`list(range(10**9))`", "x = list(range(10**9))", _both(memory | slow)),
    _made(
        "memory",
        "a dict that grows",
        "x = {}\nwhile True:\n    x[len(x)] = str(len(x)) * 50",
        _both(memory | slow),
    ),
    _made(
        "memory",
        "`bytearray` and `mmap`",
        "import mmap\nx = []\nwhile True:\n    m = mmap.mmap(-1, 10 << 20)\n    m.write(b'x' * (10 << 20))\n    x.append(m)",
        {"monty": unsupported, "process": memory | raises("OSError", "MemoryError")},
    ),
    _made(
        "memory",
        "nested strings whose size JSON escaping doubles",
        "x = ['\\\\' * 1000]\nfor _ in range(18):\n    x = [x, x]\n__out = x",
        _both(memory | slow | stopped("output_bytes")),
    ),
    _made(
        "memory",
        "a huge pattern",
        "import re\n__out = bool(re.compile('(?:a{1,1000}){1,1000}').match('b'))",
        {"monty": unsupported, "process": harmless | memory | slow},
    ),
    _made(
        "memory",
        "a format with a huge width",
        "x = f'{1:>10000000000}'",
        {"monty": slow | memory, "process": memory},
    ),
    _made("memory", "`str.zfill` with a huge width", "__out = len('1'.zfill(10**10))", _both(memory)),
    _made(
        "memory",
        "`str.replace` with a huge result",
        "x = 'a' * 10**5\n__out = len(x.replace('a', x))",
        _both(memory),
    ),
    _made("memory", "a huge width as a format argument", "__out = len('%*d' % (10**9, 1))", _both(memory)),
    _made(
        "memory",
        "concatenating lists with `sum`",
        "__out = len(sum([[1] * 10**5] * 10**5, []))",
        _both(memory | slow),
    ),
    _made(
        "memory",
        "kernel pipe buffers",
        "import fcntl, os\nmade = 0\ntry:\n    while made < 10000:\n        read, write = os.pipe()\n        os.set_blocking(write, False)\n        os.write(write, b'x' * 65536)\n        made += 1\nexcept OSError:\n    pass\n__out = made",
        {"monty": unsupported, "process": gives("at most 1,000", lambda made: made <= 1_000) | memory},
    ),
    _made(
        "memory",
        "regular expression over a long string",
        "import re\n__out = len(re.findall('', 'a' * 10**8))",
        _both(memory | slow),
    ),
)

PROCESSES = (
    _made(
        "processes",
        "`os.fork`",
        "import os\nos.fork()\n__out = 1",
        {"monty": unsupported, "process": raises("PermissionError")},
    ),
    _made(
        "processes",
        "fork bomb",
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
        {"monty": unsupported, "process": slow},
    ),
    _made(
        "processes",
        "threads",
        "import threading, time\nmade = 0\ntry:\n    while made < 500:\n        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n        made += 1\nexcept RuntimeError:\n    pass\n__out = made",
        {"monty": unsupported, "process": gives("at most `pids`", lambda made: made < 64) | stopped("pids")},
    ),
    _made(
        "processes",
        "`multiprocessing`",
        "import multiprocessing\nmultiprocessing.Process(target=print).start()",
        {"monty": unsupported, "process": unsupported},
    ),
    _made(
        "processes",
        "`os.system`",
        "import os\n__out = os.system('id > /tmp/id')",
        {"monty": unsupported, "process": gives("fails", lambda status: status != 0)},
    ),
    _made(
        "processes",
        "`subprocess`",
        TRY
        + "import subprocess\nfor command in ('/bin/sh', '/usr/bin/id', '/usr/bin/env', '/bin/ls'):\n    attempt(subprocess.check_output, [command])\nattempt(subprocess.check_output, 'id', -1)\n__out = tried",
        {"monty": unsupported, "process": refused},
    ),
    _made(
        "processes",
        "`os.exec` and `os.posix_spawn`",
        TRY
        + "import os, sys\nfor path in ('/bin/sh', '/usr/bin/id', sys.executable, '/proc/self/exe'):\n    attempt(os.execv, path, [path, '-c', 'pass'])\n    attempt(os.posix_spawn, path, [path], {})\n__out = tried",
        {"monty": unsupported, "process": refused},
    ),
    _made(
        "processes",
        "running a program that it wrote itself",
        TRY
        + "import os\nwith open('/tmp/x', 'wb') as file:\n    file.write(b'#!/proc/self/exe\\n')\nattempt(os.chmod, '/tmp/x', 0o777)\ntried.clear()\nattempt(os.execv, '/tmp/x', ['x'])\nif hasattr(os, 'memfd_create'):\n    try:\n        memory = os.memfd_create('x')\n        os.write(memory, open('/proc/self/exe', 'rb').read(1 << 20))\n        attempt(os.execve, memory, ['x'], {})\n    except OSError:\n        pass\n__out = tried",
        {"monty": unsupported, "process": refused | unsupported},
    ),
    _made(
        "processes",
        "killing all processes",
        "import os, signal\nfor pid in (1, os.getppid(), -1, 0):\n    try:\n        os.kill(pid, signal.SIGKILL)\n    except OSError:\n        pass\n__out = 'alive'",
        {"monty": unsupported, "process": violates | harmless},
    ),
    _made(
        "processes",
        "`os._exit`",
        "import os\nos._exit(0)",
        {"monty": unsupported, "process": violates, "unsafe": violates},
    ),
    _made(
        "processes",
        "`sys.exit`",
        "import sys\nsys.exit(3)",
        {"monty": unsupported, "process": raises("SystemExit")},
    ),
    _made(
        "processes",
        "crashing itself",
        "import ctypes\nctypes.string_at(0)",
        {"monty": unsupported, "process": violates},
    ),
    _made(
        "processes",
        "aborting",
        "import os\nos.abort()",
        {"monty": unsupported, "process": violates, "unsafe": violates},
    ),
    _made(
        "processes",
        "children that outlive it",
        "import os, time\ntry:\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n            time.sleep(60)\n        os._exit(0)\nexcept OSError:\n    pass\n__out = 1",
        {"monty": unsupported, "process": harmless},
    ),
    _made(
        "processes",
        "`atexit` handlers and threads that keep running",
        "import atexit, threading, time\ndef go_on():\n    while True:\n        time.sleep(0.01)\natexit.register(go_on)\ntry:\n    threading.Thread(target=go_on).start()\nexcept RuntimeError:\n    pass\n__out = 'ended'",
        {
            "monty": unsupported,
            "process": gives("harmless", lambda value: value == "ended"),
            "unsafe": gives("harmless", lambda value: value == "ended"),
        },
    ),
    _made(
        "processes",
        "raising its own priority and limits",
        TRY
        + "import os, resource\nfor kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):\n    _, hard = resource.getrlimit(kind)\n    if hard != resource.RLIM_INFINITY:\n        attempt(resource.setrlimit, kind, (hard + 1, hard + 1))\nattempt(os.setpriority, os.PRIO_PROCESS, 0, -20)\n__out = tried",
        {"monty": unsupported, "process": refused},
    ),
)

FILES = (
    _made(
        "host",
        "host files",
        TRY
        + "from pathlib import Path\nfor path in ('/etc/passwd', '/etc/shadow', '/etc/hostname', '/root/.bashrc', '/root/.ssh', '/home', '$CHECKOUT/pyproject.toml', '$CHECKOUT', '$HIDDEN', '/work'):\n    attempt(lambda: open(path).read())\n    attempt(lambda: Path(path).read_text())\n    attempt(lambda: [str(p) for p in Path(path).iterdir()])\n__out = tried",
        _both(refused),
    ),
    _made(
        "host",
        "host files through `os`",
        TRY
        + "import os\nfor path in ('/etc/passwd', '/etc/shadow', '/root/.ssh', '$CHECKOUT', '$HIDDEN'):\n    attempt(os.listdir, path)\n    attempt(lambda: os.read(os.open(path, 0), 99))\nfor name in ('/root/.ssh', '/etc/passwd', '$HIDDEN'):\n    attempt(os.readlink, name)\n__out = tried",
        {"monty": unsupported, "process": refused},
    ),
    _made(
        "host",
        "path traversal and symlinks",
        TRY
        + "import os\nfor path in ('/tmp/../../../../etc/shadow', '/proc/self/root/etc/shadow', '/proc/1/root/etc/shadow', '/proc/self/cwd/../../etc/shadow'):\n    attempt(lambda: open(path).read())\nattempt(lambda: [os.symlink('/etc/shadow', '/tmp/link'), open('/tmp/link').read()])\n__out = tried",
        _both(refused),
    ),
    _made(
        "host",
        "devices and kernel files",
        TRY
        + "for path in ('/dev/mem', '/dev/kmem', '/dev/sda', '/dev/vda', '/proc/kcore', '/proc/kmsg', '/sys/kernel/security', '/sys/fs/cgroup/cgroup.procs', '/proc/sysrq-trigger', '/sys/class'):\n    attempt(lambda: open(path, 'rb').read(10))\nfor path in ('/proc/sys/kernel/hostname', '/proc/sysrq-trigger', '/sys/power/state'):\n    attempt(lambda: open(path, 'w').write('x'))\n__out = tried",
        _both(refused),
    ),
    _made(
        "host",
        "writing outside its folder",
        TRY
        + "for path in ('/x', '/etc/x', '/usr/x', '/usr/lib/x', '/proc/x', '$CHECKOUT/x', '/root/x', '/var/x', '/bin/x', '/lib/x'):\n    attempt(lambda: open(path, 'w').write('x'))\n__out = tried",
        _both(refused),
    ),
    _made(
        "host",
        "`/proc/self/mem`",
        TRY
        + "def patch():\n    with open('/proc/self/mem', 'r+b', buffering=0) as memory:\n        memory.seek(id(None) + 8)\n        memory.write(b'x')\nattempt(patch)\nattempt(lambda: open('/proc/1/mem', 'rb').read(1))\n__out = 'no more than its own'",
        {"monty": harmless | unsupported, "process": harmless | violates},
    ),
    _made(
        "host",
        "environment variables",
        TRY + "import os\n__out = dict(os.environ)",
        _both(gives("empty, or its own", lambda value: "TOOLCRIB_CANARY" not in value)),
    ),
    _made(
        "host",
        "environment variables in `/proc`",
        "import glob\nseen = []\nfor path in ['/proc/self/environ', '/proc/1/environ', *glob.glob('/proc/*/environ'), *glob.glob('/proc/*/task/*/environ')]:\n    try:\n        seen.append(open(path).read())\n    except OSError:\n        pass\n__out = seen",
        {
            "monty": unsupported,
            "process": gives("nothing of the host's", lambda seen: "CANARY" not in str(seen)),
        },
    ),
    _made(
        "host",
        "host details in `/proc`",
        "import glob\nseen = []\nfor path in ['/proc/mounts', '/proc/self/mountinfo', *glob.glob('/proc/*/cmdline'), *glob.glob('/proc/*/maps'), '/proc/self/cgroup']:\n    try:\n        seen.append(open(path).read())\n    except OSError:\n        pass\n__out = '$CHECKOUT' in str(seen)",
        {"monty": unsupported, "process": gives("nothing of the checkout", lambda leaked: leaked is False)},
    ),
    _made(
        "host",
        "importing the host's packages",
        TRY
        + "for name in ('toolcrib', 'pydantic', 'anyio', 'pytest'):\n    attempt(__import__, name)\n__out = tried",
        {"monty": unsupported, "process": refused},
    ),
    _made(
        "host",
        "filling the disk",
        "import os\nwritten = 0\ntry:\n    with open('/tmp/full', 'wb', buffering=0) as file:\n        while written < 200 << 20:\n            written += file.write(b'x' * 65536)\nexcept OSError:\n    pass\n__out = written",
        {
            "monty": unsupported,
            "process": gives("at most `disk_bytes`", lambda written: written <= 8 << 20)
            | stopped("disk_bytes")
            | memory,
        },
    ),
    _made(
        "host",
        "filling the disk in other places",
        TRY
        + "import os\nfor folder in ('/dev/shm', '/var/tmp', '/run', '/', '/home', os.getcwd(), '/dev', '/mnt', os.path.expanduser('~')):\n    if folder == '/tmp':\n        continue\n    written = 0\n    try:\n        with open(folder + '/full', 'wb', buffering=0) as file:\n            while written < 64 << 20:\n                written += file.write(b'x' * 65536)\n    except OSError:\n        pass\n    tried.append(written)\n__out = max(tried)",
        {
            "monty": unsupported,
            "process": gives("at most `disk_bytes`", lambda written: written <= 8 << 20)
            | stopped("disk_bytes")
            | memory,
        },
    ),
    _made(
        "host",
        "many small files",
        "made = 0\ntry:\n    while made < 200000:\n        open(f'/tmp/{made}', 'w').close()\n        made += 1\nexcept OSError:\n    pass\n__out = made",
        {
            "monty": gives("no files", lambda made: made == 0),
            "process": gives("bounded", lambda made: made < 200000) | slow | stopped("disk_bytes") | memory,
        },
    ),
    _made(
        "host",
        "file descriptors",
        "import os\nheld = []\ntry:\n    while len(held) < 100000:\n        held.append(os.dup(1))\nexcept OSError:\n    pass\n__out = len(held)",
        {
            "monty": unsupported,
            "process": gives("bounded", lambda held: held <= 4096) | unsupported | violates,
        },
    ),
    _made(
        "host",
        "setting the clock",
        "import time\n__out = time.clock_settime(time.CLOCK_REALTIME, 0)",
        {"monty": unsupported, "process": raises("PermissionError")},
    ),
    _made(
        "host",
        "reading the host name",
        "import socket\n__out = socket.gethostname()",
        {"monty": unsupported, "process": harmless | raises("PermissionError", "OSError")},
    ),
)

NETWORK = (
    _made(
        "network",
        "loopback socket",
        TRY
        + "import socket\ndef connect(family, address):\n    with socket.socket(family, socket.SOCK_STREAM) as client:\n        client.settimeout(1)\n        client.connect(address)\n        client.send(b'stolen')\nfor host in ('127.0.0.1', 'localhost', '0.0.0.0', '10.0.0.1'):\n    attempt(connect, socket.AF_INET, (host, $PORT))\nattempt(connect, socket.AF_INET6, ('::1', $PORT))\n__out = [name if name != 'gaierror' else 'refused' for name in tried]",
        {"monty": unsupported, "process": refused},
    ),
    _made(
        "network",
        "datagrams",
        TRY
        + "import socket\ndef send(address):\n    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:\n        client.sendto(b'stolen', address)\nattempt(send, ('127.0.0.1', $PORT))\nattempt(send, ('192.0.2.1', 53))\n__out = tried",
        {"monty": unsupported, "process": refused},
    ),
    _made(
        "network",
        "abstract unix socket",
        TRY
        + "import socket\ndef connect(address):\n    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:\n        client.connect(address)\n        client.send(b'stolen')\nattempt(connect, '\\0$ABSTRACT')\n__out = tried",
        {"monty": unsupported, "process": refused},
    ),
    _made(
        "network",
        "unix socket with a path",
        TRY
        + "import socket\ndef connect(address):\n    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:\n        client.connect(address)\n        client.send(b'stolen')\nfor path in ('$SOCKET', '/run/docker.sock', '/var/run/docker.sock', '/run/dbus/system_bus_socket'):\n    attempt(connect, path)\n__out = tried",
        {"monty": unsupported, "process": refused},
    ),
    _made(
        "network",
        "other socket families",
        TRY
        + "import socket\nfor family, kind in ((16, 3), (17, 3), (40, 1), (38, 5), (31, 3), (2, 3), (21, 5)):\n    attempt(socket.socket, family, kind)\n__out = tried",
        {"monty": unsupported, "process": refused},
    ),
    _made(
        "network",
        "`urllib` and DNS lookups",
        TRY
        + "import urllib.request, socket\nattempt(urllib.request.urlopen, 'http://127.0.0.1:$PORT/')\nattempt(socket.getaddrinfo, 'example.org', 80)\n__out = ['refused' if name == 'gaierror' else name for name in tried]",
        {"monty": unsupported, "process": refused},
    ),
)

KERNEL = (
    _made(
        "kernel",
        "system calls through `ctypes`",
        """
        import ctypes, platform
        libc = ctypes.CDLL(None, use_errno=True)
        NUMBERS = {
            "x86_64": dict(ptrace=101, mount=165, unshare=272, setns=308, keyctl=250, bpf=321, perf=298, uring=425, fault=323,
                           handle=304, vm_read=310, pivot=155, chroot=161, reboot=169, module=175, fsopen=430, clone3=435,
                           add_key=248, kexec=246, swapon=167, personality=135),
            "aarch64": dict(ptrace=117, mount=40, unshare=97, setns=268, keyctl=219, bpf=280, perf=241, uring=425, fault=282,
                            handle=265, vm_read=270, pivot=41, chroot=51, reboot=142, module=105, fsopen=430, clone3=435,
                            add_key=217, kexec=104, swapon=224, personality=92),
        }[platform.machine()]
        tried = {}
        for name, number in NUMBERS.items():
            first = {"unshare": 0x10000000, "perf": 0, "reboot": 0, "personality": 0x0040000}.get(name, 0)
            ctypes.set_errno(0)
            result = libc.syscall(number, first, 0, 0, 0, 0, 0)
            tried[name] = "refused" if result == -1 and ctypes.get_errno() in (1, 13, 38) else f"{result} {ctypes.get_errno()}"
        __out = [f"{name} {said}" for name, said in tried.items() if said != "refused"]
        """,
        {"monty": unsupported, "process": gives("refused", lambda through: through == [])},
    ),
    _made(
        "kernel",
        "`execve` through `ctypes`",
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nargv = (ctypes.c_char_p * 2)(b'/bin/sh', None)\n__out = [libc.execve(b'/bin/sh', argv, None), libc.execve(b'/usr/bin/id', argv, None), libc.system(b'id') != 0]",
        {"monty": unsupported, "process": gives("refused", lambda got: got == [-1, -1, True])},
    ),
    _made(
        "kernel",
        "`prctl` and new privileges",
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.prctl(4, 1)\nlibc.prctl(1, 0)\n__out = [libc.prctl(39, 0, 0, 0, 0), libc.setuid(0) == 0 and libc.geteuid() == 0 and libc.chown(b'/tmp', 0, 0) == 0]",
        {
            "monty": unsupported,
            "process": gives("no new privileges", lambda got: got == [1, False])
            | gives("refused", lambda got: got == [-1, False])
            | violates,
        },
    ),
    _made(
        "kernel",
        "system calls with x32 numbers",
        "import ctypes, platform\nlibc = ctypes.CDLL(None, use_errno=True)\n__out = [libc.syscall(0x40000000 | number, 0, 0, 0) for number in (39, 57, 101, 272)]",
        {"monty": unsupported, "process": violates | gives("refused", lambda got: set(got) == {-1})},
    ),
    _made(
        "kernel",
        "System V IPC and `memfd_create`",
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n__out = [libc.shmget(7, 1 << 20, 0o1666), libc.msgget(7, 0o1666), libc.semget(7, 1, 0o1666), libc.memfd_create(b'x', 0)]",
        {"monty": unsupported, "process": gives("refused", lambda got: set(got) == {-1})},
    ),
    _made(
        "kernel",
        "out-of-band data on sockets",
        TRY
        + """
import ctypes, os, socket
one, other = socket.socketpair()
one.send(b"plain")
for end in (one, socket.socket(fileno=os.dup(3))):
    for flags in (socket.MSG_OOB, socket.MSG_OOB | socket.MSG_DONTWAIT):
        attempt(end.send, b"!", flags)
        attempt(end.sendmsg, [b"!"], [], flags)
        attempt(end.recv, 1, flags)
        attempt(end.recvmsg, 1, 0, flags)
libc = ctypes.CDLL(None, use_errno=True)
for many in (libc.sendmmsg, libc.recvmmsg):
    done = many(one.fileno(), None, 0, socket.MSG_OOB, None)
    tried.append("PermissionError" if done == -1 and ctypes.get_errno() == 1 else f"got {done}")
__out = [other.recv(5).decode(), *tried]
""",
        {
            "monty": unsupported,
            "process": gives("refused", lambda got: got == ["plain", *["PermissionError"] * 18]),
        },
    ),
    _made(
        "kernel",
        "writable and executable memory",
        "import mmap\ntry:\n    mmap.mmap(-1, 4096, prot=7)\nexcept OSError:\n    pass\n__out = 'went on'",
        {"monty": unsupported, "process": gives("harmless", lambda value: value == "went on")},
    ),
    _made(
        "kernel",
        "terminal injection",
        "import fcntl, termios\nfor fd in range(3):\n    try:\n        fcntl.ioctl(fd, termios.TIOCSTI, b'x')\n    except OSError:\n        pass\n__out = 'went on'",
        {"monty": unsupported, "process": harmless},
    ),
)

LANGUAGE = (
    _made(
        "language",
        "an error that names a module for the host to load",
        """
        raise (
            AttributeError("module 'unittest.__main__' has no attribute 'zzz'")
        )
        """,
        _both(raises("AttributeError")),
    ),
    _made("language", "`return` at the top level", "return '['*65 + chr(34)", _both(raises(""))),
    _made("language", "recursion", "def f():\n    return f()\nf()", _all(raises("RecursionError"))),
    _made(
        "language",
        "recursion, caught",
        "def f():\n    try:\n        f()\n    finally:\n        f()\nf()",
        _both(slow | raises("RecursionError") | violates | memory),
    ),
    _made(
        "language",
        "recursion without a limit",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f():\n    return f()\nf()",
        {"monty": unsupported, "process": violates | memory | slow | raises("RecursionError")},
    ),
    _made(
        "language",
        "deep `repr`",
        "x = []\nfor _ in range(100000):\n    x = [x]\nrepr(x)",
        {"monty": harmless, "process": raises("RecursionError")},
    ),
    _made(
        "language",
        "deep `json`",
        "import json\njson.loads('[' * 100000 + ']' * 100000)",
        _both(raises("RecursionError", "json.JSONDecodeError", "JSONDecodeError", "ValueError")),
    ),
    _made(
        "language",
        "deep `compile`",
        "compile('-' * 100000 + '1', 'x', 'eval')",
        {
            "monty": unsupported,
            "process": raises("RecursionError", "MemoryError", "SyntaxError") | memory | violates,
        },
    ),
    _made(
        "language",
        "deep `ast.literal_eval`",
        "import ast\nast.literal_eval('(' * 100000)",
        {"monty": unsupported, "process": raises("RecursionError", "MemoryError", "SyntaxError") | memory},
    ),
    _made(
        "language",
        "deeply nested code",
        "__out = " + "(" * 20000 + "1" + ")" * 20000,
        _both(raises("SyntaxError", "RecursionError", "MemoryError")),
    ),
    _made(
        "language",
        "code with a long chain of operators",
        "__out = " + "-" * 50000 + "1",
        _both(raises("SyntaxError", "RecursionError", "MemoryError") | memory | violates),
    ),
    _made(
        "language",
        "code with a long chain of attributes",
        "x = 1\n__out = x" + ".real" * 50000,
        _both(raises("SyntaxError", "RecursionError", "MemoryError") | violates | harmless | slow),
    ),
    _made(
        "language",
        "code with a huge number of lines",
        "x = 1\n" * 100000 + "__out = x",
        _both(harmless | memory),
    ),
    _made(
        "language",
        "code with a null character",
        "__out = '\x00'",
        _both(raises("SyntaxError", "ValueError") | harmless),
    ),
    _made(
        "language",
        "freeing deeply nested objects",
        "x = None\nfor _ in range(1000000):\n    x = (x,)\ndel x\n__out = 'freed'",
        {"monty": unsupported, "process": gives("harmless", lambda value: value == "freed") | memory},
    ),
    _made(
        "language",
        "walking `__subclasses__`",
        "found = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close']\n__out = found[0].__init__.__globals__['system']('id > /tmp/id')",
        {
            "monty": unsupported,
            "process": gives("reaches only a refused call", lambda status: status != 0)
            | raises("PermissionError"),
        },
    ),
    _made(
        "language",
        "`__builtins__` and `eval`",
        "__out = eval(\"__import__('os').getpid() > 0\")",
        {"monty": unsupported, "process": harmless},
    ),
    _made(
        "language",
        "stack frames of exceptions",
        "import sys\nseen = []\ntry:\n    await odd.fail(text='x')\nexcept Exception as error:\n    trace = error.__traceback__\n    while trace:\n        frame = trace.tb_frame\n        while frame:\n            seen.append([frame.f_code.co_filename, sorted(map(str, frame.f_locals))[:9]])\n            frame = frame.f_back\n        trace = trace.tb_next\n__out = '$CHECKOUT' in str(seen)",
        {"monty": unsupported, "process": gives("no host frames", lambda leaked: leaked is False)},
    ),
    _made(
        "language",
        "every object that `gc` tracks",
        "import gc\n__out = '$CANARY'[:4] + 'x' in ' '.join(str(o)[:500] for o in gc.get_objects() if isinstance(o, (dict, list, tuple)))",
        {
            "monty": unsupported,
            "process": gives("nothing of the host's", lambda leaked: leaked is False) | memory | unsupported,
        },
    ),
    _made(
        "language",
        "pickle",
        "import pickle\nclass E:\n    def __reduce__(self):\n        import os\n        return os.system, ('id > /tmp/id',)\n__out = pickle.loads(pickle.dumps(E()))",
        {
            "monty": unsupported,
            "process": gives("reaches only a refused call", lambda status: status != 0) | unsupported,
        },
    ),
)

OUTPUT = (
    _made(
        "output",
        "50 MB printed at once",
        "print('x' * (50 << 20))\n__out = 'printed'",
        _all(gives("truncated", lambda value: value == "printed") | memory),
    ),
    _made(
        "output",
        "50 MB printed in lines",
        "for _ in range(50):\n    print('x' * (1 << 20))\n__out = 'printed'",
        _all(gives("truncated", lambda value: value == "printed")),
    ),
    _made(
        "output",
        "a huge number of prints",
        "for n in range(200000):\n    print(n)\n__out = 'printed'",
        _all(gives("truncated", lambda value: value == "printed")),
    ),
    _made(
        "output",
        "endless printing",
        "while True:\n    print('x' * 1000)",
        _all(slow | deadline),
        timeout=2.5,
    ),
    _made(
        "output",
        "50 MB written to the file descriptors",
        "import os\nfor _ in range(50):\n    os.write(1, b'x' * (1 << 20))\n    os.write(2, b'y' * (1 << 20))\n__out = 'printed'",
        {
            "monty": unsupported,
            "process": gives("truncated", lambda value: value == "printed"),
            "unsafe": gives("truncated", lambda value: value == "printed"),
        },
    ),
    _made(
        "output",
        "output that is not valid UTF-8",
        "import os\nos.write(1, bytes(range(256)))\n__out = 'printed'",
        {
            "monty": unsupported,
            "process": gives("replaced", lambda value: value == "printed"),
            "unsafe": gives("replaced", lambda value: value == "printed"),
        },
    ),
    _made(
        "output",
        "closing stdout and stderr",
        "import os, sys\nos.close(1)\nos.close(2)\n__out = 'closed'",
        {
            "monty": unsupported,
            "process": gives("harmless", lambda value: value == "closed"),
            "unsafe": gives("harmless", lambda value: value == "closed"),
        },
    ),
    _made(
        "output", "50 MB exception", "raise ValueError('x' * (50 << 20))", _all(raises("ValueError") | memory)
    ),
    _made(
        "output",
        "an exception that cannot be printed",
        "class E(Exception):\n    def __str__(self):\n        raise E\n    __repr__ = __str__\nraise E",
        {"monty": unsupported, "process": raises("E")},
    ),
    _made(
        "output",
        "an exception that takes forever to print",
        "class E(Exception):\n    def __str__(self):\n        while True:\n            pass\nraise E",
        {"monty": unsupported, "process": slow | raises("E"), "unsafe": slow | raises("E")},
    ),
    _made(
        "output",
        "an exception with a name of 1 MB",
        "raise type('E' * (1 << 20), (Exception,), {})('x')",
        {"monty": unsupported, "process": raises("EEEE")},
    ),
    _made(
        "output",
        "a chain of 100,000 exceptions",
        "error = None\nfor n in range(100000):\n    other = ValueError(n)\n    other.__cause__ = error\n    error = other\nraise error",
        {"monty": unsupported | memory, "process": raises("ValueError") | memory},
    ),
    _made(
        "output",
        "a group of 100,000 exceptions",
        "raise ExceptionGroup('many', [ValueError(n) for n in range(100000)])",
        {"monty": unsupported | memory, "process": raises("ExceptionGroup") | memory},
    ),
    _made(
        "output",
        "an exception that is not an `Exception`",
        "raise KeyboardInterrupt",
        _all(raises("KeyboardInterrupt")),
    ),
    _made(
        "output",
        "`GeneratorExit` and `CancelledError`",
        "import asyncio\nraise asyncio.CancelledError",
        {"monty": unsupported, "process": raises("CancelledError"), "unsafe": raises("CancelledError")},
    ),
    _made("output", "50 MB `__out`", "__out = 'x' * (50 << 20)", _all(stopped("output_bytes") | memory)),
    _made(
        "output",
        "`__out` with a million elements",
        "__out = [0] * 1000000",
        _all(stopped("output_bytes")),
    ),
    _made(
        "output",
        "`__out` that changes while it is read",
        "class D(dict):\n    def items(self):\n        return iter([('a', self)])\n    def __iter__(self):\n        return iter(['a'])\n    def __getitem__(self, key):\n        return self\n__out = D(a=1)",
        {"monty": unsupported, "process": gives("harmless", lambda _: True) | raises("") | slow},
    ),
    _made(
        "output",
        "`__out` that never ends",
        "class L(list):\n    def __iter__(self):\n        while True:\n            yield 1\n    def __len__(self):\n        return 1\n__out = L([1])",
        {
            "monty": unsupported,
            "process": gives("harmless", lambda _: True)
            | raises("")
            | slow
            | memory
            | stopped("output_bytes"),
        },
    ),
    _made(
        "output",
        "`__out` with a number of a million digits",
        "__out = 10**1000000",
        _all(raises("") | stopped("output_bytes") | slow),
    ),
    _made(
        "output",
        "a string subclass that overrides `__str__` and `__eq__`",
        "class S(str):\n    def __str__(self):\n        return '1'\n    def __eq__(self, other):\n        return True\n    __hash__ = str.__hash__\n__out = {S('a'): S('b')}",
        {"monty": unsupported, "process": harmless | raises("")},
    ),
)

TOOLS = (
    _made(
        "tools",
        "flood of calls",
        "while True:\n    await calc.add(a=1, b=1)",
        _all(stopped("max_tool_calls")),
        limits={"max_tool_calls": 20},
        calls=20,
    ),
    _made(
        "tools",
        "flood of calls, caught",
        "while True:\n    try:\n        await calc.add(a=1, b=1)\n    except BaseException:\n        pass",
        _all(stopped("max_tool_calls")),
        limits={"max_tool_calls": 20},
        calls=20,
    ),
    _made(
        "tools",
        "flood of gathered calls",
        "import asyncio\nawait asyncio.gather(*[calc.add(a=1, b=n) for n in range(1000)])",
        _all(stopped("max_tool_calls")),
    ),
    _made(
        "tools",
        "flood of hanging calls",
        "import asyncio\nawait asyncio.gather(*[odd.hang(key='flood') for n in range(2000)])",
        _all(stopped("max_tool_calls")),
    ),
    _made(
        "tools",
        "flood of calls that are never awaited",
        "for n in range(20000):\n    calc.add(a=1, b=n)\n__out = 'none was made'",
        _all(_NONE_MADE),
        calls=0,
    ),
    _made(
        "tools",
        "calls to names that do not exist, caught",
        "while True:\n    try:\n        await calc.nothing(a=1)\n    except AttributeError:\n        pass",
        _all(stopped("lookups")),
        calls=0,
    ),
    _made(
        "tools",
        "chains that call nothing",
        "while True:\n    try:\n        await run_chain([])\n    except Exception:\n        pass",
        _all(stopped("lookups")),
        calls=0,
    ),
    _made(
        "tools",
        "chains in which some steps fail",
        """
        items = [{"a": n, "b": 1} for n in range(7)] + [{"a": "x", "b": 1}]
        while True:
            try:
                await run_chain([{"tool_id": "calc:add", "args": {"$ref": "item"}, "for_each": items}])
            except Exception:
                pass
        """,
        _all(stopped("max_tool_calls", "lookups")),
        limits={"max_tool_calls": 30},
    ),
    _made(
        "tools",
        "chains abandoned after a timeout",
        """
        import asyncio
        steps = [
            {"tool_id": "calc:add", "args": {"a": {"$ref": "item"}, "b": 1}, "for_each": list(range(9))},
            {"tool_id": "odd:hang", "args": {"key": "chain"}},
        ]
        while True:
            try:
                await asyncio.wait_for(run_chain(steps), 0.3)
            except Exception:
                pass
        """,
        {
            "monty": slow,
            "process": stopped("max_tool_calls", "lookups"),
            "unsafe": stopped("max_tool_calls", "lookups"),
        },
        limits={"max_tool_calls": 30},
    ),
    _made(
        "tools",
        "flood of tasks",
        "import asyncio\ntasks = [asyncio.create_task(calc.add(a=1, b=n)) for n in range(1000)]\nawait asyncio.sleep(100)\n__out = len(tasks)",
        {"monty": unsupported, "process": stopped("max_tool_calls"), "unsafe": stopped("max_tool_calls")},
    ),
    _made(
        "tools",
        "a task left behind",
        "import asyncio\nasyncio.create_task(odd.hang(key='left'))\nawait asyncio.sleep(0)\nawait calc.add(a=1, b=1)\n__out = 'ended'",
        {
            "monty": unsupported,
            "process": gives("cancelled", lambda value: value == "ended"),
            "unsafe": gives("cancelled", lambda value: value == "ended"),
        },
        calls=2,
    ),
    _made(
        "tools",
        "flood of searches",
        "while True:\n    await search_tools('price')",
        _all(stopped("lookups")),
    ),
    _made(
        "tools",
        "flood of failing calls",
        "while True:\n    try:\n        await calc.nothing(a=1)\n    except Exception:\n        pass",
        _all(stopped("lookups", "max_tool_calls") | slow | deadline),
        timeout=2.0,
    ),
    _made(
        "tools",
        "a chain with too many steps",
        "await run_chain([{'tool_id': 'calc:add', 'args': {'a': 1, 'b': 1}}] * 60)",
        _all(stopped("max_chain_steps")),
        calls=0,
    ),
    _made(
        "tools",
        "tool-result bomb",
        "await odd.big(size=100 << 20)",
        _all(raises("RuntimeError")),
        calls=1,
    ),
    _made(
        "tools",
        "many large results",
        "x = []\nwhile True:\n    x.append(await odd.big(size=5 << 20))",
        _both(memory | slow | stopped("max_tool_calls")),
    ),
    _made(
        "tools",
        "tool-argument bomb",
        "await odd.keep(value='x' * (20 << 20))",
        _all(raises("ValueError")),
        limits={"memory_bytes": 256 << 20},
    ),
    _made(
        "tools",
        "deep arguments",
        "x = []\nfor _ in range(50000):\n    x = [x]\nawait odd.keep(value=x)",
        _all(raises("TypeError", "ValueError", "RecursionError", "argument")),
    ),
    _made(
        "tools",
        "arguments that are not JSON",
        "import asyncio\nseen = []\nfor value in (float('nan'), float('inf'), len, b'x', {1: 2}, chr(0xD800), 10 ** 5000):\n    try:\n        seen.append(await odd.keep(value=value))\n    except (TypeError, ValueError, OverflowError, RuntimeError) as error:\n        seen.append(type(error).__name__)\n__out = len(seen)",
        _all(gives("refused", lambda count: count == 7) | unsupported),
    ),
    _made(
        "tools",
        "arguments that contain themselves",
        "x = []\nx.append(x)\nawait odd.keep(value=x)",
        _all(raises("TypeError", "ValueError", "RecursionError", "argument")),
    ),
    _made(
        "tools",
        "a name of 10 MB",
        "await run_tool('x' * (10 << 20), {})",
        _all(raises("ValueError", "LookupError", "RuntimeError", "TypeError") | violates | memory),
    ),
    _made(
        "tools",
        "an attribute of 10 MB",
        "await getattr(calc, 'x' * (10 << 20))()",
        _all(raises("AttributeError", "ValueError", "NameError") | violates | unsupported | memory),
    ),
    _made(
        "tools",
        "names that are not tools",
        "seen = []\nfor name in ('__class__', '__init__', '_secret', 'add.x', '', 'a b'):\n    try:\n        await getattr(calc, name)()\n        seen.append('got')\n    except (AttributeError, TypeError, NameError, LookupError, ValueError) as error:\n        seen.append(type(error).__name__)\n__out = seen",
        {
            "monty": refused | unsupported,
            "process": gives("no call made", lambda seen: len(seen) == 6),
            "unsafe": gives("no call made", lambda seen: len(seen) == 6),
        },
        calls=0,
    ),
    _made(
        "tools",
        "a tool's error with secrets and paths",
        "try:\n    await odd.leak()\nexcept RuntimeError as error:\n    __out = [str(error), repr(error), str(getattr(error, '__cause__', '')), str(getattr(error, '__context__', ''))]",
        _all(gives("hidden", lambda said: SECRET not in str(said) and "workbench" not in str(said))),
        calls=1,
    ),
    _made(
        "tools",
        "a tool that the policy refuses",
        "try:\n    __out = await odd.secret()\nexcept PermissionError:\n    pass\nawait run_chain([{'tool_id': 'odd:secret'}])",
        _all(raises("RuntimeError", "PermissionError")),
    ),
    _made(
        "tools",
        "lying about what was called",
        "import asyncio\nasyncio.gather = None\nreal = calc.add\nasync def fake(**_):\n    return 'forged'\nawait real(a=1, b=1)\ntry:\n    calc.add = fake\nexcept BaseException:\n    pass\n__out = [{'tool_calls': []}]",
        _all(gives("counted by the host", lambda _: True) | violates | unsupported),
        calls=1,
    ),
    _made(
        "tools",
        "patching the guest's own modules",
        "import builtins, json, asyncio, sys\nfor module in list(sys.modules.values()):\n    for name in ('dumps', 'loads', 'write', 'read', 'send', 'recv', 'pack', 'unpack'):\n        if hasattr(module, name) and module.__name__ != 'builtins':\n            try:\n                setattr(module, name, lambda *a, **k: 'forged')\n            except BaseException:\n                pass\n__out = 'patched'",
        {
            "monty": unsupported,
            "process": harmless | violates | unsupported | deadline,
            "unsafe": harmless | violates | unsupported | deadline,
        },
    ),
    _made(
        "tools",
        "stopping the event loop",
        "import asyncio\nloop = asyncio.get_running_loop()\nloop.stop()\n__out = 1",
        {
            "monty": unsupported,
            "process": harmless | violates | unsupported | deadline,
            "unsafe": harmless | violates | unsupported | deadline,
        },
    ),
)

FORGE = """
import os, stat, json, sys
ends, mark = [], b""
if sys.platform == "wasi":  # where frames are printed, each after a mark
    ends, mark = [1], calc._Namespace__client._line._mark
for fd in range(3, 1024):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        continue
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        ends.append(fd)
def send(data):
    for fd in ends:
        rest = mark + data
        try:
            while rest:
                rest = rest[os.write(fd, rest):]
        except OSError:
            pass
def frame(text):
    data = text if isinstance(text, bytes) else text.encode() if isinstance(text, str) else json.dumps(text).encode()
    send(len(data).to_bytes(4, "big") + data)
def call(number, path="calc.add", **kwargs):
    return {"call": number, "path": path, "args": [], "kwargs": kwargs or {"a": 1, "b": 1}}
"""
"""Writes to everything that may lead to the host, in the form that the host reads."""

_FORGED = gives("only a value", lambda value: value == "forged")


_ALSO_UNSAFE = {
    "garbage",
    "a frame of 4 GB",
    "a forged `done`",
    "two `done` messages at once",
    "a message without a kind",
}


def _frames(name: str, code: str, outcome: Outcome = violates, **more: Any) -> Attack:
    expected = {"monty": unsupported, "process": outcome}
    if name in _ALSO_UNSAFE:  # where the host's side is the same, and starting a guest takes longer
        expected["unsafe"] = outcome
    return _made("frames", name, FORGE + code, expected, **more)


FRAMES = (
    _frames("garbage", "send(b'\\xff' * 4096)\n__out = 'sent'"),
    _frames("zeros", "send(bytes(4096))\n__out = 'sent'"),
    _frames("garbage, then silence", "import time\nsend(b'\\x00\\x00\\x00\\x05hello')\ntime.sleep(30)"),
    _frames("a flood of bytes", "while True:\n    send(b'{\"x\":1}\\n' * 9000)"),
    _frames("a frame of 4 GB", "send(b'\\xff\\xff\\xff\\xff{')\nwhile True:\n    send(b' ' * 65536)"),
    _frames("half a frame, then exit", "send(b'\\x00\\x00\\x01\\x00{\"done\"')\nos._exit(0)"),
    _frames(
        "half a frame, then silence",
        "import time\nsend(b'\\x00\\x00\\x01\\x00{\"done\"')\ntime.sleep(30)",
        deadline | violates,
        timeout=0.5,
    ),
    _frames(
        "half a frame, then a value",
        "send(b'\\x00\\x00\\x01\\x00{\"done\"')\n__out = 'went on'",
        deadline | violates,
        timeout=0.5,
    ),
    _frames("a forged `done`", "frame({'done': 'forged'})\n__out = 'real'", violates | _FORGED, calls=0),
    _frames(
        "a forged `done` after a call",
        "await calc.add(a=1, b=1)\nframe({'done': 'forged', 'tool_calls': []})\nwhile True:\n    pass",
        violates | _FORGED,
        calls=1,
    ),
    _frames(
        "two `done` messages at once",
        "two = b''.join(len(d).to_bytes(4, 'big') + d for d in [b'{\"done\": 1}', b'{\"done\": 2}'])\nsend(two)\nwhile True:\n    pass",
    ),
    _frames(
        "`done` while a call runs",
        "import asyncio\nasyncio.create_task(odd.hang(key='under way'))\nawait asyncio.sleep(0)\nawait calc.add(a=1, b=1)\nframe({'done': 'forged'})\nwhile True:\n    pass",
        violates | _FORGED,
        calls=2,
    ),
    _frames("a `done` that is not a JSON value", "frame('{\"done\": NaN}')\nwhile True:\n    pass"),
    _frames(
        "a `done` of 5 MB",
        "frame({'done': 'x' * (5 << 20)})\nwhile True:\n    pass",
        violates | stopped("output_bytes"),
    ),
    _frames(
        "a `done` with a lone surrogate",
        "frame('{\"done\": \"' + chr(92) + 'ud800\"}')\nwhile True:\n    pass",
        violates | raises("__out"),
    ),
    _frames(
        "a `done` that is nested too deeply",
        "frame('{\"done\": ' + '[' * 300 + ']' * 300 + '}')\nwhile True:\n    pass",
        violates | raises("__out"),
    ),
    _frames(
        "a forged `error`",
        "frame({'error': {'reason': 'x', 'limit': 'max_tool_calls', 'line': 'one'}})\nwhile True:\n    pass",
        violates | raises("x"),
    ),
    _frames(
        "a forged limit",
        "frame({'error': {'reason': 'x', 'limit': 'money', 'line': 1}})\nwhile True:\n    pass",
        violates | raises("x"),
    ),
    _frames(
        "an `error` of 1 MB",
        "frame({'error': {'reason': 'x' * (1 << 20), 'traceback': 'y' * (1 << 19), 'line': 1}})\nwhile True:\n    pass",
        violates | raises("x"),
    ),
    _frames("a malformed `error`", "frame({'error': []})\nwhile True:\n    pass"),
    _frames("a second `ready`", "frame({'ready': True})\nwhile True:\n    pass"),
    _frames("a forged `answer`", "frame({'answer': 1, 'value': 'forged'})\nwhile True:\n    pass"),
    _frames("a message without a kind", "frame({})\nwhile True:\n    pass"),
    _frames("a message that is a list", "frame([1])\nwhile True:\n    pass"),
    _frames("a deeply nested frame", "frame('[' * 200000)\nwhile True:\n    pass"),
    _frames(
        "a number of 100,000 digits",
        "frame('{\"done\": ' + '9' * 100000 + '}')\nwhile True:\n    pass",
        violates | stopped("output_bytes"),
    ),
    _frames("a frame that is not valid UTF-8", 'frame(b\'{"done": "\\xff"}\')\nwhile True:\n    pass'),
    _frames(
        "a call number used twice",
        "frame(call(7, 'odd.hang', key='twice'))\nframe(call(7, 'odd.hang', key='twice'))\nwhile True:\n    pass",
    ),
    _frames("a call with missing fields", "frame({'call': 1})\nwhile True:\n    pass"),
    _frames("a call number that is not an integer", "frame(call('one'))\nwhile True:\n    pass"),
    _frames(
        "a negative call number",
        "frame(call(-1))\nframe({'done': 'forged'})\nwhile True:\n    pass",
        violates | _FORGED,
    ),
    _frames(
        "a call whose path is not a string",
        "frame({'call': 1, 'path': ['a'], 'args': {}, 'kwargs': []})\nwhile True:\n    pass",
    ),
    _frames(
        "a call to a tool by its id",
        "frame(call(1, 'calc:add'))\nimport time\ntime.sleep(0.2)\nframe({'done': 'forged'})\nwhile True:\n    pass",
        violates | _FORGED,
        calls=0,
    ),
    _frames("cancelling an unknown call", "frame({'cancel': 99})\nwhile True:\n    pass", violates | slow),
    _frames(
        "cancelling a call number that is not an integer", "frame({'cancel': [1]})\nwhile True:\n    pass"
    ),
    _frames(
        "a flood of calls whose answers nobody reads",
        "n = 0\nwhile True:\n    n += 1\n    frame(call(n))",
        stopped("max_tool_calls") | violates,
    ),
    _frames(
        "a flood of failing calls whose answers nobody reads",
        "n = 0\nwhile True:\n    n += 1\n    frame(call(n, 'calc.nothing'))",
        stopped("max_tool_calls", "lookups", "cpu", "timeout") | violates,
    ),
    _frames(
        "large answers that nobody reads",
        "n = 0\nwhile n < 900:\n    n += 1\n    frame(call(n, 'odd.big', size=1 << 20))\nimport time\ntime.sleep(30)",
        deadline | violates,
        limits={"max_tool_calls": 900},
    ),
    _frames("a flood of cancellations", "while True:\n    frame({'cancel': 1})", violates | slow),
    _frames(
        "closing the channel to the host",
        "for fd in ends:\n    os.close(fd)\nimport time\ntime.sleep(30)",
        violates | deadline,
        timeout=0.5,
    ),
    _frames(
        "closing the channel to the host, then computing",
        "for fd in ends:\n    os.close(fd)\nwhile True:\n    pass",
        violates | slow,
    ),
    _frames(
        "bytes after the end",
        "import threading, time\ndef later():\n    while True:\n        send(b'x' * 65536)\nthreading.Thread(target=later, daemon=True).start()\ntime.sleep(0.05)\n__out = 'ended'",
        violates | gives("harmless", lambda value: value == "ended") | stopped("pids") | deadline,
    ),
)

_UNWALLED = {"tools", "frames"}
"""Groups of attacks that are tried without a wall too; there `unsafe` is as `process` in the others."""
_SAMPLES = {"infinite loop", "`time.sleep`", "50 MB printed at once"}


def _told(attack: Attack) -> Attack:
    if attack.group in _UNWALLED or attack.name in _SAMPLES:
        return attack
    return replace(attack, expected={kind: end for kind, end in attack.expected.items() if kind != "unsafe"})


_OWN = ("got 'guest\\n'", "got b''", "got b'1\\n'")


def _own_alone(value: Any) -> bool:
    """Return whether attempts failed, or got only a container's own: a name, an empty file."""
    return all(tried in _OWN or all_refused([tried]) for tried in value)


_CONTAINER = {
    "host files": gives("refused, or the container's own", _own_alone),
    "devices and kernel files": gives("refused, or empty", _own_alone),
}
"""Outcomes on `docker` that differ from `process`, which has the same interpreter and filter."""
_GVISOR = {"a huge number of prints": gives("truncated", lambda value: value == "printed") | slow | deadline}
"""Outcomes on `gvisor` that differ from `docker`."""
_ABSENT_IN_WASM = {
    *("`bytearray` and `mmap`", "`os.fork`", "fork bomb", "`os.system`", "`os.exec` and `os.posix_spawn`"),
    *(
        "killing all processes",
        "crashing itself",
        "children that outlive it",
        "raising its own priority and limits",
    ),
    *(
        "setting the clock",
        "reading the host name",
        "system calls through `ctypes`",
        "`execve` through `ctypes`",
    ),
    *("`prctl` and new privileges", "out-of-band data on sockets", "writable and executable memory"),
    *(
        "terminal injection",
        "walking `__subclasses__`",
        "pickle",
        "System V IPC and `memfd_create`",
    ),
    *("system calls with x32 numbers", "kernel pipe buffers"),
}
_WASM = {
    **dict.fromkeys(_ABSENT_IN_WASM, unsupported),
    "`'a' * 10**10`": raises("OverflowError"),
    "`'a' * 10**10`, caught": raises("OverflowError"),
    "a format with a huge width": raises("ValueError"),
    "`str.zfill` with a huge width": raises("OverflowError"),
    "`str.replace` with a huge result": raises("OverflowError"),
    "deeply nested code": raises("SyntaxError", "RecursionError", "MemoryError") | memory,
    "closing stdout and stderr": violates,
    "two `done` messages at once": violates | gives("the first value", lambda value: value == 1),
}
"""Outcomes on `wasm`, which has 32 bits and no system, that differ from `process`."""


def _everywhere(attack: Attack) -> Attack:
    """Return an attack with how it ends on the backends that run the same guest as `process`."""
    base, name = attack.expected["process"], attack.name
    docker = _CONTAINER.get(name, base)
    more = {"docker": docker, "gvisor": _GVISOR.get(name, docker), "wasm": _WASM.get(name, base)}
    return replace(attack, expected={**attack.expected, **more})


_ALL = (*TIME, *MEMORY, *PROCESSES, *FILES, *NETWORK, *KERNEL, *LANGUAGE, *OUTPUT, *TOOLS, *FRAMES)
ATTACKS = tuple(_everywhere(_told(attack)) for attack in _ALL)

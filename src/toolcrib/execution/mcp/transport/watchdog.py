"""Kills the process groups of servers when this process ends, however it ends.

A process that is killed with SIGKILL cannot clean up. So one small shell is started with the first server. It
reads from a socket which process groups there are (`+ 123`, `- 123`), and kills them when the other end
closes, with the daemons that carry the mark of their servers. It lives in a session of its own, so that
neither Ctrl-C nor the closing of a terminal reaches it.

Servers are started from any event loop in any thread, hence the lock. A fork would keep our end of the socket
open, so that the shell waited for the child too: the child closes it, and starts another shell if needed.
"""

import atexit
import logging
import os
import socket
import subprocess
import threading
from contextlib import suppress

from toolcrib.execution.mcp.transport.strays import MARK, all_marks

_log = logging.getLogger(__name__)
_SHELL = "/bin/sh"
_PROGRAM = """
trap '' HUP INT TERM
groups=' '
while read -r sign group; do
  case "$sign$groups" in
    +*) groups="$groups$group " ;;
    -*" $group "*) groups=${groups%%" $group "*}" "${groups#*" $group "} ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
[ "$groups" = ' ' ] && exit
for file in $(grep -Fls "$1" /proc/[0-9]*/environ); do
  number=${file#/proc/}
  kill -s KILL "${number%/environ}"
done
"""
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_EXIT_SECONDS = 2.0
"""The time that the shell has to end at exit."""


class _Watchdog:
    """The watchdog of this process, started when it is needed, and again if it died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._has_hooks = False

    def watch(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            if not self._send(f"+ {group}\n"):
                self._start()

    def forget(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            if not self._send(f"- {group}\n") and self._groups:
                self._start()

    def pid(self) -> int | None:
        with self._lock:
            return self._shell.pid if self._shell is not None and self._shell.poll() is None else None

    def _send(self, text: str) -> bool:
        """Send a line to the shell; return False if it is not there to read it."""
        if self._socket is None or self._shell is None or self._shell.poll() is not None:
            return False
        try:
            return self._socket.send(text.encode(), _NO_SIGNAL) == len(text)
        except OSError:  # it has just died, or is stopped and its buffer is full
            return False

    def _start(self) -> None:
        """Start a shell, and send it every group."""
        self._register_hooks()
        self._kill_shell()
        try:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)  # noqa: FBT003 - the method has no other form
            with theirs:
                self._shell, self._socket = _start_shell(theirs), ours
        except OSError as error:
            reason = (
                "the watcher cannot be started, so that servers would outlive this process if it were killed"
            )
            _log.warning("%s: %s", reason, error)
        self._send("".join(f"+ {group}\n" for group in sorted(self._groups)))

    def _kill_shell(self) -> None:
        """Kill the shell before its socket closes, which it would take for our death."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
        if self._socket is not None:
            self._socket.close()
        self._shell = self._socket = None

    def _register_hooks(self) -> None:
        if not self._has_hooks:
            self._has_hooks = True
            atexit.register(self.close)
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._reset_after_fork,
            )

    def _reset_after_fork(self) -> None:
        if self._shell is not None:
            self._shell.returncode = 0  # it is not our child, so that there is nothing to wait for
        if self._socket is not None:
            self._socket.close()
        self._groups, self._shell, self._socket = set(), None, None
        self._lock.release()

    def close(self) -> None:
        """Close the socket, so that the shell kills the groups that are left and ends."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            if self._shell is not None:
                with suppress(subprocess.TimeoutExpired):
                    self._shell.wait(_EXIT_SECONDS)
            self._kill_shell()


def _start_shell(line: socket.socket) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - a fixed program
        [_SHELL, "-c", _PROGRAM, _SHELL, f"{MARK}={all_marks()}"],
        stdin=line.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        start_new_session=True,
    )


_WATCHDOG = _Watchdog()
"""One for the process: no caller can own it, since it outlives them all."""


def watch_group(group: int) -> None:
    """Kill a process group when this process ends, however it ends, until it is forgotten."""
    if os.name == "posix":
        _WATCHDOG.watch(group)


def forget_group(group: int) -> None:
    """Leave a process group alone, because it is gone."""
    if os.name == "posix":
        _WATCHDOG.forget(group)


def watchdog_pid() -> int | None:
    """Return the process id of the watchdog; None where none runs."""
    return _WATCHDOG.pid()

"""Kills the servers that we started when we die, however we die.

A process that is killed with SIGKILL cannot clean up, so a watcher does it: one tiny shell per process of
ours, started with the first server. It holds one end of a socket, is told over it which process groups there
are, and when the other end closes, because we are gone, it kills them all and ends. It lives in a session of
its own, so that Ctrl-C and the closing of a terminal do not reach it. On systems that are not POSIX nothing
is watched.
"""

import atexit
import logging
import os
import socket
import subprocess
import threading
from contextlib import suppress

__all__ = ["forget_group", "watch_group", "watcher_pid"]

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
"""
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_PATIENCE = 2.0


class _Watcher:
    """The watcher of this process, which is started when needed and again when it died.

    Servers are started from any event loop in any thread, hence the lock. A fork would keep our end of the
    socket open, and the watcher waiting, so that the child closes it and begins without one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._hooked = False

    def watch(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            if not self._say(f"+ {group}\n"):
                self._start()

    def forget(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            if not self._say(f"- {group}\n") and self._groups:
                self._start()

    def pid(self) -> int | None:
        with self._lock:
            return self._shell.pid if self._shell is not None and self._shell.poll() is None else None

    def _say(self, text: str) -> bool:
        """Return whether the watcher lives and has been told."""
        if self._line is None or self._shell is None or self._shell.poll() is not None:
            return False
        try:
            return self._line.send(text.encode(), _NO_SIGNAL) == len(text)
        except OSError:  # it has just died, or is stopped and its buffer is full
            return False

    def _start(self) -> None:
        """Start a watcher that knows every group."""
        self._hook()
        self._discard()
        try:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)  # noqa: FBT003 - the method has no other form
            with theirs:
                self._shell, self._line = _shell(theirs), ours
        except OSError as error:
            reason = (
                "the watcher cannot be started, so that servers would outlive this process if it were killed"
            )
            _log.warning("%s: %s", reason, error)
        self._say("".join(f"+ {group}\n" for group in sorted(self._groups)))

    def _discard(self) -> None:
        """Kill the watcher before its line closes, or it would take that for our death."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
        if self._line is not None:
            self._line.close()
        self._shell = self._line = None

    def _hook(self) -> None:
        if not self._hooked:
            self._hooked = True
            atexit.register(self.close)
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._begin_anew,
            )

    def _begin_anew(self) -> None:
        if self._shell is not None:
            self._shell.returncode = 0  # it is not our child, so that there is nothing to wait for
        if self._line is not None:
            self._line.close()
        self._groups, self._shell, self._line = set(), None, None
        self._lock.release()

    def close(self) -> None:
        """Let the watcher end, who kills what is still registered."""
        with self._lock:
            if self._line is not None:
                self._line.close()
            if self._shell is not None:
                with suppress(subprocess.TimeoutExpired):
                    self._shell.wait(_PATIENCE)
            self._discard()


def _shell(line: socket.socket) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - a fixed program
        [_SHELL, "-c", _PROGRAM],
        stdin=line.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        start_new_session=True,
    )


_WATCHER = _Watcher()
"""One for the process: state that no caller could own, because it is about the death of them all."""


def watch_group(group: int) -> None:
    """Kill a process group when this process ends, however it ends, until it is forgotten."""
    if os.name == "posix":
        _WATCHER.watch(group)


def forget_group(group: int) -> None:
    """Leave a process group alone, because it is gone."""
    if os.name == "posix":
        _WATCHER.forget(group)


def watcher_pid() -> int | None:
    """Return the process id of the watcher; None where none runs."""
    return _WATCHER.pid()

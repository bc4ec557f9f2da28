"""Opens addresses in the browser of this machine."""

import os
import sys
import webbrowser
from html import escape
from pathlib import Path

from toolcrib.paths import runtime_folder


def open_in_browser(address: str) -> bool:
    """Open an address that others must not see, in a browser with windows; return whether there is one.

    The command line of a browser can be read by other users of the machine. So it is given a file that only
    this user can read, which leads on.
    """
    if not _has_screen():
        return False
    folder = runtime_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    page = folder / "console.html"
    page.unlink(missing_ok=True)
    handle = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        shown = escape(address)
        file.write(f'<meta charset="utf-8"><meta http-equiv="refresh" content="0;url={shown}">')
        file.write(f'<a href="{shown}">The console of toolcrib</a>')
    try:
        return webbrowser.open(Path(page).as_uri())
    except webbrowser.Error:
        return False


def _has_screen() -> bool:
    """Return whether a browser would open a window, and not take the terminal."""
    is_remote = "SSH_CONNECTION" in os.environ
    has_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return not is_remote and (has_display or sys.platform in {"darwin", "win32"})

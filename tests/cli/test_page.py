"""The page of the documentation that is written from the command."""

import os
import subprocess
from pathlib import Path

from servers.launch import python

ROOT = Path(__file__).parent.parent.parent


def test_the_page_is_what_the_command_says() -> None:
    script = python(str(ROOT / "scripts" / "cli_page.py"), "--check")
    narrow = {**os.environ, "COLUMNS": "30", "TERM": "dumb"}
    subprocess.run(script, check=True, env=narrow)

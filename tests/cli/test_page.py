"""The page of the documentation that is written from the command."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_page_is_what_the_command_says() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "cli_page.py"), "--check"]
    narrow = {**os.environ, "COLUMNS": "30", "TERM": "dumb"}
    subprocess.run(script, check=True, env=narrow)

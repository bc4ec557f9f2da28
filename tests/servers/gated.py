"""Runs the server `whole.py` once a file is there, whose text is the name that it gets.

Its argument is the file. Until then it says nothing, as a server that hangs.
"""

import runpy
import sys
import time
from pathlib import Path

gate = Path(sys.argv[1])
while not gate.exists() or not gate.read_text(encoding="utf-8"):
    time.sleep(0.01)
sys.argv = [str(Path(__file__).with_name("whole.py")), gate.read_text(encoding="utf-8")]
runpy.run_path(sys.argv[0], run_name="__main__")

"""Measures `import toolcrib` in a fresh interpreter, beside the part of pydantic that its records need."""

import subprocess
import sys

from turns import turns

PYDANTIC = "from pydantic import BaseModel, Field, ConfigDict"
STATEMENTS = {
    PYDANTIC: PYDANTIC,
    "import toolcrib": "import toolcrib",
    "from toolcrib import Tool, tool, DefaultValidator": "from toolcrib import Tool, tool, DefaultValidator",
}
ROUNDS = turns(15)
FORBIDDEN = ("mcp", "mcp_types", "numpy", "click")


def cpu_seconds(statement: str) -> float:
    """Return the CPU time of a fresh interpreter that runs one statement."""
    code = f"{statement}; import time; print(time.process_time())"
    return float(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    )


def main() -> None:
    """Print each statement's fastest time, less that of a bare interpreter, and the ratio to pydantic's."""
    bare = min(cpu_seconds("pass") for _ in range(ROUNDS))
    times = {name: min(cpu_seconds(code) for _ in range(ROUNDS)) - bare for name, code in STATEMENTS.items()}
    print("import time, CPU ms, best of", ROUNDS)
    for name, spent in times.items():
        print(f"  {spent * 1000:6.1f}  {spent / times[PYDANTIC]:5.2f}x  {name}")
    loaded = f"import toolcrib, sys; print([name for name in {FORBIDDEN} if name in sys.modules])"
    print(
        "  loaded by import toolcrib:",
        subprocess.check_output([sys.executable, "-c", loaded], text=True).strip(),
    )


if __name__ == "__main__":
    main()

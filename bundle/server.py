"""Serves the tools of a configuration over stdio; without one, those of the user's own, or a few to try."""

import sys

from toolcrib.cli import main
from toolcrib.paths import find_config

if __name__ == "__main__":
    named = [each for each in sys.argv[1:2] if each and not each.startswith("${")]
    chosen = ["--config", *named] if named else [] if find_config() else ["--demo"]
    sys.argv[1:] = ["serve", *chosen]
    main()

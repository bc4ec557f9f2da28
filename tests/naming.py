"""Names of cases that are the same in every process, as workers that share the tests need them."""

import re

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def named(case: object) -> str:
    """Return the repr of a case, without where in memory it stands."""
    return _ADDRESS.sub("", repr(case))

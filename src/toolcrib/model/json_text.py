"""Compact JSON text: no spaces, and characters as they are instead of escapes.

>>> compact_json({"b": "é", "a": [1, 2]}), sorted_json({"b": "é", "a": [1, 2]})
('{"b":"é","a":[1,2]}', '{"a":[1,2],"b":"é"}')
"""

from json import JSONEncoder
from typing import Final

COMPACT_ENCODER: Final = JSONEncoder(ensure_ascii=False, separators=(",", ":"))
compact_json: Final = COMPACT_ENCODER.encode
"""Writes a value, also one that Python alone can read back: `NaN` and infinities."""
strict_json: Final = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Writes a value that others will read; `NaN` and infinities are a `ValueError`."""
sorted_json: Final = JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
"""Writes a value with sorted keys, so that equal values have equal texts, to be compared or hashed."""

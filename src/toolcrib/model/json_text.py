"""Compact JSON text: without spaces, and with characters instead of escape sequences.

>>> compact_json({"b": "é", "a": [1, 2]}), sorted_json({"b": "é", "a": [1, 2]})
('{"b":"é","a":[1,2]}', '{"a":[1,2],"b":"é"}')
"""

from json import JSONEncoder
from typing import Final

COMPACT_ENCODER: Final = JSONEncoder(ensure_ascii=False, separators=(",", ":"))
compact_json: Final = COMPACT_ENCODER.encode
"""Serializes a value; `NaN` and infinities are written in a form that only Python reads."""
strict_json: Final = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Serializes a value for other programs; `NaN` and infinities raise `ValueError`."""
sorted_json: Final = JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
"""Serializes a value with sorted keys, so that equal values give equal texts, to compare or hash."""

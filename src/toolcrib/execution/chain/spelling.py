"""How the fields of a step were spelt by who wrote it, so that what is said of them is spelt alike."""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["Spelling"]

_CAMEL = {
    "tool_id": "toolId",
    "use_previous": "usePrevious",
    "for_each": "forEach",
    "max_concurrency": "maxConcurrency",
    "on_error": "onError",
}
"""The fields that may be spelt in two ways."""
_FIELD = re.compile(rf"\b(?:{'|'.join(_CAMEL)})\b")


class Spelling:
    """The names of the fields of one step, as they were written or would have been.

    >>> spelling = Spelling({"toolId": "greet", "for_each": [1]})
    >>> spelling["tool_id"], spelling["for_each"], spelling["on_error"]
    ('toolId', 'for_each', 'on_error')
    >>> Spelling({"toolId": "greet"}).of_text("max_concurrency is for steps with for_each")
    'maxConcurrency is for steps with forEach'
    """

    __slots__ = ("_camel", "_written")

    def __init__(self, written: Any) -> None:
        """Read the spelling of a JSON object; a record made in Python is spelt as Python is."""
        self._written: Mapping[str, Any] = written if type(written) is dict else {}
        self._camel = type(written) is dict and not any("_" in name for name in written)

    def __getitem__(self, field: str) -> str:
        """Return how a field is spelt."""
        camel = _CAMEL.get(field, field)
        if field in self._written:
            return field
        return camel if self._camel or camel in self._written else field

    def of_text(self, text: str) -> str:
        """Return a text with all fields in it spelt so."""
        return _FIELD.sub(lambda found: self[found[0]], text)

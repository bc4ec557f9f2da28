"""What the tool of an operation is called."""

import re

from toolcrib.model.toolid import MAX_NAME_LENGTH

__all__ = ["Names"]

_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")


class Names:
    """Gives each operation a name of its own: its id, else its method and path.

    >>> names = Names()
    >>> names.take("list pets", "get", "/pets"), names.take(None, "get", "/pets/{id}")
    ('list_pets', 'get_pets_id')
    >>> names.take("list_pets", "get", "/dogs")
    'list_pets_2'
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def take(self, operation_id: object, method: str, path: str) -> str:
        """Return the name of an operation; the second that would be called the same gets a number."""
        wanted = operation_id if isinstance(operation_id, str) else ""
        base = _mend(wanted) or _mend(f"{method}{path.replace('{', '').replace('}', '')}") or "operation"
        name = base
        while name in self._taken:
            self._numbers[base] = self._numbers.get(base, 1) + 1
            suffix = f"_{self._numbers[base]}"
            name = f"{base[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"
        self._taken.add(name)
        return name


def _mend(text: str) -> str:
    return _FOREIGN.sub("_", text).strip("_")[:MAX_NAME_LENGTH]

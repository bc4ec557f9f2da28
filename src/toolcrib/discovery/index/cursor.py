"""Places in a list that only the list they were issued for understands."""

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import blake2b

from toolcrib.errors import InvalidCursorError

__all__ = ["Listing"]

_PLACE = struct.Struct(">Q8s8s")
_CURSOR = re.compile(r"[A-Za-z0-9_-]{32}")
"""Three bytes are four characters: 24 bytes need no padding."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list in one state: what was asked for, and the version of the index that answered."""

    question: str
    """Everything that the list depends on, as text."""
    version: int
    index: bytes
    """Which index it is: cursors of another process or another index mean nothing here."""

    def cursor(self, offset: int) -> str:
        """Return the cursor for a place in the list."""
        stamp = self._stamp()
        packed = _PLACE.pack(offset, stamp, self._seal(offset, stamp))
        return urlsafe_b64encode(packed).decode()

    def offset(self, cursor: str | None) -> int:
        """Return the place that a cursor means; None and an empty one mean the beginning.

        Raises:
            InvalidCursorError: it is no cursor, or it belongs to another list or another state of it.
        """
        if cursor is None or cursor == "":
            return 0
        offset, stamp, seal = _unpacked(cursor)
        if seal != self._seal(offset, stamp):
            raise InvalidCursorError("it was not issued for this query and these filters")
        if stamp != self._stamp():
            raise InvalidCursorError("the catalogue has changed since it was issued")
        return offset

    def _stamp(self) -> bytes:
        """Return what stands for the version: whoever sees a part of an index need not learn of the rest."""
        return self._digest(f"version {self.version}")

    def _seal(self, offset: int, stamp: bytes) -> bytes:
        return self._digest(f"{offset} {stamp.hex()} {self.question}")

    def _digest(self, text: str) -> bytes:
        return blake2b(text.encode(errors="surrogatepass"), digest_size=8, key=self.index).digest()


def _unpacked(cursor: object) -> tuple[int, bytes, bytes]:
    # Checked by its letters: the decoder would overlook what is not of its alphabet.
    if not isinstance(cursor, str) or not _CURSOR.fullmatch(cursor):
        raise InvalidCursorError("it was not issued by this index")
    offset, stamp, seal = _PLACE.unpack(urlsafe_b64decode(cursor))
    return offset, stamp, seal

"""Tool ids: `name`, `namespace:name` or `namespace:name:version`."""

import re
from dataclasses import dataclass, field

from toolcrib.errors import InvalidToolIdError, InvalidVersionError
from toolcrib.version import Version

MAX_NAME_LENGTH = 128
"""The maximum length of a name or a namespace."""
_MAX_COLONS = 2
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")


def name_fault(text: object) -> str:
    """Return the reason why a text cannot be a name or a namespace; empty if it can."""
    if not isinstance(text, str):
        return f"must be text, not {type(text).__name__}"
    if not text:
        return "must not be empty"
    if len(text) > MAX_NAME_LENGTH:
        return f"must have at most {MAX_NAME_LENGTH} characters, not {len(text)}"
    if _FOREIGN.search(text):
        listed = ", ".join(map(repr, list(dict.fromkeys(_FOREIGN.findall(text)))[:8]))
        return f"may contain only letters, digits, '_', '.' and '-', not {listed}"
    return ""


@dataclass(frozen=True, slots=True)
class ToolId:
    """The id of a tool; two ids with versions that differ only in build metadata are equal.

    >>> ToolId.parse("github:create_issue:1.2.0")
    ToolId(namespace='github', name='create_issue', version='1.2.0')
    >>> str(ToolId("github", "create_issue", "v1.2.0"))
    'github:create_issue:1.2.0'
    """

    namespace: str | None
    """The namespace: 1 to `MAX_NAME_LENGTH` characters of `[A-Za-z0-9_.-]`, or None."""
    name: str
    """1 to `MAX_NAME_LENGTH` characters of `[A-Za-z0-9_.-]`."""
    version: str | None = field(default=None, compare=False)
    """An exact version, written without `v`; at most `MAX_VERSION_LENGTH` characters."""
    _precedence: Version | None = field(init=False, repr=False)
    _text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if fault := name_fault(self.name):
            raise self._refusal(f"its name {fault}")
        if self.namespace is not None and (fault := name_fault(self.namespace)):
            raise self._refusal(f"its namespace {fault}")
        precedence = None
        if self.version is not None:
            try:
                precedence = Version.parse(self.version)
            except InvalidVersionError as error:
                raise self._refusal(f"its version must be an exact one; {error}") from error
            object.__setattr__(self, "version", str(precedence))
        object.__setattr__(self, "_precedence", precedence)
        text = self.name
        if self.namespace is not None:
            text = f"{self.namespace}:{text}:{self.version}" if self.version else f"{self.namespace}:{text}"
        object.__setattr__(self, "_text", text)

    def _refusal(self, reason: str) -> InvalidToolIdError:
        given = (self.namespace, self.name, self.version)
        return InvalidToolIdError(":".join(str(part) for part in given if part is not None), reason)

    @classmethod
    def parse(cls, text: str) -> "ToolId":
        """Parse a tool id.

        Raises:
            InvalidToolIdError: it has too many colons, an empty part, an invalid character, or an inexact
                version.
        """
        if not isinstance(text, str):
            raise InvalidToolIdError(text, f"it must be text, not {type(text).__name__}")
        parts = text.split(":", _MAX_COLONS + 1)
        if len(parts) > _MAX_COLONS + 1:
            raise InvalidToolIdError(text, "it has more than two colons; write namespace:name:version")
        if not all(parts):
            raise InvalidToolIdError(
                text, "it has an empty part; write name, namespace:name or namespace:name:version"
            )
        if len(parts) == 1:
            return cls(None, parts[0])
        return cls(*parts)

    def __str__(self) -> str:
        return self._text


def without_version(tool_id: str) -> str:
    """Return the text of an id without its version.

    >>> without_version("git:log:1.2.0"), without_version("add")
    ('git:log', 'add')
    """
    return ":".join(tool_id.split(":")[:2])

"""Errors about definitions: versions, tools, schemas and values."""

from dataclasses import dataclass

from toolcrib.errors.base import Problem, ToolcribError, join_options, short_repr


@dataclass(eq=False)
class InvalidVersionError(ToolcribError, ValueError):
    """Text that is not a SemVer 2.0.0 version."""

    text: object
    """The invalid text."""
    reason: str
    """The reason, and the remedy."""

    def __str__(self) -> str:
        return f"invalid version {short_repr(self.text)}: {self.reason}"


@dataclass(eq=False)
class InvalidConstraintError(ToolcribError, ValueError):
    """Text that is not a version constraint, or a window that no version can satisfy."""

    text: object
    """The invalid text."""
    reason: str
    """The reason, and the remedy."""

    def __str__(self) -> str:
        return f"invalid constraint {short_repr(self.text)}: {self.reason}"


@dataclass(eq=False)
class InvalidToolError(ToolcribError, ValueError):
    """An invalid tool definition, or record about a tool, with up to `MAX_PROBLEMS` problems found in it."""

    problems: tuple[Problem, ...]
    """All problems, at most `MAX_PROBLEMS`."""
    name: object = None
    """The name in the definition; None if it has none."""
    record: str = "tool"
    """The kind of record."""

    def __str__(self) -> str:
        named = "" if self.name is None else f" {short_repr(self.name)}"
        return f"invalid {self.record}{named}: {'; '.join(map(str, self.problems))}"


@dataclass(eq=False)
class InvalidToolIdError(ToolcribError, ValueError):
    """Text that is not `name`, `namespace:name` or `namespace:name:version`."""

    text: object
    """The invalid text."""
    reason: str
    """The reason, and the remedy."""

    def __str__(self) -> str:
        return f"invalid tool id {short_repr(self.text)}: {self.reason}"


@dataclass(eq=False)
class InvalidBackendError(ToolcribError, ValueError):
    """A backend that is incomplete or of an unknown kind."""

    reason: str
    """The missing or unknown part."""

    def __str__(self) -> str:
        return f"invalid backend: {self.reason}"


@dataclass(eq=False)
class ArgsTooLargeError(ToolcribError, ValueError):
    """Example arguments that are too deep or too many to show."""

    reason: str
    """The example, with the depth and the size of its arguments."""

    def __str__(self) -> str:
        return f"example arguments are too large: {self.reason}"


@dataclass(eq=False)
class InvalidCursorError(ToolcribError, ValueError):
    """A page cursor that was not issued for this query, these filters and this index version."""

    reason: str
    """The reason why the cursor is refused."""

    def __str__(self) -> str:
        return f"invalid cursor: {self.reason}; ask again without a cursor"


@dataclass(eq=False)
class NoCompatibleVersionError(ToolcribError, LookupError):
    """No available version is acceptable."""

    component: str
    """The component."""
    available: tuple[str, ...]
    """The available versions."""
    wanted: str
    """The acceptable versions."""

    def __str__(self) -> str:
        offered = ", ".join(self.available) if self.available else "none"
        return f"no compatible version of {self.component!r}: wanted {self.wanted}, available: {offered}"


@dataclass(eq=False)
class ToolNotFoundError(ToolcribError, LookupError):
    """No tool matches a reference."""

    ref: str
    """The reference."""
    suggestions: tuple[str, ...] = ()
    """Similar ids, the most similar first."""
    reason: str = ""
    """Further explanation; may be empty."""

    def __str__(self) -> str:
        reason = f"; {self.reason}" if self.reason else ""
        return f"no tool named {short_repr(self.ref)}{reason}{_hint(self.suggestions)}"


@dataclass(eq=False)
class ResourceNotFoundError(ToolcribError, LookupError):
    """No server has a resource with this URI."""

    uri: str
    """The URI."""
    suggestions: tuple[str, ...] = ()
    """Similar URIs."""

    def __str__(self) -> str:
        return f"no resource {short_repr(self.uri)}{_hint(self.suggestions)}"


@dataclass(eq=False)
class PromptNotFoundError(ToolcribError, LookupError):
    """No server has a prompt of this name."""

    ref: str
    """The name."""
    suggestions: tuple[str, ...] = ()
    """Similar names."""
    reason: str = ""
    """Further explanation; may be empty."""

    def __str__(self) -> str:
        reason = f"; {self.reason}" if self.reason else ""
        return f"no prompt {short_repr(self.ref)}{reason}{_hint(self.suggestions)}"


def _hint(suggestions: tuple[str, ...]) -> str:
    return f"; did you mean {join_options(suggestions)}?" if suggestions else ""


@dataclass(eq=False)
class LockError(ToolcribError, ValueError):
    """A lock of approved tools that cannot be read, or whose format this version does not support."""

    path: str
    """The file."""
    reason: str
    """The problem, and the advice."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(eq=False)
class InvalidSchemaError(ToolcribError, ValueError):
    """A schema that cannot be used, with every problem found in it."""

    reason: str
    """The reason why the schema cannot be used."""
    problems: tuple[Problem, ...] = ()
    """The problems with their locations, at most `MAX_PROBLEMS`."""

    def __str__(self) -> str:
        details = f": {'; '.join(map(str, self.problems))}" if self.problems else ""
        return f"{self.reason}{details}"


@dataclass(eq=False)
class UnsupportedDialectError(InvalidSchemaError):
    """A `$schema` other than 2020-12, draft-07 and the preloaded documents."""


@dataclass(eq=False)
class ExternalRefError(InvalidSchemaError):
    """A reference that leaves the schema and the preloaded documents; nothing is ever fetched."""


@dataclass(eq=False)
class UnknownMetaSchemaError(UnsupportedDialectError, ExternalRefError):
    """A `$schema` that names a custom meta-schema which is not among the preloaded documents."""


@dataclass(eq=False)
class SchemaTooComplexError(InvalidSchemaError):
    """A schema whose validation could take too long or recurse too deeply."""


@dataclass(eq=False)
class ValidationError(ToolcribError, ValueError):
    """A value that does not fit its schema, with every problem found in it, up to `MAX_PROBLEMS`."""

    problems: tuple[Problem, ...]
    """All problems, at most `MAX_PROBLEMS`."""
    text: str = ""
    """The message, if it is not the list of the problems."""

    def __str__(self) -> str:
        return self.text or "; ".join(map(str, self.problems))


@dataclass(eq=False)
class ConversionError(ToolcribError, ValueError):
    """A definition, call or result that an adapter cannot convert."""

    reason: str
    """The reason why it cannot be converted."""
    adapter: str
    """The name of the adapter."""
    direction: str
    """The method that failed, such as `to_canonical`; `get` if there is no such adapter."""

    def __str__(self) -> str:
        if self.direction == "get":  # the reason names what was asked for
            return self.reason
        return f"{self.adapter}, {self.direction}: {self.reason}"

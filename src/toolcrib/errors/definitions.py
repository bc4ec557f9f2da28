"""Errors in definitions: versions, tools, schemas and values."""

from dataclasses import dataclass

from toolcrib.errors.base import Problem, ToolcribError, either, shown


@dataclass(eq=False)
class InvalidVersionError(ToolcribError, ValueError):
    """Text that is not a SemVer 2.0.0 version."""

    text: object
    """The text that was given."""
    reason: str
    """Why it is not a version."""

    def __str__(self) -> str:
        return f"invalid version {shown(self.text)}: {self.reason}"


@dataclass(eq=False)
class InvalidConstraintError(ToolcribError, ValueError):
    """Text that is not a version constraint, or a window that no version can satisfy."""

    text: object
    """The text that was given."""
    reason: str
    """Why it is not a constraint."""

    def __str__(self) -> str:
        return f"invalid constraint {shown(self.text)}: {self.reason}"


@dataclass(eq=False)
class InvalidToolError(ToolcribError, ValueError):
    """An invalid tool definition, or record about a tool, with up to `MAX_PROBLEMS` problems found in it."""

    problems: tuple[Problem, ...]
    """Everything wrong with it, at most `MAX_PROBLEMS`."""
    name: object = None
    """The name that the definition gives, where it gives one."""
    record: str = "tool"
    """The kind of record that was refused."""

    def __str__(self) -> str:
        named = "" if self.name is None else f" {shown(self.name)}"
        return f"invalid {self.record}{named}: {'; '.join(map(str, self.problems))}"


@dataclass(eq=False)
class InvalidToolIdError(ToolcribError, ValueError):
    """Text that is not `name`, `namespace:name` or `namespace:name:version`."""

    text: object
    """The text that was given."""
    reason: str
    """Why it is not an id."""

    def __str__(self) -> str:
        return f"invalid tool id {shown(self.text)}: {self.reason}"


@dataclass(eq=False)
class InvalidBackendError(ToolcribError, ValueError):
    """A backend binding that says too little or names an unknown kind."""

    reason: str
    """What is missing or unknown."""

    def __str__(self) -> str:
        return f"invalid backend: {self.reason}"


@dataclass(eq=False)
class ArgsTooLargeError(ToolcribError, ValueError):
    """Example arguments that are too deep or too many to show."""

    reason: str
    """Which example, and how deep or large its arguments are."""

    def __str__(self) -> str:
        return f"example arguments are too large: {self.reason}"


@dataclass(eq=False)
class InvalidCursorError(ToolcribError, ValueError):
    """A page cursor that was not issued for this query, these filters and this index version."""

    reason: str
    """Why the cursor does not fit."""

    def __str__(self) -> str:
        return f"invalid cursor: {self.reason}; ask again without a cursor"


@dataclass(eq=False)
class NoCompatibleVersionError(ToolcribError, LookupError):
    """No version on offer is acceptable."""

    component: str
    """What a version was sought of."""
    available: tuple[str, ...]
    """The versions on offer."""
    wanted: str
    """The versions that would do."""

    def __str__(self) -> str:
        offered = ", ".join(self.available) if self.available else "none"
        return f"no compatible version of {self.component!r}: wanted {self.wanted}, available: {offered}"


@dataclass(eq=False)
class ToolNotFoundError(ToolcribError, LookupError):
    """No tool answers to this reference."""

    ref: str
    """The reference that was looked up."""
    suggestions: tuple[str, ...] = ()
    """Ids that are spelt alike, the nearest first."""
    reason: str = ""
    """Why not, where there is more to say."""

    def __str__(self) -> str:
        reason = f"; {self.reason}" if self.reason else ""
        return f"no tool named {shown(self.ref)}{reason}{_hint(self.suggestions)}"


@dataclass(eq=False)
class ResourceNotFoundError(ToolcribError, LookupError):
    """No server here has a resource of this address."""

    uri: str
    """The address that was asked for."""
    suggestions: tuple[str, ...] = ()
    """Addresses that may have been meant."""

    def __str__(self) -> str:
        return f"no resource {shown(self.uri)}{_hint(self.suggestions)}"


@dataclass(eq=False)
class PromptNotFoundError(ToolcribError, LookupError):
    """No server here has a prompt of this name."""

    ref: str
    """The name that was asked for."""
    suggestions: tuple[str, ...] = ()
    """Names that may have been meant."""
    reason: str = ""
    """Why not, where there is more to say."""

    def __str__(self) -> str:
        reason = f"; {self.reason}" if self.reason else ""
        return f"no prompt {shown(self.ref)}{reason}{_hint(self.suggestions)}"


def _hint(suggestions: tuple[str, ...]) -> str:
    return f"; did you mean {either(suggestions)}?" if suggestions else ""


@dataclass(eq=False)
class LockError(ToolcribError, ValueError):
    """A lock of tools that cannot be read, or is not one that this version understands."""

    path: str
    """The file."""
    reason: str
    """What is wrong with it, and what to do."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(eq=False)
class InvalidSchemaError(ToolcribError, ValueError):
    """A schema that cannot be used, with every problem found in it."""

    reason: str
    """Why the schema cannot be used."""
    problems: tuple[Problem, ...] = ()
    """Where in the schema, at most `MAX_PROBLEMS`."""

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
    """A `$schema` that names somebody's own meta-schema, which is not among the preloaded documents."""


@dataclass(eq=False)
class SchemaTooComplexError(InvalidSchemaError):
    """A schema that could take longer, or go deeper, than any honest one needs."""


@dataclass(eq=False)
class ValidationError(ToolcribError, ValueError):
    """A value that does not fit its schema, with every problem found in it, up to `MAX_PROBLEMS`."""

    problems: tuple[Problem, ...]
    """Everything wrong with the value, at most `MAX_PROBLEMS`."""
    text: str = ""
    """The message, where it is not the list of the problems."""

    def __str__(self) -> str:
        return self.text or "; ".join(map(str, self.problems))


@dataclass(eq=False)
class ConversionError(ToolcribError, ValueError):
    """A definition, call or result that an adapter cannot translate."""

    reason: str
    """Why it cannot be translated."""
    adapter: str
    """The adapter that was asked."""
    direction: str
    """Which translation failed, such as `to_canonical`."""

    def __str__(self) -> str:
        return f"{self.adapter}, {self.direction}: {self.reason}"

"""What an adapter is, and what it says about calls."""

from typing import Any, Protocol, runtime_checkable

from toolcrib.adapter.conversion import Conversion
from toolcrib.adapter.features import SchemaFeature
from toolcrib.adapter.names import NameRule
from toolcrib.model.canonical import CanonicalTool

__all__ = ["Adapter", "Translator"]


@runtime_checkable
class Adapter(Protocol):
    """Translates tool definitions between one format and the canonical form.

    Both directions copy what they are given and never change it, do no I/O, and give the same answer to the
    same question. What cannot be translated is a `ConversionError`. Implementations are safe to share
    between threads.
    """

    @property
    def name(self) -> str:
        """The name under which it is registered."""
        ...

    def to_canonical(self, raw: Any) -> CanonicalTool:
        """Return a definition of this format in the canonical form."""
        ...

    def from_canonical(self, tool: CanonicalTool, **options: Any) -> Any:
        """Return the definition in this format; the options are the adapter's own."""
        ...

    def supports_feature(self, feature: SchemaFeature) -> bool:
        """Return whether schemas of this format can say a keyword."""
        ...


@runtime_checkable
class Translator(Adapter, Protocol):
    """An adapter that also tells what is lost, and brings calls back.

    The built-in adapters all are. An adapter that is not gets its losses told keyword by keyword from
    `supports_feature`, and its calls are taken to be in the original terms.
    """

    @property
    def names(self) -> NameRule:
        """What tools may be called in this format."""
        ...

    def translate(self, tool: CanonicalTool, *, name: str | None = None, **options: Any) -> Conversion:
        """Return the definition with its losses and its way back, under a name of the caller's choice."""
        ...

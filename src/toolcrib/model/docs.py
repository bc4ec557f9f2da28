"""How a tool is explained: documentation at three depths, and worked examples."""

from pydantic import Field

from toolcrib.model.display import MAX_JSON, brief, brief_json, one_line, table
from toolcrib.model.record import JsonObject, Record
from toolcrib.model.tool import Tool, ToolAnnotations


class ToolExample(Record):
    """One call of a tool, shown to whoever must make the next one."""

    id: str | None = None
    """What the example is called by programs."""
    title: str | None = None
    """What it shows, in a few words."""
    description: str | None = None
    """What it shows; cut at `MAX_EXAMPLE_DESCRIPTION` characters."""
    args: JsonObject = Field(default_factory=dict)
    """The arguments, at most `MAX_ARGS_DEPTH` deep and `MAX_ARGS_SIZE` members in all."""
    result_hint: str | None = None
    """What comes back, in a few words; cut at `MAX_RESULT_HINT` characters."""


class SchemaInfo(Record):
    """An input schema at a glance."""

    required: tuple[str, ...] = ()
    """Arguments that every call must give."""
    defaults: JsonObject = Field(default_factory=dict)
    """The values that are assumed for arguments left out."""
    types: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The JSON types that each argument may have; one that may be anything is absent."""
    phrases: dict[str, str] = Field(default_factory=dict)
    """What each argument may be, to be read: `"open" | "closed"`, `array of string`, `any`."""


class ObservedOutput(Record):
    """What a tool that declares no output schema has been seen to give back: shapes, never values."""

    observed: int
    """How many results this was learnt from."""
    json_schema: JsonObject
    """What each of them fits; the next one need not."""


class ToolDoc(Record):
    """The description of a tool at the depth asked for; what belongs to a deeper level is absent."""

    summary: str
    """What the tool is for; cut at `MAX_SUMMARY` characters."""
    tool: Tool | None = None
    """The definition (`schema` and `full`)."""
    input_modes: tuple[str, ...] = ()
    """The kinds of content that it takes."""
    output_modes: tuple[str, ...] = ()
    """The kinds of content that it gives back."""
    security_summary: str | None = None
    """The security schemes that a call needs, by name."""
    annotations: ToolAnnotations | None = None
    """Hints about what it does."""
    schema_info: SchemaInfo | None = None
    """The input schema at a glance (`schema` and `full`)."""
    observed_output: ObservedOutput | None = None
    """The learnt shape of its results, where it declares none (`schema` and `full`)."""
    notes: str | None = None
    """When to use it, and what to look out for (`full`); cut at `MAX_NOTES` characters."""
    examples: tuple[ToolExample, ...] = ()
    """Worked calls (`full`)."""
    external_refs: tuple[str, ...] = ()
    """Where more can be read (`full`)."""

    def __repr__(self) -> str:
        called = "" if self.tool is None else f" {self.tool.id}({', '.join(self._arguments())})"
        return one_line(f"<ToolDoc{called}: {self.summary}") + ">"

    __str__ = __repr__

    def _arguments(self) -> list[str]:
        """Return the names of the arguments, those that may be left out with a question mark."""
        info = self.schema_info or SchemaInfo.of_checked()
        return [name if name in info.required else f"{name}?" for name in info.phrases]

    def _repr_html_(self) -> str:
        """Return the arguments, and what else is documented, as tables of a notebook."""
        if self.tool is None or self.schema_info is None:
            return table("", ("summary",), [(self.summary,)])
        info, properties = self.schema_info, self.tool.input_schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        rows = [
            (
                name,
                phrase,
                "yes" if name in info.required else "",
                brief(info.defaults[name]) if name in info.defaults else "",
                str(known[name].get("description", "")) if isinstance(known.get(name), dict) else "",
            )
            for name, phrase in info.phrases.items()
        ]
        head = ("argument", "type", "required", "default", "description")
        shown = table(f"{self.tool.id}: {self.summary}", head, rows)
        more = [("notes", self.notes)] if self.notes else []
        more += [(each.title or "example", brief_json(each.args)) for each in self.examples]
        more += [("see", each) for each in self.external_refs]
        return shown + (table("", ("", ""), more, MAX_JSON) if more else "")

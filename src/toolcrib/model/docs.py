"""Documentation of a tool in three levels of detail, and examples of calls."""

from pydantic import Field

from toolcrib.model.display import MAX_JSON, brief, brief_json, one_line, table
from toolcrib.model.record import JsonObject, Record
from toolcrib.model.tool import Tool, ToolAnnotations


class ToolExample(Record):
    """An example call of a tool."""

    id: str | None = None
    """The id of the example, for programs."""
    title: str | None = None
    """The title of the example."""
    description: str | None = None
    """The description of the example; cut at `MAX_EXAMPLE_DESCRIPTION` characters."""
    args: JsonObject = Field(default_factory=dict)
    """The arguments, at most `MAX_ARGS_DEPTH` deep and with at most `MAX_ARGS_SIZE` members in all."""
    result_hint: str | None = None
    """A short description of the result; cut at `MAX_RESULT_HINT` characters."""


class SchemaInfo(Record):
    """Summary of an input schema."""

    required: tuple[str, ...] = ()
    """The required arguments."""
    defaults: JsonObject = Field(default_factory=dict)
    """The default values of arguments."""
    types: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The JSON types of each argument; an argument of any type is absent."""
    phrases: dict[str, str] = Field(default_factory=dict)
    """A readable type of each argument: `"open" | "closed"`, `array of string`, `any`."""


class ObservedOutput(Record):
    """Output schema learned from the results of a tool that declares none; it contains no values."""

    observed: int
    """The number of results it was learned from."""
    json_schema: JsonObject
    """A schema that all of them fit; later results may not."""


class ToolDoc(Record):
    """The documentation of a tool at a level of detail; fields of higher levels are absent."""

    summary: str
    """The purpose of the tool; cut at `MAX_SUMMARY` characters."""
    tool: Tool | None = None
    """The definition (`schema` and `full`)."""
    input_modes: tuple[str, ...] = ()
    """The kinds of content that the tool takes."""
    output_modes: tuple[str, ...] = ()
    """The kinds of content that the tool returns."""
    security_summary: str | None = None
    """The names of the security schemes that a call needs."""
    annotations: ToolAnnotations | None = None
    """Hints about the effects of the tool."""
    schema_info: SchemaInfo | None = None
    """A summary of the input schema (`schema` and `full`)."""
    observed_output: ObservedOutput | None = None
    """The learned output schema, if the tool declares none (`schema` and `full`)."""
    notes: str | None = None
    """When to use the tool, and its pitfalls (`full`); cut at `MAX_NOTES` characters."""
    examples: tuple[ToolExample, ...] = ()
    """Example calls (`full`)."""
    external_refs: tuple[str, ...] = ()
    """Links to more documentation (`full`)."""
    when_to_use: str | None = None
    """When to use the tool, as a language model wrote it for `toolcrib enrich` (`full`)."""
    questions: tuple[str, ...] = ()
    """Questions that the tool answers, written by that model (`full`)."""
    learned: tuple[str, ...] = ()
    """Questions that callers asked before they ran the tool, without values (`full`)."""
    warnings: tuple[str, ...] = ()
    """Findings of the scan in the definition, which may be designed to mislead a model."""

    def __repr__(self) -> str:
        called = "" if self.tool is None else f" {self.tool.id}({', '.join(self._arguments())})"
        return one_line(f"<ToolDoc{called}: {self.summary}") + ">"

    __str__ = __repr__

    def _arguments(self) -> list[str]:
        """Return the names of the arguments; optional ones have a question mark."""
        info = self.schema_info or SchemaInfo.from_valid()
        return [name if name in info.required else f"{name}?" for name in info.phrases]

    def _repr_html_(self) -> str:
        """Return the arguments and the other documentation as HTML tables, for notebooks."""
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
        more = [("warning", each) for each in self.warnings]
        more += [("notes", self.notes)] if self.notes else []
        more += [(each.title or "example", brief_json(each.args)) for each in self.examples]
        more += [("see", each) for each in self.external_refs]
        more += [("when to use", self.when_to_use)] if self.when_to_use else []
        more += [("question", each) for each in self.questions]
        more += [("learned", each) for each in self.learned]
        return shown + (table("", ("", ""), more, MAX_JSON) if more else "")

"""One rule of a policy: its principals, its tools, and its effect."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import translate
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, StrictBool, field_validator
from pydantic_core import PydanticCustomError

from toolcrib.errors import InvalidSchemaError, Problem, ToolcribError, ValidationError
from toolcrib.execution.policy.resource_names import content_pattern
from toolcrib.execution.principal import Issuers, Principal
from toolcrib.model.backend import McpBackend, ProviderBackend
from toolcrib.model.record import JsonObject, Record
from toolcrib.model.schema.validator import DefaultValidator
from toolcrib.model.tool import Tool, ToolAnnotations, normalize_tags

Effect = Literal["allow", "ask", "deny"]
_Text = Annotated[str, Field(min_length=1, max_length=200)]
_TAG = "tag:"
_ANYTHING = frozenset("*?:")
"""The characters of a pattern that names nothing."""
_HINTS = {
    alias: name
    for name, field in ToolAnnotations.model_fields.items()
    if name.endswith("_hint")
    for alias in (name, field.alias or name)
}
"""The names of hints as a configuration may write them, and as a tool has them."""


class Rule(Record):
    """One rule, with its callers, tools, conditions and effect.

    >>> Rule(name="no deleting", tools=["*:delete_*"], effect="deny").who
    ('*',)

    Raises:
        ValidationError: with every problem found.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=False, ignored_types=(cached_property,))

    name: _Text
    """Its name in denials and in the audit log."""
    who: tuple[_Text, ...] = ("*",)
    """The callers that it applies to: `*`, `token:NAME`, `user:SUBJECT`, `local:USER`, `group:NAME`,
    `client:NAME`, or a bare name, which means exactly one token, account or user; one match is enough."""
    tools: tuple[_Text, ...] = ("*",)
    """The tools that it applies to: ids, patterns (`github:*`, `*:delete_*`), namespaces, `tag:NAME`; one
    match is enough. Resources are matched as `server:URI`, however the URI is spelled, prompts as
    `server:name`. Tags that a server or an API gives its tools count only in rules that deny."""
    annotations: dict[str, StrictBool] = Field(default={})
    """Annotations that the tool must have, such as `readOnlyHint`."""
    args: JsonObject | None = None
    """A JSON Schema that the arguments must satisfy."""
    effect: Effect
    """`allow`, `deny`, or `ask` a person first."""
    reason: str = ""
    """Shown to the person who is refused or asked."""

    @field_validator("annotations", mode="after")
    @classmethod
    def _are_hints(cls, annotations: dict[str, bool]) -> dict[str, bool]:
        for name in annotations:
            if name not in _HINTS:
                known = ", ".join(dict.fromkeys(name for name in _HINTS if "_" not in name))
                raise PydanticCustomError(
                    "name", "{name} is not a hint; there are {known}", {"name": repr(name), "known": known}
                )
        return {_HINTS[name]: value for name, value in annotations.items()}

    @field_validator("args", mode="after")
    @classmethod
    def _is_schema(cls, args: dict[str, Any] | None) -> dict[str, Any] | None:
        if args is not None:
            try:
                DefaultValidator().compile(args)
            except InvalidSchemaError as error:
                raise PydanticCustomError("schema", "{reason}", {"reason": str(error)}) from None
        return args

    def is_about(self, principal: Principal, issuers: Issuers | None = None) -> bool:
        """Return whether it applies to a principal, given the issuers that vouch for names."""
        known = issuers or Issuers()
        return any(known.means(principal, who) for who in self.who)

    def covers(
        self, tool_id: str, tags: Collection[str], hints: Mapping[str, bool], *, vouched: bool = True
    ) -> bool:
        """Return whether it applies to a tool, whatever the arguments.

        `vouched` means that the tags are the program's own; those of a server or an API can only deny.
        """
        if any(hints.get(name) is not value for name, value in self.shared("annotations").items()):
            return False
        if (vouched or self.effect == "deny") and not self._tags.isdisjoint(tags):
            return True
        return self._pattern.fullmatch(plain_id(tool_id)) is not None

    def covers_tool(self, tool: Tool) -> bool:
        """Return whether it applies to a tool, whatever the arguments."""
        return self.covers(str(tool.id), tool.tags, hints_of(tool), vouched=vouches_for_tags(tool))

    def consents_to(self, tool_id: str) -> bool:
        """Return whether it allows a tool that it covers by name, so that no person is asked about it.

        It does if it names the tool by its id, its namespace or a pattern, or has `destructiveHint = true`
        among its annotations. A rule that allows everything, or a tag, does not.

        >>> Rule(name="a", tools=["shop:*"], effect="allow").consents_to("shop:drop:1.0.0")
        True
        >>> Rule(name="b", tools=["*"], effect="allow").consents_to("shop:drop")
        False
        """
        if self.effect != "allow":
            return False
        if self.annotations.get("destructive_hint") is True:
            return True
        return self._naming_pattern.fullmatch(plain_id(tool_id)) is not None

    def covers_content(self, name: str) -> bool:
        """Return whether it applies to a resource, as `server:URI`, or a prompt, as `server:name`.

        Unless its effect is `allow`, it ignores case in file URIs, since some file systems do.
        """
        if self.shared("annotations"):
            return False
        is_file = name.partition(":")[2].startswith("file:")
        pattern = self._file_pattern if is_file and self.effect != "allow" else self._content_pattern
        return pattern.fullmatch(name) is not None

    def may_cover(self, namespace: str) -> bool:
        """Return whether it could apply to a tool of a server or an API whose tools are not known yet."""
        starts = (re.split(r"[*?\[]", glob, maxsplit=1)[0] for glob in _globs(self.tools))
        return any(f"{namespace}:".startswith(start) or start.startswith(f"{namespace}:") for start in starts)

    @cached_property
    def _tags(self) -> frozenset[str]:
        named = (item.removeprefix(_TAG) for item in self.tools if item.startswith(_TAG))
        return frozenset(tag for name in named for tag in normalize_tags([name]))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Matches the ids of the tools, as `plain_id` writes them."""
        return re.compile("|".join(map(translate, _globs(self.tools))) or r"(?!)")

    @cached_property
    def _naming_pattern(self) -> re.Pattern[str]:
        """Matches the tools that it names: by more than wildcards, which stand for every tool."""
        naming = [item for item in self.tools if not _ANYTHING.issuperset(item)]
        return re.compile("|".join(map(translate, _globs(naming))) or r"(?!)")

    @cached_property
    def _content_pattern(self) -> re.Pattern[str]:
        items = [item for item in self.tools if not item.startswith(_TAG)]
        return content_pattern(items, denies=self.effect != "allow")

    @cached_property
    def _file_pattern(self) -> re.Pattern[str]:
        return re.compile(self._content_pattern.pattern, re.IGNORECASE)

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:  # noqa: ARG003 - the base's signature
        return ValidationError(problems)


def declares_destructive(annotations: ToolAnnotations | None) -> bool:
    """Return whether a tool says of itself that it may destroy something; one that says nothing does not.

    >>> declares_destructive(ToolAnnotations(destructive_hint=True)), declares_destructive(None)
    (True, False)
    """
    if annotations is None:
        return False
    return annotations.destructive_hint is True and annotations.read_only_hint is not True


def vouches_for_tags(tool: Tool) -> bool:
    """Return whether the tags of a tool are the program's own, and not those of a server or an API."""
    return not isinstance(tool.backend, McpBackend | ProviderBackend)


def hints_of(tool: Tool) -> dict[str, bool]:
    """Return the hints that a tool gives of itself, by the names of their fields."""
    hints = tool.annotations
    if hints is None:
        return {}
    known = {name: getattr(hints, name) for name in dict.fromkeys(_HINTS.values())}
    return {name: value for name, value in known.items() if value is not None}


def _globs(tools: Sequence[str]) -> Iterator[str]:
    for item in (item for item in tools if not item.startswith(_TAG)):
        if ":" in item:
            yield plain_id(item)
        elif item == "*":
            yield item
        else:  # a tool without a namespace, or a namespace
            yield f":{item}"
            yield f"{item}:*"


def plain_id(tool_id: str) -> str:
    """Return an id without its version, and with the colon of a namespace that it may lack."""
    namespace, colon, rest = tool_id.partition(":")
    if not colon:
        return f":{namespace}"
    if "://" in rest or rest.count(":") > 1:  # the address of a resource, which has colons of its own
        return tool_id
    return f"{namespace}:{rest.partition(':')[0]}"

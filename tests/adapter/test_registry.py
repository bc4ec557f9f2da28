"""The adapters by name, the options they take, and the names that tools get from them."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from adapter.support import REGISTRY, obj
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.adapter import (
    Adapter,
    AdapterRegistry,
    Bundle,
    CanonicalTool,
    McpAdapter,
    SchemaFeature,
    Translator,
    default_registry,
    portability,
)
from toolcrib.adapter.portability import TARGETS
from toolcrib.errors import ConversionError, ToolcribError

RAW = {"name": "t", "inputSchema": obj(a={"type": "string", "minLength": 1})}
LENGTHS = {"mcp": 128, "openai": 64, "anthropic": 128, "gemini": 64}
CHARACTERS = {"mcp": "_.-", "openai": "_-", "anthropic": "_-", "gemini": "_.-"}


class Plain:
    """The least that is an adapter."""

    def __init__(self, name: str = "plain") -> None:
        self.name = name

    def to_canonical(self, raw: Any) -> CanonicalTool:
        return CanonicalTool(name=raw["n"], input_schema=raw["s"])

    def from_canonical(self, tool: CanonicalTool, **options: Any) -> Any:
        return {"n": tool.name, "s": tool.input_schema, **options}

    def supports_feature(self, feature: SchemaFeature) -> bool:
        return feature != SchemaFeature.MIN_LENGTH


def test_the_built_in_adapters_are_there_and_are_translators() -> None:
    assert REGISTRY.names() == ("a2a", "anthropic", "gemini", "mcp", "openai")
    assert all(isinstance(REGISTRY.get(name), Translator) for name in REGISTRY.names())


def test_adapters_come_and_go() -> None:
    registry = AdapterRegistry([Plain()])
    assert isinstance(registry.get("plain"), Adapter)
    with pytest.raises(ConversionError, match="there is an adapter of that name; unregister it first"):
        registry.register(Plain())
    registry.unregister("plain")
    assert registry.names() == ()
    with pytest.raises(ConversionError, match="there is no adapter 'plain'"):
        registry.unregister("plain")


@pytest.mark.parametrize(
    ("asked", "known"), [("claude", "anthropic"), ("gpt-5.2", "openai"), ("Google", "gemini")]
)
def test_model_or_vendor_is_told_the_name_of_its_adapter(asked: str, known: str) -> None:
    with pytest.raises(ConversionError) as caught:
        REGISTRY.get(asked)
    assert str(caught.value) == f"there is no adapter {asked!r}; did you mean {known!r}?"


@pytest.mark.parametrize(
    "wrong",
    [None, 5, object(), Plain, Plain(""), Plain(5)],
    ids=["none", "number", "object", "class", "empty", "numbered"],
)
def test_object_that_is_not_an_adapter_is_refused(wrong: Any) -> None:
    with pytest.raises(ConversionError, match=r"is not an adapter"):
        AdapterRegistry([wrong])


@pytest.mark.parametrize(
    ("name", "hint"),
    [("opnai", "did you mean 'openai'"), ("zzz", "there are a2a, anthropic"), (None, "there are")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: Any, hint: str) -> None:
    with pytest.raises(ConversionError, match=hint):
        REGISTRY.get(name)
    with pytest.raises(ConversionError, match=hint):
        REGISTRY.convert(RAW, source="mcp", target=name)


def test_an_adapter_of_somebody_else_gets_its_losses_told() -> None:
    registry = default_registry()
    registry.register(Plain())
    conversion = registry.convert(RAW, source="mcp", target="plain", more=1)
    assert conversion.payload == {"n": "t", "s": RAW["inputSchema"], "more": 1}
    assert [(each.feature, each.path, each.part, each.adapter) for each in conversion.warnings] == [
        ("minLength", "/properties/a", "input", "plain")
    ]
    assert conversion.decode_call(conversion.encode_call({"a": "x"})).args == {"a": "x"}
    back = registry.convert(conversion.payload | {"n": "u"}, source="plain", target="mcp")
    assert back.payload == {"name": "u", "inputSchema": RAW["inputSchema"]}


def test_many_tools_for_an_adapter_of_somebody_else_can_be_told_apart() -> None:
    registry = default_registry()
    registry.register(Plain())
    raws = [RAW | {"namespace": "a"}, RAW | {"namespace": "b"}]
    found = registry.convert_many(raws, source="mcp", target="plain")
    assert len({conversion.name for conversion in found}) == 2


def test_many_threads_may_register_and_convert() -> None:
    registry = default_registry()

    def work(index: int) -> bool:
        name = f"plain{index}"
        registry.register(Plain(name))
        same = registry.convert(RAW, source="mcp", target="openai", strict=True).payload
        registry.names()
        registry.unregister(name)
        return same == wanted

    wanted = registry.convert(RAW, source="mcp", target="openai", strict=True).payload
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(300)))
    assert registry.names() == REGISTRY.names()


def test_one_name_is_registered_once_however_many_try() -> None:
    registry = AdapterRegistry()

    def work(_: int) -> bool:
        try:
            registry.register(Plain())
        except ConversionError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(work, range(64))) == 1


def test_one_conversion_may_be_used_by_many_threads() -> None:
    union = {"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "string"}]}
    conversion = REGISTRY.convert(
        {"name": "t", "inputSchema": obj(a=union)}, source="mcp", target="openai", strict=True
    )

    def work(index: int) -> bool:
        args = {"a": {"k": f"{index}"} if index % 2 else f"{index}"}
        return conversion.decode_call(conversion.encode_call(args, "1")).args == args

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(400)))


def offer(folder: Path, lines: str, module: str = "") -> None:
    """Put a distribution into a folder that offers adapters."""
    info = folder / "toolcrib_extra-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toolcrib-extra\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[toolcrib.adapters]\n{lines}\n")
    (folder / "toolcrib_extra.py").write_text(module)


MODULE = """
class Extra:
    name = "extra"
    def to_canonical(self, raw): ...
    def from_canonical(self, tool, **options): return tool.name
    def supports_feature(self, feature): return True
def broken(): raise RuntimeError("no licence")
def number(): return 5
class Twin(Extra):
    name = "openai"
"""


@pytest.fixture
def extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "toolcrib_extra", raising=False)
    return tmp_path


def test_an_installed_distribution_can_offer_an_adapter(extra: Path) -> None:
    offer(extra, "extra = toolcrib_extra:Extra", MODULE)
    registry = default_registry()
    assert "extra" in registry.names()
    assert registry.convert(RAW, source="mcp", target="extra").payload == "t"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x = toolcrib_extra:Missing", "cannot be loaded: AttributeError"),
        ("x = toolcrib_nowhere:Extra", "cannot be loaded: ModuleNotFoundError"),
        ("x = toolcrib_extra:broken", "cannot be loaded: RuntimeError: no licence"),
        ("x = toolcrib_extra:number", "int is not an adapter"),
        ("x = toolcrib_extra:Twin", "there is an adapter of that name"),
    ],
)
def test_an_offer_that_is_none_is_refused_with_its_reason(extra: Path, line: str, message: str) -> None:
    offer(extra, line, MODULE)
    with pytest.raises(ConversionError, match=message):
        default_registry()


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("openai", {"stric": True}, "there is no option 'stric'; did you mean 'strict'"),
        ("openai", {"zzz": True}, "there is no option 'zzz'; it takes api"),
        ("openai", {"api": "chatt"}, "api must be one of"),
        ("openai", {"api": ["chat"]}, "api must be one of"),
        ("openai", {"strict": "false"}, "strict"),
        ("openai", {"strict": 2}, "strict"),
        ("openai", {"namespace": True}, "pass api='responses'"),
        ("anthropic", {"api": "chat"}, "there is no option 'api'"),
        ("anthropic", {"examples": 5}, "examples"),
        ("anthropic", {"examples": [5]}, "ToolExample"),
        ("anthropic", {"cache_control": "yes"}, "cache_control"),
        ("gemini", {"style": "open-api"}, "style must be one of"),
        ("gemini", {"style": None}, "style must be one of"),
        ("mcp", {"strict": True}, "there is no option 'strict'"),
        ("a2a", {"strict": True}, "there is no option 'strict'"),
    ],
)
def test_an_option_that_there_is_not_or_may_not_be_so_is_refused(
    target: str, options: Any, message: str
) -> None:
    with pytest.raises(ConversionError, match=message):
        REGISTRY.convert(RAW, source="mcp", target=target, **options)


def test_native_fields_are_written_when_asked_for() -> None:
    options = {"defer_loading": True, "cache_control": True, "examples": [{"title": "x", "args": {"a": "x"}}]}
    payload = REGISTRY.convert(RAW, source="mcp", target="anthropic", **options).payload
    assert payload["defer_loading"] is True
    assert payload["cache_control"] == {"type": "ephemeral"}
    assert payload["input_examples"] == [{"a": "x"}]
    flat = REGISTRY.convert(RAW, source="mcp", target="openai", api="responses", defer_loading=True).payload
    assert flat["defer_loading"] is True


tool_names = st.text(min_size=1, max_size=90) | st.sampled_from(
    ["get issue", "get_issue", "get-issue", "9", "a.b", "a b", "x" * 200]
)
tools = st.lists(
    st.builds(
        lambda name, namespace: (
            {"name": name, "inputSchema": {"type": "object"}}
            | ({"namespace": namespace} if namespace else {})
        ),
        tool_names,
        st.sampled_from([None, "a", "b", "shop floor"]),
    ),
    max_size=12,
)


@pytest.mark.parametrize("target", LENGTHS)
@given(raws=tools)
def test_names_are_different_and_what_the_provider_takes(target: str, raws: list[dict[str, Any]]) -> None:
    found = REGISTRY.convert_many(raws, source="mcp", target=target)
    assert [conversion.name for conversion in found] == [
        one.name for one in REGISTRY.convert_many(raws, source="mcp", target=target)
    ]
    assert len({conversion.name for conversion in found}) == len(raws)
    for raw, conversion in zip(raws, found, strict=True):
        assert 0 < len(conversion.name) <= LENGTHS[target]
        if target != "mcp":  # where the characters are advice
            assert all(
                char.isascii() and (char.isalnum() or char in CHARACTERS[target]) for char in conversion.name
            )
        assert conversion.tool_id.endswith(raw["name"]) or raw["name"] in conversion.tool_id
        if conversion.name != raw["name"]:
            assert any(each.feature == "name" for each in conversion.warnings)


@pytest.mark.parametrize("target", LENGTHS)
@given(raws=tools, order=st.randoms(use_true_random=False))
def test_names_do_not_depend_on_the_order(target: str, raws: list[dict[str, Any]], order: Any) -> None:
    unique = list({(raw["name"], raw.get("namespace")): raw for raw in raws}.values())
    shuffled = list(unique)
    order.shuffle(shuffled)
    ours, theirs = (
        {one.tool_id: one.name for one in REGISTRY.convert_many(each, source="mcp", target=target)}
        for each in (unique, shuffled)
    )
    assert ours == theirs


def test_a_name_made_to_meet_another_is_still_its_own() -> None:
    twins = [RAW, RAW]
    for _ in range(3):
        found = [one.name for one in REGISTRY.convert_many(twins, source="mcp", target="openai")]
        assert len(set(found)) == len(found)
        taken = [RAW | {"name": name} for name in found if name != "t"]
        twins = [RAW, RAW, *taken] if len(taken) < 8 else twins
        names = [one.name for one in REGISTRY.convert_many(twins, source="mcp", target="openai")]
        assert len(set(names)) == len(names)
        Bundle(REGISTRY.convert_many(twins, source="mcp", target="openai"))


def test_a_tool_keeps_its_own_name_where_no_other_has_it() -> None:
    raws = [RAW | {"name": "find"}, RAW | {"name": "get issue"}]
    assert [one.name for one in REGISTRY.convert_many(raws, source="mcp", target="openai")] == [
        "find",
        "get_issue",
    ]
    same = [RAW | {"namespace": "a"}, RAW | {"namespace": "b"}]
    assert [one.name for one in REGISTRY.convert_many(same, source="mcp", target="openai")] == ["a_t", "b_t"]


def test_portability_tells_each_target() -> None:
    recursive = obj(n={"$ref": "#"})
    reports = portability({"name": "t", "inputSchema": recursive})
    assert list(reports) == list(TARGETS)
    assert reports["openai-strict"].accepted
    assert not reports["anthropic-strict"].accepted
    assert "refers back to itself" in reports["anthropic-strict"].problems[0].message
    assert not reports["mcp"].rewritten


def test_portability_of_what_is_no_tool_or_too_large_is_told() -> None:
    with pytest.raises(ToolcribError):
        portability({"name": "t"})
    deep: Any = {"type": "string"}
    for _ in range(120):
        deep = {"type": "array", "items": deep}
    reports = portability({"name": "t", "inputSchema": obj(a=deep)})
    assert reports["mcp"].accepted
    assert not reports["openai"].accepted
    assert "deep" in reports["openai"].problems[0].message


@pytest.mark.parametrize(
    ("name", "options", "feature", "supported"),
    [
        ("openai", {}, SchemaFeature.MIN_LENGTH, True),
        ("openai", {"strict": True}, SchemaFeature.ALL_OF, False),
        ("openai", {"strict": True, "api": "responses"}, SchemaFeature.ALL_OF, False),
        ("openai", {"strict": True}, SchemaFeature.ANY_OF, True),
        ("anthropic", {}, SchemaFeature.MAX_ITEMS, True),
        ("anthropic", {"strict": True}, SchemaFeature.MAX_ITEMS, False),
        ("gemini", {}, SchemaFeature.PREFIX_ITEMS, True),
        ("gemini", {"style": "openapi"}, SchemaFeature.PREFIX_ITEMS, False),
        ("gemini", {"style": "openapi"}, SchemaFeature.NULLABLE, True),
        ("mcp", {}, SchemaFeature.IF, True),
        ("a2a", {}, SchemaFeature.TYPE, False),
    ],
)
def test_supported_features_depend_on_the_mode(
    name: str, options: dict[str, Any], feature: SchemaFeature, supported: bool
) -> None:
    assert REGISTRY.get(name).supports_feature(feature, **options) is supported


@pytest.mark.parametrize("name", ["mcp", "openai", "anthropic", "gemini", "a2a"])
@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("patern", "'patern' is not a SchemaFeature; did you mean 'pattern'?"),
        ([], "'[]' is not a SchemaFeature"),
    ],
    ids=["misspelt", "of another type"],
)
def test_a_feature_that_does_not_exist_is_neither_supported_nor_not(
    name: str, feature: Any, message: str
) -> None:
    with pytest.raises(ConversionError, match=re.escape(message)):
        REGISTRY.get(name).supports_feature(feature)


REFERENCE = (
    "$ref $defs anyOf oneOf allOf not pattern format additionalProperties minimum maximum minLength maxLength enum "
    "const default title examples multipleOf minItems maxItems minProperties maxProperties uniqueItems nullable "
    "deprecated readOnly writeOnly"
)
"""The keywords that toolfoundation enumerates, in its order."""


@pytest.mark.requirement("adapter.features.reference")
def test_the_first_features_are_those_of_the_reference_in_its_order() -> None:
    assert [feature.value for feature in SchemaFeature][:28] == REFERENCE.split()


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_supported_keyword_is_in_the_strict_schema_that_is_written(name: str) -> None:
    adapter = REGISTRY.get(name)
    schema = {
        "type": "object",
        "properties": {"x": {"type": "array", "items": {"type": "string"}, "maxItems": 3}},
    }
    for strict in (False, True):
        written = adapter.from_canonical(CanonicalTool(name="t", input_schema=schema), strict=strict)
        kept = "'maxItems'" in repr(written)
        assert kept is adapter.supports_feature(SchemaFeature.MAX_ITEMS, strict=strict)


class Moody(Plain):
    """An adapter whose output depends on an option."""

    def supports_feature(self, feature: SchemaFeature, **options: Any) -> bool:
        return options.get("rich", False) or feature != SchemaFeature.MIN_LENGTH


def test_an_adapter_of_ones_own_is_asked_with_the_options_of_the_conversion() -> None:
    registry = AdapterRegistry([Moody(), McpAdapter()])
    tool = {"name": "t", "inputSchema": {"properties": {"a": {"minLength": 1}}}}
    assert registry.convert(tool, source="mcp", target="plain").warnings
    assert not registry.convert(tool, source="mcp", target="plain", rich=True).warnings

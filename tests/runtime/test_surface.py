"""Tools that code mentions, and the names by which it reaches them."""

from typing import Any

import pytest
from effort import at_most

from toolcrib import Crib
from toolcrib.model import LocalBackend, Tool
from toolcrib.runtime import Catalogue, GuestError
from toolcrib.runtime.surface import EmptyCatalogue, Surface, find_mentions


def crib_of(*ids: str, **fields: Any) -> Crib:
    crib = Crib()
    for text in ids:
        namespace, _, name = text.rpartition(":")
        schema = {"type": "object", "properties": {"b": {}, "a": {}}, "required": ["a"]}
        crib.add(
            Tool(
                name=name,
                namespace=namespace or None,
                input_schema=schema,
                backend=LocalBackend(name=text),
                **fields,
            )
        )
    return crib


def surface(code: str, *ids: str) -> Surface:
    return Surface(code, crib_of(*ids).code_names)


@pytest.mark.parametrize(
    ("code", "name", "attributes"),
    [
        ("await github.create_issue()", "github", {"create_issue"}),
        ("x.github.create_issue()", "x", {"github"}),
        ("github . create_issue()", "github", {"create_issue"}),
        ("(github\n.create_issue())", "github", set()),
        ("(github.\n  create_issue())", "github", {"create_issue"}),
        ("github.a; github.b", "github", {"a", "b"}),
        ("# github.comment", "github", {"comment"}),
        ("f'{github.a()}'", "github", {"a"}),
    ],
)
def test_find_mentions_returns_names_with_their_attributes(
    code: str, name: str, attributes: set[str]
) -> None:
    assert find_mentions(code)[name] == attributes


@pytest.mark.attack
@pytest.mark.parametrize(
    "code", ["a" * 1_000_000, "a." * 500_000, "a " * 500_000, "a" + " " * 1_000_000, "(" * 1_000_000]
)
def test_find_mentions_is_linear_for_hostile_code(code: str) -> None:
    with at_most(2.0):
        assert len(find_mentions(code)) <= 1


def test_surface_has_only_mentioned_names() -> None:
    seen = surface("await github.create_issue(title='x')", "github:create_issue", "github:close", "mail:send")
    assert seen.names == ("github",)
    assert list(seen.tools) == ["github.create_issue"]
    assert seen.functions == ("search_tools", "describe_tool", "run_tool", "run_chain")


@pytest.mark.parametrize(
    ("path", "reference"),
    [
        ("github.create_issue", "github:create_issue"),
        ("github.close", "github:close"),
        ("github.list_all", "github:list-all"),
        ("github.nothing", None),
        ("my_files.read", "my-files:read"),
        ("time.now", None),
        ("greet", "greet"),
        ("print_", "print"),
        ("print", None),
        ("other", None),
    ],
)
def test_resolve_returns_the_tool_of_a_name(path: str, reference: str | None) -> None:
    ids = (
        "github:create_issue",
        "github:close",
        "github:list-all",
        "my-files:read",
        "greet",
        "print",
        "other",
    )
    code = "github.create_issue(); my_files.read; greet(); print(1); print_(2)"
    seen = surface(code, *ids)
    if reference is None:
        with pytest.raises(GuestError):
            seen.resolve(path)
    else:
        assert seen.resolve(path) == reference


def test_parameters_are_in_the_order_of_the_signature() -> None:
    seen = surface("github.close(1); greet(2)", "github:close", "github:open", "greet")
    assert list(seen.parameters("github.close")) == ["a", "b"]
    assert list(seen.parameters("github.open")) == ["a", "b"]
    assert list(seen.parameters("greet")) == ["a", "b"]
    with pytest.raises(GuestError, match="has no tool 'nothing'"):
        seen.parameters("github.nothing")


def test_unknown_name_has_a_suggestion() -> None:
    seen = surface("github.create_isue()", "github:create_issue", "github:close")
    assert list(seen.tools) == ["github.create_issue"]
    with pytest.raises(GuestError) as caught:
        seen.resolve("github.create_isue")
    assert str(caught.value) == (
        "AttributeError: 'github' has no tool 'create_isue'; did you mean 'create_issue'?"
    )
    with pytest.raises(GuestError) as caught:
        seen.resolve("nobody")
    assert str(caught.value) == "NameError: name 'nobody' is not defined"


def test_undefined_name_of_a_tool_is_completed_by_its_namespace() -> None:
    seen = surface("create_issue()", "github:create_issue", "gitlab:create_issue", "shop:total")
    reason = "NameError: name 'create_issue' is not defined"
    assert seen.hint(reason) == "; did you mean 'github.create_issue' or 'gitlab.create_issue'?"
    assert seen.hint("name 'totl' is not defined") == ""


def test_colliding_names_get_identifiers_of_their_own() -> None:
    ids = ("shop:a-b", "shop:a_b", "shop:a.b")
    seen = surface("shop.a_b(); shop.a_b_2(); shop.a_b_3()", *ids)
    assert {seen.resolve(path) for path in ("shop.a_b", "shop.a_b_2", "shop.a_b_3")} == set(ids)
    assert seen.resolve("shop.a_b") == "shop:a_b"


def test_empty_catalogue_resolves_no_name() -> None:
    nothing = EmptyCatalogue()
    assert isinstance(nothing, Catalogue)
    seen = Surface("github.close(); x", nothing)
    assert (seen.names, seen.tools) == ((), {})
    with pytest.raises(GuestError):
        seen.resolve("github.close")


def test_code_names_follow_the_crib() -> None:
    crib = crib_of("shop:one")
    catalogue = crib.code_names
    assert isinstance(catalogue, Catalogue)
    assert catalogue.names("shop") == ("one",)
    crib.add(Tool(name="two", namespace="shop", input_schema={}, backend=LocalBackend(name="two")))
    assert catalogue.names("shop") == ("one", "two")
    assert catalogue.namespaces() == ("shop",)


def test_code_names_lists_a_large_namespace_once() -> None:
    crib = Crib()
    backend = LocalBackend(name="x")
    tools = [Tool(name=f"t{n}", namespace="shop", input_schema={}) for n in range(2_100)]
    versions = [Tool(name="t7", namespace="shop", version=f"1.{n}.0", input_schema={}) for n in range(3)]
    crib.discovery.register_many([(each, backend) for each in (*tools, *versions)])
    names = crib.code_names.names("shop")
    assert len(names) == len(set(names)) == 2_100


@pytest.mark.anyio
async def test_code_names_adds_the_learnt_output_schema() -> None:
    crib = Crib()

    @crib.add(namespace="shop")
    def order(number: int) -> Any:
        """Return an order."""
        return {"number": number, "total": 5.0}

    catalogue = crib.code_names
    assert catalogue.tools(["shop:order"])["shop:order"].output_schema is None
    await crib.run("shop:order", {"number": 1})
    learnt = catalogue.tools(["shop:order", "shop:nothing", "not an id"])
    assert list(learnt) == ["shop:order"]
    assert learnt["shop:order"].output_schema["properties"].keys() == {"number", "total"}

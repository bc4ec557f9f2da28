"""Cards of A2A agents, and providers as cards."""

import json
from pathlib import Path
from typing import Any

import pytest
from a2a.types import AgentCard
from adapter import oracles
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.adapter import card_from_provider, provider_from_card
from toolcrib.adapter.providers.agent_card import SCHEMAS_URI
from toolcrib.adapter.providers.mcp import McpAdapter
from toolcrib.errors import ConversionError
from toolcrib.model import CanonicalProvider, CanonicalTool

INTERFACE = {"url": "https://x.test", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
SKILL: dict[str, Any] = {"id": "s", "name": "S", "description": "d", "tags": ["t"]}
MINIMAL: dict[str, Any] = {
    "name": "a",
    "description": "d",
    "version": "1",
    "supportedInterfaces": [INTERFACE],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [SKILL],
}
FLOWS: list[dict[str, Any]] = [
    {
        "authorizationCode": {
            "authorizationUrl": "u",
            "tokenUrl": "u",
            "scopes": {"r": "read"},
            "pkceRequired": True,
        }
    },
    {"clientCredentials": {"tokenUrl": "u", "refreshUrl": "u", "scopes": {"r": ""}}},
    {"deviceCode": {"deviceAuthorizationUrl": "u", "tokenUrl": "u", "scopes": {"r": ""}}},
    {"implicit": {}},
    {"password": {"tokenUrl": "u", "scopes": {}}},
]
SCHEMES: list[dict[str, Any]] = [
    {"apiKeySecurityScheme": {"location": "header", "name": "X-Key", "description": "d"}},
    {"httpAuthSecurityScheme": {"scheme": "bearer", "bearerFormat": "JWT"}},
    {"openIdConnectSecurityScheme": {"openIdConnectUrl": "u"}},
    {"mtlsSecurityScheme": {}},
    *({"oauth2SecurityScheme": {"flows": flow, "oauth2MetadataUrl": "u"}} for flow in FLOWS),
]
NUMBER = {"type": "object", "properties": {"n": {"type": "number"}}}
TEXT = {"type": "string"}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
filled = texts.filter(bool)
scalars = st.none() | st.booleans() | st.integers(-99, 99) | texts
structs = st.dictionaries(texts, scalars | st.lists(scalars, max_size=2), max_size=3)
requirements = st.lists(
    st.sampled_from(
        [{}, {"schemes": None}, {"schemes": {"k": {"list": []}}}, {"schemes": {"k": {"list": ["r"]}}}]
    ),
    max_size=2,
)
skills = st.fixed_dictionaries(
    {"id": filled, "name": filled, "description": filled, "tags": st.lists(texts, min_size=1, max_size=2)},
    optional={"examples": st.none() | st.lists(texts), "securityRequirements": st.none() | requirements},
)
schema_params = st.fixed_dictionaries(
    {},
    optional={
        "skills": scalars
        | st.dictionaries(
            st.sampled_from(["s", "other"]),
            scalars
            | st.fixed_dictionaries(
                {}, optional={"inputSchema": scalars | st.just(NUMBER), "outputSchema": st.just(TEXT)}
            ),
        ),
        "more": scalars,
    },
)
extensions = st.fixed_dictionaries(
    {}, optional={"uri": texts, "description": texts, "required": st.booleans(), "params": structs}
) | st.fixed_dictionaries({"uri": st.just(SCHEMAS_URI)}, optional={"params": st.none() | schema_params})
capabilities = st.fixed_dictionaries(
    {},
    optional={
        "streaming": st.none() | st.booleans(),
        "pushNotifications": st.booleans(),
        "extendedAgentCard": st.booleans(),
        "extensions": st.none() | st.lists(extensions, max_size=2),
    },
)
cards = st.fixed_dictionaries(
    {
        "name": filled,
        "description": filled,
        "version": filled,
        "supportedInterfaces": st.lists(
            st.fixed_dictionaries(
                {"url": filled, "protocolBinding": filled, "protocolVersion": filled},
                optional={"tenant": texts},
            ),
            min_size=1,
            max_size=2,
        ),
        "capabilities": capabilities,
        "defaultInputModes": st.lists(texts, min_size=1, max_size=2),
        "defaultOutputModes": st.lists(texts, min_size=1, max_size=2),
        "skills": st.lists(st.just(SKILL) | skills, min_size=1, max_size=3),
    },
    optional={
        "provider": st.none() | st.fixed_dictionaries({"url": filled, "organization": filled}),
        "documentationUrl": st.none() | texts,
        "iconUrl": texts,
        "securitySchemes": st.none() | st.dictionaries(texts, st.sampled_from(SCHEMES), max_size=3),
        "securityRequirements": st.none() | requirements,
        "signatures": st.lists(
            st.fixed_dictionaries({"protected": filled, "signature": filled}, optional={"header": structs}),
            max_size=2,
        ),
    },
)


def provider_of(**fields: Any) -> CanonicalProvider:
    tool = CanonicalTool(
        name="t", input_schema={"type": "object"}, display_name="T", description="d", tags=("x",)
    )
    given: dict[str, Any] = {"name": "a", "description": "d", "version": "1", "skills": (tool,)} | fields
    return CanonicalProvider(**given)


def scheme_of(scheme: Any) -> tuple[Any, list[str]]:
    """Return the converted security scheme, and the warnings."""
    conversion = card_from_provider(provider_of(security_schemes={"k": scheme}), url="u")
    oracles.a2a_card(conversion.card)
    return conversion.card.get("securitySchemes", {}).get("k"), [
        f"{loss.part} {loss.path}: {loss.message}" for loss in conversion.warnings
    ]


@given(cards)
def test_a_card_comes_back_as_it_was(card: dict[str, Any]) -> None:
    oracles.a2a_card(card)
    conversion = card_from_provider(provider_from_card(card))
    assert conversion.card == card
    assert conversion.warnings == ()


@given(cards)
def test_a_card_comes_back_from_json_as_it_was(card: dict[str, Any]) -> None:
    provider = provider_from_card(json.dumps(card))
    again = CanonicalProvider.from_json(json.dumps(provider.to_json()))
    assert card_from_provider(again).card == card


def test_a_card_says_what_it_can_of_a_provider() -> None:
    card = MINIMAL | {
        "capabilities": {"streaming": True},
        "securitySchemes": {"k": SCHEMES[0]},
        "securityRequirements": [{"schemes": {"k": {"list": ["r"]}}}],
        "iconUrl": "https://x.test/i",
    }
    provider = provider_from_card(card)
    assert (provider.name, provider.description, provider.version) == ("a", "d", "1")
    assert (provider.capabilities, provider.security_schemes) == ({"streaming": True}, {"k": SCHEMES[0]})
    assert provider.security_requirements == ({"k": ["r"]},)
    assert provider.default_input_modes == provider.default_output_modes == ("text/plain",)
    assert [(tool.name, tool.display_name, tool.source_format) for tool in provider.skills] == [
        ("s", "S", "a2a")
    ]
    assert provider.source_format == "a2a"
    assert provider.source_meta == {"supportedInterfaces": [INTERFACE], "iconUrl": "https://x.test/i"}


def test_a_message_of_the_sdk_is_a_card_too() -> None:
    message = ParseDict(MINIMAL, AgentCard())
    assert provider_from_card(message) == provider_from_card(MINIMAL)


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ([], "a card is a JSON object, not list"),
        ({}, "it has no name; it has no description; it has no version; it has no supportedInterfaces"),
        (MINIMAL | {"supportedInterfaces": []}, "it has no supportedInterfaces"),
        (
            {"name": "a", "description": "d", "version": "1", "url": "u"},
            "it has no supportedInterfaces; convert a card of A2A 0.3 to 1.x first",
        ),
        (MINIMAL | {"capabilities": []}, "its capabilities must be an object"),
        (MINIMAL | {"defaultInputModes": "text"}, "its defaultInputModes must be a list of strings"),
        (
            MINIMAL | {"securityRequirements": [{"k": []}, 1]},
            "its securityRequirements must be a list of {'schemes': {name: {'list': [scope]}}}",
        ),
        (MINIMAL | {"skills": {}}, "its skills must be a list"),
        (
            MINIMAL | {"version": "", "skills": [SKILL, {}, 1]},
            "it has no version; /skills/1: the skill has no id; /skills/2: a skill is a JSON object, not int",
        ),
    ],
)
def test_malformed_card_is_refused_with_every_reason(card: Any, reason: str) -> None:
    with pytest.raises(ConversionError) as caught:
        provider_from_card(card)
    assert caught.value.reason.endswith(reason)
    assert (caught.value.adapter, caught.value.direction) == ("a2a", "to_canonical_provider")


def test_a_provider_that_never_was_a_card_becomes_one() -> None:
    conversion = card_from_provider(
        provider_of(), url="https://x.test", binding="GRPC", protocol_version="1.1"
    )
    assert conversion.card == {
        "name": "a",
        "description": "d",
        "version": "1",
        "supportedInterfaces": [
            {"url": "https://x.test", "protocolBinding": "GRPC", "protocolVersion": "1.1"}
        ],
        "capabilities": {},
        "defaultInputModes": ["application/json"],
        "defaultOutputModes": ["application/json"],
        "skills": [{"id": "t", "name": "T", "description": "d", "tags": ["x"]}],
    }
    assert conversion.warnings == ()
    oracles.a2a_card(conversion.card)


def test_everything_that_a_card_lacks_is_told_at_once() -> None:
    with pytest.raises(ConversionError) as caught:
        card_from_provider(CanonicalProvider(name="a"))
    assert str(caught.value) == (
        "a2a, from_canonical_provider: a card needs description, version, skills, supportedInterfaces (pass url=), "
        "which the provider does not have"
    )


def test_an_address_takes_the_place_of_those_that_a_card_had_and_voids_its_signatures() -> None:
    signed = MINIMAL | {"signatures": [{"protected": "p", "signature": "s"}]}
    conversion = card_from_provider(provider_from_card(signed), url="https://y.test")
    assert conversion.card == MINIMAL | {"supportedInterfaces": [INTERFACE | {"url": "https://y.test"}]}
    assert [loss.path for loss in conversion.warnings] == ["/signatures"]


def test_changed_fields_replace_those_of_the_source() -> None:
    provider = provider_from_card(MINIMAL | {"securitySchemes": {}, "securityRequirements": []})
    changed = provider.replace(
        name="b", security_schemes={"k": {"type": "mutualTLS"}}, security_requirements=({"k": []},)
    )
    assert card_from_provider(changed).card == MINIMAL | {
        "name": "b",
        "securitySchemes": {"k": {"mtlsSecurityScheme": {}}},
        "securityRequirements": [{"schemes": {"k": {}}}],
    }


@pytest.mark.parametrize(
    ("scheme", "written"),
    [
        (
            {"type": "apiKey", "in": "header", "name": "X-Key", "description": "d"},
            {"apiKeySecurityScheme": {"location": "header", "name": "X-Key", "description": "d"}},
        ),
        (
            {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            {"httpAuthSecurityScheme": {"scheme": "bearer", "bearerFormat": "JWT"}},
        ),
        (
            {"type": "openIdConnect", "openIdConnectUrl": "u"},
            {"openIdConnectSecurityScheme": {"openIdConnectUrl": "u"}},
        ),
        ({"type": "mutualTLS"}, {"mtlsSecurityScheme": {}}),
        *(
            ({"type": "oauth2", "flows": flow}, {"oauth2SecurityScheme": {"flows": flow}})
            for flow in FLOWS[:3]
        ),
        (
            {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "u", "scopes": {"r": ""}}}},
            {"oauth2SecurityScheme": {"flows": {"implicit": {"authorizationUrl": "u", "scopes": {"r": ""}}}}},
        ),
        (
            {"type": "oauth2", "flows": {"deviceAuthorization": FLOWS[2]["deviceCode"]}},
            {"oauth2SecurityScheme": {"flows": FLOWS[2]}},
        ),
        *((scheme, scheme) for scheme in SCHEMES),
    ],
)
def test_security_schemes_are_written_as_a2a_reads_them(scheme: Any, written: Any) -> None:
    assert scheme_of(scheme) == (written, [])


def test_one_flow_is_kept_and_the_others_are_told() -> None:
    flows = {**FLOWS[4], **FLOWS[1], "x/y": {}}
    written, lost = scheme_of({"type": "oauth2", "flows": flows, "x-more": 1})
    assert written == {"oauth2SecurityScheme": {"flows": FLOWS[1]}}
    assert lost == [
        "definition /securitySchemes/k/flows/password: is left out: in this format a scheme has one flow, which is clientCredentials",
        "definition /securitySchemes/k/flows/x~1y: is left out: in this format a scheme has one flow, which is clientCredentials",
        "definition /securitySchemes/k/x-more: has no place in this format, and is left out",
    ]


@pytest.mark.parametrize(
    ("scheme", "reason"),
    [
        (
            {"type": "basic"},
            "is of none of the kinds apiKey, http, oauth2, openIdConnect, mutualTLS, and is left out",
        ),
        ("basic", "is of none of the kinds apiKey, http, oauth2, openIdConnect, mutualTLS, and is left out"),
        (
            {"type": []},
            "is of none of the kinds apiKey, http, oauth2, openIdConnect, mutualTLS, and is left out",
        ),
        ({"type": "apiKey"}, "has no in and no name that A2A accepts, and is left out"),
        ({"type": "oauth2", "flows": 1}, "has no flows that A2A accepts, and is left out"),
        (
            {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "u", "scopes": {}}}},
            "has no flows that A2A accepts, and is left out",
        ),
    ],
)
def test_a_scheme_that_a_card_cannot_say_is_told(scheme: Any, reason: str) -> None:
    assert scheme_of(scheme) == (None, [f"definition /securitySchemes/k: {reason}"])


def test_capabilities_that_a_card_cannot_say_are_told() -> None:
    given = {
        "streaming": True,
        "pushNotifications": 1,
        "tools": {"listChanged": True},
        "extensions": [{"uri": "u"}],
    }
    conversion = card_from_provider(provider_of(capabilities=given), url="u")
    assert conversion.card["capabilities"] == {"streaming": True, "extensions": [{"uri": "u"}]}
    assert [loss.path for loss in conversion.warnings] == [
        "/capabilities/pushNotifications",
        "/capabilities/tools",
    ]
    oracles.a2a_card(conversion.card)


def test_source_meta_of_another_format_is_ignored() -> None:
    stray = provider_of(source_format="mcp", source_meta={"supportedInterfaces": [INTERFACE]})
    with pytest.raises(ConversionError, match="supportedInterfaces"):
        card_from_provider(stray)
    assert [loss.path for loss in card_from_provider(stray, url="u").warnings] == ["/supportedInterfaces"]


def test_losses_of_a_skill_have_their_place() -> None:
    tool = provider_of().skills[0]
    other = tool.replace(input_schema=NUMBER, output_schema=TEXT, timeout=1)
    conversion = card_from_provider(provider_of(skills=(tool, other)), url="u")
    assert [(loss.part, loss.path, loss.feature) for loss in conversion.warnings] == [
        ("definition", "/skills/1/name", "name"),
        ("definition", "/skills/1/outputSchema", "outputSchema"),
        ("definition", "/skills/1/timeout", "timeout"),
        ("input", "/skills/1/inputSchema", "properties"),
        ("input", "/skills/1/inputSchema", "type"),
        ("input", "/skills/1/inputSchema/properties/n", "type"),
        ("output", "/skills/1/outputSchema", "type"),
    ]


def test_tools_that_share_an_id_are_told_apart() -> None:
    tool = provider_of().skills[0]
    card = card_from_provider(provider_of(skills=(tool, tool, tool)), url="u").card
    assert len({skill["id"] for skill in card["skills"]}) == 3
    oracles.a2a_card(card)


def test_schemas_travel_in_an_extension_where_they_are_wanted() -> None:
    tool = provider_of().skills[0]
    other = tool.replace(name="u", input_schema=NUMBER, output_schema=TEXT)
    conversion = card_from_provider(provider_of(skills=(tool, other)), url="u", schemas=True)
    [extension] = conversion.card["capabilities"]["extensions"]
    assert extension["uri"] == SCHEMAS_URI
    assert extension["params"] == {"skills": {"u": {"inputSchema": NUMBER, "outputSchema": TEXT}}}
    assert conversion.warnings == ()
    oracles.a2a_card(conversion.card)
    back = provider_from_card(conversion.card)
    assert [(one.input_schema, one.output_schema) for one in back.skills] == [
        ({"type": "object"}, None),
        (NUMBER, TEXT),
    ]
    assert card_from_provider(back).card == conversion.card


def test_schemas_that_changed_since_are_said_in_the_extension_that_was_there() -> None:
    extension = {
        "uri": SCHEMAS_URI,
        "required": True,
        "params": {"skills": {"s": {"inputSchema": NUMBER}}, "more": 1},
    }
    card = MINIMAL | {"capabilities": {"extensions": [extension, {"uri": "u"}]}}
    provider = provider_from_card(card)
    changed = provider.replace(skills=(provider.skills[0].replace(output_schema=TEXT),))
    conversion = card_from_provider(changed)
    said = {"skills": {"s": {"inputSchema": NUMBER, "outputSchema": TEXT}}, "more": 1}
    assert conversion.card["capabilities"] == {"extensions": [extension | {"params": said}, {"uri": "u"}]}
    assert conversion.warnings == ()
    assert provider.capabilities == card["capabilities"]


def test_no_extension_is_written_where_there_is_nothing_to_say() -> None:
    assert card_from_provider(provider_of(), url="u", schemas=True).card["capabilities"] == {}


def test_a_schema_that_is_too_deep_is_an_error_about_its_skill() -> None:
    deep: dict[str, Any] = {"type": "array"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    tool = provider_of().skills[0].replace(input_schema=deep)
    with pytest.raises(ConversionError) as caught:
        card_from_provider(provider_of(skills=(tool,)), url="u")
    assert caught.value.reason.startswith("/skills/0: the input schema cannot be converted")
    assert caught.value.direction == "from_canonical_provider"


@pytest.mark.parametrize("schemas", [False, True])
def test_all_real_tools_fit_on_one_card(data: Path, schemas: bool) -> None:
    tools = tuple(map(McpAdapter().to_canonical, oracles.load_real_tools(data)))
    conversion = card_from_provider(provider_of(skills=tools), url="https://x.test", schemas=schemas)
    oracles.a2a_card(conversion.card)
    assert len({skill["id"] for skill in conversion.card["skills"]}) == len(tools)
    assert any(loss.part != "definition" for loss in conversion.warnings) is not schemas
    back = provider_from_card(conversion.card)
    assert card_from_provider(back).card == conversion.card
    if schemas:
        assert [tool.input_schema for tool in back.skills] == [tool.input_schema for tool in tools]
        assert [tool.output_schema for tool in back.skills] == [tool.output_schema for tool in tools]

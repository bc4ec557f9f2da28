"""Providers are kept by id, and found again."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from discovery.doubles import MemoryTexts, spoil

from toolcrib.discovery import ProviderStore
from toolcrib.errors import InvalidToolError, ProviderNotFoundError, StoreError
from toolcrib.model import CanonicalProvider, CanonicalTool

WEATHER = CanonicalProvider(name="weather", version="1.0.0", description="Forecasts.")
PLAIN = CanonicalProvider(name="plain")


def rich() -> CanonicalProvider:
    return CanonicalProvider(
        name="rich",
        capabilities={"streaming": [True]},
        security_requirements=({"key": ["read"]},),
        skills=(CanonicalTool(name="find", input_schema={"properties": {"a": {}}}),),
    )


def test_the_id_is_the_name_and_the_version() -> None:
    providers = ProviderStore()
    assert providers.register(WEATHER) == "weather:1.0.0"
    assert providers.register(PLAIN) == "plain"
    assert providers.register(PLAIN, "mine") == providers.register(PLAIN, id="mine") == "mine"
    assert providers.ids() == ("mine", "plain", "weather:1.0.0")
    assert providers.list() == (("mine", PLAIN), ("plain", PLAIN), ("weather:1.0.0", WEATHER))
    assert providers.get("weather:1.0.0") == WEATHER


def test_a_provider_may_be_given_as_json() -> None:
    providers = ProviderStore()
    providers.register({"name": "weather", "version": "1.0.0", "description": "Forecasts."})
    assert providers.get("weather:1.0.0") == WEATHER


def test_a_provider_replaces_the_one_with_its_id() -> None:
    providers = ProviderStore()
    providers.register(WEATHER)
    providers.register(WEATHER.replace(description="Rain."))
    assert [provider.description for _, provider in providers.list()] == ["Rain."]


def test_a_provider_can_be_removed() -> None:
    providers = ProviderStore()
    providers.register(WEATHER)
    providers.remove("weather:1.0.0")
    assert providers.list() == ()
    with pytest.raises(ProviderNotFoundError, match=r"no provider named 'weather:1\.0\.0'$"):
        providers.remove("weather:1.0.0")


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("wether:1.0.0", "no provider named 'wether:1.0.0'; did you mean 'weather:1.0.0'?"),
        ("zebra", "no provider named 'zebra'"),
        ("", "no provider named ''"),
        (None, "no provider named None"),
        (["weather"], "no provider named ['weather']"),
    ],
    ids=repr,
)
def test_what_is_unknown_is_not_found_with_the_nearest_one(wanted: Any, text: str) -> None:
    providers = ProviderStore()
    providers.register(WEATHER)
    for work in (providers.get, providers.remove):
        with pytest.raises(ProviderNotFoundError) as caught:
            work(wanted)
        assert str(caught.value) == text
        assert isinstance(caught.value, LookupError)


@pytest.mark.parametrize(
    ("provider", "wanted", "text"),
    [
        (5, None, "invalid CanonicalProvider: it must be a CanonicalProvider or a dict, not int"),
        ({}, None, "invalid CanonicalProvider: /name: is required"),
        (CanonicalProvider(name=" "), None, "invalid CanonicalProvider ' ': /name: must not be empty"),
        (CanonicalProvider(name=""), "x", "invalid CanonicalProvider '': /name: must not be empty"),
        (PLAIN, "", "invalid CanonicalProvider 'plain': /id: must be printable text, and not empty"),
        (PLAIN, "a\x00b", "invalid CanonicalProvider 'plain': /id: must be printable text, and not empty"),
        (PLAIN, "\ud800", "invalid CanonicalProvider 'plain': /id: must be printable text, and not empty"),
        (PLAIN, 5, "invalid CanonicalProvider 'plain': /id: must be text, not int"),
        (
            PLAIN,
            "x" * 513,
            "invalid CanonicalProvider 'plain': /id: must have at most 512 characters, not 513",
        ),
    ],
)
def test_what_is_no_provider_or_no_id_is_refused(provider: Any, wanted: Any, text: str) -> None:
    providers = ProviderStore()
    with pytest.raises(InvalidToolError) as caught:
        providers.register(provider, wanted)
    assert str(caught.value) == text
    assert providers.ids() == ()


def test_nothing_is_shared_with_the_store() -> None:
    providers = ProviderStore()
    given = rich()
    providers.register(given)
    for provider in (given, providers.get("rich"), dict(providers.list())["rich"]):
        spoil(
            [provider.capabilities, provider.skills[0].input_schema, provider.security_requirements[0]["key"]]
        )
    assert providers.get("rich") == rich()


def test_providers_are_read_back() -> None:
    texts = MemoryTexts()
    providers = ProviderStore(texts=texts)
    providers.register(rich())
    providers.register(WEATHER, "w")
    providers.register(PLAIN)
    providers.remove("plain")
    assert ProviderStore(texts=texts).list() == (("rich", rich()), ("w", WEATHER))


def test_what_could_not_be_kept_is_not_there() -> None:
    texts = MemoryTexts()
    providers = ProviderStore(texts=texts)
    providers.register(WEATHER)
    texts.is_full = True
    with pytest.raises(StoreError):
        providers.register(PLAIN)
    with pytest.raises(StoreError):
        providers.remove("weather:1.0.0")
    assert providers.ids() == ("weather:1.0.0",)


def test_what_cannot_be_read_is_named() -> None:
    texts = MemoryTexts()
    texts.kept["providers"] = {"w": "{}"}
    with pytest.raises(StoreError, match=r"what is kept for 'w' cannot be read: .*/name: is required"):
        ProviderStore(texts=texts)


def test_many_threads_register_and_list_at_once() -> None:
    providers = ProviderStore()

    def work(number: int) -> int:
        providers.register(PLAIN, f"p{number}")
        if number % 2:
            providers.remove(f"p{number}")
        return len(providers.list())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
    assert len(providers.ids()) == 100

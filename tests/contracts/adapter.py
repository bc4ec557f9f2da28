"""The contract of every adapter, whatever its format."""

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from naming import named

from toolcrib.adapter import Adapter, SchemaFeature
from toolcrib.errors import ConversionError
from toolcrib.model import CanonicalTool

SCHEMA = {
    "type": "object",
    "properties": {"q": {"type": "string"}, "n": {"type": ["integer", "null"], "default": None}},
    "required": ["q"],
}
GARBAGE: list[Any] = [
    None,
    5,
    [],
    "",
    "{",
    "[]",
    b"\xff",
    {},
    {"name": None},
    {"name": ""},
    {"name": 5},
    object(),
]


class AdapterContract:
    """Subclass it, and provide an adapter, and a definition in its format."""

    adapter: Adapter
    definition: Any

    def test_it_is_an_adapter_with_a_name(self) -> None:
        assert isinstance(self.adapter, Adapter)
        assert self.adapter.name

    def test_its_own_definition_comes_back_as_it_was(self) -> None:
        assert self.adapter.from_canonical(self.adapter.to_canonical(self.definition)) == self.definition

    def test_it_changes_nothing_that_it_is_given(self) -> None:
        given = copy.deepcopy(self.definition)
        read = self.adapter.to_canonical(given)
        kept = read.to_json()
        self.adapter.from_canonical(read)
        assert given == self.definition
        assert read.to_json() == kept

    def test_parsed_definition_shares_nothing_with_its_input(self) -> None:
        given = copy.deepcopy(self.definition)
        read = self.adapter.to_canonical(given)
        kept = read.to_json()
        _spoil(given)
        assert read.to_json() == kept

    def test_it_writes_any_canonical_tool_the_same_way_each_time(self) -> None:
        tool = CanonicalTool(name="find", namespace="shop", version="1.0.0", input_schema=SCHEMA, tags=("a",))
        with ThreadPoolExecutor(8) as pool:
            written = list(pool.map(lambda _: self.adapter.from_canonical(tool), range(32)))
        assert all(one == written[0] for one in written)

    @pytest.mark.parametrize("garbage", GARBAGE, ids=named)
    def test_invalid_definition_is_refused_with_a_reason(self, garbage: Any) -> None:
        with pytest.raises(ConversionError) as caught:
            self.adapter.to_canonical(garbage)
        assert (caught.value.adapter, caught.value.direction) == (self.adapter.name, "to_canonical")

    def test_it_says_of_every_keyword_whether_it_knows_it(self) -> None:
        assert {type(self.adapter.supports_feature(feature)) for feature in SchemaFeature} == {bool}

    def test_an_option_that_it_does_not_have_is_refused(self) -> None:
        with pytest.raises(ConversionError, match="strickt"):
            self.adapter.supports_feature(SchemaFeature.ONE_OF, strickt=True)


def _spoil(value: Any) -> None:
    """Change every object and every list in a value."""
    if isinstance(value, dict):
        for member in list(value.values()):
            _spoil(member)
        value["spoilt"] = True
    elif isinstance(value, list):
        for member in value:
            _spoil(member)
        value.append("spoilt")

"""Sections of the settings that are written in more than one way."""

import pytest

from toolcrib.crib.config.settings import Settings
from toolcrib.errors import ConfigError


def test_results_are_one_word_or_one_for_each_kind() -> None:
    assert Settings.from_json({"results": "redact"}).results.to_json() == dict.fromkeys(
        ("secrets", "personal", "instructions"), "redact"
    )
    assert Settings.from_json({"results": "off"}).results.to_json() == {}
    assert Settings.from_json({"results": {"secrets": "block"}}).results.to_json() == {"secrets": "block"}
    with pytest.raises(ConfigError, match="must be 'log', 'redact', 'block' or 'off'"):
        Settings.from_json({"results": "hide"})
    with pytest.raises(ConfigError, match="/results/secret"):
        Settings.from_json({"results": {"secret": "block"}})

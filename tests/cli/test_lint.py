"""The verb `lint`."""

import json
from typing import Any


def test_the_linter_finds_nothing_wrong_with_good_tools(toolcrib: Any, config: Any, little: Any) -> None:
    made = toolcrib("lint", "--config", config(little=little()), "--quiet", "little:get_pid", "--strict")
    assert (made.exit_code, made.stdout) == (0, "1 tool: 0 errors, 0 warnings, 0 notes\n")


def test_the_linter_groups_what_it_finds_by_tool(toolcrib: Any, config: Any, little: Any) -> None:
    file = config(little=little())
    made = toolcrib("lint", "--config", file)
    assert made.exit_code == 0
    said = "warning parameter-description /inputSchema/properties: nothing describes 'text'"
    assert f"little:shout\n  {said}; describe each parameter\n" in made.stdout
    assert toolcrib("lint", "--config", file, "--strict").exit_code == 1


def test_the_linter_asks_a_provider_and_writes_json(toolcrib: Any, config: Any, little: Any) -> None:
    args = ["lint", "--config", config(little=little()), "--json", "--target", "openai-strict"]
    found = json.loads(toolcrib(*args, "little:shout").stdout)
    assert (found["tools"], found["errors"], found["warnings"]) == (1, 0, 1)
    assert {each["toolId"] for each in found["findings"]} == {"little:shout"}


def test_a_tool_or_a_target_that_is_not_there_is_told(toolcrib: Any, config: Any, little: Any) -> None:
    file = config(little=little())
    assert toolcrib("lint", "little:shut", "--config", file).exit_code == 3
    made = toolcrib("lint", "--target", "openia", "--config", file)
    assert (made.exit_code, "did you mean 'openai'?" in made.stderr) == (2, True)


def test_an_empty_catalogue_is_told(toolcrib: Any, config: Any) -> None:
    made = toolcrib("lint", "--config", config())
    assert "there are no tools to look at" in made.stderr


def test_there_is_nothing_to_complain_about_in_the_demonstration(toolcrib: Any) -> None:
    assert toolcrib("--demo", "lint").stdout.endswith("12 tools: 0 errors, 0 warnings, 0 notes\n")


def test_light_schemas_of_servers_are_found_whether_or_not_they_can_be_served(
    toolcrib: Any, config: Any, little: Any
) -> None:
    file = config(little=little("light"))
    for _ in range(2):  # the second time, with what is kept of the first
        made = toolcrib("lint", "--config", file, "--json")
        assert made.exit_code == 1
        found = [each for each in json.loads(made.stdout)["findings"] if each["severity"] == "error"]
        assert [(each["toolId"], each["rule"]) for each in found] == [
            ("little:tag", "light-schema"),
            ("little:price", "refused"),
        ]
        assert "'float' is not a JSON Schema type" in found[1]["message"]
    assert toolcrib("lint", "--config", file, "little:shout").exit_code == 0

"""The verbs `search` and `list`."""

import json
import re
from typing import Any

import pytest

from toolcrib.discovery import LOW_CONFIDENCE

OFF_TOPIC = "which composer gave his symphony the title Eroica"
"""A question that no tool of the demonstration answers, though one shares a word with it."""


def test_the_tool_that_is_judged_more_likely_comes_first_where_others_are_as_near(toolcrib: Any) -> None:
    for question, first in (("read note", "notes:show"), ("show time", "time:current_time")):
        found = json.loads(toolcrib("--demo", "--json", "search", question).stdout)["tools"]
        assert found[0]["id"] == first
        assert found[0]["confidence"] == max(each["confidence"] for each in found)


@pytest.mark.parametrize("question", ["length today", "what time is it in Tokyo", "count", "read_note now"])
def test_a_search_shows_no_tool_with_more_confidence_than_the_one_above(toolcrib: Any, question: str) -> None:
    found = json.loads(toolcrib("--demo", "--json", "search", question).stdout)["tools"]
    confidences = [each["confidence"] for each in found]
    assert len(confidences) > 1
    assert confidences == sorted(confidences, reverse=True)


def test_a_search_shows_the_tools_that_fit_with_their_confidence(toolcrib: Any) -> None:
    found = toolcrib("--demo", "search", "convert", "miles", "to", "kilometres")
    assert found.exit_code == 0
    header, first = found.stdout.splitlines()[:2]
    assert header.split() == ["ID", "CONFIDENCE", "DESCRIPTION"]
    assert re.match(r"math:convert_length +0\.\d\d  +Convert a length", first)


def test_search_with_why_shows_the_parts_of_each_score(toolcrib: Any) -> None:
    shown = toolcrib("--demo", "search", "convert miles to kilometres", "--why", "--limit", "1")
    header, first, *parts = shown.stdout.splitlines()
    assert header.split() == ["ID", "SCORE", "WHY"]
    assert re.match(r"math:convert_length +\d+\.\d\d +confidence 0\.\d\d", first)
    assert any(re.match(r"  word +\+\d\.\d\d +'miles', weight \d\.\d\d in ", part) for part in parts)
    assert any(
        re.match(r"  meaning +\+\d\.\d\d +the meaning is similar, cosine 0\.\d\d", part) for part in parts
    )
    found = json.loads(toolcrib("--demo", "search", "convert miles", "--why", "--json").stdout)["tools"]
    for each in found:
        assert sum(reason["score"] for reason in each["why"]) == pytest.approx(each["score"], abs=1e-4)


def test_a_search_as_json_is_one_document(toolcrib: Any) -> None:
    found = json.loads(toolcrib("search", "miles to kilometres", "--json", "--demo", "--limit", "1").stdout)
    assert [tool["id"] for tool in found["tools"]] == ["math:convert_length"]
    assert {"score", "scoreType", "confidence", "shortDescription"} <= found["tools"][0].keys()
    listed = json.loads(toolcrib("list", "--json", "--demo").stdout)["tools"]
    assert all(str(tool).count(tool["shortDescription"]) == 1 for tool in [*found["tools"], *listed])


@pytest.mark.parametrize("args", [["--namespace", "time"], ["--tag", "nosuch"]], ids=["namespace", "tag"])
def test_a_search_can_be_narrowed(toolcrib: Any, args: list[str]) -> None:
    found = json.loads(toolcrib("search", "convert miles", "--json", "--demo", *args).stdout)
    assert not any(tool["id"].startswith("math:") for tool in found["tools"])


def test_that_nothing_fits_is_said_with_the_nearest_namespaces(toolcrib: Any) -> None:
    found = toolcrib("--demo", "search", "zzyzx")
    assert found.exit_code == 0
    assert found.stdout == "nothing fits 'zzyzx'; the namespaces are math, notes, text, time\n"


def test_a_threshold_leaves_only_what_is_near_to_name(toolcrib: Any) -> None:
    found = toolcrib("--demo", "search", "a length of time in days", "--min-confidence", "1")
    assert found.stdout.startswith("nothing fits 'a length of time in days'; the nearest namespaces are ")


def test_guesses_are_called_guesses(toolcrib: Any) -> None:
    found = toolcrib("--demo", "search", OFF_TOPIC)
    guesses = found.stdout.splitlines()[1:]
    assert [line for line in guesses if line.startswith("text:make_slug ")]
    assert all(float(line.split()[1]) <= LOW_CONFIDENCE for line in guesses)
    said = f"note: nothing clearly fits {OFF_TOPIC!r}, these are guesses; the nearest namespace"
    assert found.stderr.startswith(said)
    assert "text" in found.stderr.removeprefix(said)
    assert "nothing clearly fits" not in toolcrib("--demo", "search", "convert miles to kilometres").stderr


def test_a_guess_of_one_namespace_names_it_alone(toolcrib: Any) -> None:
    found = toolcrib("--demo", "search", OFF_TOPIC, "--namespace", "text")
    assert found.stderr.endswith("these are guesses; the nearest namespace is text\n")


def test_guesses_are_called_guesses_in_json(toolcrib: Any) -> None:
    found = json.loads(toolcrib("--demo", "--json", "search", OFF_TOPIC).stdout)
    assert found["tools"]
    assert found["note"].startswith("nothing clearly fits")


def test_that_nothing_fits_is_a_note_in_json(toolcrib: Any) -> None:
    found = json.loads(toolcrib("--demo", "--json", "search", "zzyzx").stdout)
    assert found["tools"] == []
    assert found["note"].startswith("nothing fits")


def test_an_empty_catalogue_is_called_empty_and_how_to_fill_it(toolcrib: Any) -> None:
    found = toolcrib("search", "anything")
    assert found.exit_code == 0
    assert found.stdout == "nothing fits 'anything'; the catalogue is empty\n"
    assert "no configuration" in found.stderr
    assert "--demo" in found.stderr


@pytest.mark.parametrize("words", [[""], [" ", "\t"]], ids=["empty", "blank"])
def test_an_empty_question_is_refused(toolcrib: Any, words: list[str]) -> None:
    found = toolcrib("--demo", "search", *words)
    assert [found.exit_code, found.stdout] == [2, ""]
    assert "the question is empty" in found.stderr


def test_a_long_question_is_not_repeated_whole(toolcrib: Any) -> None:
    found = toolcrib("--demo", "search", "zzyzx" * 1000, "--min-confidence", "0.05")
    assert "zzyzx..." in found.stdout
    assert len(found.stdout) < 200
    guessed = toolcrib("--demo", "search", "title" + " zzyzx" * 1000)
    assert "zz...', these are guesses" in guessed.stderr
    assert len(guessed.stderr) < 250


def test_a_list_is_in_the_order_of_the_ids(toolcrib: Any) -> None:
    lines = toolcrib("list", "--demo").stdout.splitlines()
    ids = [line.split()[0] for line in lines[1:]]
    assert len(ids) == 12
    assert ids == sorted(ids)
    assert not any("\t" in line or line != line.rstrip() for line in lines)


def test_a_list_as_json_tells_how_many_there_are(toolcrib: Any) -> None:
    found = json.loads(toolcrib("list", "--demo", "--json", "--limit", "2").stdout)
    assert [len(found["tools"]), found["total"]] == [2, 12]


def test_a_list_that_is_cut_says_how_much_is_missing(toolcrib: Any) -> None:
    assert "10 more; --all shows them" in toolcrib("list", "--demo", "--limit", "2").stderr
    assert "more" not in toolcrib("list", "--demo", "--limit", "2", "--all").stderr


@pytest.mark.parametrize(
    ("args", "count"),
    [
        (["--namespace", "notes"], 3),
        (["--tag", "demo"], 12),
        (["--backend", "local"], 12),
        (["--backend", "mcp"], 0),
    ],
    ids=["namespace", "tag", "backend", "other-backend"],
)
def test_a_list_can_be_narrowed(toolcrib: Any, args: list[str], count: int) -> None:
    assert json.loads(toolcrib("list", "--demo", "--json", *args).stdout)["total"] == count


def test_an_empty_list_says_so(toolcrib: Any) -> None:
    assert toolcrib("list", "--demo", "--backend", "mcp").stdout == "no tools\n"


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["--namespace", "mth"], "there is no namespace 'mth'; did you mean 'math'?"),
        (["--namespace", "shop"], "there is no namespace 'shop'; there are math, notes, text, time"),
        (["--tag", "dmo"], "there is no tag 'dmo'; did you mean 'demo'?"),
        (["--backend", "github"], "there is no backend 'github'; there are local, mcp, provider"),
    ],
    ids=["close", "far", "tag", "backend"],
)
def test_unknown_names_are_reported(toolcrib: Any, args: list[str], hint: str) -> None:
    assert toolcrib("list", "--demo", *args).stdout == f"no tools; {hint}\n"
    assert json.loads(toolcrib("list", "--demo", "--json", *args).stdout)["note"].endswith(hint)
    if "--backend" not in args:
        assert toolcrib("search", "days", "--demo", *args).stdout.endswith(f"; {hint}\n")


def test_search_and_list_answer_though_a_server_is_unavailable(
    toolcrib: Any, config: Any, little: Any
) -> None:
    path = config(good=little(), bad=little("fail"))
    found = toolcrib("search", "capital letters", "--config", path)
    assert found.exit_code == 0
    assert found.stdout.splitlines()[1].startswith("good:shout")
    listed = toolcrib("list", "--config", path, "--json", "--namespace", "bad")
    assert listed.exit_code == 0
    assert json.loads(listed.stdout)["total"] == 0
    for answer in (found, listed):
        assert "server 'bad' is unavailable" in answer.stderr
        assert "the licence has expired" in answer.stderr
    (absent,) = json.loads(listed.stdout)["absent"]
    assert {name: absent[name] for name in ("name", "state", "kept")} == {
        "name": "bad",
        "state": "failed",
        "kept": False,
    }


def test_a_server_that_was_missed_before_is_told(toolcrib: Any, config: Any, little: Any) -> None:
    path = config(good=little(), bad=little("fail"))
    toolcrib("list", "--config", path)
    again = toolcrib("list", "--config", path, "--json")
    (absent,) = json.loads(again.stdout)["absent"]
    assert absent["name"] == "bad"
    assert "server 'bad' " in again.stderr
    assert "its tools are missing" in again.stderr
    assert "absent" not in json.loads(
        toolcrib("list", "--config", path, "--json", "--namespace", "good").stdout
    )


def test_an_api_is_called_an_api(toolcrib: Any, tmp_path: Any) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text('[openapi.shop]\ndocument = "nosuch.json"\n')
    assert "API 'shop' is unavailable" in toolcrib("list", "--config", str(path)).stderr


def test_a_toolset_hides_the_rest(toolcrib: Any, tmp_path: Any) -> None:
    path = tmp_path / "toolcrib.toml"
    path.write_text('[toolsets.sums]\nnamespaces = ["math"]\n')
    common = ("--demo", "--config", str(path), "--toolset", "sums")
    assert json.loads(toolcrib(*common, "--json", "list").stdout)["total"] == 3
    assert toolcrib(*common, "run", "text:make_slug", "title=a").exit_code == 3
    wrong = toolcrib("--demo", "--config", str(path), "list", "--toolset", "sumz")
    assert wrong.exit_code == 2
    assert "did you mean 'sums'?" in wrong.stderr

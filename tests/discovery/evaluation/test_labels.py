import json
from pathlib import Path

import pytest

from toolcrib.discovery.evaluation import EvaluationCatalogue, ToolLine, load_queries, load_set, load_tools
from toolcrib.discovery.evaluation.catalogue import compiles
from toolcrib.errors import InvalidToolError
from toolcrib.model import DefaultValidator, Tool


def write(folder: Path, *lines: object, name: str = "tools.jsonl") -> Path:
    file = folder / name
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text(text, encoding="utf-8")
    return file


def problems(error: pytest.ExceptionInfo[InvalidToolError]) -> list[str]:
    return [problem.message for problem in error.value.problems]


def test_a_line_becomes_a_tool(tmp_path: Path) -> None:
    line = {
        "id": "t1",
        "name": "drill",
        "namespace": "shop",
        "description": "Make a hole.",
        "inputSchema": {"type": "object", "properties": {"size": {"type": "number"}}},
        "tags": ["Power Tools"],
        "category": "wood",
        "src": "elsewhere",
    }
    (tool,) = load_tools(write(tmp_path, line)).tools
    assert tool == Tool(
        name="drill",
        namespace="shop",
        description="Make a hole.",
        input_schema={"type": "object", "properties": {"size": {"type": "number"}}},
        tags=["power-tools"],
        meta={"category": "wood"},
    )


def test_a_line_may_say_little(tmp_path: Path) -> None:
    catalogue = load_tools(write(tmp_path, {"id": "x", "name": "add", "description": None}, "", "  "))
    assert catalogue.tools == (Tool(name="add", input_schema={"type": "object"}),)


def test_tools_are_judged_under_the_ids_of_the_labels(tmp_path: Path) -> None:
    lines = [
        {"id": "@a/b:nasa/apod", "name": "nasa/apod", "namespace": "@a/b"},
        {"id": "plain", "name": "plain"},
    ]
    catalogue = load_tools(write(tmp_path, *lines))
    assert catalogue.labels == {"a_b:nasa_apod": "@a/b:nasa/apod", "plain": "plain"}
    assert catalogue.ids == {"@a/b:nasa/apod": "a_b:nasa_apod", "plain": "plain"}


def test_tools_that_share_a_name_stay_apart() -> None:
    lines = [
        ToolLine(id=key, name="search", namespace=space) for key, space in zip("abcd", "xxxy", strict=True)
    ]
    catalogue = EvaluationCatalogue.of_lines(lines)
    assert len(catalogue.labels) == len({str(tool.id) for tool in catalogue.tools}) == 4
    assert catalogue.ids["a"] == "x:search"
    assert catalogue.ids["b"].startswith("x:search-")
    assert catalogue.ids["d"] == "y:search"


def test_words_that_have_no_place_in_a_name_are_kept_as_the_title() -> None:
    weather, apod = EvaluationCatalogue.of_lines(
        [ToolLine(id="1", name="天气"), ToolLine(id="2", name="nasa/apod")]
    ).tools
    assert (weather.name, weather.title) == ("tool", "天气")
    assert apod.title is None


def test_a_catalogue_of_tools_calls_them_by_their_own_ids() -> None:
    catalogue = EvaluationCatalogue.of(
        [Tool(name="drill", namespace="shop", version="1.0.0", input_schema={})]
    )
    assert catalogue.labels == catalogue.ids == {"shop:drill:1.0.0": "shop:drill:1.0.0"}


def test_schemas_are_repaired_and_counted_only_on_request(tmp_path: Path) -> None:
    good = {"id": "good", "name": "good", "inputSchema": {"type": "object"}}
    bad = {"id": "bad", "name": "bad", "inputSchema": {"type": "dict"}}
    file = write(tmp_path, good, bad)
    strict, lenient = load_tools(file), load_tools(file, lenient=True)
    assert (strict.repaired, strict.tools[1].input_schema) == (0, {"type": "dict"})
    assert (lenient.repaired, lenient.tools[1].input_schema) == (1, {"type": "object"})


def test_every_bad_line_is_told_with_its_number(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        {"id": "a", "name": "add"},
        "{not json",
        {"id": "b"},
        "[1]",
        {"id": "a", "name": "again"},
        {"id": "c", "name": "", "tags": "x", "inputSchema": []},
    )
    with pytest.raises(InvalidToolError, match=r"invalid file of tools '.*tools\.jsonl': line 2: ") as caught:
        load_tools(file)
    said = problems(caught)
    assert said[0].startswith("line 2: it is not JSON")
    assert said[1:] == [
        "line 3: /name: is required",
        "line 4: it must be a JSON object, not list",
        "line 5: the id 'a' is on an earlier line too",
        "line 6: /name: must not be empty",
        "line 6: /inputSchema: must be an object",
        "line 6: /tags: must be an array",
    ]


def test_a_file_of_rubbish_is_not_read_to_its_end(tmp_path: Path) -> None:
    with pytest.raises(InvalidToolError) as caught:
        load_tools(write(tmp_path, *["rubbish"] * 100))
    assert len(problems(caught)) == 32


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tools.jsonl").write_bytes(b'{"id": "\xff"}\n')
    with pytest.raises(InvalidToolError, match="line 1: it is not JSON"):
        load_tools(tmp_path / "tools.jsonl")


def test_a_question_without_an_id_gets_the_number_of_its_line(tmp_path: Path) -> None:
    lines = [
        {"query": "a hole", "relevant": ["drill"]},
        "",
        {"qid": "q", "query": "cut", "relevant": ["saw"]},
    ]
    first, second = load_queries(write(tmp_path, *lines, name="queries.jsonl"))
    assert (first.qid, first.query, first.relevant) == ("1", "a hole", ("drill",))
    assert second.qid == "q"


def test_questions_are_refused_with_all_their_problems(tmp_path: Path) -> None:
    lines = [
        {"query": "", "relevant": ["drill"]},
        {"query": "cut", "relevant": []},
        {"query": "boil", "relevant": ["kettle", "drill", "pot"]},
    ]
    file = write(tmp_path, *lines, name="queries.jsonl")
    with pytest.raises(InvalidToolError, match="invalid file of questions") as caught:
        load_queries(file, known={"drill"})
    assert problems(caught) == [
        "line 1: /query: must not be empty",
        "line 2: /relevant: must name at least one tool",
        "line 3: there is no tool with the id 'kettle'",
        "line 3: there is no tool with the id 'pot'",
    ]


def test_a_set_is_a_folder(tmp_path: Path) -> None:
    write(tmp_path, {"id": "drill", "name": "drill"})
    write(tmp_path, {"query": "a hole", "relevant": ["drill"]}, name="queries.jsonl")
    labelled = load_set(tmp_path, name="shop")
    assert (labelled.name, len(labelled.catalogue.tools), len(labelled.queries)) == ("shop", 1, 1)
    assert load_set(tmp_path).name == tmp_path.name


REPAIRED = {
    "tests": {"metatool_single": 0, "bfcl": 3, "sealtools_dev": 0},
    "shared": {"metatool_single": 0, "bfcl": 0, "sealtools_dev": 4},
}
"""The number of schemas of each set that do not compile, by the folder that holds it."""
SIZES = {
    "tests": {"scale_toolsdk": 25, "scale_docker": 12},
    "shared": {"scale_toolsdk": 7_747, "scale_docker": 755},
}
"""The number of tools in each list."""


@pytest.mark.parametrize("name", ["metatool_single", "bfcl", "sealtools_dev"])
def test_real_sets_load_and_what_does_not_compile_is_repaired(data: Path, name: str) -> None:
    folder = data / "retrieval" / name
    labelled = load_set(folder, lenient=True)
    assert len(labelled.catalogue.ids) == len(labelled.catalogue.tools)
    written = load_tools(folder / "tools.jsonl").tools
    changed = [
        kept
        for kept, tool in zip(labelled.catalogue.tools, written, strict=True)
        if kept.input_schema != tool.input_schema
    ]
    assert len(changed) == labelled.catalogue.repaired == REPAIRED[data.parent.name][name]
    assert all(compiles(tool.input_schema, DefaultValidator()) for tool in changed)


@pytest.mark.parametrize("name", ["scale_toolsdk", "scale_docker"])
def test_real_tools_under_any_name_load(data: Path, name: str) -> None:
    catalogue = load_tools(data / "retrieval" / name / "tools.jsonl", lenient=True)
    assert (
        len(catalogue.ids) == len(catalogue.labels) == len(catalogue.tools) == SIZES[data.parent.name][name]
    )

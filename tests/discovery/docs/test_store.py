"""Documentation is returned at the requested level, of the tool that is meant."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from discovery.doubles import Shelf, spoil

from toolcrib.discovery import DetailLevel, DocEntry, DocStore
from toolcrib.errors import (
    ArgsTooLargeError,
    InvalidToolError,
    InvalidToolIdError,
    ToolNotFoundError,
    ValidationError,
)
from toolcrib.model import SchemaInfo, Tool, ToolAnnotations, ToolDoc, ToolExample, ToolId

META = {
    "inputModes": ["text"],
    "outputModes": ["json"],
    "securityRequirements": [{"oauth": []}, {"key": []}, {"oauth": []}],
}
LOG = Tool(
    name="log",
    namespace="git",
    version="1.2.0",
    description="Show the history of a branch.",
    input_schema={"properties": {"n": {"type": "integer", "default": 5}}, "required": ["n"]},
    annotations=ToolAnnotations(read_only_hint=True, own=[1]),
    meta=META,
)
OLD = LOG.replace(version="1.0.0", description="Show a bit of history.")
ADD = Tool(name="add", input_schema={"type": "object"})
EXAMPLES = tuple(ToolExample(title=f"No. {number}", args={"n": [number]}) for number in range(15))
DOC = {"summary": "Read the log.", "notes": "Newest first.", "external_refs": ["https://git.test"]}


class Table(Shelf):
    """Looks a tool up by its name."""

    def __init__(self, tools: list[Tool]) -> None:
        super().__init__()
        self.named = {tool.name: tool for tool in tools}

    def resolve(self, ref: str | ToolId) -> Tool:
        return self.named[str(ref)]


def shelf() -> Shelf:
    return Shelf(OLD, LOG, ADD)


def documented_store(**options: Any) -> DocStore:
    docs = DocStore(shelf(), **options)
    docs.register_doc("git:log", DOC, examples=EXAMPLES)
    return docs


FACTS = {
    "summary": "Read the log.",
    "inputModes": ["text"],
    "outputModes": ["json"],
    "securitySummary": "key, oauth",
    "annotations": {"readOnlyHint": True, "own": [1]},
}
SCHEMA = {
    "tool": LOG.to_json(),
    "schemaInfo": {
        "required": ["n"],
        "types": {"n": ["integer"]},
        "phrases": {"n": "integer"},
        "defaults": {"n": 5},
    },
}
FULL = {
    "notes": "Newest first.",
    "examples": [example.to_json() for example in EXAMPLES[:10]],
    "externalRefs": ["https://git.test"],
}


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("summary", FACTS),
        (DetailLevel.SUMMARY, FACTS),
        ("schema", FACTS | SCHEMA),
        ("full", FACTS | SCHEMA | FULL),
        (DetailLevel.FULL, FACTS | SCHEMA | FULL),
    ],
)
def test_each_level_tells_more(level: str, told: dict[str, Any]) -> None:
    assert documented_store().describe("git:log", level).to_json() == told


def test_the_summary_is_told_where_nothing_else_is_asked_for() -> None:
    doc = documented_store().describe("git:log:1.2.0")
    assert doc.to_json() == FACTS
    assert (doc.tool, doc.schema_info, doc.notes, doc.examples) == (None, None, None, ())


def test_a_tool_nobody_wrote_about_speaks_for_itself() -> None:
    doc = DocStore(shelf()).describe("git:log", "full")
    assert doc.summary == "Show the history of a branch."
    assert doc.tool == LOG
    assert (doc.notes, doc.examples, doc.external_refs) == (None, (), ())


@pytest.mark.parametrize(
    ("fields", "summary"),
    [
        ({"description": "At length."}, "At length."),
        ({"description": "At length.", "meta": {"summary": "In short."}}, "In short."),
        ({"description": "x" * 500}, "x" * 199 + "…"),
        ({}, ""),
    ],
)
def test_a_summary_that_nobody_wrote_comes_from_the_tool(fields: dict[str, Any], summary: str) -> None:
    tool = Tool(name="add", input_schema={}, **fields)
    assert DocStore(Shelf(tool)).describe("add").summary == summary


def test_a_tool_without_words_is_told_by_how_its_notes_begin() -> None:
    docs = DocStore(Shelf(ADD))
    docs.register_doc("add", notes="Adds.\n\n" + "word " * 100)
    assert docs.describe("add").summary.startswith("Adds. word word")
    assert len(docs.describe("add").summary) <= 200


def test_a_schema_without_properties_has_an_empty_glance() -> None:
    assert DocStore(shelf()).describe("add", "schema").schema_info == SchemaInfo()


@pytest.mark.parametrize(
    "spelling",
    ["git:log:1.2.0", "git:log:v1.2.0", "git:log:1.2.0+b5", ToolId("git", "log", "v1.2.0")],
    ids=str,
)
def test_one_id_may_be_written_in_many_ways(spelling: str | ToolId) -> None:
    docs = DocStore()
    docs.register_doc(spelling, summary="S")
    for other in ("git:log:1.2.0", "git:log:v1.2.0", ToolId.parse("git:log:1.2.0+other")):
        assert docs.describe(other).summary == "S"
    docs.forget("git:log:v1.2.0")
    with pytest.raises(ToolNotFoundError):
        docs.describe(spelling)


def test_an_id_without_a_version_means_what_it_resolves_to() -> None:
    docs = DocStore(shelf())
    assert docs.describe("git:log", "schema").tool == LOG
    assert docs.describe("git:log:1.0.0", "schema").tool == OLD
    assert docs.describe("git:log:<1.1", "schema").tool == OLD
    assert docs.describe(ToolId("git", "log"), "schema").tool == LOG


def test_documentation_of_a_version_overrides_that_of_all_versions() -> None:
    docs = documented_store()
    docs.register_doc("git:log:1.0.0", summary="Read a bit.")
    docs.register_examples("git:log:1.0.0", EXAMPLES[3:4])
    old = docs.describe("git:log:1.0.0", "full")
    assert (old.summary, old.examples, old.notes) == ("Read a bit.", EXAMPLES[3:4], "Newest first.")
    assert docs.describe("git:log:^1.0.0 <1.1").summary == "Read a bit."
    assert docs.describe("git:log").summary == docs.describe("git:log:1.2.0").summary == "Read the log."


def test_the_doc_of_a_tool_without_a_namespace_is_found_by_its_name() -> None:
    tool = ADD.replace(version="1.0.0", description="Add.")
    docs = DocStore(Shelf(tool))
    docs.register_doc(tool.id, summary="Sum up.")
    assert docs.describe("add").summary == docs.describe(tool.id).summary == "Sum up."


def test_a_doc_replaces_the_one_before() -> None:
    docs = documented_store()
    docs.register_doc("git:log", ToolDoc(summary="Anew."))
    assert docs.describe("git:log", "full").to_json() == FACTS | SCHEMA | {"summary": "Anew."}


def test_examples_replace_examples_and_nothing_else() -> None:
    docs = documented_store()
    docs.register_examples("git:log", [{"title": "Only", "args": {}}])
    doc = docs.describe("git:log", "full")
    assert [example.title for example in doc.examples] == ["Only"]
    assert (doc.summary, doc.notes) == ("Read the log.", "Newest first.")


def test_deleted_documentation_is_not_shown() -> None:
    docs = documented_store()
    docs.forget("git:log")
    docs.forget("never:heard")
    assert docs.describe("git:log").summary == "Show the history of a branch."


@pytest.mark.parametrize(
    ("shown", "limit", "count"),
    [(10, None, 10), (10, 3, 3), (10, 0, 0), (10, 99, 10), (0, None, 0), (None, None, 15), (None, 12, 12)],
)
def test_no_more_examples_are_shown_than_asked_for(shown: int | None, limit: int | None, count: int) -> None:
    docs = documented_store(max_examples=shown)
    assert docs.examples("git:log", limit) == docs.examples("git:log", max=limit) == EXAMPLES[:count]
    assert len(docs.describe("git:log", "full").examples) == len(docs.examples("git:log"))


def test_a_tool_without_examples_has_none() -> None:
    assert DocStore(shelf()).examples("add") == ()


@pytest.mark.parametrize("count", [-1, 1.5, True, "3"], ids=repr)
def test_a_count_that_is_none_is_refused(count: Any) -> None:
    docs = documented_store()
    with pytest.raises(ValidationError, match="max must be a whole number from 0, or None, not"):
        docs.examples("git:log", count)
    with pytest.raises(ValidationError, match="max_examples must be a whole number from 0, or None, not"):
        DocStore(max_examples=count)


@pytest.mark.parametrize("docs", [DocStore(), DocStore(Shelf(ADD))], ids=["alone", "with a resolver"])
def test_a_tool_that_is_only_documented_has_a_summary_and_examples(docs: DocStore) -> None:
    docs.register_doc("git:log:1.2.0", DOC, examples=EXAMPLES[:2])
    assert docs.describe("git:log:1.2.0").to_json() == {"summary": "Read the log."}
    assert docs.examples("git:log:1.2.0") == EXAMPLES[:2]
    for level in ("schema", "full"):
        with pytest.raises(
            ToolNotFoundError, match=r"no tool named 'git:log:1\.2\.0'; only documentation is reg"
        ):
            docs.describe("git:log:1.2.0", level)


def test_a_version_that_is_known_not_to_exist_is_not_told_of() -> None:
    docs = documented_store()
    with pytest.raises(ToolNotFoundError):
        docs.describe("git:log:9.0.0")
    alone = DocStore()
    alone.register_doc("git:log", DOC)
    assert alone.describe("git:log:9.0.0").summary == "Read the log."


def test_a_tool_that_nobody_knows_is_not_found_with_the_suggestions_of_the_resolver() -> None:
    docs = DocStore(shelf())
    for ask in (docs.describe, docs.examples):
        with pytest.raises(ToolNotFoundError) as caught:
            ask("git:lgo")
        assert caught.value.suggestions == ("git:log:1.0.0",)


def test_a_doc_that_nobody_wrote_is_not_found_with_the_nearest_one() -> None:
    docs = DocStore()
    docs.register_doc("git:log:1.0.0", DOC)
    docs.register_doc("git:blame", DOC)
    with pytest.raises(ToolNotFoundError, match="did you mean 'git:blame'"):
        docs.describe("git:blmae")
    with pytest.raises(ToolNotFoundError, match=r"did you mean 'git:log:1\.0\.0'"):
        docs.examples("git:log")
    with pytest.raises(ToolNotFoundError, match=r"no tool named 'zebra'$"):
        docs.describe("zebra")


@pytest.mark.parametrize("tool_id", ["", "a::b", "a:b:c:d", "a:b:^1.0", "a b", None, 5], ids=repr)
def test_malformed_id_is_refused(tool_id: Any) -> None:
    docs = DocStore()
    for work in (docs.describe, docs.examples, docs.forget, docs.register_doc):
        with pytest.raises(InvalidToolIdError):
            work(tool_id)
    with pytest.raises(InvalidToolIdError):
        docs.register_examples(tool_id, ())
    with pytest.raises(InvalidToolIdError):
        docs.observe(tool_id, 1)


@pytest.mark.parametrize("tool_id", [None, 5], ids=repr)
def test_the_resolver_is_not_asked_about_what_is_no_text(tool_id: Any) -> None:
    asked = shelf()
    with pytest.raises(InvalidToolIdError):
        DocStore(asked).describe(tool_id)
    assert asked.asked == []


def test_a_constraint_that_nothing_meets_is_not_found() -> None:
    with pytest.raises(ToolNotFoundError, match=r"git:log:\^9"):
        documented_store().describe("git:log:^9", "schema")


def test_no_level_is_no_level() -> None:
    with pytest.raises(ValidationError, match="did you mean 'schema'"):
        documented_store().describe("git:log", "shema")


def test_refused_documentation_changes_nothing() -> None:
    docs = documented_store()
    before = docs.describe("git:log", "full")
    with pytest.raises(ArgsTooLargeError):
        docs.register_doc("git:log", summary="New.", examples=[{"args": {"a": [0] * 60}}])
    with pytest.raises(ArgsTooLargeError):
        docs.register_examples("git:log", [{"args": {}}, {"args": {"a": [0] * 60}}])
    with pytest.raises(InvalidToolError):
        docs.register_doc("git:log", summary="New.", notes=5)
    with pytest.raises(InvalidToolError):
        docs.register_examples("git:log", [{"args": {}}, {"args": []}])
    assert docs.describe("git:log", "full") == before


def test_store_copies_registered_documentation() -> None:
    args: dict[str, Any] = {"n": [1]}
    refs = ["https://git.test"]
    example = ToolExample(args=args)
    entry = DocEntry(examples=(example,), external_refs=tuple(refs))
    docs = DocStore(shelf())
    docs.register_doc("git:log", entry)
    docs.register_doc("add", {"examples": [{"args": args}], "external_refs": refs})
    spoil([args, example.args, entry.examples[0].args, refs])
    for tool_id in ("git:log", "add"):
        assert docs.examples(tool_id)[0].args == {"n": [1]}
        assert docs.describe(tool_id, "full").external_refs == ("https://git.test",)


def test_described_documentation_is_a_copy() -> None:
    docs = documented_store()
    docs.observe("git:log", {"a": [1]})
    before = docs.describe("git:log", "full").to_json()
    told = docs.describe("git:log", "full")
    assert told.tool is not None
    assert told.schema_info is not None
    assert told.observed_output is not None
    spoil(
        [
            told.tool.input_schema,
            told.tool.meta,
            told.schema_info.defaults,
            told.schema_info.types,
            told.schema_info.phrases,
        ]
    )
    spoil([told.examples[0].args, docs.examples("git:log")[0].args, told.observed_output.json_schema])
    for annotations in (told.annotations, told.tool.annotations):
        spoil((annotations.model_extra or {})["own"] if annotations else None)
    assert docs.describe("git:log", "full").to_json() == before
    assert LOG.to_json() == SCHEMA["tool"]


def test_a_changed_definition_is_told_anew() -> None:
    tools = shelf()
    docs = DocStore(tools)
    assert docs.describe("git:log", "schema").schema_info == SchemaInfo(
        required=("n",), types={"n": ("integer",)}, phrases={"n": "integer"}, defaults={"n": 5}
    )
    tools.tools.append(LOG.replace(input_schema={"properties": {"all": {"type": "boolean"}}}))
    assert docs.describe("git:log", "schema").schema_info == SchemaInfo(
        types={"all": ("boolean",)}, phrases={"all": "boolean"}
    )


def test_more_tools_than_are_remembered_are_told_as_well() -> None:
    tools = [Tool(name=f"t{number}", input_schema={"required": [f"r{number}"]}) for number in range(2_060)]
    docs = DocStore(Table(tools))
    for number in [*range(2_060), 0]:
        assert docs.describe(f"t{number}", "schema").schema_info == SchemaInfo(required=(f"r{number}",))


def test_output_shape_is_learnt_without_an_output_schema() -> None:
    docs = DocStore(shelf())
    assert docs.describe("git:log", "schema").observed_output is None
    assert docs.observe("git:log", {"commits": [{"id": "a"}]})
    assert docs.observe("git:log:v1.2.0", {"commits": []})
    assert docs.observe("git:log:1.0.0", 5)
    for level in ("schema", "full"):
        assert docs.describe("git:log", level).to_json()["observedOutput"] == {
            "observed": 2,
            "jsonSchema": {
                "type": "object",
                "properties": {
                    "commits": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"id": {"type": "string"}},
                            "required": ["id"],
                        },
                    }
                },
                "required": ["commits"],
            },
        }
    assert docs.describe("git:log").observed_output is None
    old = docs.describe("git:log:1.0.0", "schema").observed_output
    assert old is not None
    assert (old.observed, old.json_schema) == (1, {"type": "integer"})


def test_result_of_a_tool_with_output_schema_teaches_nothing() -> None:
    tools = Shelf(LOG.replace(output_schema={"type": "object"}))
    docs = DocStore(tools)
    assert not docs.observe("git:log", {"a": 1})
    tools.tools.append(LOG)
    assert docs.describe("git:log", "schema").observed_output is None


def test_learnt_shape_is_hidden_once_the_tool_has_an_output_schema() -> None:
    tools = shelf()
    docs = DocStore(tools)
    docs.observe("git:log", {"a": 1})
    tools.tools.append(LOG.replace(output_schema={"type": "object"}))
    assert docs.describe("git:log", "schema").observed_output is None


@pytest.mark.parametrize("result", [{1}, float("inf"), [0] * 60_000], ids=["a set", "infinity", "too large"])
def test_unreadable_result_teaches_nothing(result: Any) -> None:
    docs = DocStore(shelf())
    assert not docs.observe("git:log", result)
    assert docs.describe("git:log", "schema").observed_output is None


def test_result_of_an_unknown_tool_teaches_nothing() -> None:
    assert not DocStore(shelf()).observe("git:gone", 1)


def test_learnt_shape_can_be_deleted() -> None:
    docs = DocStore(shelf())
    docs.observe("git:log", 1)
    docs.forget("git:log:1.2.0")
    assert docs.describe("git:log", "schema").observed_output is None


def test_many_threads_write_and_read_at_once() -> None:
    docs = documented_store()

    def work(number: int) -> ToolDoc:
        docs.register_doc("git:log", DOC, examples=EXAMPLES)
        docs.register_examples(f"git:log:1.{number % 2 * 2}.0", EXAMPLES[: number % 3])
        docs.observe("git:log", {f"key{number % 7}": number})
        return docs.describe("git:log", "full")

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(work, range(200)))
    assert {doc.summary for doc in told} == {"Read the log."}
    observed = docs.describe("git:log", "schema").observed_output
    assert observed is not None
    assert observed.observed == 200
    assert len(observed.json_schema["properties"]) == 7

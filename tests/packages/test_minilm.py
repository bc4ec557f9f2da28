"""The distribution that brings a tuned MiniLM: what is in it, and what it finds."""

import json
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import toolcrib_minilm

from toolcrib import Crib, Tool
from toolcrib.discovery import (
    Bm25Searcher,
    EmbeddingSearcher,
    HybridSearcher,
    Index,
    JoinedEmbedder,
    load_embedder,
)

MB = 10**6
FOREIGN_BAR = 0.85
"""The share of questions in another language that must find their tool among the first five results."""
QUESTION = "let the team know we're done"
TOOLS = {
    "post_message": "Post a message to a channel.",
    "create_issue": "Open an issue in a repository.",
    "merge_pull_request": "Merge a pull request into its base branch.",
    "get_weather": "Return the forecast for a city.",
    "convert_currency": "Convert an amount between two currencies.",
    "resize_image": "Change the width and height of a picture.",
    "query_database": "Run a SQL statement and return its rows.",
    "read_file": "Return the content of a file.",
    "delete_folder": "Remove a directory and everything in it.",
    "book_flight": "Reserve a seat on a plane.",
    "translate_text": "Translate a text into another language.",
    "start_timer": "Start a countdown.",
    "list_invoices": "Return the invoices of a customer.",
}


@pytest.fixture(scope="module")
def embedder() -> JoinedEmbedder:
    return toolcrib_minilm.embedder()


@pytest.fixture(scope="module")
def wheels(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the wheels of both distributions, by name."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in (root, root / "packages" / "toolcrib-minilm"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(command, cwd=project, check=True, capture_output=True)
    return {wheel.name.partition("-")[0]: wheel for wheel in folder.glob("*.whl")}


def contents(wheel: Path) -> dict[str, int]:
    with ZipFile(wheel) as archive:
        return {info.filename: info.file_size for info in archive.infolist()}


def test_minilm_is_found_by_its_entry_point() -> None:
    (point,) = entry_points(group="toolcrib.embedders", name="minilm")
    assert point.value == "toolcrib_minilm:embedder"
    named = load_embedder("minilm")
    assert isinstance(named, JoinedEmbedder)
    assert named.key == toolcrib_minilm.embedder().key


def test_minilm_vectors_are_640_numbers_of_unit_length(embedder: JoinedEmbedder) -> None:
    assert embedder.dimensions == 640
    rows = embedder.encode([QUESTION, "x", "weather " * 1000])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


def test_minilm_has_a_judge_for_its_vectors(embedder: JoinedEmbedder) -> None:
    assert embedder.judge is not None
    assert len(embedder.judge.weights) == 3 + 2 * embedder.dimensions


def test_minilm_finds_tools_by_meaning_without_common_words(embedder: JoinedEmbedder) -> None:
    found = {}
    for searcher in (EmbeddingSearcher(embedder), Bm25Searcher()):
        index = Index(searcher)
        tools = [Tool(name=name, description=text, input_schema={}) for name, text in TOOLS.items()]
        index.register_many([(tool, None) for tool in tools])
        found[searcher.score_type] = [result.summary.id for result in index.search(QUESTION).items]
    meant, worded = found["embedding"], found["bm25"]
    assert meant[0] == "post_message"
    assert "post_message" not in worded[:1]


@pytest.mark.timeout(120)
def test_minilm_finds_tools_for_questions_in_other_languages(embedder: JoinedEmbedder, root: Path) -> None:
    questions, tools = (
        [
            json.loads(line)
            for line in (root / "training" / "questions" / name).read_text("utf-8").splitlines()
        ]
        for name in ("languages.jsonl", "tools.jsonl")
    )
    index = Index(HybridSearcher(Bm25Searcher(), EmbeddingSearcher(embedder)))
    index.register_many([(Tool.from_json(row), None) for row in tools])
    for language in ("de", "fr", "es", "zh", "ja"):
        found = [
            row["relevant"] in [str(result.id) for result in index.search(row[language], limit=5)]
            for row in questions
        ]
        assert sum(found) / len(found) >= FOREIGN_BAR, language


@pytest.mark.anyio
async def test_a_crib_searches_with_it_where_the_settings_name_it() -> None:
    crib = Crib({"search": {"searcher": "hybrid", "model": "minilm"}})
    for name, text in TOOLS.items():
        crib.discovery.register(Tool(name=name, description=text, input_schema={}))
    assert (await crib.search(QUESTION)).items[0].summary.id == "post_message"


@pytest.mark.proof
def test_minilm_wheel_holds_the_model_and_stays_small(wheels: dict[str, Path]) -> None:
    wheel = wheels["toolcrib_minilm"]
    inside = contents(wheel)
    for name, size in (("model.onnx", 20 * MB), ("tokenizer.json", MB // 10)):
        assert inside[f"toolcrib_minilm/model/{name}"] > size
    files = ("__init__.py", "judge.npz", "languages.npy", "py.typed")
    assert {f"toolcrib_minilm/{name}" for name in files} <= inside.keys()
    assert any(name.endswith("licenses/LICENSE") for name in inside)
    assert wheel.stat().st_size <= 24 * MB


@pytest.mark.proof
def test_the_wheel_of_toolcrib_holds_the_table_and_stays_small(wheels: dict[str, Path]) -> None:
    wheel = wheels["toolcrib"]
    inside = contents(wheel)
    folder = "toolcrib/discovery/search/semantic/static_model/"
    files = {name.removeprefix(folder) for name in inside if name.startswith(folder)}
    assert files >= {"vocab.txt", "table.npy", "scales.npy"}
    assert not any(name.startswith(("packages", "toolcrib_minilm")) for name in inside)
    assert wheel.stat().st_size <= 10 * MB


def test_minilm_metadata_matches_toolcrib(root: Path) -> None:
    folder = root / "packages" / "toolcrib-minilm"
    own, ours = (tomllib.loads((each / "pyproject.toml").read_text()) for each in (folder, root))
    for key in ("version", "requires-python", "license", "license-files"):
        assert own["project"][key] == ours["project"][key]
    assert own["build-system"] == ours["build-system"]
    assert own["project"]["dependencies"] == ["toolcrib[semantic]"]
    assert (folder / "LICENSE").read_text() == (root / "LICENSE").read_text()

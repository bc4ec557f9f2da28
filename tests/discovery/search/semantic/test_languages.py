"""Questions in other languages than English."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolcrib.discovery import Index
from toolcrib.discovery.search.semantic import StaticEmbedder, load_embedder
from toolcrib.discovery.search.semantic.languages import MATRIX_FILE, is_english, is_latin
from toolcrib.errors import EmbeddingError
from toolcrib.model import Tool

LANGUAGES = ("de", "fr", "es", "zh", "ja")
BAR = 0.875
"""The share of questions that must find their tool among the first five results."""


def read(root: Path, name: str) -> Iterator[dict[str, Any]]:
    with (root / "training" / "questions" / name).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@pytest.fixture(scope="module")
def index(root: Path) -> Index:
    found = Index()
    found.register_many([(Tool.from_json(row), None) for row in read(root, "tools.jsonl")])
    return found


@pytest.mark.timeout(60)
@pytest.mark.parametrize("language", LANGUAGES)
def test_questions_in_other_languages_find_english_tools(root: Path, index: Index, language: str) -> None:
    rows = list(read(root, "languages.jsonl"))
    found = [
        row["relevant"] in [str(result.id) for result in index.search(row[language], limit=5)] for row in rows
    ]
    assert len(rows) == 60
    assert sum(found) / len(found) >= BAR


def test_questions_in_other_languages_are_told_from_english_ones(root: Path) -> None:
    rows = list(read(root, "languages.jsonl"))
    for language in LANGUAGES:
        assert sum(is_english(row[language]) for row in rows) <= 2, language
    assert all(is_english(row["en"]) for row in rows)


def test_english_questions_are_embedded_as_without_other_languages(root: Path) -> None:
    """One in a thousand may look foreign, such as one that quotes a foreign sentence."""
    questions = [row["question"] for row in read(root, "answered.jsonl")]
    assert sum(not is_english(question) for question in questions) <= len(questions) / 1000


@pytest.mark.parametrize(
    "question",
    [
        "",
        "4d6 dice",
        "weather in Zürich",
        "de-duplicate the rows of l.csv",
        "deploy /srv/la/le to es-east-1",
        "what is the café's résumé?",
        "n8n invite people",
        "list d'Artagnan's letters that we have",
    ],
)
def test_these_are_taken_to_be_english(question: str) -> None:
    assert is_english(question)


@pytest.mark.parametrize(
    ("question", "latin"),
    [
        ("¿Dónde?", True),
        ("l'hôtel le plus proche", True),
        ("Straße sperren", True),
        ("покажи погоду", False),
        ("天气", False),
        ("open the 天气 report", True),
    ],
)
def test_script_and_spelling_tell_other_languages(question: str, latin: bool) -> None:
    assert is_latin(question) is latin
    assert is_english(question) is (question == "open the 天气 report")


def test_other_languages_share_the_space_of_the_model() -> None:
    embedder = load_embedder()
    assert isinstance(embedder, StaticEmbedder)
    assert embedder.languages is not None
    foreign = embedder.languages.encode(["Wie wird morgen das Wetter?", "Übersetze diesen Vertrag"])
    english = embedder.encode(["What will the weather be tomorrow?", "Translate this contract"])
    cosines = foreign @ english.T
    assert foreign.dtype == np.float32
    assert np.allclose(np.linalg.norm(foreign, axis=1), 1, atol=1e-5)
    assert cosines[0, 0] > cosines[0, 1] + 0.2
    assert cosines[1, 1] > cosines[1, 0] + 0.2


@pytest.mark.parametrize(
    "content",
    [
        b"no array",
        np.zeros(3, np.float16),
        np.full((512, 2), np.nan, np.float32),
        np.zeros((511, 2), np.float32),
    ],
    ids=str,
)
def test_broken_matrix_is_refused(content: bytes | np.ndarray, tmp_path: Path) -> None:
    embedder = StaticEmbedder.save(tmp_path, ["weather"], [[1.0, 0.0]])
    if isinstance(content, bytes):
        (tmp_path / MATRIX_FILE).write_bytes(content)
    else:
        np.save(tmp_path / MATRIX_FILE, content)
    with pytest.raises(EmbeddingError, match=MATRIX_FILE):
        _ = embedder.languages


def test_matrix_of_another_model_is_refused_when_it_is_used(tmp_path: Path) -> None:
    embedder = StaticEmbedder.save(tmp_path, ["weather"], [[1.0, 0.0]])
    np.save(tmp_path / MATRIX_FILE, np.zeros((512, 3), np.float32))
    assert embedder.languages is not None
    with pytest.raises(EmbeddingError, match="vectors of 3 numbers, and those of the model have 2"):
        embedder.languages.encode(["Wie wird morgen das Wetter?"])


def test_model_without_a_matrix_reads_english_alone(tmp_path: Path) -> None:
    assert StaticEmbedder.save(tmp_path, ["weather"], [[1.0, 0.0]]).languages is None

"""Embedding models by name: built in, installed, and unknown."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from toolcrib.discovery import JoinedEmbedder, LocalEmbedder, StaticEmbedder, load_embedder
from toolcrib.discovery.search.semantic.named import ENTRY_POINTS, embedder_in
from toolcrib.errors import EmbeddingError, MissingExtraError

MODULE = """
import numpy as np
from toolcrib.errors import MissingExtraError

class Lengths:
    key = "lengths"
    def encode(self, texts): return np.array([[len(text), 1] for text in texts])
    async def embed(self, texts): return self.encode(texts)

class Remote:
    async def embed(self, texts): ...

def raises(): raise RuntimeError("no licence")
def needs(): raise MissingExtraError("a model", "semantic")
def number(): return 5
def a_class(): return Lengths
def wants(argument): return Lengths()
"""
Offer = Callable[..., None]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Return a function that installs a distribution that offers embedders."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "some_models", raising=False)
    (tmp_path / "some_models.py").write_text(MODULE)

    def install(*lines: str, name: str = "some_models") -> None:
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join([f"[{ENTRY_POINTS}]", *lines, ""]))

    return install


def test_the_table_is_built_in_and_is_what_is_meant_without_a_name() -> None:
    table = load_embedder()
    assert isinstance(table, StaticEmbedder)
    assert load_embedder("static") is table
    rows = table.encode(["send a mail", "post a message"])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


def test_the_table_knows_which_texts_mean_the_same() -> None:
    question, near, far = load_embedder().encode(
        ["how warm is it", "get the weather", "merge a pull request"]
    )
    assert question @ near > question @ far


def test_an_installed_model_is_found_by_its_name() -> None:
    made = load_embedder("minilm")
    assert isinstance(made, JoinedEmbedder)
    assert load_embedder("minilm") is not made


def test_a_distribution_can_offer_an_embedder(offer: Offer) -> None:
    offer("lengths = some_models:Lengths")
    made = load_embedder("lengths")
    assert isinstance(made, LocalEmbedder)
    assert made.encode(["abc"]).tolist() == [[3, 1]]


def test_built_in_name_cannot_be_shadowed(offer: Offer) -> None:
    offer("static = some_models:Lengths")
    assert isinstance(load_embedder("static"), StaticEmbedder)
    with pytest.raises(EmbeddingError) as caught:
        load_embedder("zebra")
    assert caught.value.reason.count("static") == 1
    assert "some_models" not in sys.modules


@pytest.mark.parametrize("name", ["lenghts", "Lengths", "lengths-"])
def test_an_unknown_name_is_told_with_what_is_there_and_what_may_be_meant(offer: Offer, name: str) -> None:
    offer("lengths = some_models:Lengths")
    with pytest.raises(EmbeddingError) as caught:
        load_embedder(name)
    said = str(caught.value)
    assert said.startswith(
        f"embedding with {name!r} failed: no embedder is called that; there are static, lengths"
    )
    assert said.endswith("; did you mean 'lengths'?")


def test_a_path_is_told_who_takes_one() -> None:
    with pytest.raises(EmbeddingError, match=r"OnnxEmbedder and StaticEmbedder take the folder of a model$"):
        load_embedder("./models/mine")


def test_a_name_of_any_length_is_told_briefly() -> None:
    with pytest.raises(EmbeddingError) as caught:
        load_embedder("x" * 100_000)
    assert len(str(caught.value)) < 300


@pytest.mark.proof
def test_missing_minilm_names_the_install_command(tmp_path: Path, root: Path) -> None:
    for file in Path(pytest.__file__).parent.parent.iterdir():  # everything installed, but for the model
        if not file.name.startswith(("toolcrib_minilm", "_toolcrib_minilm")):
            (tmp_path / file.name).symlink_to(file)
    code = (
        f"import sys; sys.path += {[str(root / 'src'), str(tmp_path)]!r}\n"
        "from toolcrib.discovery import load_embedder\n"
        "for name in ('minilm', 'mini-lm'):\n"
        "    try: load_embedder(name)\n"
        "    except RuntimeError as error: print(error.reason)\n"
    )
    first, second = subprocess.check_output([sys.executable, "-S", "-c", code], text=True).splitlines()
    assert first == "it is not installed: pip install toolcrib-minilm; there is static"
    assert second == "no embedder is called that; there is static; did you mean 'minilm'?"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("some_models:Missing", "its plug-in 'some_models:Missing' does not load: AttributeError"),
        ("nowhere_at_all:f", "does not load: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("some_models:raises", "does not load: RuntimeError: no licence"),
        ("some_models:wants", "does not load: TypeError"),
        (
            "some_models:number",
            "'some_models:number' gives int, which is not an embedder: it needs embed and encode",
        ),
        ("some_models:a_class", "gives the class Lengths, which is not an embedder"),
        ("some_models:Remote", "gives Remote, which is not an embedder"),
    ],
)
def test_a_broken_plug_in_is_told_with_its_name(offer: Offer, value: str, message: str) -> None:
    offer(f"broken = {value}", "lengths = some_models:Lengths")
    with pytest.raises(EmbeddingError) as caught:
        load_embedder("broken")
    assert str(caught.value).startswith("embedding with 'broken' failed: its plug-in")
    assert message in str(caught.value)
    assert load_embedder("lengths").encode(["a"]).shape == (1, 2)


def test_missing_extra_of_a_plug_in_is_raised_unchanged(offer: Offer) -> None:
    offer("needs = some_models:needs")
    with pytest.raises(MissingExtraError, match="a model needs the 'semantic' extra"):
        load_embedder("needs")


def test_two_of_one_name_are_refused_whatever_their_order(offer: Offer) -> None:
    offer("lengths = some_models:Lengths")
    offer("lengths = some_models:number", name="other_models")
    with pytest.raises(
        EmbeddingError, match="'some_models:Lengths' and 'some_models:number' are both called that"
    ):
        load_embedder("lengths")


def test_the_same_offered_twice_is_one(offer: Offer) -> None:
    offer("lengths = some_models:Lengths")
    offer("lengths = some_models:Lengths", name="other_models")
    assert load_embedder("lengths").encode(["a"]).shape == (1, 2)


@pytest.mark.proof
def test_model_files_are_read_at_first_use() -> None:
    code = (
        "import sys, toolcrib.discovery as d\n"
        "extras = {'onnxruntime', 'tokenizers', 'usearch', 'httpx', 'toolcrib_minilm'}\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "table = d.load_embedder()\n"
        "print(sorted(extras & set(sys.modules)), sum('static_model' in each for each in opened))\n"
        "table.encode(['a'])\n"
        "print(sorted(extras & set(sys.modules)), sum('static_model' in each for each in opened) > 0)\n"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert said == "[] 0\n[] True\n"


def test_a_folder_whose_name_no_system_takes_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="the folder cannot be read: File name too long"):
        embedder_in(Path("/" + "a" * 5_000))

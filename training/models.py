"""The models of a folder, as the product uses them."""

from pathlib import Path

from toolcrib.discovery import JoinedEmbedder, OnnxEmbedder, StaticEmbedder
from toolcrib.discovery.protocols import LocalEmbedder


def models_in(folder: Path) -> dict[str, tuple[LocalEmbedder, Path]]:
    """Return the table, and MiniLM beside the table, with the folder that the judge of each belongs in."""
    table = StaticEmbedder(folder / "static")
    both = JoinedEmbedder(OnnxEmbedder(folder / "minilm"), table)
    return {"static": (table, folder / "static"), "minilm": (both, folder)}

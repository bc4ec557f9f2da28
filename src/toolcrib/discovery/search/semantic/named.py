"""Embedding models by name: the table that is built in, and what installed distributions offer."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from toolcrib.discovery.protocols import LocalEmbedder
from toolcrib.discovery.search.semantic.folder import names_in
from toolcrib.discovery.search.semantic.onnx import OnnxEmbedder
from toolcrib.discovery.search.semantic.static import StaticEmbedder
from toolcrib.errors import EmbeddingError, ToolcribError
from toolcrib.model.suggest import did_you_mean, there_are

ENTRY_POINTS: Final = "toolcrib.embedders"
"""The group under which a distribution offers an embedder: a class or a function that returns one."""
BUILT_IN: Final = "static"
"""The name of the table that is part of toolcrib; nothing else can have it."""
_TABLE = Path(__file__).parent / "static_model"
_COMMANDS: Mapping[str, str] = {"minilm": "pip install toolcrib-minilm"}
"""How to get models that are known, and not part of toolcrib."""
_MAX_SHOWN = 80
_MAX_REASON = 500


def load_embedder(name: str = BUILT_IN) -> LocalEmbedder:
    """Return the embedder of a name: `static`, which is built in, or one that is installed, such as `minilm`.

    Its files are read when it is first used. The built-in table is one for all who ask; every other name
    makes an embedder of its own each time.

    >>> load_embedder().encode(["send a mail"]).shape
    (1, 256)

    Raises:
        EmbeddingError: nothing of that name is installed, with what is; or what offers it is broken.
        MissingExtraError: it is installed, and an extra that it needs is not.
    """
    if name == BUILT_IN:
        return _static()
    offered = _find_entry_points()
    shown = f"{str(name)!r:.{_MAX_SHOWN}}"
    points = offered.get(name, [])
    if not points:
        raise EmbeddingError(_unknown(str(name), (BUILT_IN, *offered)), shown)
    if len(points) > 1:
        both = " and ".join(repr(point.value) for point in points)
        raise EmbeddingError(f"{both} are both called that; uninstall one of them", shown)
    return _load_entry_point(points[0], shown)


def embedder_in(folder: Path) -> LocalEmbedder:
    """Return the embedder of the model in a folder: an ONNX model, or else a table.

    Raises:
        EmbeddingError: the folder or a file of it is missing.
        MissingExtraError: what runs an ONNX model is not installed.
    """
    return OnnxEmbedder(folder) if "model.onnx" in names_in(folder) else StaticEmbedder(folder)


@cache
def _static() -> LocalEmbedder:
    return StaticEmbedder(_TABLE)


def _find_entry_points() -> dict[str, list[EntryPoint]]:
    """Return what is installed by name, in order; what has the name of the built-in table is never asked."""
    offered: dict[str, list[EntryPoint]] = {}
    for point in sorted(set(entry_points(group=ENTRY_POINTS)), key=lambda point: (point.name, point.value)):
        if point.name != BUILT_IN:
            offered.setdefault(point.name, []).append(point)
    return offered


def _unknown(name: str, there: tuple[str, ...]) -> str:
    if name in _COMMANDS:
        return f"it is not installed: {_COMMANDS[name]}{there_are(there)}"
    known = dict.fromkeys((*there, *_COMMANDS))
    folder = "" if Path(name).name == name else "; OnnxEmbedder and StaticEmbedder take the folder of a model"
    return f"no embedder is called that{there_are(there)}{did_you_mean(name.lower(), known)}{folder}"


def _load_entry_point(point: EntryPoint, shown: str) -> LocalEmbedder:
    try:
        made: Any = point.load()()
    except ToolcribError:
        raise  # it says what is missing, and what to do
    except Exception as error:  # foreign code, which may raise anything
        reason = f"its plug-in {point.value!r} does not load: {type(error).__name__}: {error}"
        raise EmbeddingError(reason[:_MAX_REASON], shown) from error
    if isinstance(made, type) or not isinstance(made, LocalEmbedder):
        kind = f"the class {made.__name__}" if isinstance(made, type) else type(made).__name__
        reason = f"its plug-in {point.value!r} gives {kind}, which is no embedder: it needs embed and encode"
        raise EmbeddingError(reason[:_MAX_REASON], shown)
    return made

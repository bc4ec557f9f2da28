"""Loading of embedding models by name: the built-in one, and those of installed distributions."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from toolcrib.discovery.protocols import LocalEmbedder
from toolcrib.discovery.search.semantic.folder import list_names
from toolcrib.discovery.search.semantic.onnx import OnnxEmbedder
from toolcrib.discovery.search.semantic.static import StaticEmbedder
from toolcrib.errors import EmbeddingError, ToolcribError
from toolcrib.model.suggest import did_you_mean, there_are

ENTRY_POINTS: Final = "toolcrib.embedders"
"""The entry-point group of embedders: each is a class, or a function that returns an embedder."""
BUILT_IN: Final = "static"
"""The reserved name of the built-in model."""
_TABLE = Path(__file__).parent / "static_model"
_INSTALL_COMMANDS: Mapping[str, str] = {"minilm": "pip install toolcrib-minilm"}
"""Commands that install known models which are not part of toolcrib."""
_MAX_SHOWN = 80
_MAX_REASON = 500


def load_embedder(name: str = BUILT_IN) -> LocalEmbedder:
    """Return the embedder with a name: `static`, which is built in, or an installed one such as `minilm`.

    Its files are read when it is first used. The built-in embedder is shared; for other names each call
    creates a new embedder.

    >>> load_embedder().encode(["send a mail"]).shape
    (1, 256)

    Raises:
        EmbeddingError: no embedder of that name is installed, or its plug-in is broken.
        MissingExtraError: the embedder needs an extra that is not installed.
    """
    if name == BUILT_IN:
        return _load_built_in()
    offered = _find_entry_points()
    shown = f"{str(name)!r:.{_MAX_SHOWN}}"
    points = offered.get(name, [])
    if not points:
        raise EmbeddingError(_explain_unknown(str(name), (BUILT_IN, *offered)), shown)
    if len(points) > 1:
        both = " and ".join(repr(point.value) for point in points)
        raise EmbeddingError(f"{both} are both called that; uninstall one of them", shown)
    return _load_entry_point(points[0], shown)


def embedder_in(folder: Path) -> LocalEmbedder:
    """Return the embedder of the model in a folder: an ONNX model if there is one, else a static table.

    Raises:
        EmbeddingError: the folder or a file of it is missing.
        MissingExtraError: the extra that runs ONNX models is not installed.
    """
    return OnnxEmbedder(folder) if "model.onnx" in list_names(folder) else StaticEmbedder(folder)


@cache
def _load_built_in() -> LocalEmbedder:
    return StaticEmbedder(_TABLE)


def _find_entry_points() -> dict[str, list[EntryPoint]]:
    """Return the installed entry points by name, sorted; the reserved name is ignored."""
    offered: dict[str, list[EntryPoint]] = {}
    for point in sorted(set(entry_points(group=ENTRY_POINTS)), key=lambda point: (point.name, point.value)):
        if point.name != BUILT_IN:
            offered.setdefault(point.name, []).append(point)
    return offered


def _explain_unknown(name: str, there: tuple[str, ...]) -> str:
    if name in _INSTALL_COMMANDS:
        return f"it is not installed: {_INSTALL_COMMANDS[name]}{there_are(there)}"
    known = dict.fromkeys((*there, *_INSTALL_COMMANDS))
    folder = "" if Path(name).name == name else "; OnnxEmbedder and StaticEmbedder take the folder of a model"
    return f"no embedder is called that{there_are(there)}{did_you_mean(name.lower(), known)}{folder}"


def _load_entry_point(point: EntryPoint, shown: str) -> LocalEmbedder:
    try:
        made: Any = point.load()()
    except ToolcribError:
        raise  # such as MissingExtraError, which already says what to do
    except Exception as error:  # the code of a plug-in may raise anything
        reason = f"its plug-in {point.value!r} does not load: {type(error).__name__}: {error}"
        raise EmbeddingError(reason[:_MAX_REASON], shown) from error
    if isinstance(made, type) or not isinstance(made, LocalEmbedder):
        kind = f"the class {made.__name__}" if isinstance(made, type) else type(made).__name__
        reason = (
            f"its plug-in {point.value!r} gives {kind}, which is not an embedder: it needs embed and encode"
        )
        raise EmbeddingError(reason[:_MAX_REASON], shown)
    return made

"""Quality against cost as a picture: the same bytes from the same numbers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

# Each can be read on a light and on a dark page.
GREY = "#7b8494"
OURS = "#c2611f"
THEIRS = "#5f7fa8"
SETTINGS: Any = {
    "svg.hashsalt": "toolcrib",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.titlecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}
NEAR = 0.035
"""The least distance between two labels, as a share of the height, before one is moved."""


@dataclass(frozen=True, slots=True)
class Point:
    """One engine in the picture."""

    name: str
    cpu_ms: float
    ndcg: float
    """In per cent."""
    is_ours: bool


def draw(points: list[Point], size: int, file: Path) -> None:
    """Write the picture of some engines, searching so many tools."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(8, 4.8), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.set_xscale("log")
        for point in points:
            colour = OURS if point.is_ours else THEIRS
            axes.scatter(point.cpu_ms, point.ndcg, s=46 if point.is_ours else 30, color=colour, zorder=3)
        for point, height in zip(points, heights(points), strict=True):
            axes.annotate(
                point.name,
                (point.cpu_ms, height),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                color=OURS if point.is_ours else THEIRS,
                fontweight="bold" if point.is_ours else "normal",
            )
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(f"CPU time of one search among {size:,} tools, ms (p50, log scale)")
        axes.set_ylabel("NDCG@10, mean of the labelled sets, %")
        axes.set_title("Search quality against cost", loc="left")
        axes.margins(x=0.2, y=0.1)
        axes.grid(visible=True, color="#88888844", linewidth=0.6)
        axes.patch.set_alpha(0)
        save(figure, file)


def save(figure: Figure, file: Path) -> None:
    """Write a picture that can stand on any page, and without trailing spaces."""
    figure.patch.set_alpha(0)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.read_text(encoding="utf-8")
    file.write_text("".join(f"{line.rstrip()}\n" for line in text.splitlines()), encoding="utf-8")


def heights(points: list[Point]) -> list[float]:
    """Return where each label stands: at its point, or as far above the label below as is needed."""
    values = [point.ndcg for point in points]
    step = (max(values) - min(values) or 1) * NEAR
    placed: dict[int, float] = {}
    lowest = float("-inf")
    for place in sorted(range(len(points)), key=lambda place: (values[place], points[place].name)):
        lowest = max(values[place], lowest + step)
        placed[place] = lowest
    return [placed[place] for place in range(len(points))]

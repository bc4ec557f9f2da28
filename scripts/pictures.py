"""Bars as SVG that can be read on light and dark pages: the same bytes from the same numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

_WIDTH = 760
_LABELS = 250
"""The x position of the bars."""
_ROW = 30
_BAR = 18
_HEAD = 58
_FOOT = 14
_VALUES = 70
"""Room for the number at the end of the longest bar."""
_STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2430; }
.title { font-size: 16px; font-weight: 600; }
.about, .theirs-label { fill: #5b6475; }
.ours { fill: #3451c7; }
.theirs { fill: #aab2c2; }
.ours-label { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9f0; }
  .about, .theirs-label { fill: #a3acbd; }
  .ours { fill: #8ea4ff; }
  .theirs { fill: #566074; }
}
"""


@dataclass(frozen=True)
class Bar:
    """One bar of a picture."""

    label: str
    value: float
    shown: str
    """The value as it is written at the end of the bar."""
    is_ours: bool = False


def draw_bars(title: str, about: str, bars: Sequence[Bar]) -> str:
    """Return the picture of some bars, the longest of which fills the width."""
    height = _HEAD + _ROW * len(bars) + _FOOT
    longest = max(bar.value for bar in bars)
    summary = "; ".join(f"{bar.label}: {bar.shown}" for bar in bars)
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    told = escape(f"{title}. {summary}")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{told}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="0" y="18">{escape(title)}</text>',
        f'<text class="about" x="0" y="40">{escape(about)}</text>',
    ]
    for place, bar in enumerate(bars):
        kind = "ours" if bar.is_ours else "theirs"
        top = _HEAD + _ROW * place
        length = max((_WIDTH - _LABELS - _VALUES) * bar.value / longest, 2)
        baseline, end = top + 14, _LABELS + length + 8
        lines += [
            f'<text class="{kind}-label" x="0" y="{baseline}">{escape(bar.label)}</text>',
            f'<rect class="{kind}" x="{_LABELS}" y="{top}" width="{length:.1f}" height="{_BAR}" rx="3"/>',
            f'<text class="{kind}-label" x="{end:.1f}" y="{baseline}">{escape(bar.shown)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def read_table(page: Path, heading: str) -> list[dict[str, str]]:
    """Return the rows of the first table after a line of a page that begins with the heading."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(heading))
    table: list[list[str]] = []
    for line in lines[start + 1 :]:
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        elif table:
            break
    head, _, *rows = table
    return [dict(zip(head, row, strict=True)) for row in rows]

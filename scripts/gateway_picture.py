"""Draws docs/images/gateway.svg: the way of a call from a client to a tool, and what guards it."""

from html import escape
from pathlib import Path

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "gateway.svg"
WIDTH, HEIGHT = 860, 372
TOP, ROW = 56, 78
CLIENTS = (
    ("An AI client", "Claude, Cursor, Zed …"),
    ("An agent framework", "three lines for each"),
    ("Your Python", "Crib, or SyncCrib"),
    ("A person", "command and console"),
)
STAGES = (
    ("find", "by words and meaning"),
    ("authorize", "rules, approval"),
    ("validate", "the arguments"),
    ("run", "deadline, retries, rates"),
    ("check the result", "schema, secrets, words"),
    ("audit", "in an unbroken chain"),
)
TOOLS = (
    ("Local MCP servers", "bubblewrap or Docker", "in a wall"),
    ("Remote MCP servers", "HTTP, both eras", "with a login"),
    ("HTTP APIs, functions", "OpenAPI and @tool", "validated"),
    ("Code of a model", "five kinds of sandbox", "in a sandbox"),
)
LEFT, MIDDLE, RIGHT = 20, 330, 640
BOX = 200
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #5b6475; }
.name { font-size: 14px; font-weight: 600; fill: #1f2430; }
.box { fill: #f4f6fb; stroke: #cdd4e2; }
.crib { fill: #eef1ff; stroke: #3451c7; }
.title { font-size: 16px; font-weight: 700; fill: #3451c7; }
.line { fill: none; stroke: #8a94a8; stroke-width: 1.5; }
.head { fill: #8a94a8; }
.guard { font-size: 12px; fill: #3451c7; }
@media (prefers-color-scheme: dark) {
  text { fill: #a3acbd; }
  .name { fill: #e6e9f0; }
  .box { fill: #20242d; stroke: #454d5d; }
  .crib { fill: #20263f; stroke: #8ea4ff; }
  .title, .guard { fill: #8ea4ff; }
}
"""


def draw_box(x: int, y: int, name: str, about: str) -> str:
    """Return a box with a name and a line below it."""
    return (
        f'<rect class="box" x="{x}" y="{y}" width="{BOX}" height="54" rx="8"/>'
        f'<text class="name" x="{x + 14}" y="{y + 23}">{escape(name)}</text>'
        f'<text x="{x + 14}" y="{y + 42}">{escape(about)}</text>'
    )


def draw_arrow(start: int, end: int, y: int, text: str) -> str:
    """Return an arrow to the right, with a text above it."""
    middle = (start + end) / 2
    return (
        f'<path class="line" d="M{start} {y}H{end - 8}"/>'
        f'<path class="head" d="M{end} {y}l-10 -5v10z"/>'
        f'<text class="guard" x="{middle:g}" y="{y - 7}" text-anchor="middle">{escape(text)}</text>'
    )


def draw() -> str:
    """Return the picture, readable on light and dark pages."""
    parts = []
    for number, (name, about) in enumerate(CLIENTS):
        y = TOP + number * ROW
        text = ("token or sign-on", "principal", "principal", "decides")[number]
        parts += [draw_box(LEFT, y, name, about), draw_arrow(LEFT + BOX + 4, MIDDLE - 4, y + 27, text)]
    bottom = TOP + len(CLIENTS) * ROW - 24
    parts.append(
        f'<rect class="crib" x="{MIDDLE}" y="{TOP - 34}" width="{BOX}" height="{bottom - TOP + 44}" rx="10"/>'
    )
    parts.append(f'<text class="title" x="{MIDDLE + 14}" y="{TOP - 8}">toolcrib</text>')
    for number, (name, about) in enumerate(STAGES):
        y = TOP + 18 + number * 48
        parts.append(f'<text class="name" x="{MIDDLE + 14}" y="{y}">{number + 1}  {escape(name)}</text>')
        parts.append(f'<text x="{MIDDLE + 31}" y="{y + 18}">{escape(about)}</text>')
    for number, (name, about, guard) in enumerate(TOOLS):
        y = TOP + number * ROW
        parts.append(draw_arrow(MIDDLE + BOX + 4, RIGHT - 4, y + 27, guard))
        parts.append(draw_box(RIGHT, y, name, about))
    title = "A call goes from a client through toolcrib to a tool: found, authorized, validated, run, checked"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")

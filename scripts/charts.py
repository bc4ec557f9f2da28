"""Draws the charts of README.md from the tables in docs that the benchmarks write.

`--check` compares the pictures that are there instead.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from pictures import Bar, draw_bars, read_table

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_SETS = ("metatool_single", "bfcl", "sealtools_dev")
_ENGINES = {
    "toolcrib, words and MiniLM": "toolcrib with toolcrib-minilm",
    "toolcrib": "toolcrib",
    "bm25s, stems and stop words": "bm25s, stems and stop words",
    "tantivy": "tantivy",
    "FastMCP search": "FastMCP's search",
}
_PROXIES = {
    "toolcrib meta → http": "toolcrib, to HTTP",
    "toolcrib meta → stdio": "toolcrib, to stdio",
    "npm mcp-proxy → stdio": "npm mcp-proxy, to stdio",
    "fastmcp proxy → stdio": "fastmcp's proxy, to stdio",
    "fastmcp proxy → http": "fastmcp's proxy, to HTTP",
}
_CONVERTERS = {
    "**toolcrib**": "toolcrib",
    "pydantic-ai `OpenAIJsonSchemaTransformer(strict=True)`": "pydantic-ai",
    "langchain-core `convert_to_openai_tool(strict=True)`": "langchain-core",
    "openai `_ensure_strict_json_schema`": "openai",
}


def draw_search() -> str:
    """Return the picture of search quality."""
    rows = {row["engine"]: row for row in read_table(DOCS / "search-measurements.md", "## Quality")}
    quality = {
        label: sum(float(rows[name][f"{each} NDCG@10"]) for each in _SETS) / len(_SETS)
        for name, label in _ENGINES.items()
    }
    about = "NDCG@10 in per cent, mean of MetaTool, BFCL and Seal-Tools; higher is better"
    return _draw("Finding the right tool", about, quality, "{:.1f}")


def draw_calls() -> str:
    """Return the chart of a call's cost through a gateway."""
    rows = {row[""]: row for row in read_table(DOCS / "gateway-measurements.md", "## ")}
    ratios = {label: float(rows[name]["ratio to direct"].split()[0]) for name, label in _PROXIES.items()}
    about = "time of a call as a multiple of a direct one (p50); shorter is better"
    return _draw("A call through the gateway", about, ratios, "{:.2f} \N{MULTIPLICATION SIGN}")


def draw_providers() -> str:
    """Return the picture of how many tools a provider accepts."""
    rows = {row["converter"]: row for row in read_table(DOCS / "adapter-measurements.md", "## ")}
    accepted = {}
    for name, label in _CONVERTERS.items():
        lossy = rows[name]["silently lossy"]
        told = label if lossy == "0" else f"{label} ({lossy} lossy)"
        accepted[told] = float(rows[name]["accepted"].rstrip("%"))
    about = "share of 1,163 real tools that OpenAI's strict mode accepts after conversion; lossy: silently"
    return _draw("Any provider", about, accepted, "{:.1f}%")


def _draw(title: str, about: str, values: Mapping[str, float], form: str) -> str:
    bars = [Bar(label, value, form.format(value), "toolcrib" in label) for label, value in values.items()]
    return draw_bars(title, about, bars)


PICTURES = {
    "chart-search.svg": draw_search,
    "chart-calls.svg": draw_calls,
    "chart-providers.svg": draw_providers,
}


def main() -> int:
    """Draw the pictures, or report those that are out of date."""
    stale = []
    for name, draw in PICTURES.items():
        file, drawn = DOCS / "images" / name, draw()
        if "--check" in sys.argv:
            if not file.exists() or file.read_text(encoding="utf-8") != drawn:
                stale.append(name)
        else:
            file.write_text(drawn, encoding="utf-8")
    for name in stale:
        print(f"docs/images/{name} is out of date: run scripts/charts.py", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())

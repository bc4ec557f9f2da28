"""Writes docs/llms.txt: every page with its first sentence, for language models that read the documentation.

`--check` compares the file that is there instead.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = DOCS / "llms.txt"
_ENTRY = re.compile(r"^( *)- (?:(?P<title>[^:]+): ?)?(?P<page>\S+\.md)?$")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_MAX_SENTENCE = 250


def write_page() -> str:
    """Return the text of the file."""
    lines = ["# toolcrib", "", f"> {describe(DOCS / 'index.md')[1]}"]
    for line in (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].splitlines():
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            raise SystemExit(f"mkdocs.yml: {line!r} is not an entry that this script can read")
        if entry["page"] is None:
            lines += ["", f"## {entry['title']}", ""] if not entry[1].startswith("      ") else []
        elif entry["page"] != "index.md":
            title, sentence = describe(DOCS / entry["page"])
            lines.append(f"- [{title}]({entry['page']})" + (f": {sentence}" if sentence else ""))
    return "\n".join([*lines, ""])


def describe(page: Path) -> tuple[str, str]:
    """Return the title of a page and its first sentence."""
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    title, _, rest = text.partition("\n")
    paragraphs = (each.strip() for each in rest.split("\n\n"))
    texts = (each for each in paragraphs if each and not each.startswith(("#", "|", "!", "```", ":::")))
    words = next(texts, "")
    sentence = _LINK.sub(r"\1", " ".join(words.split()))
    short = re.split(r"(?<=[.!?:]) (?=[A-Z`])", sentence)[0][:_MAX_SENTENCE]
    return title.removeprefix("# "), short.rstrip(":")


def main() -> int:
    """Write the file, or report that it is out of date."""
    made = write_page()
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        print("docs/llms.txt is out of date: run scripts/llms_page.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes docs/configuration.md from the records that hold a configuration; `--check` only compares."""

import ast
import inspect
import json
import sys
import textwrap
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AwareDatetime
from pydantic.fields import FieldInfo

from toolcrib.crib import (
    AuditSettings,
    CacheSettings,
    CodeSettings,
    ConsoleSettings,
    EngineSettings,
    GatewaySettings,
    LimitSettings,
    OpenApiSettings,
    PostgresSettings,
    RetrySettings,
    RunSettings,
    SearchSettings,
    Settings,
    ToolsetSettings,
    ToolShape,
    TrustSettings,
)
from toolcrib.crib.config.gateway import AuthSettings, TokenSettings
from toolcrib.crib.config.section import INTERNAL
from toolcrib.crib.config.settings import WebhookSettings
from toolcrib.execution import RateRule, Rule
from toolcrib.execution.mcp.config import ServerConfig
from toolcrib.execution.oauth.settings import AuthConfig
from toolcrib.model.findings import ResultActions
from toolcrib.model.record import Record
from toolcrib.runtime import Limits

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
INTRO = """\
# Configuration

<!-- Made by `scripts/config_page.py` from the records that hold a configuration; do not edit it by hand. -->

A configuration is a `toolcrib.toml`, or the `mcpServers` JSON of any client
([Connecting servers](connecting-servers.md)), with toolcrib's own settings under the key `toolcrib`:

```toml
{example}```

The command reads the file that `--config FILE` names. Without that option, it looks for `toolcrib.toml`,
`mcp.json` and `.mcp.json` in the current folder, then for `toolcrib.toml` and `mcp.json` of the user.
Programs in a configuration are started, so a file in the current folder that others could have written is
refused unless `--config` names it: a file of another user (except root), a file that others can edit, or a
file in a folder that everybody can write to.

Paths are relative to the file (at most 4 MiB). A server runs in the folder of the file unless it has
a `cwd`. An unknown key is refused, with a suggestion. `${{NAME}}` and `${{NAME:-default}}` stand for
environment variables where a table says so, and everywhere in a server. The gateway reads the file again
when it changes.
"""
EXAMPLE = """\
timeout = 30

[servers.time]
command = "uvx"
args = ["mcp-server-time"]

[servers.github]
url = "https://api.githubcopilot.com/mcp/"
headers = { Authorization = "Bearer ${GITHUB_TOKEN}" }

[openapi.shop]
document = "shop.json"
secrets = { apiKey = "${SHOP_KEY}" }

[toolsets.reading]
description = "Nothing that changes anything."
annotations = { readOnlyHint = true }
exclude = ["github:get_me"]

[gateway]
port = 8808
token = "${TOOLCRIB_TOKEN}"

[code]
timeout = 10
limits = { max_tool_calls = 20 }

[cache]
ttl = 60
"""
SECTIONS: tuple[tuple[str, str, type[Record]], ...] = (
    ("At the top", "", Settings),
    ("A server", "[servers.NAME]", ServerConfig),
    ("The login of a server", "[servers.NAME.auth]", AuthConfig),
    ("An HTTP API", "[openapi.NAME]", OpenApiSettings),
    ("A toolset", "[toolsets.NAME]", ToolsetSettings),
    ("The shape of a tool", '[toolsets.NAME.tools."ID"]', ToolShape),
    ("The gateway", "[gateway]", GatewaySettings),
    ("A token", "[gateway.tokens.NAME]", TokenSettings),
    ("Logins", "[gateway.auth]", AuthSettings),
    ("A rule", "[[policy]]", Rule),
    ("A rate limit", "[[rate_limits]]", RateRule),
    ("Search", "[search]", SearchSettings),
    ("Limits", "[limits]", LimitSettings),
    ("Code mode", "[code]", CodeSettings),
    ("A PostgreSQL database", "[postgres]", PostgresSettings),
    ("Durable runs", "[runs]", RunSettings),
    ("Where durable runs are executed", "[engine]", EngineSettings),
    ("Limits of code", "[code.limits]", Limits),
    ("Cache", "[cache]", CacheSettings),
    ("Retries", "[retry]", RetrySettings),
    ("Results", "[results]", ResultActions),
    ("Trust", "[trust]", TrustSettings),
    ("Audit", "[audit]", AuditSettings),
    ("Console", "[console]", ConsoleSettings),
    ("Approvals outside the console", "[console.webhook]", WebhookSettings),
)
EXPLICIT = 2
"""The priority that pydantic gives an alias that a field declares itself."""
WORDS = {
    AwareDatetime: "date and time",
    Any: "value",
    str: "string",
    int: "integer",
    float: "number",
    bool: "true or false",
    NoneType: "",
}


def read_field_docs(record: type[Record]) -> dict[str, str]:
    """Return the text that stands below each field of a record."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    texts = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, text in pairwise(statements):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            texts[ast.unparse(field.target)] = " ".join(str(ast.literal_eval(text.value)).split())
    return texts


def records_in(annotation: Any) -> set[type[Record]]:
    """Return the records that values of a type are made of."""
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return {annotation}
    return {record for inner in get_args(annotation) for record in records_in(inner)}


def kind(annotation: Any) -> str:
    """Return a type as the author of a configuration reads it."""
    inner = get_args(annotation)
    match get_origin(annotation):
        case origin if origin is Annotated:
            text = kind(inner[0])
        case origin if origin is Literal:
            text = ", ".join(f"`{choice}`" for choice in inner)
        case origin if origin in (Union, UnionType):
            text = " or ".join(filter(None, map(kind, inner)))
        case origin if origin is tuple:
            is_choice = get_origin(inner[0]) is Literal
            text = f"list of {kind(inner[0])}{'' if is_choice else 's'}"
        case origin if origin is dict:
            text = f"table of {kind(inner[1])}s".replace("falses", "false")
        case _ if isinstance(annotation, type) and issubclass(annotation, Enum):
            text = ", ".join(f"`{choice.value}`" for choice in annotation)
        case _:
            text = WORDS.get(annotation, "table")
    return text


def default(field: FieldInfo) -> str:
    """Return the default of a field as text."""
    value = field.default
    if field.is_required():
        return "required"
    if value is None or isinstance(value, Record) or value in ((), {}, ""):
        return ""
    shown = value.value if isinstance(value, Enum) else value
    if isinstance(shown, bool):
        return f"`{str(shown).lower()}`"
    return f"`{json.dumps(shown) if isinstance(shown, tuple) else shown}`"


def table(record: type[Record]) -> str:
    """Return the settings of one section."""
    texts = read_field_docs(record)
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, field in record.model_fields.items():
        if name in INTERNAL:
            continue
        if name not in texts:
            raise SystemExit(f"{record.__name__}.{name} has no text below it")
        if missing := records_in(field.annotation) - {each for _, _, each in SECTIONS}:
            raise SystemExit(f"{record.__name__}.{name} has no section: {missing}")
        text = texts[name].replace("|", "\\|")
        # An alias of its own, not one that is the name in camel case.
        key = field.alias if field.alias_priority == EXPLICIT else name
        lines.append(f"| `{key}` | {kind(field.annotation)} | {default(field)} | {text} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the whole page."""
    parts = [INTRO.format(example=EXAMPLE)]
    for title, header, record in SECTIONS:
        place = f"`{header}`: " if header else ""
        first = (record.__doc__ or "").splitlines()[0]
        parts.append(
            f"## {title}\n\n{place}{first[0].lower() if header else first[0]}{first[1:]}\n\n{table(record)}"
        )
    return "\n".join(parts)


def main() -> None:
    """Write the page, or report that it is out of date."""
    made = page()
    if "--check" not in sys.argv:
        PAGE.write_text(made)
    elif PAGE.read_text() != made:
        raise SystemExit(f"{PAGE} is not what scripts/config_page.py writes; run it")


if __name__ == "__main__":
    main()

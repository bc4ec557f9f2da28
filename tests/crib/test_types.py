"""The public API as type checkers and readers of signatures see it."""

import inspect
import re
from pathlib import Path
from typing import Any, get_args, get_overloads

import pytest
from mypy import api

from toolcrib import Crib, SyncCrib, adapter
from toolcrib.adapter.protocol import ConversionOptions, SessionTarget, Target
from toolcrib.adapter.providers import a2a, anthropic, gemini, mcp, openai
from toolcrib.adapter.turns import turn_format
from toolcrib.discovery import DetailLevel
from toolcrib.discovery.docs.store import DetailName
from toolcrib.errors import ConversionError
from toolcrib.runtime import SecurityProfile, backends
from toolcrib.runtime.request import ProfileName, SandboxKind

ONLY_ASYNC = {
    "shared_key",  # what gateways on one database have in common
    "shared_logins",
    "shared_store",
    "absent", "audit_status", "catalogue_status", "code_names", "content", "content_for", "index", "known", "needs_start", "on_content_change", "rules", "seen_by",
    "run_worker",  # a process of its own, which ends when it is cancelled
    "trust", "validator", "view", "warnings", "watch",
}  # fmt: skip
"""Members of Crib that the crib without an event loop does not have."""
TAKES_ANY = {"run", "stream"}
"""Methods with an argument of any type: the arguments of a tool."""
SYNC = {
    "AsyncGenerator[StreamEvent, None]": "Generator[StreamEvent]",
    "<class 'toolcrib.crib.session.ToolSession'>": "<class 'toolcrib.crib.session.SyncToolSession'>",
}
"""Return types of Crib, and their counterparts in the synchronous crib."""


def mypy(root: Path, *files: Path) -> str:
    """Return the errors of mypy in strict mode, without any configuration, as in a user's project."""
    cache = root / ".mypy_cache" / "uses"
    found, failure, _ = api.run(
        ["--strict", "--config-file=", f"--cache-dir={cache}", "--no-error-summary", *map(str, files)]
    )
    assert failure == ""
    return found


@pytest.mark.proof  # and of `make check`: mypy reads all of toolcrib first
def test_uses_of_the_api_pass_mypy_strict_as_does_the_readme(root: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    lines = [line[4:] for block in blocks for line in block.splitlines() if re.match(r">>>|\.\.\. ", line)]
    readme = tmp_path / "readme_example.py"
    readme.write_text("\n".join(lines))
    assert "crib.add" in readme.read_text()
    assert mypy(root, Path(__file__).with_name("typed_uses.py"), readme) == ""


def signature_of(function: Any) -> tuple[Any, ...]:
    """Return the parameters and the result of a method, the same for both cribs where they agree."""
    signature = inspect.signature(function)
    returned = str(signature.return_annotation).replace("collections.abc.", "")
    returned = re.sub(r"toolcrib[\w.]*\.(StreamEvent)", r"\1", returned)
    return (*map(str, signature.parameters.values()), SYNC.get(returned, returned))


ONLY_SYNC = {"close", "call_in_loop", "await_in_loop"}
PUBLIC = {name for name in dir(Crib) if not name.startswith("_")}


def test_the_sync_crib_has_every_method_but_known_ones() -> None:
    assert {name for name in dir(SyncCrib) if not name.startswith("_")} - ONLY_SYNC == PUBLIC - ONLY_ASYNC


@pytest.mark.parametrize("name", sorted({*PUBLIC, "__init__", "__contains__", "__getitem__"} - ONLY_ASYNC))
def test_signatures_of_both_cribs_are_equal(name: str) -> None:
    ours, theirs = getattr(SyncCrib, name), getattr(Crib, name)
    if isinstance(theirs, property):
        ours, theirs = ours.fget, theirs.fget
    assert signature_of(ours) == signature_of(theirs)
    assert [*map(signature_of, get_overloads(ours))] == [*map(signature_of, get_overloads(theirs))]
    is_explicit = all(each.annotation is not Any for each in inspect.signature(ours).parameters.values())
    assert is_explicit or name in TAKES_ANY or get_overloads(ours)


def test_names_in_types_are_those_that_are_taken() -> None:
    assert set(get_args(Target)) == set(adapter.default_registry().names())
    assert get_args(DetailName) == tuple(map(str, DetailLevel))
    assert get_args(ProfileName) == tuple(map(str, SecurityProfile))
    assert set(get_args(SandboxKind)) <= set(backends())
    for target in get_args(Target):
        if target in get_args(SessionTarget):
            assert turn_format(target, {})
        else:
            with pytest.raises(ConversionError):
                turn_format(target, {})


def test_options_of_conversions_are_those_of_the_formats() -> None:
    formats = (
        mcp.McpOptions,
        openai.OpenAIOptions,
        anthropic.AnthropicOptions,
        gemini.GeminiOptions,
        a2a.A2AOptions,
    )
    taken = {name for options in formats for name in options.__dataclass_fields__}
    assert set(ConversionOptions.__annotations__) == taken

"""Asking a person before a destructive tool runs, and refusing those that nobody was asked about."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import PolicyDeniedError
from toolcrib.execution import Request
from toolcrib.gateway.frontend import CallingClient, Confirmation, ConfirmationResult
from toolcrib.model.tool import ToolAnnotations
from toolcrib.redaction import HIDDEN, hide_secrets

__all__ = ["agreed", "ask", "is_destructive", "policy"]

_MAX_SHOWN = 400
"""How many characters of what somebody else wrote a person has to read."""
_MAX_NAMED = 10
"""How many tools, and places in code, are named."""
_REFUSALS = {
    ConfirmationResult.DECLINED: "the user declined; do not try again unless the user asks for it",
    ConfirmationResult.UNANSWERED: "the user was asked, and gave no answer; ask whether to try again",
}


@dataclass(frozen=True, slots=True)
class _Agreed:
    """What a person was asked about in the request at hand."""

    tools: frozenset[str]


_AGREED: ContextVar[_Agreed | None] = ContextVar("toolcrib_agreed", default=None)
"""None where no request of a client that can ask is active: then nobody is to be asked."""


def is_destructive(annotations: ToolAnnotations | None) -> bool:
    """Return whether a tool says of itself that it may destroy something; one that says nothing does not.

    >>> is_destructive(ToolAnnotations(destructive_hint=True)), is_destructive(None)
    (True, False)
    """
    if annotations is None:
        return False
    return annotations.destructive_hint is True and annotations.read_only_hint is not True


def policy(request: Request) -> str | None:
    """Refuse a destructive tool that nobody was asked about, in a request whose client could have asked.

    It is the `policy` of the crib behind a gateway; where no such request is active it allows everything.
    """
    agreed_on = _AGREED.get()
    if agreed_on is None or not is_destructive(request.tool.annotations):
        return None
    if request.tool_id in agreed_on.tools:
        return None
    return (
        "it may destroy something, and the user has to agree before the code begins; "
        f"write its id {request.tool_id!r} in the code, or run it with run_tool"
    )


@contextmanager
def agreed(client: CallingClient, tools: Iterable[str], *, confirm: bool) -> Iterator[None]:
    """Let a request run these destructive tools and no others, where its client can ask."""
    if not (confirm and client.can_ask):
        yield
        return
    token = _AGREED.set(_Agreed(frozenset(tools)))
    try:
        yield
    finally:
        _AGREED.reset(token)


async def ask(
    client: CallingClient, tools: Sequence[str], given: Any, *, what: str = "", places: Sequence[str] = ()
) -> None:
    """Ask whether destructive tools may run, all at once.

    Args:
        client: who is asked.
        tools: their ids; where there are none nobody is asked.
        given: what a person should see of how they run: arguments, steps or code.
        what: what runs them, a `chain` or a `program`; nothing where one tool runs by itself.
        places: what a person should see of it in any case, where it is too long to be shown.

    Raises:
        PolicyDeniedError: the person declined, or gave no answer.
        InputNeeded: the client has to make the request again, with the answer.
    """
    if not tools:
        return
    verdict = await client.confirm(_question(tools, given, what, places))
    if verdict in _REFUSALS:
        raise PolicyDeniedError(tool_id=", ".join(tools), reason=_REFUSALS[verdict])


def _question(tools: Sequence[str], given: Any, what: str, places: Sequence[str]) -> Confirmation:
    """Return the question, the same each time it is about the same tools and arguments."""
    written = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    content = "\0".join((what, *tools, written))
    key = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
    return Confirmation(key=f"run-{key}", text=_text(tools, written, what, places))


def _text(tools: Sequence[str], written: str, what: str, places: Sequence[str]) -> str:
    if not what:
        return f"Run {tools[0]} with {_shown(written)}? It says that it may destroy or overwrite something."
    names = ", ".join(tools[:_MAX_NAMED])
    more = f" and {len(tools) - _MAX_NAMED} more" if len(tools) > _MAX_NAMED else ""
    say = "They say" if len(tools) > 1 else "It says"
    risk = f"{say} that {'they' if len(tools) > 1 else 'it'} may destroy or overwrite something."
    where = _where(places) if places and len(written) > _MAX_SHOWN else ""
    return f"Run a {what} that uses {names}{more}? {risk}{where} The {what}: {_shown(written)}"


def _where(places: Sequence[str]) -> str:
    """Return where tools are named, each place on a line of its own."""
    if len(places) > _MAX_NAMED:
        some = _MAX_NAMED // 2
        places = [*places[:some], f"({len(places) - 2 * some} more places)", *places[-some:]]
    return "\n".join((" They are named here:", *map(_shown, places), ""))


def _shown(text: str) -> str:
    """Return a text as a person may see it: without secrets, without what hides, and not all if it is long.

    What is long is shown with its end: what counts may stand there.
    """
    if len(text) > _MAX_SHOWN * 4:
        text = f"{text[: _MAX_SHOWN * 2]}\n{text[-_MAX_SHOWN * 2 :]}"
    clean = hide_secrets(HIDDEN.sub("", text))
    if len(clean) <= _MAX_SHOWN:
        return clean
    return f"{clean[: _MAX_SHOWN * 2 // 3]} […] {clean[-_MAX_SHOWN // 3 :]}"

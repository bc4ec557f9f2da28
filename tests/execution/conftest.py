"""Fixtures of the execution tests."""

from collections.abc import Callable
from typing import Any

import pytest

from toolcrib.execution import Answer, CallContext, Outcome, Principal, Request
from toolcrib.model import McpBackend, Tool


@pytest.fixture(scope="session")
def outcome() -> Callable[..., Outcome]:
    """Return a function that makes the outcome of a call of `github:star`, good unless an error is given."""

    def make(**fields: Any) -> Outcome:
        record = Tool(
            name="star", namespace="github", description="Star it.", input_schema={"type": "object"}
        )
        args = fields.pop("args", {"repo": "secret"})
        error = fields.get("error")
        given = {
            "tool_id": "github:star",
            "request": Request(
                tool=record, args=args, context=CallContext(principal=Principal(subject="ann"))
            ),
            "backend": McpBackend(server_name="github"),
            "answer": Answer(structured={"stars": 1}) if error is None else None,
            "error": None,
            "duration": 0.25,
            "is_allowed": True,
            "principal": Principal(subject="ann"),
            "raw_args": args,
        }
        return Outcome(**given | fields)

    return make

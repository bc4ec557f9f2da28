"""The tools that run as tasks, and one that does not."""

import anyio
import mcp_types as types
from mcp import MCPError
from servers.conformance.calls import FLAG, TEXT, Call, Json, form, text
from servers.conformance.tasks import Task, Work
from servers.conformance.tools import STEP_SECONDS, Answer, serves

LONGEST_CALL_SECONDS = 5


@serves(name=TEXT)
async def greet(call: Call) -> Answer:
    """Greet somebody, at once."""
    return text(f"Hello, {call.args['name']}!")


@serves(seconds={"type": "number"}, label=TEXT)
async def slow_compute(call: Call) -> Answer:
    """Take some seconds: as a task, where the client knows tasks."""

    async def compute(_: Task | None) -> types.CallToolResult:
        await anyio.sleep(call.args["seconds"])
        return text(f"computed {call.args['label']}")

    if call.can_have_tasks:
        return started(call, compute)
    if call.args["seconds"] > LONGEST_CALL_SECONDS:  # so that no client waits for what it asked as a task
        return text("that long only as a task", is_error=True)
    return await compute(None)


@serves(needs_tasks=True)
async def failing_job(call: Call) -> Answer:
    """Fail, as a task."""

    async def fail(_: Task) -> types.CallToolResult:
        await anyio.sleep(STEP_SECONDS)
        return text("the job has failed", is_error=True)

    return started(call, fail)


@serves(needs_tasks=True)
async def protocol_error_job(call: Call) -> Answer:
    """Break, as a task."""

    async def crash(_: Task) -> types.CallToolResult:
        raise MCPError(types.INTERNAL_ERROR, "the job has crashed")

    return started(call, crash)


@serves(needs_tasks=True, filename=TEXT)
async def confirm_delete(call: Call) -> Answer:
    """Ask the user, as a task."""

    async def delete(task: Task) -> types.CallToolResult:
        await task.ask(confirm=form(f"Delete {call.args['filename']}?", confirm=FLAG))
        return text(f"deleted {call.args['filename']}")

    return started(call, delete)


@serves(needs_tasks=True)
async def multi_input(call: Call) -> Answer:
    """Ask the user two questions at once, as a task."""

    async def collect(task: Task) -> types.CallToolResult:
        answers = await task.ask(first=form("Your name?", name=TEXT), second=form("Sure?", confirm=FLAG))
        return text(f"collected {sorted(answers)}")

    return started(call, collect)


@serves(needs_tasks=True)
async def test_tool_with_task(call: Call) -> Answer:
    """Ask the user, then greet them as a task."""
    answers = await call.ask(user_name=form("What is your name?", name=TEXT))
    name = (answers["user_name"].content or {}).get("name")

    async def greet_later(_: Task) -> types.CallToolResult:
        return text(f"Hello, {name}!")

    return started(call, greet_later)


def started(call: Call, work: Work) -> Json:
    """Begin a task."""
    return call.ctx.lifespan_context.start(work)

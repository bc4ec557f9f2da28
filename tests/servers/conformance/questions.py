"""The tools that ask the client for something: its model, its user or its roots."""

import mcp_types as types
from mcp import MCPError
from servers.conformance.calls import FLAG, TEXT, Call, form, sample, text
from servers.conformance.tools import Answer, serves


@serves(prompt=TEXT)
async def test_sampling(call: Call) -> Answer:
    """Ask the model of the client."""
    answers = await call.ask(reply=sample(call.args["prompt"]))
    return text(f"LLM response: {answers['reply'].content.text}")


@serves(message=TEXT)
async def test_elicitation(call: Call) -> Answer:
    """Ask the user of the client."""
    question = form(
        call.args["message"],
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return filled("User response", (await call.ask(reply=question))["reply"])


@serves()
async def test_elicitation_sep1034_defaults(call: Call) -> Answer:
    """Ask the user with a form that is filled in."""
    question = form(
        "Please review your information",
        required=False,
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return filled("Elicitation completed", (await call.ask(reply=question))["reply"])


@serves()
async def test_elicitation_sep1330_enums(call: Call) -> Answer:
    """Ask the user to choose, in each of the five ways."""
    names = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
    question = form(
        "Please choose",
        required=False,
        untitledSingle={"type": "string", "enum": names},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": names}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return filled("Elicitation completed", (await call.ask(reply=question))["reply"])


def filled(what: str, reply: types.ElicitResult) -> types.CallToolResult:
    """Return a result with the user's answer."""
    return text(f"{what}: action={reply.action}, content={reply.content}")


@serves()
async def test_missing_capability(call: Call) -> Answer:
    """Need the model of the client."""
    await call.ask(reply=sample("Are you there?"))
    return text("there")


@serves()
async def test_streaming_elicitation(call: Call) -> Answer:
    """Report progress, then ask the user."""
    await call.ctx.session.report_progress(1, 2)
    await call.ask(reply=form("Go on?", ok=FLAG))
    return text("went on")


@serves()
async def test_input_required_result_elicitation(call: Call) -> Answer:
    """Greet the user by the name that they give."""
    answers = await call.ask(user_name=form("What is your name?", name=TEXT))
    return text(f"Hello, {(answers['user_name'].content or {}).get('name')}!")


@serves()
async def test_input_required_result_sampling(call: Call) -> Answer:
    """Ask the model a question."""
    answers = await call.ask(capital_question=sample("What is the capital of France?"))
    return text(answers["capital_question"].content.text)


@serves()
async def test_input_required_result_list_roots(call: Call) -> Answer:
    """List the roots of the client."""
    answers = await call.ask(client_roots=types.ListRootsRequest())
    return text(", ".join(str(root.uri) for root in answers["client_roots"].roots))


async def confirmed(call: Call) -> Answer:
    """Ask the user to confirm, and hold the client to the state that it was given."""
    await call.ask(state="kept", confirm=form("Please confirm", ok=FLAG))
    if call.modern and call.state != "kept":
        raise MCPError(types.INVALID_PARAMS, "this is not the state of the question")
    return text("state-ok")


@serves()
async def test_input_required_result_request_state(call: Call) -> Answer:
    """Ask the user to confirm, with a state."""
    return await confirmed(call)


@serves()
async def test_input_required_result_tampered_state(call: Call) -> Answer:
    """Ask the user to confirm, with a state that nobody may change."""
    return await confirmed(call)


@serves()
async def test_input_required_result_multiple_inputs(call: Call) -> Answer:
    """Ask the user, the model and the client at once."""
    answers = await call.ask(
        state="three",
        user_name=form("What is your name?", name=TEXT),
        greeting=sample("Generate a greeting", 50),
        client_roots=types.ListRootsRequest(),
    )
    return text(f"{answers['greeting'].content.text} {len(answers['client_roots'].roots)}")


@serves()
async def test_input_required_result_multi_round(call: Call) -> Answer:
    """Ask the user twice, one after the other."""
    asked, _, name = (call.state or "").partition(":")
    if asked != "second":
        answers = await call.ask(state="first", step1=form("Step 1: What is your name?", name=TEXT))
        name = str((answers["step1"].content or {}).get("name"))
    question = form("Step 2: What is your favorite color?", color=TEXT)
    answers = await call.ask(state=f"second:{name}", step2=question)
    return text(f"{name} likes {(answers['step2'].content or {}).get('color')}")


@serves()
async def test_input_required_result_capabilities(call: Call) -> Answer:
    """Ask in each way that the client has declared."""
    questions = {"greeting": sample("Generate a greeting"), "confirm": form("Please confirm", ok=FLAG)}
    await call.ask(**{name: each for name, each in questions.items() if call.declares(each.method)})
    return text("asked")

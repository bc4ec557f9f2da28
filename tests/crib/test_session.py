"""Conversations with models: the loops of the documentation, in the vendors' SDKs, over recorded responses."""

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from toolcrib import Crib, SyncCrib, ToolId
from toolcrib.errors import ConversionError, CribStateError, ToolNotFoundError
from toolcrib.execution import Principal

Replies = list[dict[str, Any]]
GOOD = {"prices": [4, 6], "discount": 0.5}


def chat(*calls: tuple[str, str, str], text: str | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt", "choices": [choice]}


def responses(*items: dict[str, Any]) -> dict[str, Any]:
    common = {"id": "r", "object": "response", "created_at": 1, "model": "gpt", "parallel_tool_calls": True}
    return {**common, "status": "completed", "tool_choice": "auto", "tools": [], "output": list(items)}


def claude(*blocks: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "usage": usage}
    return {**head, "stop_reason": "tool_use", "stop_sequence": None, "content": list(blocks)}


def gemini(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": list(parts)}}]}


def over(http: Any, replies: Replies, sent: list[Any]) -> Any:
    """Return a client of an HTTP package that replays recorded responses, and stores the requests."""
    left = iter(replies)

    def answer(request: Any) -> Any:
        sent.append(json.loads(request.content))
        return http.Response(200, json=next(left))

    return http.Client(transport=http.MockTransport(answer))


def openai_client(replies: Replies, sent: list[Any]) -> Any:
    import openai  # noqa: PLC0415 - as the others: seconds, for the worker that runs these tests alone

    return openai.OpenAI(api_key="none", http_client=over(httpx, replies, sent))


def anthropic_client(replies: Replies, sent: list[Any]) -> Any:
    import anthropic  # noqa: PLC0415

    return anthropic.Anthropic(api_key="none", http_client=over(httpx2, replies, sent))


def gemini_client(replies: Replies, sent: list[Any]) -> Any:
    from google import genai  # noqa: PLC0415

    return genai.Client(api_key="none", http_options={"httpx_client": over(httpx, replies, sent)})


LOOPS: list[Any] = [
    pytest.param(
        "ask_openai",
        openai_client,
        [
            chat(
                ("call_1", "order_total", json.dumps(GOOD)),
                ("call_2", "order_totl", "{}"),
                ("call_3", "order_total", '{"prices":'),
            ),
            chat(text="It is 5."),
        ],
        "messages",
        [
            {"role": "tool", "tool_call_id": "call_1", "content": "5.0"},
            {"role": "tool", "tool_call_id": "call_2", "content": "did you mean 'order_total'"},
            {"role": "tool", "tool_call_id": "call_3", "content": "Error: "},
        ],
        id="openai",
    ),
    pytest.param(
        "ask_responses",
        openai_client,
        [
            responses(
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "call_1",
                    "name": "order_total",
                    "arguments": json.dumps(GOOD),
                },
                {
                    "type": "function_call",
                    "id": "fc_2",
                    "call_id": "call_2",
                    "name": "order_total",
                    "arguments": '{"prices": ["x"], "discount": 0}',
                },
            ),
            responses(
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "It is 5.", "annotations": []}],
                }
            ),
        ],
        "input",
        [
            {"type": "function_call_output", "call_id": "call_1", "output": "5.0"},
            {"type": "function_call_output", "call_id": "call_2", "output": "must be a number"},
        ],
        id="responses",
    ),
    pytest.param(
        "ask_anthropic",
        anthropic_client,
        [
            claude(
                {"type": "text", "text": "I add it up."},
                {"type": "tool_use", "id": "toolu_1", "name": "order_total", "input": GOOD},
                {"type": "tool_use", "id": "toolu_2", "name": "order_total", "input": {"prices": "x"}},
            ),
            claude({"type": "text", "text": "It is 5."}),
        ],
        "messages",
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": "5.0"}],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "content": [{"type": "text", "text": "must be an array"}],
                        "is_error": True,
                    },
                ],
            }
        ],
        id="anthropic",
    ),
    pytest.param(
        "ask_gemini",
        gemini_client,
        [
            gemini(
                {"functionCall": {"name": "order_total", "args": GOOD}, "thoughtSignature": "aGk="},
                {"functionCall": {"name": "order_total", "args": {"prices": "x"}}},
            ),
            gemini({"text": "It is 5."}),
        ],
        "contents",
        [
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "order_total", "response": {"output": 5.0}}},
                    {"functionResponse": {"name": "order_total", "response": {"error": "must be"}}},
                ],
            }
        ],
        id="gemini",
    ),
]


def matches(expected: Any, found: Any) -> bool:
    """Return whether a value contains everything expected; a text matches as a part of one."""
    if isinstance(expected, dict):
        return all(key in found and matches(value, found[key]) for key, value in expected.items())
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(matches, expected, found))
    return expected in found if isinstance(expected, str) else expected == found


@pytest.mark.parametrize(("loop", "client", "replies", "said", "answers"), LOOPS)
def test_a_loop_answers_every_call_and_ends_with_the_model(
    root: Path,
    loop: str,
    client: Callable[[Replies, list[Any]], Any],
    replies: Replies,
    said: str,
    answers: list[Any],
) -> None:
    names: dict[str, Any] = {}
    page = (root / "docs" / "model-loops.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        if not block.startswith(">>>"):
            exec(block, names)  # noqa: S102 - the page is ours
    sent: list[Any] = []
    with client(replies, sent) as opened:
        assert names[loop](opened, "What does it cost?") == "It is 5."
    first, second = sent
    assert "order_total" in json.dumps(first["tools"])
    assert matches(answers, second[said][-len(answers) :])
    kept = json.dumps(second[said][len(first[said]) : -len(answers)])
    assert "order_total" in kept  # the model's own turn stands before the results
    if loop == "ask_gemini":
        assert "aGk=" in kept


def order_total(prices: list[float]) -> float:
    """Add up an order."""
    return sum(prices)


@pytest.mark.anyio
async def test_calls_take_the_way_of_every_other() -> None:
    seen: list[Any] = []

    def policy(call: Any) -> bool:
        seen.append((str(call.tool.id), call.principal))
        return False

    crib = Crib(policy=policy)
    crib.add(order_total)
    session = await crib.session("openai", tools=["order_total"], principal=Principal(subject="ann"))
    message = chat(("call_1", "order_total", '{"prices": [1]}'))["choices"][0]["message"]
    own, result = await session.run(message)
    assert own is message
    assert result["content"].startswith("Error: ")
    assert seen == [("order_total", Principal(subject="ann"))]
    assert await session.run(chat(text="Nothing to do.")) == []


@pytest.mark.anyio
async def test_errors_that_no_model_can_correct_are_raised() -> None:
    crib = Crib()
    crib.add(order_total)
    with pytest.raises(ConversionError, match="sessions are for openai, anthropic, gemini"):
        await crib.session("a2a")
    session = await crib.session("anthropic")
    block = {"type": "tool_use", "name": "order_total", "input": {"prices": [1]}}
    with pytest.raises(ConversionError, match="needs the id of the call"):
        await session.run(claude(block))
    await crib.__aexit__(None, None, None)
    with pytest.raises(CribStateError):
        await session.run(claude({**block, "id": "toolu_1"}))


def test_a_session_has_the_tools_of_the_servers(little: Any) -> None:
    with SyncCrib({"mcpServers": {"text": little()}}) as crib:
        session = crib.session("anthropic", tools=crib.search("capital letters", limit=1))
        assert [tool["name"] for tool in session.tools] == ["shout"]
        block = {"type": "tool_use", "id": "toolu_1", "name": "shout", "input": {"text": "a"}}
        own, results = session.run(claude(block))
        assert own == {"role": "assistant", "content": [block]}
        assert "A" in json.dumps(results["content"])


def events(*payloads: dict[str, Any]) -> str:
    """Return payloads as server-sent events, as the vendors' servers stream them."""
    named = (
        (f"event: {each['type']}\n" if "type" in each else "") + f"data: {json.dumps(each)}\n\n"
        for each in payloads
    )
    return "".join(named)


def chat_chunk(**delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt", "choices": [choice]}


def call_delta(place: int, arguments: str, **head: Any) -> dict[str, Any]:
    return {"index": place, "function": {"arguments": arguments, **head.pop("function", {})}, **head}


def stream_chat(http: Any) -> list[Any]:
    import openai  # noqa: PLC0415

    first = [
        call_delta(place, "", id=f"call_{place}", type="function", function={"name": "order_total"})
        for place in (0, 1)
    ]
    body = events(
        chat_chunk(role="assistant", content="I add"),
        chat_chunk(content=" it up.", tool_calls=first),
        chat_chunk(tool_calls=[call_delta(0, '{"prices": [4')]),
        chat_chunk(tool_calls=[call_delta(1, '{"prices":'), call_delta(0, ", 6]}")]),
    )
    with openai.OpenAI(api_key="none", http_client=http(body)) as client:
        return list(client.chat.completions.create(model="gpt", messages=[], stream=True))


def stream_responses(http: Any) -> list[Any]:
    import openai  # noqa: PLC0415

    items = [
        {"type": "function_call", "id": f"fc_{place}", "call_id": f"call_{place}", "name": "order_total"}
        | {"arguments": arguments}
        for place, arguments in enumerate(('{"prices": [4, 6]}', '{"prices":'))
    ]
    done = {"type": "response.completed", "sequence_number": 2, "response": responses(*items)}
    body = events({"type": "response.created", "sequence_number": 1, "response": responses()}, done)
    with openai.OpenAI(api_key="none", http_client=http(body)) as client:
        return list(client.responses.create(model="gpt", input="", stream=True))


def stream_claude(http: Any) -> list[Any]:
    import anthropic  # noqa: PLC0415

    parts: list[dict[str, Any]] = [{"type": "message_start", "message": claude()}]
    for place, arguments in enumerate(('{"prices": [4, 6]}', '{"prices":')):
        block = {"type": "tool_use", "id": f"call_{place}", "name": "order_total", "input": {}}
        parts.append({"type": "content_block_start", "index": place, "content_block": block})
        for piece in (arguments[:5], arguments[5:]):
            delta = {"type": "input_json_delta", "partial_json": piece}
            parts.append({"type": "content_block_delta", "index": place, "delta": delta})
        parts.append({"type": "content_block_stop", "index": place})
    with anthropic.Anthropic(api_key="none", http_client=http(events(*parts))) as client:
        return list(client.messages.create(model="claude", max_tokens=9, messages=[], stream=True))


def stream_gemini(http: Any) -> list[Any]:
    from google import genai  # noqa: PLC0415

    calls = [{"functionCall": {"name": "order_total", "args": args}} for args in ({"prices": [4, 6]}, {})]
    body = events(*(gemini(call) for call in calls))
    client = genai.Client(api_key="none", http_options={"httpx_client": http(body)})
    return list(client.models.generate_content_stream(model="gemini", contents="?"))


@pytest.mark.parametrize(
    ("target", "options", "stream", "http"),
    [
        pytest.param("openai", {}, stream_chat, httpx, id="openai"),
        pytest.param("openai", {"api": "responses"}, stream_responses, httpx, id="responses"),
        pytest.param("anthropic", {}, stream_claude, httpx2, id="anthropic"),
        pytest.param("gemini", {}, stream_gemini, httpx, id="gemini"),
    ],
)
def test_the_calls_of_a_streamed_response_are_answered(
    target: Any, options: Any, stream: Callable[[Any], list[Any]], http: Any
) -> None:
    def client(body: str) -> Any:
        head = {"content-type": "text/event-stream"}
        return http.Client(
            transport=http.MockTransport(lambda _: http.Response(200, text=body, headers=head))
        )

    crib = SyncCrib()
    crib.add(order_total)
    session = crib.session(target, **options)
    answers = json.dumps(session.run(session.join(stream(client))))
    assert answers.count("order_total") >= 2
    assert "10.0" in answers
    assert "rror" in answers.partition("10.0")[2]  # the call that was cut off, or lacks an argument
    assert ("I add it up." in answers) == (stream is stream_chat)


def wiper(target: Any, **options: Any) -> tuple[Any, list[str]]:
    """Return a session with a tool that needs no arguments, and the list of its calls."""
    crib, wiped = SyncCrib(), list[str]()

    @crib.add
    def wipe(folder: str = "/") -> str:
        """Wipe a folder."""
        wiped.append(folder)
        return "done"

    return crib.session(target, **options), wiped


CHAT_CALL = [call_delta(0, "", id="call_0", type="function", function={"name": "wipe"})]
CLAUDE_CALL = {"type": "tool_use", "id": "call_0", "name": "wipe", "input": {}}
ITEM = {"type": "function_call", "id": "fc_0", "call_id": "call_0", "name": "wipe", "arguments": ""}


def finish_chunk(reason: str) -> dict[str, Any]:
    chunk = chat_chunk()
    chunk["choices"][0]["finish_reason"] = reason
    return chunk


def claude_events(*deltas: str, stop: bool = True, reason: str | None = "tool_use") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 0, "content_block": {**CLAUDE_CALL}}
    ]
    for text in deltas:
        delta = {"type": "input_json_delta", "partial_json": text}
        found.append({"type": "content_block_delta", "index": 0, "delta": delta})
    found += [{"type": "content_block_stop", "index": 0}] if stop else []
    return found + ([{"type": "message_delta", "delta": {"stop_reason": reason}}] if reason else [])


def item_events(*deltas: str) -> list[dict[str, Any]]:
    added = {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {**ITEM, "status": "in_progress"},
    }
    kind = "response.function_call_arguments.delta"
    return [added, *({"type": kind, "output_index": 0, "item_id": "fc_0", "delta": text} for text in deltas)]


def end_event(kind: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": {**responses(*items), "status": kind}}


RESPONSES = {"api": "responses"}


@pytest.mark.parametrize(
    ("target", "options", "chunks"),
    [
        ("openai", {}, [chat_chunk(tool_calls=CHAT_CALL)]),
        ("openai", {}, [chat_chunk(tool_calls=CHAT_CALL), finish_chunk("length")]),
        ("openai", {}, [chat_chunk(tool_calls=CHAT_CALL), finish_chunk("content_filter")]),
        ("openai", {}, [chat_chunk(tool_calls=CHAT_CALL), chat_chunk(tool_calls=[call_delta(0, '{"fol')])]),
        ("openai", RESPONSES, item_events()),
        ("openai", RESPONSES, item_events('{"folder"')),
        ("openai", RESPONSES, [end_event("incomplete", {**ITEM, "status": "incomplete"})]),
        ("openai", RESPONSES, [end_event("incomplete", ITEM)]),
        ("anthropic", {}, claude_events(stop=False, reason=None)),
        ("anthropic", {}, claude_events('{"folder"', stop=False, reason=None)),
        ("anthropic", {}, claude_events("{}", stop=False, reason=None)),
        ("anthropic", {}, claude_events('{"folder"')),
        ("anthropic", {}, claude_events(reason="max_tokens")),
        ("gemini", {}, [gemini({"functionCall": {"name": "wipe", "willContinue": True}})]),
    ],
)
def test_call_that_was_cut_off_is_answered_with_an_error_and_not_run(
    target: Any, options: Any, chunks: list[dict[str, Any]]
) -> None:
    session, wiped = wiper(target, **options)
    joined = json.loads(json.dumps(session.join(chunks)))  # a program may keep it as JSON
    answers = session.run(joined)
    assert wiped == []
    assert "rror" in json.dumps(answers)
    assert "cut_off" not in json.dumps(answers), "a provider would refuse the key"
    assert "wipe" in json.dumps(answers[0]), "the call stays in the history"
    if target == "anthropic":
        assert answers[0]["content"][0]["input"] == {}, "a provider takes only objects"


@pytest.mark.parametrize(
    ("target", "options", "chunks"),
    [
        ("openai", {}, [chat_chunk(tool_calls=CHAT_CALL), finish_chunk("tool_calls")]),
        ("openai", {}, [chat_chunk(tool_calls=CHAT_CALL), chat_chunk(tool_calls=[call_delta(0, "{}")])]),
        ("openai", RESPONSES, [*item_events("{}"), end_event("completed", {**ITEM, "arguments": "{}"})]),
        (
            "openai",
            RESPONSES,
            [*item_events("{}"), {"type": "response.output_item.done", "output_index": 0, "item": ITEM}],
        ),
        ("anthropic", {}, claude_events()),
        ("anthropic", {}, claude_events("", "{}")),
        ("gemini", {}, [gemini({"functionCall": {"name": "wipe", "args": {}}})]),
    ],
)
def test_streamed_call_without_arguments_is_run_once_it_is_whole(
    target: Any, options: Any, chunks: list[dict[str, Any]]
) -> None:
    session, wiped = wiper(target, **options)
    session.run(session.join(chunks))
    assert wiped == ["/"]


def test_calls_of_whole_responses_that_ran_out_of_tokens_are_not_run() -> None:
    for target, response in (
        ("anthropic", {**claude({**CLAUDE_CALL}), "stop_reason": "max_tokens"}),
        ("openai", chat(("call_0", "wipe", ""))),
    ):
        if target == "openai":
            response["choices"][0]["finish_reason"] = "length"
        session, wiped = wiper(target)
        assert "cut off" in json.dumps(session.run(response))
        assert wiped == []


@pytest.mark.parametrize(
    ("target", "options"), [("openai", {}), ("openai", RESPONSES), ("anthropic", {}), ("gemini", {})]
)
@pytest.mark.parametrize("response", [None, {"foo": 1}, {"error": {"message": "quota exceeded"}}, "text", 5])
def test_invalid_response_is_refused(target: Any, options: Any, response: Any) -> None:
    session, _ = wiper(target, **options)
    with pytest.raises(ConversionError, match=r"response.* with") as caught:
        session.run(response)
    if response is None:
        assert "expected the model's response, as the SDK returned it, with " in str(caught.value)
        assert str(caught.value).endswith("; this is None")
    assert ("quota exceeded" in str(caught.value)) == (isinstance(response, dict) and "error" in response)


@pytest.mark.parametrize(
    ("target", "options", "call", "wrapped"),
    [
        (
            "openai",
            {},
            {"id": "1", "type": "function", "function": {"name": "wipe", "arguments": "{}"}},
            "{'role': 'assistant', 'tool_calls': [call]}",
        ),
        (
            "openai",
            RESPONSES,
            {"type": "function_call", "call_id": "1", "name": "wipe", "arguments": "{}"},
            "[call]",
        ),
        (
            "anthropic",
            {},
            {"type": "tool_use", "id": "1", "name": "wipe", "input": {}},
            "{'role': 'assistant', 'content': [call]}",
        ),
        ("gemini", {}, {"name": "wipe", "args": {}}, "{'role': 'model', 'parts': [{'functionCall': call}]}"),
    ],
)
def test_single_call_is_refused_with_the_message_that_wraps_it(
    target: Any, options: Any, call: dict[str, Any], wrapped: str
) -> None:
    session, _ = wiper(target, **options)
    with pytest.raises(ConversionError) as caught:
        session.run(call)
    assert str(caught.value).endswith(f"not a single tool call; wrap it: {wrapped}")
    assert session.run(eval(wrapped, {"call": call}))  # noqa: S307 - what the message tells to write


WHOLE_CALL = {"id": "1", "type": "function", "function": {"name": "wipe", "arguments": "{}"}}
FOREIGN = {
    "'openai'": {
        "choices": [{"message": {"role": "assistant", "content": "Yes.", "tool_calls": [WHOLE_CALL]}}]
    },
    "'openai' with api='responses'": {"output": [], "status": "completed"},
    "'anthropic'": {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "1", "name": "wipe", "input": {}}],
    },
    "'gemini'": {"candidates": [{"content": {"role": "model", "parts": []}}]},
}


@pytest.mark.parametrize(
    ("target", "options", "own"),
    [
        ("openai", {}, "'openai'"),
        ("openai", RESPONSES, "'openai' with api='responses'"),
        ("anthropic", {}, "'anthropic'"),
        ("gemini", {}, "'gemini'"),
    ],
)
def test_response_of_another_format_is_refused_by_its_name(target: Any, options: Any, own: str) -> None:
    session, _ = wiper(target, **options)
    for name, response in FOREIGN.items():
        if name != own:
            with pytest.raises(ConversionError) as caught:
                session.run(response)
            assert str(caught.value).endswith(
                f"looks like a response from {name}, but the session is for {own}"
            )


def test_message_of_another_format_is_not_taken_for_one_without_calls() -> None:
    session, wiped = wiper("anthropic")
    with pytest.raises(ConversionError, match="looks like a response from 'openai'"):
        session.run({"role": "assistant", "content": "I wipe it.", "tool_calls": [WHOLE_CALL]})
    assert wiped == []


def test_response_that_failed_is_no_finished_turn() -> None:
    session, _ = wiper("openai", **RESPONSES)
    failed = end_event("failed")
    failed["response"]["error"] = {"code": "server_error", "message": "overloaded"}
    with pytest.raises(ConversionError, match="overloaded"):
        session.run(session.join([failed]))
    for target, event in (
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}}),
        ("openai", {"error": {"message": "overloaded"}}),
    ):
        with pytest.raises(ConversionError, match="overloaded"):
            wiper(target)[0].join([event])


def test_a_stream_without_calls_ends_the_loop() -> None:
    crib = SyncCrib()
    crib.add(order_total)
    for target, chunks in (
        ("openai", [chat_chunk(role="assistant", content="Hello.")]),
        ("anthropic", []),
        ("gemini", [gemini({"text": "Hello."})]),
    ):
        session = crib.session(target)
        assert session.run(session.join(chunks)) == []


def test_the_example_streams_until_there_is_an_answer(root: Path) -> None:
    import openai  # noqa: PLC0415

    function = {"name": "order_total", "arguments": '{"prices": [4, 6], "discount": null}'}
    turns = iter(
        [
            chat_chunk(tool_calls=[{"index": 0, "id": "call_1", "type": "function", "function": function}]),
            chat_chunk(role="assistant", content="It is 10."),
        ]
    )
    sent: list[Any] = []

    def answer(request: Any) -> Any:
        sent.append(json.loads(request.content))
        head = {"content-type": "text/event-stream"}
        return httpx.Response(200, text=events(next(turns)), headers=head)

    names = runpy.run_path(str(root / "examples" / "with_openai.py"))
    transport = httpx.MockTransport(answer)
    with openai.OpenAI(api_key="none", http_client=httpx.Client(transport=transport)) as client:
        assert names["main"](client, "gpt", "What do 4 and 6 cost?") == "It is 10."
    assert sent[1]["messages"][-1] == {"role": "tool", "tool_call_id": "call_1", "content": "10.0"}


def names_of(session: Any) -> list[str]:
    return [each["function"]["name"] for each in session.tools]


def test_a_model_finds_tools_which_are_listed_on_its_next_turn() -> None:
    with SyncCrib() as crib:

        @crib.add(namespace="shop")
        def order_total(prices: list[float]) -> float:
            """Add up the prices of an order."""
            return sum(prices)

        @crib.add(namespace="mail")
        def send_mail(to: str) -> str:
            """Send a mail."""
            return f"sent to {to}"

        session = crib.session("openai", tools=["mail:send_mail"], search=True)
        assert names_of(session) == ["search_tools", "send_mail"]
        asked = json.dumps({"query": "add up the prices of an order", "limit": 1})
        early = chat(("1", "search_tools", asked), ("2", "order_total", "{}"))
        _, found, unknown = session.run(early)
        assert json.loads(found["content"])["tools"] == [
            {"name": "order_total", "description": "Add up the prices of an order."}
        ]
        assert "no tool is called 'order_total'" in unknown["content"]
        assert names_of(session) == ["search_tools", "send_mail", "order_total"]
        _, total = session.run(chat(("3", "order_total", '{"prices": [4, 6]}')))
        assert json.loads(total["content"]) == 10
        _, empty = session.run(chat(("4", "search_tools", '{"query": " "}')))
        assert "say in words what you want to do" in empty["content"]
        _, wrong = session.run(chat(("6", "search_tools", '{"query": 5, "limit": 100}')))
        assert "/query" in wrong["content"]
        assert "/limit" in wrong["content"]
        _, doubtful = session.run(chat(("5", "search_tools", '{"query": "repair the gearbox of my car"}')))
        assert "nothing clearly fits" in doubtful["content"]


def test_a_session_keeps_the_tools_that_were_found_last() -> None:
    with SyncCrib() as crib:
        for number in range(50):

            @crib.add(name=f"colour_{number}")
            def colour() -> str:
                """Tell a colour."""
                return "red"

        session = crib.session("openai", search=True)
        for number in range(50):
            session.run(chat(("1", "search_tools", json.dumps({"query": f"colour_{number}", "limit": 1}))))
        assert len(names_of(session)) == 33
        assert names_of(session)[-1] == "colour_49"


@pytest.mark.parametrize(
    ("target", "options"), [("openai", {"strict": True}), ("anthropic", {"strict": True}), ("gemini", {})]
)
def test_every_provider_takes_a_session_with_a_search(target: Any, options: Any) -> None:
    with SyncCrib() as crib:
        assert "search_tools" in json.dumps(crib.session(target, search=True, **options).tools)


def test_named_tools_of_a_search_are_checked_at_once_and_may_go_later() -> None:
    with SyncCrib() as crib:

        @crib.add(namespace="mail")
        def send_mail(to: str) -> str:
            """Send a mail."""
            return f"sent to {to}"

        with pytest.raises(ToolNotFoundError):
            crib.session("openai", tools=["mail:send_male"], search=True)
        session = crib.session("openai", tools=["mail:send_mail"], search=True)

        async def unregister(loop: Crib) -> None:
            loop.index.unregister("mail:send_mail")

        crib.call_in_loop(unregister)
        session.run(chat(("1", "search_tools", json.dumps({"query": "send a mail"}))))
        assert names_of(session) == ["search_tools"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": "shop:total"}, "tools must be a list; put 'shop:total' into one"),
        ({"tools": ToolId.parse("shop:total")}, "tools must be a list; put 'shop:total' into one"),
        ({"tool": ["shop:total"]}, "there is no option 'tool'; did you mean 'tools'?"),
        ({"serach": True}, "there is no option 'serach'; did you mean 'search'?"),
        ({"name": "x"}, "there is no option 'name'"),
    ],
)
@pytest.mark.parametrize("target", ["openai", "anthropic", "gemini"])
def test_misspelt_keyword_of_session_is_refused(target: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionError) as caught:
        SyncCrib().session(target, **options)
    assert caught.value.reason == message


def test_session_is_displayed_with_its_provider_and_number_of_tools() -> None:
    session, _ = wiper("anthropic")
    assert repr(session) == "<SyncToolSession anthropic, 1 tool>"


def test_model_that_calls_an_unknown_tool_is_told_which_there_are() -> None:
    session, _ = wiper("anthropic")
    call = {"type": "tool_use", "id": "call_0", "name": "nosuch", "input": {}}
    [_, answer] = session.run({"content": [call], "role": "assistant"})
    [result] = answer["content"]
    assert result["is_error"]
    assert json.dumps(result["content"]).count("no tool is called 'nosuch'; there is wipe") == 1
    assert "decode_call" not in json.dumps(result)

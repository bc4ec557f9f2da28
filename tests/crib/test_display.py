"""Records in the REPL and in notebooks, and the tracebacks of errors."""

import re
import traceback
from html.parser import HTMLParser
from typing import Any

import pytest

from toolcrib import SyncCrib, Tool, ToolcribError
from toolcrib.discovery import Page
from toolcrib.errors import InputValidationError, InvalidToolError, PolicyDeniedError, ToolExecutionError
from toolcrib.execution.mcp import ServerStatus
from toolcrib.execution.mcp.server_health import ServerTable
from toolcrib.model import LocalBackend, LocalTool, RunResult
from toolcrib.runs import RunRecord

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "'\"><svg onload=alert(1)>",
    "</td></table><iframe src=javascript:alert(1)>",
    "$\\href{javascript:alert(1)}{x}$",
    "\x1b[31mred\x1b[0m \x07",
    "safe\u202egnp.exe",
    "hid\u200bden \U000e0041\U000e0100",
    "a\nline\r\nbreak",
]
HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\u200b-\u200f\u202a-\u202e\U000e0000-\U000e01ef]")
LINE = 110


class Reader(HTMLParser):
    """Collects the elements and the text of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def order_total(prices: list[float], discount: float = 0) -> float:
    """Add up an order."""
    return sum(prices) * (1 - discount)


@pytest.fixture
def crib() -> SyncCrib:
    made = SyncCrib()
    made.add(order_total, namespace="shop", version="1.2.0")
    return made


def test_reprs_are_a_few_short_lines(crib: SyncCrib) -> None:
    found = crib.search("order")
    assert (
        repr(found)
        == f"<Page for 'order': 1 of 1>\n  {found[0].confidence:.2f} shop:order_total:1.2.0 Add up an order."
    )
    assert repr(crib.tools()) == "<Page: 1 of 1>\n  shop:order_total:1.2.0 Add up an order."
    described = "<ToolDoc shop:order_total:1.2.0(prices, discount?): Add up an order.>"
    assert repr(crib.describe(order_total)) == described
    assert repr(crib.describe(order_total, "summary")) == "<ToolDoc: Add up an order.>"
    result = crib.run(order_total, {"prices": [4, 6]})
    assert re.fullmatch(r"<RunResult shop:order_total:1\.2\.0: 10\.0, [\d.]+ ms>", repr(result))
    assert repr(crib[order_total]) == "<Tool shop:order_total:1.2.0: Add up an order.>"
    chained = crib.run_chain([{"toolId": "shop:order_total", "args": {"prices": [1]}}])
    assert repr(chained) == "<ChainResult 1.0, 1 step>"
    ran = repr(crib.execute("__out = await shop.order_total(prices=[1])"))
    assert re.fullmatch(r"<ExecuteResult 1\.0, 1 call, [\d.]+ ms>", ran)
    assert str(result) == repr(result)
    assert str(found) == repr(found)


def test_page_names_the_servers_that_did_not_answer() -> None:
    gone = {"command": "no-such-program"}
    with SyncCrib({"mcpServers": {"gone": gone}, "store": "memory"}) as crib:
        crib.add(order_total, namespace="shop")
        crib.ready()
        told = "no answer from gone; its tools may be missing"
        for page in (crib.search("order"), crib.tools()):
            assert page.unanswered == ("gone",)
            assert repr(page).endswith(f"\n  {told}")
            assert told in page._repr_html_()
        assert crib.tools(namespace="shop").unanswered == ()


def test_reprs_of_long_lists_and_values_are_cut() -> None:
    crib = SyncCrib()
    for number in range(30):
        crib.add(
            LocalTool(lambda: [{"text": "x" * 10_000}] * 1_000, tool_of(f"tool-{number:02}", "Long. " * 500))
        )
    lines = repr(crib.tools()).splitlines()
    assert lines[0] == "<Page: 30 of 30>"
    assert len(lines) == 12
    result = crib.run("tool-00")
    for shown in (*lines, repr(result), repr(crib.describe("tool-00")), repr(result.tool)):
        assert len(shown) <= LINE + 30
    assert len(result._repr_html_()) < 6_000
    many = Page(items=tuple(crib.tools()) * 10, total=300)
    assert "200 more" in many._repr_html_()


def test_servers_are_shown_as_a_table(little: Any) -> None:
    with SyncCrib({"mcpServers": {"text": little()}}) as crib:
        crib.ready()
        shown = repr(crib.status())
        assert re.fullmatch(r"<1 server>\n  <ServerStatus text, ready, stdio, \d+ tools>", shown)
        assert "ready" in Reader(crib.status()._repr_html_()).text  # type: ignore[attr-defined]
        assert [*crib.status()] == ["text"]


def tool_of(name: str, text: str) -> Tool:
    properties = {text: {"type": "string", "description": text, "default": text}, "other": {"enum": [text]}}
    return Tool(
        name=name,
        title=text,
        description=text,
        input_schema={"type": "object", "properties": properties, "required": [text]}
        if text in HOSTILE
        else {},
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_tools_are_harmless_in_html_and_in_a_terminal(text: str) -> None:
    crib = SyncCrib()
    crib.add(LocalTool(lambda **_: {text: [text]}, tool_of("evil", text)))
    crib.discovery.register_doc("evil", {"notes": text, "examples": [{"title": text, "args": {text: text}}]})
    result = crib.run("evil", {text: text})
    failed = ServerStatus(name="evil", state="failed", transport="stdio", last_error=text)
    shown = (
        crib.search("evil"),
        crib.tools(),
        crib.describe("evil", "summary"),
        crib.describe("evil", "full"),
        result.replace(notes=(text,)),
        ServerTable(evil=failed),
    )
    for record in shown:
        html = Reader(record._repr_html_())  # type: ignore[attr-defined]
        assert html.elements <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
        assert html.attributes <= {"class", "style", "colspan"}
        assert not HIDDEN.search(html.text)
        assert "tex2jax_ignore" in record._repr_html_()  # type: ignore[attr-defined]
    for record in (*shown, failed, result.tool):
        assert not HIDDEN.search(repr(record))
        assert len(repr(record).splitlines()) <= 2


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_errors_are_raised_in_the_line_of_the_caller(crib: SyncCrib) -> None:
    calls: dict[str, Any] = {
        "run": lambda: crib.run(order_total, {"prices": "4"}),
        "run nobody": lambda: crib.run("nobody"),
        "describe": lambda: crib.describe("nobody"),
        "[]": lambda: crib["nobody"],
        "convert": lambda: crib.convert("opnai"),
        "execute": lambda: crib.execute("1 +"),
        "run_chain": lambda: crib.run_chain([{"toolId": "nobody"}]),
        "search": lambda: crib.search("order", limit=-1),
        "add": lambda: crib.add(print),
        "SyncCrib": lambda: SyncCrib("nowhere.toml"),
        "session": lambda: crib.session("openai").run(
            {"role": "assistant", "tool_calls": [{"function": {}}]}
        ),
    }
    for name, call in calls.items():
        with pytest.raises(ToolcribError) as caught:
            call()
        assert frames(caught.value)[1:] in (["<lambda>"], ["<lambda>", "run"]), name


def test_errors_keep_the_frames_of_handlers_and_hooks() -> None:
    def deny(_: Any) -> Any:
        raise PolicyDeniedError(tool_id="fail", reason="not today")

    def fail() -> int:
        """Fail."""
        return 1 // 0

    crib = SyncCrib()
    crib.add(fail)
    with pytest.raises(ToolExecutionError) as caught:
        crib.run("fail")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert frames(caught.value.__cause__) == ["fail"]
    strict = SyncCrib(policy=deny)
    strict.add(fail)
    with pytest.raises(PolicyDeniedError) as denied:
        strict.run("fail")
    assert frames(denied.value)[-1] == "deny"


def test_defects_keep_their_whole_traceback(crib: SyncCrib, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr("toolcrib.execution.runner.Runner.run", broken)
    with pytest.raises(KeyError) as caught:
        crib.run(order_total, {"prices": [1]})
    assert {"run_in", "broken"} <= set(frames(caught.value))


def test_results_are_shown_whatever_they_hold() -> None:
    tool = Tool(name="any", input_schema={})
    for value in (None, "", {}, {"a": 1}, "x" * 100_000, [[]] * 100_000, 1e308, 10**300):
        result = RunResult(tool=tool, backend=LocalBackend(name="any"), structured=value, duration=0.1)
        assert len(repr(result)) < 200
        assert len(result._repr_html_()) < 6_000


def test_refusals_show_no_inner_cause_twice(crib: SyncCrib) -> None:
    with pytest.raises(InputValidationError) as caught:
        crib.run(order_total, {"prices": ["4"]})
    printed = "".join(traceback.format_exception(caught.value))
    assert printed.count('File "') <= 3
    with pytest.raises(InvalidToolError):
        crib.add(lambda *args: args)


def test_durable_run_is_shown_in_one_line_with_the_calls_that_may_have_run() -> None:
    run = RunRecord(id="r1", kind="chain", state="done", step=2, began=0.0, changed=0.0)
    assert repr(run) == str(run) == "<RunRecord r1: chain, done, 2 answered calls>"
    run = RunRecord(
        id="r1", kind="code", state="suspended", step=1, began=0.0, changed=0.0, uncertain={"1": "shop:order"}
    )
    told = "<RunRecord r1: code, suspended, 1 answered call, {'1': 'shop:order'} may have run>"
    assert repr(run) == told

"""Every file in examples/ runs with the expected output; those with a framework are tested beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("[!w]*.py"))
SAYS = {
    "tour.py": [
        "shop:order_total:1.2.0, called: 5.0",
        "- required property 'source_timezone' is missing",
        "- unexpected property 'timezone'",
        "- /time: must be a string, not 930",
        "- /prices/0: must be a number, not '4'",
        "InvalidSchemaError: invalid schema: /type: 'dict' is not a JSON Schema type; did you mean 'object'?",
        "SchemaTooComplexError: the schema multiplies to",
        ">=1.2.0 <2.0.0-0||>=3.0.0-rc.1 <4.0.0-0 accepts 1.4.2, 3.0.0-rc.2",
        "negotiated: server 2.0.0",
        "ToolCall(tool_id='shop:order_total:1.2.0', args={'prices': [4, 6]}, call_id='call_1')",
        "{'role': 'tool', 'tool_call_id': 'call_1', 'content': '10'}",
        "anthropic-strict: accepted",
        "how much is the order? -> ['shop:order_total:1.2.0']",
        "wich time zone is Tokyo in -> ['convert_time']",
        "sing me a song -> nothing fits",
    ]
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.name)
def test_the_example_runs_and_says_what_it_should(example: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", example], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert [line for line in SAYS[example.name] if line not in run.stdout] == []

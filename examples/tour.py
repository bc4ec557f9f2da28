"""A tour: define, validate, version, translate, find and run tools."""

import json

from toolcrib import Constraint, DefaultValidator, Matrix, SyncCrib, Tool, Version, tool
from toolcrib.adapter import default_registry, portability
from toolcrib.discovery import Discovery
from toolcrib.errors import InvalidSchemaError, ToolNotFoundError, ValidationError
from toolcrib.model import McpBackend, parse_arg_schema

TIME = """
{
  "name": "convert_time",
  "description": "Convert time between timezones.",
  "inputSchema": {
    "type": "object",
    "properties": {
      "source_timezone": {"type": "string", "description": "Source IANA timezone name."},
      "time": {"type": "string", "description": "Time to convert in 24-hour format (HH:MM)"},
      "target_timezone": {"type": "string", "description": "Target IANA timezone name."}
    },
    "required": ["source_timezone", "time", "target_timezone"],
    "additionalProperties": false
  },
  "annotations": {"readOnlyHint": true},
  "execution": {"taskSupport": "forbidden"}
}
"""


@tool(namespace="shop", version="1.2.0", tags=["Order Desk"])
def order_total(prices: list[float], discount: float = 0) -> float:
    """Add up an order.

    Args:
        prices: The price of each item.
        discount: What to take off, from 0 to 1.
    """
    return sum(prices) * (1 - discount)


def main() -> None:
    """Take the tour."""
    validator = DefaultValidator()

    print("1. A tool from a Python function")
    print(f"   {order_total.tool.id}, called: {order_total([4.0, 6.0], discount=0.5)}")
    print(f"   {json.dumps(order_total.tool.input_schema['properties'])}")

    print("2. A tool from an MCP server, with every field kept")
    convert = Tool.from_json(TIME)
    print(f"   {convert.id}: {sorted(convert.to_json())}")

    print("3. A tool from a light argument schema")
    arguments = parse_arg_schema({"query": {"type": "string", "required": True, "minLength": 3}})
    search = Tool(name="search", namespace="docs", input_schema=arguments)
    print(f"   {search.id}: {json.dumps(search.input_schema['properties'])}")

    print("4. Arguments are checked, and every problem is told at once")
    validator.validate_input(search, {"query": "drill"})
    for subject, bad in ((convert, {"time": 930, "timezone": "UTC"}), (order_total.tool, {"prices": ["4"]})):
        try:
            validator.validate_input(subject, bad)
        except ValidationError as error:
            print(f"   {subject.id} {json.dumps(bad)}")
            print("".join(f"     - {problem}\n" for problem in error.problems), end="")

    print("5. A schema that is none, or that could hang us, is refused")
    bomb = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}
    for schema in ({"type": "dict"}, {"$ref": "#/$defs/d0", "$defs": {**bomb, "d40": {}}}):
        try:
            validator.validate(schema, {})
        except InvalidSchemaError as error:
            print(f"   {type(error).__name__}: {error}")

    print("6. Versions")
    wanted = Constraint.parse("^1.2 || >=3.0.0-rc.1 <4")
    offered = [Version.parse(text) for text in ("1.1.0", "1.4.2", "2.0.0", "v3.0.0-rc.2")]
    print(f"   {wanted} accepts {', '.join(str(version) for version in offered if version in wanted)}")
    server = Matrix().add("server", "1.0.0", "1.9.9", deprecated=True).add("server", "2.0.0", "2.9.9")
    print(f"   negotiated: server {server.negotiate('server', offered)}")

    print("7. A tool for a provider, and the model's call back")
    strict = default_registry().convert(order_total, source="mcp", target="openai", strict=True)
    print(f"   {json.dumps(strict.payload['function']['parameters']['properties']['discount'])}")
    function = {"name": "order_total", "arguments": '{"prices": [4, 6], "discount": null}'}
    call = strict.decode_call({"id": "call_1", "type": "function", "function": function})
    print(f"   {call}")
    print(f"   {strict.encode_result(order_total(**call.args), call.call_id)}")
    for target, report in portability(convert).items():
        print(f"   {target}: {'accepted' if report.accepted else 'refused'}, {len(report.warnings)} warnings")

    print("8. The right tool for a question, and as much about it as is needed")
    discovery = Discovery()
    discovery.register(order_total, doc={"notes": "Prices are in euros."})
    discovery.register_many([(convert, McpBackend(server_name="time")), (search, None)])
    for question in ("how much is the order?", "wich time zone is Tokyo in", "sing me a song"):
        results = discovery.search(question, limit=1, min_confidence=0.04)
        print(f"   {question} -> {[result.summary.id for result in results] or 'nothing fits'}")
    print(f"   {discovery.describe('shop:order_total', 'full').notes}")

    run_tools()


def run_tools() -> None:
    """Run a tool, and a chain of it."""
    print("9. Run it: one shape of result, one tree of errors")
    crib = SyncCrib()
    crib.add(order_total)
    print(f"   {crib.run('shop:order_total', {'prices': [4, 6], 'discount': 0.5}).structured}")
    steps = [
        {"id": "order", "toolId": "shop:order_total", "args": {"prices": [4, 6]}},
        {"toolId": "shop:order_total", "args": {"prices": [{"$ref": "steps.order"}, 5]}},
    ]
    print(f"   a chain: {crib.run_chain(steps).final}")
    try:
        crib.run("shop:order_totl", {})
    except ToolNotFoundError as error:
        print(f"   {error}")


if __name__ == "__main__":
    main()

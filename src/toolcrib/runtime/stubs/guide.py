"""What a model has to know before it writes code for a sandbox, beside the signatures of its tools."""

__all__ = ["GUIDE"]

GUIDE = """\
Write Python. `await` is allowed at the top level, and what you leave in `__out` is your answer: JSON, so \
lists, dicts, strings, numbers, booleans and None. What you print is shown as well. You see nothing else: \
keep intermediate results in variables, and put only what is needed into `__out`.

Tools are asynchronous functions: `result = await namespace.tool(name=value)`. Call tools that do not \
depend on each other together: `a, b = await asyncio.gather(first.tool(), second.tool())`.
- `await search_tools("what you need", limit=5)` gives tools as dicts with `id`, `shortDescription`, \
`confidence`.
- `await describe_tool("namespace:tool")` gives a dict whose `tool` has the `inputSchema`.
- `await run_tool("namespace:tool", {"name": value})` calls a tool by its id.
- `await run_chain([{"tool_id": "namespace:tool", "args": {...}}])` calls tools one after the other.

A tool that fails raises: LookupError (no such tool), ValueError (wrong arguments), PermissionError (not \
allowed), TimeoutError, OSError (its server is away), RuntimeError (what the tool itself said). Catch \
them where you can go on.

There is no network, no file of the machine and no installed package. Do without `yield`, inheritance, \
`del`, `async with`, decorators on methods, and modules other than asyncio, json, re, math, datetime, \
collections, itertools, functools, random, decimal, dataclasses, typing, base64, hashlib and time; code \
that needs more runs more slowly, or is refused before it calls anything.
"""
"""For the prompt of a model, before `stubs`."""

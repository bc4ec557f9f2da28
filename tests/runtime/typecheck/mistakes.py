"""Mistakes as models make them, and the diagnostic of each."""

MISTAKES: tuple[tuple[str, str], ...] = (
    (
        "await github.create_issue(titel='x')",
        "line 1: unknown argument 'titel' of github.create_issue; did you mean 'title'?",
    ),
    ("await github.create_issue(body='x')", "line 1: github.create_issue needs 'title'"),
    ("await add()", "line 1: add needs 'a', 'b'"),
    ("await add(1)", "line 1: add needs 'b'"),
    ("await add(1, 2, 3)", "line 1: too many arguments for add; it takes 2"),
    ("await add(1, a=2)", "line 1: add needs 'b'\nline 1: add is given 'a' twice"),
    ("await add('1', 2)", "line 1: add: 'a' must be float, not \"1\""),
    ("await github.create_issue(title=5)", "line 1: github.create_issue: 'title' must be str, not 5"),
    ("await github.create_issue(title=None)", "line 1: github.create_issue: 'title' must be str, not None"),
    (
        "await github.create_issue('x', priority='high')",
        "line 1: github.create_issue: 'priority' must be int, not \"high\"",
    ),
    (
        "await github.create_issue('x', labels='bug')",
        "line 1: github.create_issue: 'labels' must be list[str], not \"bug\"",
    ),
    (
        "await github.create_issue('x', labels={'a': 1})",
        "line 1: github.create_issue: 'labels' must be list[str], not dict[str, int]",
    ),
    (
        "await github.list_issues('r', state='opne')",
        'line 1: github.list_issues: \'state\' must be Literal["open", "closed", "all"], not "opne"; did you mean \'open\'?',
    ),
    (
        "await github.create_issue('x', meta='ann')",
        "line 1: github.create_issue: 'meta' must be a dict, not \"ann\"",
    ),
    (
        "await github.create_issue('x', meta={'ownr': 'a'})",
        "line 1: unknown key 'ownr'; did you mean 'owner'?",
    ),
    ("await github.create_issue('x', meta={})", "line 1: the object passed here needs the key 'owner'"),
    ("await github.create_issue('x', meta={'owner': 3})", "line 1: key 'owner' must be str, not 3"),
    (
        "await github.create_isue(title='x')",
        "line 1: 'github' has no tool 'create_isue'; did you mean 'create_issue'?",
    ),
    (
        "await github.fly()",
        "line 1: 'github' has no tool 'fly'",
    ),
    ("await githb.close(1)", "line 1: name 'githb' is not defined; did you mean 'github'?"),
    ("await search_tool('x')", "line 1: name 'search_tool' is not defined; did you mean 'search_tools'?"),
    ("await search_tools(limit=3)", "line 1: search_tools needs 'query'"),
    (
        "await run_tool('a:b', title='x')",
        "line 1: unknown argument 'title' of run_tool; there are tool_id, args",
    ),
    (
        "await describe_tool('a:b', 'everything')",
        'line 1: describe_tool: \'level\' must be Literal["summary", "schema", "full"], not "everything"',
    ),
    (
        "found = await search_tools('x')\nfound[0]['tool_id']",
        "line 2: unknown key 'tool_id'; there are category, confidence, id, inputModes, name, namespace, outputModes, score, scoreType, securitySummary, shortDescription, summary, tags",
    ),
    (
        "issue = await github.create_issue('x')\nissue['nmber']",
        "line 2: unknown key 'nmber'; did you mean 'number'?",
    ),
    (
        "issue = await github.create_issue('x')\nprint(issue['user']['name'])",
        "line 2: unknown key 'name'; there are id, login",
    ),
    (
        "issue = await github.create_issue('x')\nissue.number",
        "line 2: a dict has no attribute 'number'; write [\"number\"]",
    ),
    (
        "issue = await github.create_issue('x')\nissue.numbr",
        "line 2: a dict has no attribute 'numbr'; did you mean 'number'?",
    ),
    (
        "answer = await github.list_issues('r')\nfor i in answer['items']:\n    print(i.title)",
        "line 3: a dict has no attribute 'title'; write [\"title\"]",
    ),
    (
        "outcome = await github.close(1)\noutcome['clsed']",
        "line 2: unknown key 'clsed'; did you mean 'closed'?",
    ),
    (
        "github.create_issue(title='x')",
        "line 1: github.create_issue is never awaited, so it does not run; did you forget await?",
    ),
    (
        "async def main():\n    return 1\nmain()",
        "line 3: main is never awaited, so it does not run; did you forget await?",
    ),
    (
        "issue = github.create_issue('x')\nissue['number']",
        "line 2: this call gives a coroutine; did you forget await?",
    ),
    (
        "github.create_issue('x')['number']",
        "line 1: github.create_issue gives a coroutine; did you forget await?",
    ),
    (
        "for name in files.list():\n    print(name)",
        "line 1: files.list gives a coroutine; did you forget await?",
    ),
    ("len(files.list())", "line 1: files.list gives a coroutine; did you forget await?"),
    ("x = add(1, 2) + 1", "line 1: add gives a coroutine; did you forget await?"),
    (
        "await github.create_issue(title=time.now())",
        "line 1: time.now gives a coroutine; did you forget await?",
    ),
    ("await files.list", "line 1: files.list is a function: call it"),
    ("await github('create_issue')", "line 1: 'github' is a namespace: call one of its tools"),
    ("github['create_issue']", "line 1: 'github' is a namespace: call one of its tools"),
    ("def f(a):\n    return a\nf()", "line 3: f needs 'a'"),
    ("print(undefined_thing)", "line 1: name 'undefined_thing' is not defined"),
    ("await add(1, b='ä')", "line 1: add: 'b' must be float, not \"ä\""),
    ("x = 'äö'; await add(1, x)", "line 1: add: 'b' must be float, not \"äö\""),
    (
        "await add(\n    1,\n    [await add(1, 2)],\n)",
        "line 3: add: 'b' must be float, not list[float]",
    ),
    (
        "found = await files.stats()\nawait add(1, found)",
        "line 2: add: 'b' must be float, not StatsResult, which is a dict: take its [\"count\"]",
    ),
    (
        "await add(1, await github.list_issues('r'))",
        "line 1: add: 'b' must be float, not ListIssuesResult, which is a dict: take one of its keys items, next_page",
    ),
    ("await time.now(foo=1)", "line 1: unknown argument 'foo' of time.now; there is zone"),
    ("await files.stats(deep=True)", "line 1: unknown argument 'deep' of files.stats; it takes none"),
    ("__out = files.list()", "line 1: files.list gives a coroutine; did you forget await?"),
    ("names = files.list()\n__out = names", "line 1: files.list gives a coroutine; did you forget await?"),
    (
        "__out = {'sum': await add(1, 2), 'names': files.list()}",
        "line 1: files.list gives a coroutine; did you forget await?",
    ),
    ("__out = [add(1, 2), 3]", "line 1: add gives a coroutine; did you forget await?"),
    (
        "import asyncio\n__out = asyncio.gather(add(1, 2), add(3, 4))",
        "line 2: asyncio.gather gives a coroutine; did you forget await?",
    ),
    (
        "async def main():\n    return await add(1, 2)\n__out = main()",
        "line 3: main gives a coroutine; did you forget await?",
    ),
    ("return await add(1, 2)", "line 1: `return` outside of a function; leave the value in `__out`"),
    (
        "import github\nawait github.close(1)",
        "line 1: 'github' is there without an import: await github.<tool>(...)",
    ),
    ("from files import list", "line 1: 'files' is there without an import: await files.<tool>(...)"),
    (
        "import re\nx = re.sub('\\d\\'', '\\\\', 'a1'); await add(1, 'x')",
        "line 2: add: 'b' must be float, not \"x\"",
    ),
    ("for x in [1, 2]\n    pass", "line 1: syntax: expected `:`, found newline"),
)
"""Code, and the error as text."""

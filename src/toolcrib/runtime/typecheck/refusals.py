"""Decides which diagnostics of the type checker refuse code.

Code is refused if it would almost surely fail, above all if it calls tools wrongly: it is best to know before
any of them has run. A type checker also complains about code that works, which must pass.
"""

import builtins
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence

from toolcrib.model.suggest import did_you_mean, nearest, there_are
from toolcrib.runtime.guest_errors import unsupported_message
from toolcrib.runtime.typecheck.clash import simplify_type, types_clash, union_members
from toolcrib.runtime.typecheck.diagnostics import CheckContext, CodeProblem, Diagnostic

AWAIT_HINT = "did you forget await?"
"""The usual cause of a coroutine where a value is expected."""

_KEYWORD = re.compile(r"(\w+)\s*+=(?!=)")
_STRING = re.compile(r"""(["'])((?>(?:(?!\1)[^\\]|\\.)*))\1\s*+(\S?)""")
_UNION = re.compile(r"\(subscripted object has type `([^`]*)`\)")
_CALL = re.compile(r"(?:\w+\s*+=\s*+)?([A-Za-z_][\w.]*+)\s*+\(")
MONTY_HAS = frozenset({
    "filter", "format", "getattr", "hasattr", "map", "open", "setattr", "os.scandir", "os.walk",
})  # fmt: skip
"""What Monty has, although its type checker does not know it."""
_LENIENT = frozenset({"asyncio", "__out", "reveal_type"})
"""Names that a sandbox may well have without an import."""
_CATCHES_IMPORT = re.compile(r"except\b[^\n]{0,100}?\b(?:ImportError|ModuleNotFoundError)\b")
_LAZY = re.compile(r"^from __future__ import annotations", re.MULTILINE)
_ANNOTATION = re.compile(r"(?::|->)[\w\[\], .|\"']*\Z")
_METHOD = re.compile(r"(?:bound method|def) ([\w.]+)\(")
_MAX_KEYS = 8
"""How many keys of a result are named that is passed as a whole."""
_Rule = Callable[[Diagnostic, CheckContext], CodeProblem | None]


def report_missing_argument(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report the arguments that a call lacks."""
    path, names = context.called(finding), finding.ticked[:-1]
    if path is None or not names:
        return None
    return finding.problem(f"{path} needs {', '.join(map(repr, names))}")


def report_unknown_argument(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report an argument that the tool does not have."""
    path, name = context.called(finding), finding.subject
    if path is None:
        return None
    guess = nearest(name, context.words.arguments.get(path, ()))
    if guess is not None:
        context.echoes.add((finding.line, f"{path} needs {guess!r}"))
    takes = context.words.arguments.get(path, ())
    there = there_are(takes) if takes else "; it takes none" if path in context.words.arguments else ""
    return finding.problem(f"unknown argument {name!r} of {path}{_suggest(guess) or there}")


def report_too_many_arguments(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report more arguments than there are."""
    path = context.called(finding)
    if path is None or context.source.follows_unpacked(finding.line, finding.column):
        return None  # how many there are is not known
    takes = context.words.arguments.get(path)
    return finding.problem(
        f"too many arguments for {path}" + ("" if takes is None else f"; it takes {len(takes)}")
    )


def report_repeated_argument(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report an argument that is given both by position and by name."""
    path = context.called(finding)
    return None if path is None else finding.problem(f"{path} is given {finding.subject!r} twice")


def report_wrong_type(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report a value whose type can never be the expected one."""
    at, ticked = context.at(finding), finding.ticked
    if at.startswith("*") or len(ticked) < 3:  # noqa: PLR2004 - what is unpacked is not looked into
        return None
    if finding.message.startswith("Invalid argument to key"):
        key = finding.message.split('"')[1]
        known = ticked[1] in context.words.keys
        return _report_mismatch(finding, context, (ticked[0], ticked[2]), f"key {key!r}") if known else None
    path, (expected, found) = context.called(finding), ticked[-2:]
    if len(union_members(found)) == 1 and found.startswith("CoroutineType["):
        wanted = path in context.words.arguments and "Any" not in union_members(expected)
        return _report_coroutine(finding, context) if wanted or expected == "Sized" else None
    if path is None or path not in context.words.arguments:
        return None
    named = _KEYWORD.match(at)
    what = repr(named[1]) if named else _name_positional(finding, context, path)
    return _report_mismatch(finding, context, (expected, found), f"{path}: {what}")


def _name_positional(finding: Diagnostic, context: CheckContext, path: str) -> str:
    place, takes = context.source.argument(finding.line, finding.column), context.words.arguments[path]
    return repr(takes[place]) if place is not None and place < len(takes) else "an argument"


def _report_mismatch(
    finding: Diagnostic, context: CheckContext, types: tuple[str, str], what: str
) -> CodeProblem | None:
    expected, found = types
    if not types_clash(expected, found, context.words.keys):
        return None
    objects = " | ".join("a dict" if arm in context.words.keys else arm for arm in union_members(expected))
    values = re.findall(r'"([^"]*)"', expected)
    guess = _suggest(nearest(simplify_type(found).strip("\"'"), values))
    guess = guess or _suggest_key(context.words.keys.get(found, ()))
    return finding.problem(f"{what} must be {simplify_type(objects, 160)}, not {simplify_type(found)}{guess}")


def _suggest_key(keys: Sequence[str]) -> str:
    """Return a hint to take one value of a result; empty if the type is not that of a result."""
    if len(keys) == 1:
        return f', which is a dict: take its ["{keys[0]}"]'
    more = " and others" if len(keys) > _MAX_KEYS else ""
    return f", which is a dict: take one of its keys {', '.join(keys[:_MAX_KEYS])}{more}" if keys else ""


def _report_coroutine(finding: Diagnostic, context: CheckContext) -> CodeProblem:
    return finding.problem(f"{written_call(finding, context)} gives a coroutine; {AWAIT_HINT}")


def written_call(finding: Diagnostic, context: CheckContext) -> str:
    """Return the call at a diagnostic, as it stands in the code."""
    found = _CALL.match(context.at(finding))
    return found[1] if found else "this call"


def report_missing_key(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report the key that an object lacks which is written out as an argument."""
    quoted = finding.message.split("'")
    if finding.subject not in context.words.keys or len(quoted) < 3:  # noqa: PLR2004 - before, key, after
        return None
    return finding.problem(f"the object passed here needs the key {quoted[1]!r}")


def report_unknown_key(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report an unknown key that is read from a result, or written out in an argument."""
    kind, written = finding.subject, _STRING.match(context.at(finding))
    if kind not in context.words.keys or kind in context.words.open or written is None:
        return None
    key, follows = written[2], written[3]
    union = _UNION.search(finding.message)
    kinds = [arm for arm in union_members(union[1]) if arm != "None"] if union else [kind]
    if context.unknown_keys[finding.line, finding.column] < len(kinds):  # one of them has it
        return None
    if follows not in {"]", ":"} or (follows == "]" and _may_be_there(key, finding, context)):
        return None
    known = sorted({name for arm in kinds for name in context.words.keys.get(arm, ())})
    guess = nearest(key, known)
    if guess is not None:
        context.echoes.add((finding.line, f"the object passed here needs the key {guess!r}"))
    return finding.problem(f"unknown key {key!r}{_suggest(guess) or there_are(known)}")


def _may_be_there(key: str, finding: Diagnostic, context: CheckContext) -> bool:
    """Return whether the code adds a key somewhere, tests for it, or handles its absence."""
    quoted, code = rf"""["']{re.escape(key)}["']""", context.source.code
    read = re.findall(rf"(?<=[\w\])])\[\s*+{quoted}\s*+\](?!\s*+=(?!=))", code)
    if len(re.findall(quoted, code)) > len(read):
        return True
    added = re.search(rf"\b(?:update|dict)\([^()]*\b{re.escape(key)}\s*+=(?!=)", code)
    return added is not None or context.source.catches(finding.line, "KeyError", "LookupError")


def _suggest(guess: str | None) -> str:
    return "" if guess is None else f"; did you mean {guess!r}?"


def report_syntax_error(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:  # noqa: ARG001 - the rules share a signature
    """Report a syntax error."""
    text = finding.message
    if "__future__" in text or "outside of an asynchronous function" in text:
        return (
            None  # false here: our import precedes the first line of the code, and all code is asynchronous
        )
    if text.startswith("`return`"):
        return finding.problem("`return` outside of a function; leave the value in `__out`")
    return finding.problem(f"syntax: {text[:1].lower()}{text[1:]}")


def report_unknown_name(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report a name that nothing defines."""
    name, monty = finding.subject, context.engine == "monty"
    known = getattr(builtins, name, None)
    if name in _LENIENT or (isinstance(known, type) and issubclass(known, BaseException)):
        return None  # an `except` may name an exception without ever looking it up
    if monty and (name in MONTY_HAS or name in typing.__all__):
        return None  # Monty does not look at annotations
    if _LAZY.search(context.source.code) and _ANNOTATION.search(context.before(finding)):
        return None
    if hasattr(builtins, name):
        return (
            finding.problem(unsupported_message(f"the builtin {name!r}"), unsupported=True) if monty else None
        )
    return finding.problem(f"name {name!r} is not defined{did_you_mean(name, context.words.names)}")


def report_unknown_module(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report a module, or a member of one, that Monty lacks; a full Python raises it itself."""
    module, *member = finding.ticked or ("",)
    if module == "__future__" or _CATCHES_IMPORT.search(context.source.code):
        return None
    if module in context.words.members:
        return finding.problem(f"{module!r} is there without an import: await {module}.<tool>(...)")
    if context.engine == "python":
        return None
    if member:
        return _report_member(finding, context)
    if module.partition(".")[0] in sys.stdlib_module_names:
        return finding.problem(unsupported_message(f"the module {module!r}"), unsupported=True)
    return finding.problem(f"there is no module {module!r}: code has Python's own, and no installed packages")


def _report_member(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    path = ".".join(finding.ticked[:2])
    if context.engine == "python" or path in MONTY_HAS or path.endswith(("Error", "Exception")):
        return None
    return finding.problem(unsupported_message(f"{path!r}"), unsupported=True)


def report_unknown_attribute(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report a tool that a namespace does not have, or a key that is read like an attribute."""
    words, text = context.words, finding.message
    if len(finding.ticked) < 2 or not text.startswith(("Module ", "Object of type ", "Function ")):  # noqa: PLR2004
        return None
    kind, name = finding.ticked[:2]
    if text.startswith("Module "):
        return _report_member(finding, context)
    if kind in words.spaces:
        space = words.spaces[kind]
        # under another name the namespace may have tools that the stub need not have
        literally = re.match(rf"{re.escape(space)}\s*\.\s*{re.escape(name)}\b", context.at(finding))
        there = context.members.get(space, ())
        guess = did_you_mean(name, there or words.members[space]) or there_are(there)
        return finding.problem(f"{space!r} has no tool {name!r}{guess}") if literally else None
    if kind in words.keys:
        if _handles_both(name, finding, context):
            return None
        guess = f'; write ["{name}"]' if name in words.keys[kind] else did_you_mean(name, words.keys[kind])
        return finding.problem(f"a dict has no attribute {name!r}{guess}")
    return report_misuse(finding, context)


def _handles_both(name: str, finding: Diagnostic, context: CheckContext) -> bool:
    """Return whether the code tests the type of a result before it reads attributes."""
    asks = rf"""\bhasattr\([^()]*["']{re.escape(name)}["']|\btype\([^()]*\)\s*+(?:is|==|!=)"""
    return re.search(asks, context.source.code) is not None or context.source.catches(
        finding.line, "AttributeError"
    )


def report_unawaited_call(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report a call whose coroutine is thrown away."""
    return finding.problem(
        f"{written_call(finding, context)} is never awaited, so it does not run; {AWAIT_HINT}"
    )


def find_unawaited_values(context: CheckContext) -> Iterator[CodeProblem]:
    """Report coroutines that are left in `__out`, where only results can be."""
    given = (*context.words.arguments, "asyncio.gather")
    paths = {path for path in given if path.partition(".")[0] not in context.shadowed}
    for path, line, column in context.source.left_unawaited(paths):
        yield CodeProblem(line, column, f"{path} gives a coroutine; {AWAIT_HINT}")


def report_misuse(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Report a coroutine, a namespace or a tool that is used as if it were something else."""
    coroutines = [text for text in finding.ticked if text.startswith("CoroutineType[")]
    if any(len(union_members(text)) == 1 for text in coroutines):
        return _report_coroutine(finding, context)
    space = context.words.spaces.get(finding.subject)
    if space is not None:
        literally = re.match(rf"(?:await\s+)?{re.escape(space)}\b", context.at(finding))
        return finding.problem(f"{space!r} is a namespace: call one of its tools") if literally else None
    method = _METHOD.match(finding.subject)
    path = context.words.path(method[1] if method else finding.subject)
    return None if path is None else finding.problem(f"{path} is a function: call it")


RULES: Mapping[str, tuple[_Rule, str]] = {
    "invalid-syntax": (report_syntax_error, "nothing of it would run"),
    "unresolved-reference": (report_unknown_name, "NameError, but for what the checker's library lacks"),
    "unresolved-import": (report_unknown_module, "on Monty, whose library is the checker's"),
    "missing-argument": (report_missing_argument, "tools, and functions of the code that nothing wraps"),
    "unknown-argument": (report_unknown_argument, "the same"),
    "too-many-positional-arguments": (report_too_many_arguments, "the same"),
    "parameter-already-assigned": (report_repeated_argument, "the same"),
    "invalid-argument-type": (report_wrong_type, "tools, where the types can never agree"),
    "missing-typed-dict-key": (report_missing_key, "objects that are written out in the call of a tool"),
    "invalid-key": (report_unknown_key, "keys that are read or passed, and that the code adds nowhere"),
    "unresolved-attribute": (report_unknown_attribute, "namespaces, tools, their results, coroutines"),
    "unused-awaitable": (report_unawaited_call, "a tool that would not run"),
    "not-subscriptable": (report_misuse, "coroutines and namespaces; None may have been ruled out"),
    "not-iterable": (report_misuse, "coroutines"),
    "unsupported-operator": (report_misuse, "coroutines"),
    "invalid-context-manager": (report_misuse, "coroutines"),
    "call-non-callable": (report_misuse, "namespaces; a class may be one that the library lacks"),
    "invalid-await": (report_misuse, "namespaces, and tools that are not called"),
}
"""The rules of the type checker that can refuse code, the function that decides, and where they apply.

Every other rule lets code pass: `invalid-assignment`, `invalid-parameter-default`, `invalid-return-type`,
`possibly-*`, `redundant-*`, `deprecated`, `conflicting-*` and their like speak of annotations and of style,
which do not run.
"""


_OF_VALUES = frozenset({"invalid-argument-type", "missing-typed-dict-key", "invalid-key"})
"""Rules about the value of an argument, which a handle of a kept result stands for until the call."""


def list_problems(context: CheckContext) -> list[CodeProblem]:
    """Return the problems of the code, each once, from top to bottom."""
    found = [
        RULES[finding.rule][0](finding, context)
        for finding in context.findings
        if finding.rule in RULES
        and not (finding.rule in _OF_VALUES and context.source.is_in_handle(finding.line, finding.column))
    ]
    problems = dict.fromkeys(
        problem for problem in (*found, *find_unawaited_values(context)) if problem is not None
    )
    kept = [problem for problem in problems if (problem.line, problem.message) not in context.echoes]
    return sorted(kept, key=lambda problem: (problem.line, problem.column))

"""Which findings of the type checker refuse code, and when.

Code is refused where it would almost surely fail, and above all where it uses tools wrongly: before any of
them runs is the best time to say so. A checker also finds fault with code that works; that is let through.
"""

import builtins
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping

from toolcrib.model.suggest import did_you_mean, there_are
from toolcrib.runtime.check import calls
from toolcrib.runtime.check.calls import FORGOTTEN, written_call
from toolcrib.runtime.check.clash import arms
from toolcrib.runtime.check.context import CheckContext, CodeProblem, Diagnostic
from toolcrib.runtime.guest_errors import lacks

__all__ = [
    "MONTY_HAS",
    "RULES",
    "bad_syntax",
    "judge",
    "left_over",
    "misused",
    "never_awaited",
    "unknown_attribute",
    "unknown_module",
    "unknown_name",
]

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
_Rule = Callable[[Diagnostic, CheckContext], CodeProblem | None]


def bad_syntax(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:  # noqa: ARG001 - the rules share a signature
    """Tell of code that is no Python."""
    said = finding.message
    if "__future__" in said or "outside of an asynchronous function" in said:
        return (
            None  # the first line is ours, so that theirs is the second; and all of the code is asynchronous
        )
    if said.startswith("`return`"):
        return finding.say("`return` outside of a function; leave the value in `__out`")
    return finding.say(f"syntax: {said[:1].lower()}{said[1:]}")


def unknown_name(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell of a name that nothing defines."""
    name, monty = finding.subject, context.engine == "monty"
    known = getattr(builtins, name, None)
    if name in _LENIENT or (isinstance(known, type) and issubclass(known, BaseException)):
        return None  # an `except` may name an exception without ever looking it up
    if monty and (name in MONTY_HAS or name in typing.__all__):
        return None  # Monty does not look at annotations
    if _LAZY.search(context.code) and _ANNOTATION.search(context.before(finding)):
        return None
    if hasattr(builtins, name):
        return finding.say(lacks(f"the builtin {name!r}"), unsupported=True) if monty else None
    return finding.say(f"name {name!r} is not defined{did_you_mean(name, context.words.names)}")


def unknown_module(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell of a module, or a member of one, that Monty lacks; a full Python tells of it itself."""
    module, *member = finding.ticked or ("",)
    if module == "__future__" or _CATCHES_IMPORT.search(context.code):
        return None
    if module in context.words.members:
        return finding.say(f"{module!r} is there without an import: await {module}.<tool>(...)")
    if context.engine == "python":
        return None
    if member:
        return _member(finding, context)
    if module.partition(".")[0] in sys.stdlib_module_names:
        return finding.say(lacks(f"the module {module!r}"), unsupported=True)
    return finding.say(f"there is no module {module!r}: code has Python's own, and no installed packages")


def _member(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    path = ".".join(finding.ticked[:2])
    if context.engine == "python" or path in MONTY_HAS or path.endswith(("Error", "Exception")):
        return None
    return finding.say(lacks(f"{path!r}"), unsupported=True)


def unknown_attribute(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell of a tool that a namespace does not have, or of a key that is read like an attribute."""
    words, said = context.words, finding.message
    if len(finding.ticked) < 2 or not said.startswith(("Module ", "Object of type ", "Function ")):  # noqa: PLR2004
        return None
    kind, name = finding.ticked[:2]
    if said.startswith("Module "):
        return _member(finding, context)
    if kind in words.spaces:
        space = words.spaces[kind]
        # under another name the namespace may have tools that the stub need not have
        literally = re.match(rf"{re.escape(space)}\s*\.\s*{re.escape(name)}\b", context.at(finding))
        there = context.members.get(space, ())
        guess = did_you_mean(name, there or words.members[space]) or there_are(there)
        return finding.say(f"{space!r} has no tool {name!r}{guess}") if literally else None
    if kind in words.keys:
        if _ready_for_both(name, finding, context):
            return None
        guess = f'; write ["{name}"]' if name in words.keys[kind] else did_you_mean(name, words.keys[kind])
        return finding.say(f"a dict has no attribute {name!r}{guess}")
    return misused(finding, context)


def _ready_for_both(name: str, finding: Diagnostic, context: CheckContext) -> bool:
    """Whether the code looks whether a result is a dict, and reads attributes only where it is not."""
    asks = rf"""\bhasattr\([^()]*["']{re.escape(name)}["']|\btype\([^()]*\)\s*+(?:is|==|!=)"""
    return re.search(asks, context.code) is not None or context.source.catches(finding.line, "AttributeError")


def never_awaited(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell of a call whose coroutine is thrown away."""
    return finding.say(f"{written_call(finding, context)} is never awaited, so it does not run; {FORGOTTEN}")


def left_over(context: CheckContext) -> Iterator[CodeProblem]:
    """Tell of coroutines that are left in `__out`, where only their results can be given back."""
    given = (*context.words.arguments, "asyncio.gather")
    paths = {path for path in given if path.partition(".")[0] not in context.shadowed}
    for call in context.source.left_unawaited(paths):
        yield CodeProblem(call.line, call.column, f"{call.path} gives a coroutine; {FORGOTTEN}")


def misused(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell of a coroutine, a namespace or a tool that is used as if it were something else."""
    coroutines = [text for text in finding.ticked if text.startswith("CoroutineType[")]
    if any(len(arms(text)) == 1 for text in coroutines):
        return finding.say(f"{written_call(finding, context)} gives a coroutine; {FORGOTTEN}")
    space = context.words.spaces.get(finding.subject)
    if space is not None:
        literally = re.match(rf"(?:await\s+)?{re.escape(space)}\b", context.at(finding))
        return finding.say(f"{space!r} is a namespace: call one of its tools") if literally else None
    method = _METHOD.match(finding.subject)
    path = context.words.path(method[1] if method else finding.subject)
    return None if path is None else finding.say(f"{path} is a function: call it")


RULES: Mapping[str, tuple[_Rule, str]] = {
    "invalid-syntax": (bad_syntax, "nothing of it would run"),
    "unresolved-reference": (unknown_name, "NameError, but for what the checker's library lacks"),
    "unresolved-import": (unknown_module, "on Monty, whose library is the checker's"),
    "missing-argument": (calls.missing_argument, "tools, and functions of the code that nothing wraps"),
    "unknown-argument": (calls.unknown_argument, "the same"),
    "too-many-positional-arguments": (calls.too_many, "the same"),
    "parameter-already-assigned": (calls.given_twice, "the same"),
    "invalid-argument-type": (calls.wrong_type, "tools, where the types can never agree"),
    "missing-typed-dict-key": (calls.missing_key, "objects that are written out in the call of a tool"),
    "invalid-key": (calls.unknown_key, "keys that are read or passed, and that the code adds nowhere"),
    "unresolved-attribute": (unknown_attribute, "namespaces, tools, their results, coroutines"),
    "unused-awaitable": (never_awaited, "a tool that would not run"),
    "not-subscriptable": (misused, "coroutines and namespaces; None may have been ruled out"),
    "not-iterable": (misused, "coroutines"),
    "unsupported-operator": (misused, "coroutines"),
    "invalid-context-manager": (misused, "coroutines"),
    "call-non-callable": (misused, "namespaces; a class may be one that the library lacks"),
    "invalid-await": (misused, "namespaces, and tools that are not called"),
}
"""The rules that can refuse code, what judges them, and where they count.

Every other rule lets code pass: `invalid-assignment`, `invalid-parameter-default`, `invalid-return-type`,
`possibly-*`, `redundant-*`, `deprecated`, `conflicting-*` and their like speak of annotations and of style,
which do not run.
"""


def judge(context: CheckContext) -> list[CodeProblem]:
    """Return what is wrong with the code, each thing once, from top to bottom."""
    found = [
        RULES[finding.rule][0](finding, context) for finding in context.findings if finding.rule in RULES
    ]
    problems = dict.fromkeys(problem for problem in (*found, *left_over(context)) if problem is not None)
    kept = [problem for problem in problems if (problem.line, problem.said) not in context.echoes]
    return sorted(kept, key=lambda problem: (problem.line, problem.column))

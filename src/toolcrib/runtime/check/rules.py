"""Which findings of the type checker refuse code, and when.

Code is refused where it would almost surely fail, and above all where it uses tools wrongly: before any of
them runs is the best time to say so. A checker also finds fault with code that works; that is let through.
"""

from collections.abc import Callable, Mapping

from toolcrib.runtime.check import calls, names
from toolcrib.runtime.check.context import Context, Finding, Problem

__all__ = ["RULES", "judge"]

_Rule = Callable[[Finding, Context], Problem | None]

RULES: Mapping[str, tuple[_Rule, str]] = {
    "invalid-syntax": (names.bad_syntax, "nothing of it would run"),
    "unresolved-reference": (names.unknown_name, "NameError, but for what the checker's library lacks"),
    "unresolved-import": (names.unknown_module, "on Monty, whose library is the checker's"),
    "missing-argument": (calls.missing_argument, "tools, and functions of the code that nothing wraps"),
    "unknown-argument": (calls.unknown_argument, "the same"),
    "too-many-positional-arguments": (calls.too_many, "the same"),
    "parameter-already-assigned": (calls.given_twice, "the same"),
    "invalid-argument-type": (calls.wrong_type, "tools, where the types can never agree"),
    "missing-typed-dict-key": (calls.missing_key, "objects that are written out in the call of a tool"),
    "invalid-key": (calls.unknown_key, "keys that are read or passed, and that the code adds nowhere"),
    "unresolved-attribute": (names.unknown_attribute, "namespaces, tools, their results, coroutines"),
    "unused-awaitable": (names.never_awaited, "a tool that would not run"),
    "not-subscriptable": (names.misused, "coroutines and namespaces; None may have been ruled out"),
    "not-iterable": (names.misused, "coroutines"),
    "unsupported-operator": (names.misused, "coroutines"),
    "invalid-context-manager": (names.misused, "coroutines"),
    "call-non-callable": (names.misused, "namespaces; a class may be one that the library lacks"),
    "invalid-await": (names.misused, "namespaces, and tools that are not called"),
}
"""The rules that can refuse code, what judges them, and where they count.

Every other rule lets code pass: `invalid-assignment`, `invalid-parameter-default`, `invalid-return-type`,
`possibly-*`, `redundant-*`, `deprecated`, `conflicting-*` and their like speak of annotations and of style,
which do not run.
"""


def judge(context: Context) -> list[Problem]:
    """Return what is wrong with the code, each thing once, from top to bottom."""
    found = [
        RULES[finding.rule][0](finding, context) for finding in context.findings if finding.rule in RULES
    ]
    problems = dict.fromkeys(
        problem for problem in (*found, *names.left_over(context)) if problem is not None
    )
    kept = [problem for problem in problems if (problem.line, problem.said) not in context.echoes]
    return sorted(kept, key=lambda problem: (problem.line, problem.column))

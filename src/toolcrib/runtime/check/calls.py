"""Checks calls of tools, and reads of their results."""

import re

from toolcrib.model.suggest import nearest, there_are
from toolcrib.runtime.check.clash import arms, clash, plainly
from toolcrib.runtime.check.context import CheckContext, CodeProblem, Diagnostic

__all__ = [
    "FORGOTTEN",
    "given_twice",
    "missing_argument",
    "missing_key",
    "too_many",
    "unknown_argument",
    "unknown_key",
    "written_call",
    "wrong_type",
]

FORGOTTEN = "did you forget await?"
"""What most often is the matter with a coroutine."""

_KEYWORD = re.compile(r"(\w+)\s*+=(?!=)")
_STRING = re.compile(r"""(["'])((?:(?!\1)[^\\]|\\.)*+)\1\s*+(\S?)""")
_UNION = re.compile(r"\(subscripted object has type `([^`]*)`\)")
_CALL = re.compile(r"(?:\w+\s*+=\s*+)?([A-Za-z_][\w.]*+)\s*+\(")


def missing_argument(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell which arguments a call lacks."""
    path, names = context.called(finding), finding.ticked[:-1]
    if path is None or not names:
        return None
    return finding.say(f"{path} needs {', '.join(map(repr, names))}")


def unknown_argument(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell of an argument that the tool does not have."""
    path, name = context.called(finding), finding.subject
    if path is None:
        return None
    guess = nearest(name, context.words.arguments.get(path, ()))
    if guess is not None:
        context.echoes.add((finding.line, f"{path} needs {guess!r}"))
    takes = context.words.arguments.get(path, ())
    there = there_are(takes) if takes else "; it takes none" if path in context.words.arguments else ""
    return finding.say(f"unknown argument {name!r} of {path}{_guessed(guess) or there}")


def too_many(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell of more arguments than there are."""
    path = context.called(finding)
    if path is None or context.source.follows_unpacked(finding.line, finding.column):
        return None  # how many there are is not known
    takes = context.words.arguments.get(path)
    return finding.say(
        f"too many arguments for {path}" + ("" if takes is None else f"; it takes {len(takes)}")
    )


def given_twice(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell of an argument that is given by its place and by its name."""
    path = context.called(finding)
    return None if path is None else finding.say(f"{path} is given {finding.subject!r} twice")


def wrong_type(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell of a value that can never be what is wanted."""
    at, ticked = context.at(finding), finding.ticked
    if at.startswith("*") or len(ticked) < 3:  # noqa: PLR2004 - what is unpacked is not looked into
        return None
    if finding.message.startswith("Invalid argument to key"):
        key = finding.message.split('"')[1]
        known = ticked[1] in context.words.keys
        return _mismatch(finding, context, (ticked[0], ticked[2]), f"key {key!r}") if known else None
    path, (expected, found) = context.called(finding), ticked[-2:]
    if len(arms(found)) == 1 and found.startswith("CoroutineType["):
        wanted = path in context.words.arguments and "Any" not in arms(expected)
        return _coroutine(finding, context) if wanted or expected == "Sized" else None
    if path is None or path not in context.words.arguments:
        return None
    named = _KEYWORD.match(at)
    what = repr(named[1]) if named else _by_place(finding, context, path)
    return _mismatch(finding, context, (expected, found), f"{path}: {what}")


def _by_place(finding: Diagnostic, context: CheckContext, path: str) -> str:
    place, takes = context.source.argument(finding.line, finding.column), context.words.arguments[path]
    return repr(takes[place]) if place is not None and place < len(takes) else "an argument"


def _mismatch(
    finding: Diagnostic, context: CheckContext, types: tuple[str, str], what: str
) -> CodeProblem | None:
    expected, found = types
    if not clash(expected, found, context.words.keys):
        return None
    objects = " | ".join("a dict" if arm in context.words.keys else arm for arm in arms(expected))
    values = re.findall(r'"([^"]*)"', expected)
    guess = _guessed(nearest(plainly(found).strip("\"'"), values))
    return finding.say(f"{what} must be {plainly(objects, 160)}, not {plainly(found)}{guess}")


def _coroutine(finding: Diagnostic, context: CheckContext) -> CodeProblem:
    return finding.say(f"{written_call(finding, context)} gives a coroutine; {FORGOTTEN}")


def written_call(finding: Diagnostic, context: CheckContext) -> str:
    """Return the call that a finding points at, as the code writes it."""
    found = _CALL.match(context.at(finding))
    return found[1] if found else "this call"


def missing_key(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell which key an object lacks that is written out as an argument."""
    quoted = finding.message.split("'")
    if finding.subject not in context.words.keys or len(quoted) < 3:  # noqa: PLR2004 - before, key, after
        return None
    return finding.say(f"the object passed here needs the key {quoted[1]!r}")


def unknown_key(finding: Diagnostic, context: CheckContext) -> CodeProblem | None:
    """Tell of a key that is read from a result, or written out in an argument, and that is not there."""
    kind, written = finding.subject, _STRING.match(context.at(finding))
    if kind not in context.words.keys or kind in context.words.open or written is None:
        return None
    key, follows = written[2], written[3]
    union = _UNION.search(finding.message)
    kinds = [arm for arm in arms(union[1]) if arm != "None"] if union else [kind]
    if context.unknown_keys[finding.line, finding.column] < len(kinds):  # one of them has it
        return None
    if follows not in {"]", ":"} or (follows == "]" and _may_be_there(key, finding, context)):
        return None
    known = sorted({name for arm in kinds for name in context.words.keys.get(arm, ())})
    guess = nearest(key, known)
    if guess is not None:
        context.echoes.add((finding.line, f"the object passed here needs the key {guess!r}"))
    return finding.say(f"unknown key {key!r}{_guessed(guess) or there_are(known)}")


def _may_be_there(key: str, finding: Diagnostic, context: CheckContext) -> bool:
    """Whether the code itself adds a key somewhere, asks whether it is there, or can do without it."""
    quoted, code = rf"""["']{re.escape(key)}["']""", context.code
    read = re.findall(rf"(?<=[\w\])])\[\s*+{quoted}\s*+\](?!\s*+=(?!=))", code)
    if len(re.findall(quoted, code)) > len(read):
        return True
    added = re.search(rf"\b(?:update|dict)\([^()]*\b{re.escape(key)}\s*+=(?!=)", code)
    return added is not None or context.source.catches(finding.line, "KeyError", "LookupError")


def _guessed(guess: str | None) -> str:
    return "" if guess is None else f"; did you mean {guess!r}?"

"""Reading the bounds of a value: lengths, ranges, enum and pattern."""

from typing import Any

from toolcrib.model.argschema.findings import Findings
from toolcrib.model.argschema.forms import MAX_CONTAINER_FORM, Choices, form_of
from toolcrib.model.argschema.patterns import Pattern
from toolcrib.model.argschema.property import Bounds
from toolcrib.model.argschema.wording import Place, number_text


def read_bounds(raw: dict[str, Any], at: Place, findings: Findings) -> Bounds:
    """Return the bounds a property, or its items, states."""
    min_length, max_length = read_range(raw, ("minLength", "maxLength"), at, findings)
    minimum = _read_number(raw, "minimum", at, findings)
    maximum = _read_number(raw, "maximum", at, findings)
    _refuse_reversed(("minimum", "maximum"), (minimum, maximum), at, findings)
    return Bounds(
        min_length=min_length,
        max_length=max_length,
        minimum=minimum,
        maximum=maximum,
        choices=_read_enum(raw, at, findings),
        patterns=_read_pattern(raw, at, findings) if findings.extended else (),
    )


def read_range(
    raw: dict[str, Any], names: tuple[str, str], at: Place, findings: Findings
) -> tuple[int | None, int | None]:
    """Return a lowest and a highest count, such as minLength and maxLength."""
    low, high = (_read_count(raw, name, at, findings) for name in names)
    _refuse_reversed(names, (low, high), at, findings)
    return low, high


def _refuse_reversed(
    names: tuple[str, str], bounds: tuple[float | None, float | None], at: Place, findings: Findings
) -> None:
    low, high = bounds
    if low is not None and high is not None and low > high:
        texts = f"{names[0]} {number_text(low)} is greater than {names[1]} {number_text(high)}"
        findings.refuse((*at, names[0]), names[0], f"{texts}, so nothing could match")


def _read_number(raw: dict[str, Any], name: str, at: Place, findings: Findings) -> float | None:
    value = raw.get(name)
    if type(value) in (int, float):
        return value
    if name in raw:
        findings.refuse((*at, name), name, f"{name} must be a number, not {_kind(value)}")
    return None


def _read_count(raw: dict[str, Any], name: str, at: Place, findings: Findings) -> int | None:
    value = raw.get(name)
    whole = type(value) is int or (type(value) is float and value.is_integer())
    if whole and value >= 0:  # type: ignore[operator]  # an int or a float, as just tested
        return int(value)  # type: ignore[arg-type]  # the same
    if name in raw:
        got = number_text(value) if type(value) in (int, float) else _kind(value)  # type: ignore[arg-type]  # same
        findings.refuse((*at, name), name, f"{name} must be a whole number of at least 0, not {got}")
    return None


def _read_enum(raw: dict[str, Any], at: Place, findings: Findings) -> Choices | None:
    if "enum" not in raw:
        return None
    values, here = raw["enum"], (*at, "enum")
    if type(values) is not list:
        findings.refuse(here, "enum", f"enum must be a list of values, not {_kind(values)}")
        return None
    if not values:
        findings.refuse(here, "enum", "enum must not be empty, because nothing could match")
        return None
    for index, value in enumerate(values):
        if type(value) in (dict, list) and form_of(value) is None:
            limit = f"at most {MAX_CONTAINER_FORM} characters as JSON"
            findings.refuse((*here, index), "enum", f"an array or object in an enum may have {limit}")
    return Choices.of(values)


def _read_pattern(raw: dict[str, Any], at: Place, findings: Findings) -> tuple[Pattern, ...]:
    if "pattern" not in raw:
        return ()
    text, here = raw["pattern"], (*at, "pattern")
    if type(text) is not str:
        findings.refuse(here, "pattern", f"pattern must be text, not {_kind(text)}")
        return ()
    try:
        return (Pattern.compile(text),)
    except ValueError:
        needs = "a regular expression of moderate size, without lookaround and backreferences"
        findings.refuse(here, "pattern", f"pattern must be {needs}")
        return ()


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__

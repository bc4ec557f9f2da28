"""Copies of records share nothing with the original."""

from discovery.doubles import spoil

from toolcrib.discovery.facts import deep_copy
from toolcrib.model import Icon, LocalBackend, Tool, ToolAnnotations
from toolcrib.model.record import Record


def rich() -> Tool:
    return Tool(
        name="log",
        input_schema={"properties": {"n": {"enum": [1]}}},
        output_schema={"items": [{}]},
        meta={"a": [{}]},
        annotations=ToolAnnotations(read_only_hint=True, deep_copy={"b": [1]}),
        icons=(Icon(src="x", deep_copy=[[1]]),),
        tags=("git",),
        backend=LocalBackend(name="log"),
        execution={"taskSupport": ["optional"]},
    )


def spoil_record(record: Record) -> None:
    for value in (*record.__dict__.values(), *(record.model_extra or {}).values()):
        for member in value if isinstance(value, tuple) else (value,):
            if isinstance(member, Record):
                spoil_record(member)
            spoil(member)


def test_a_copy_is_equal_and_of_the_same_type() -> None:
    tool = rich()
    copied = deep_copy(tool)
    assert copied == tool
    assert copied.model_fields_set == tool.model_fields_set
    assert copied.to_json() == tool.to_json()


def test_a_copy_can_be_spoilt_without_the_original() -> None:
    tool = rich()
    spoil_record(deep_copy(tool))
    assert tool == rich()


def test_the_original_can_be_spoilt_without_the_copy() -> None:
    tool = rich()
    copied = deep_copy(tool)
    spoil_record(tool)
    assert copied == rich()

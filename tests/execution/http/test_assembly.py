"""Requests put together from plans and arguments, before anything is sent."""

import math
from typing import Any, get_args
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ValidationError
from toolcrib.execution.http.assembly import assemble
from toolcrib.execution.http.credentials import Credentials, Scheme
from toolcrib.execution.http.plan import Body, BodyKind, Parameter, Part, Place, RequestPlan, Style

anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
parameters = st.builds(
    Parameter,
    argument=st.just("p"),
    name=st.just("p"),
    place=st.sampled_from(get_args(Place)),
    style=st.sampled_from(get_args(Style)),
    explode=st.booleans(),
    as_json=st.booleans(),
    keep_reserved=st.booleans(),
)
bodies = st.builds(
    Body,
    kind=st.sampled_from(get_args(BodyKind)),
    media_type=st.just("a/b"),
    argument=st.sampled_from([None, "body"]),
    parts=st.dictionaries(st.text(max_size=2), st.builds(Part, is_file=st.booleans()), max_size=2),
)


@given(parameters, bodies, anything, anything)
def test_whatever_the_arguments_are_a_request_goes_where_it_should_or_nowhere(
    parameter: Parameter, body: Body, value: Any, content: Any
) -> None:
    path = "/a/{p}/b" if parameter.place == "path" else "/a/b"
    plan = RequestPlan(
        method="POST", base="https://api.example/v1", path=path, parameters=(parameter,), body=body
    )
    credentials = Credentials.of([(Scheme("key", "query", "key"), "k"), (Scheme("bearer"), "t")])
    try:
        made = assemble(plan, {"p": value, "body": content}, credentials)
    except ValidationError:
        return
    parts = urlsplit(made.url)
    assert made.url.isascii()
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "api.example", "")
    segments = parts.path.split("/")
    assert len(segments) == (5 if parameter.place == "path" else 4)
    assert not {".", "..", ""} & set(segments[1:])
    assert (segments[1:3], segments[-1]) == (["v1", "a"], "b")
    assert parts.query.endswith("key=k")
    for name, text in made.headers:
        assert not {b"\r", b"\n", b"\x00"} & {text[at : at + 1] for at in range(len(text))}
        assert name in {b"p", b"Cookie", b"Content-Type", b"Authorization"}
    assert [text for name, text in made.headers if name == b"Authorization"] == [b"Bearer t"]


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, "\ud800", [math.nan]])
def test_value_that_is_not_json_is_refused(value: Any) -> None:
    query = Parameter(argument="p", name="p", place="query", style="form", explode=True)
    body = Body(kind="json", media_type="application/json", argument="body")
    plan = RequestPlan(method="POST", base="https://api.example", path="/", parameters=(query,), body=body)
    for args in ({"p": value}, {"body": value}):
        with pytest.raises(ValidationError, match="not JSON"):
            assemble(plan, args, Credentials())


def test_a_request_never_shows_itself() -> None:
    plan = RequestPlan(method="GET", base="https://api.example", path="/")
    made = assemble(plan, {}, Credentials.of([(Scheme("bearer"), "s3cret-token")]))
    assert "s3cret" not in repr(made)


def _query(name: str, **how: Any) -> Parameter:
    return Parameter(argument=name, name=name, place="query", **({"style": "form", "explode": True} | how))


@pytest.mark.parametrize(
    "args",
    [
        {"filter": {"mode": "danger"}},
        {"filter": {"MODE": "danger"}},
        {"filter": {"mode[]": "danger"}},
        {"filter": {" mode": "danger"}},
        {"filter": {"a b": 1}},
        {"filter": {"page": 2}},
        {"filter": {"Page": 2}},
        {"filter": {"deep[a]": 2}},
        {"filter": {"key": "mine"}},
        {"filter": {"KEY": "mine"}},
        {"deep": {"fixed": 1}},
        {"deep": {"Fixed": 1}},
        {"crumbs": {"sid": "mine"}},
        {"crumbs": {"SID": "mine"}},
        {"crumbs": {"other": "mine"}},
    ],
)
def test_a_member_of_an_argument_sets_nothing_that_is_not_its_own(args: dict[str, Any]) -> None:
    plan = RequestPlan(
        method="GET",
        base="https://api.example",
        path="/",
        query="mode=safe&a%20b=&deep[fixed]=1",
        parameters=(
            _query("filter"),
            _query("page"),
            _query("deep", style="deepObject"),
            Parameter(argument="crumbs", name="crumbs", place="cookie", style="form", explode=True),
            Parameter(argument="other", name="other", place="cookie", style="form", explode=True),
        ),
    )
    credentials = Credentials.of(
        [(Scheme("key", "query", "key"), "k"), (Scheme("key", "cookie", "sid"), "k")]
    )
    with pytest.raises(ValidationError, match="must not set"):
        assemble(plan, args, credentials)
    free = {"filter": {"colour": 1, "filter": 2}, "page": 3, "deep": {"a": 4}, "crumbs": {"c": 5}, "other": 6}
    made = assemble(plan, free, credentials)
    assert made.url.endswith("&colour=1&filter=2&page=3&deep%5Ba%5D=4&key=k")


def test_a_parameter_may_have_the_name_of_one_that_is_fixed() -> None:
    plan = RequestPlan(
        method="GET", base="https://api.example", path="/", query="v=1", parameters=(_query("v"),)
    )
    assert assemble(plan, {"v": [2, 3]}, Credentials()).url.endswith("?v=1&v=2&v=3")

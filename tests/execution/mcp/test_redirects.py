"""Redirects are followed within the origin of a request alone, by the rule of the SDK's own transports."""

import httpx2
import pytest
from mcp.shared import _httpx_utils

from toolcrib.execution.mcp.transport.redirects import (
    next_request_within_origin,
    request_within_origin,
    sse_within_origin,
)

FAR = httpx2.URL("https://far.example/")
HERE = "http://here.example/mcp"


def web(request: httpx2.Request) -> httpx2.Response:
    """Serve the page to which `/mcp` redirects within the origin, and nothing else."""
    if request.url.path == "/mcp":
        return httpx2.Response(307, headers={"location": "/there"})
    if request.url.path == "/away":
        return httpx2.Response(307, headers={"location": str(FAR)})
    if request.url.path == "/round":
        return httpx2.Response(307, headers={"location": "/round"})
    headers = {"content-type": "text/event-stream"}
    return httpx2.Response(200, headers=headers, content=b"event: endpoint\ndata: /post\n\n")


def redirect(method: str, url: str, status: int, location: str | None) -> httpx2.Response:
    """Return a response to a request, with where it leads."""
    headers = {} if location is None else {"location": location}
    answer = httpx2.Response(status, headers=headers)
    with httpx2.Client(transport=httpx2.MockTransport(lambda _: answer)) as client:
        return client.request(method, url, follow_redirects=False)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("status", [200, 301, 302, 303, 307, 308])
@pytest.mark.parametrize("url", [HERE, "https://here.example/mcp", "http://me:pw@here.example:8000/mcp"])
@pytest.mark.parametrize(
    "location",
    [
        None,
        "/there",
        "there?a=1",
        "http://here.example/there",
        "http://HERE.example:80/there",
        "https://here.example/there",
        "https://here.example:8443/there",
        "http://here.example:8000/there",
        "http://you:pw@here.example/there",
        "http://me:pw@here.example:8000/there",
        "//far.example/there",
        str(FAR),
    ],
)
def test_next_request_is_the_one_that_the_sdk_would_send(
    method: str, status: int, url: str, location: str | None
) -> None:
    response = redirect(method, url, status, location)
    ours, theirs = next_request_within_origin(response), _httpx_utils.next_request_within_origin(response)
    assert (ours and (ours.method, ours.url)) == (theirs and (theirs.method, theirs.url))


def test_next_request_is_on_the_same_server() -> None:
    following = next_request_within_origin(redirect("POST", HERE, 307, "/there"))
    assert following is not None
    assert (following.method, str(following.url)) == ("POST", "http://here.example/there")
    assert next_request_within_origin(redirect("POST", HERE, 307, str(FAR))) is None


@pytest.mark.anyio
async def test_request_within_origin_follows_redirects_on_the_same_server_alone() -> None:
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(web)) as client:
        answer = await request_within_origin(client, "POST", HERE, content="{}", headers={})
        around = await request_within_origin(client, "POST", "http://here.example/round")
        away = await request_within_origin(client, "POST", "http://here.example/away")
    assert (answer.status_code, answer.url.path) == (200, "/there")
    assert around.status_code == 307
    assert (away.status_code, away.url.host) == (307, "here.example")


@pytest.mark.anyio
async def test_sse_within_origin_gives_the_events_of_what_a_redirect_leads_to() -> None:
    async with (
        httpx2.AsyncClient(transport=httpx2.MockTransport(web)) as client,
        sse_within_origin(client, HERE, max_event_size=1000) as source,
    ):
        events = [(event.event, event.data) async for event in source]
    assert source.response.url.path == "/there"
    assert events == [("endpoint", "/post")]

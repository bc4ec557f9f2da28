"""Calls that wait are posted to a webhook, and its answers are accepted once, with a signature."""

import json
import runpy
import socketserver
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError

import anyio
import httpx
import pytest
from anyio import to_thread
from gateway.api.support import ROOT, console
from waiting import until

from toolcrib.errors import ConfigError, PolicyDeniedError
from toolcrib.execution import Principal
from toolcrib.gateway import Gateway
from toolcrib.gateway.api.webhook import TOLERANCE, ApprovalWebhook, WebhookSignatureError, sign

pytestmark = pytest.mark.anyio

SECRET = "of-the-webhook-and-nobody-else"  # noqa: S105 - of tests
ASK = {"name": "ask", "tools": ["notes:delete_*"], "effect": "ask", "reason": "It cannot be undone."}
ANN = Principal(issuer="tokens", subject="ann", client="editor")


@contextmanager
def receiver(status: int = 200) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """Serve a webhook receiver; yield its address and the messages received."""
    got: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Be quiet."""

    with serving_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}/", got


@contextmanager
def serving_in_thread(server: socketserver.BaseServer) -> Iterator[int]:
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def hook(url: str) -> dict[str, Any]:
    """Return the settings of a gateway with a webhook."""
    rest = {"name": "rest", "effect": "allow"}
    return {"console": {"webhook": {"url": url, "secret": SECRET}}, "policy": [ASK, rest]}


async def try_to_delete(gateway: Gateway, ends: list[str]) -> None:
    try:
        await gateway.crib.run("notes:delete_all", {}, principal=ANN)
        ends.append("ran")
    except PolicyDeniedError as error:
        ends.append(str(error))


@pytest.mark.parametrize("approve", [True, False])
async def test_a_call_is_posted_and_answered_with_a_signature(*, approve: bool) -> None:
    ends: list[str] = []
    with receiver() as (url, got):
        async with console(**hook(url)) as (gateway, _), anyio.create_task_group() as tasks:
            tasks.start_soon(try_to_delete, gateway, ends)
            await until(lambda: got)
            headers, body = got[0]
            message = json.loads(body)
            at = int(headers["webhook-timestamp"])
            expected = sign(SECRET.encode(), headers["webhook-id"], at, body)["webhook-signature"]
            assert headers["webhook-signature"] == expected
            assert message["call"]["toolId"] == "notes:delete_all"
            assert message["call"]["subject"] == "ann"
            answer = json.dumps({"id": message["call"]["id"], "approve": approve, "by": "ben"}).encode()
            signed = sign(SECRET.encode(), "one", time.time(), answer)
            async with httpx.AsyncClient() as http:
                first = await http.post(message["answerUrl"], content=answer, headers=signed)
                again = await http.post(message["answerUrl"], content=answer, headers=signed)
            await until(lambda: ends)
    assert (first.status_code, again.status_code) == (200, 403)
    assert "has already been received" in again.text
    assert ends == ["ran"] if approve else "ben, by the webhook, declined at the console" in ends[0]


async def test_answers_that_are_not_signed_change_nothing() -> None:
    ends: list[str] = []
    with receiver() as (url, got):
        async with console(**hook(url)) as (gateway, _), anyio.create_task_group() as tasks:
            tasks.start_soon(try_to_delete, gateway, ends)
            await until(lambda: got)
            message = json.loads(got[0][1])
            call_id = message["call"]["id"]
            body = json.dumps({"id": call_id, "approve": True, "by": "eve"}).encode()
            other = json.dumps({"id": "another", "approve": True, "by": "eve"}).encode()
            key, now = SECRET.encode(), time.time()
            signed = sign(key, "b", now, body)
            attacks = {
                "nothing": (body, {}),
                "another secret": (body, sign(b"another secret of 24 bytes", "a", now, body)),
                "another body": (body, sign(key, "c", now, other)),
                "another time": (body, signed | {"webhook-timestamp": str(int(now) + 1)}),
                "another id": (body, signed | {"webhook-id": "d"}),
                "too old": (body, sign(key, "e", now - TOLERANCE - 5, body)),
                "too new": (body, sign(key, "f", now + TOLERANCE + 5, body)),
                "no number": (body, signed | {"webhook-timestamp": "now"}),
                "the message itself": (
                    got[0][1],
                    {n: v for n, v in got[0][0].items() if n.startswith("webhook-")},
                ),
                "of another call": (other, sign(key, "g", now, other)),
            }
            async with httpx.AsyncClient() as http:
                statuses = {
                    name: (
                        await http.post(message["answerUrl"], content=content, headers=headers)
                    ).status_code
                    for name, (content, headers) in attacks.items()
                }
                link_token = message["link"].rpartition("/")[2]
                path = (
                    f"{gateway.make_console_link()}".partition("/console/")[0]
                    + f"{ROOT}/approvals/{call_id}/link"
                )
                guessed = await http.post(
                    path, json={"token": "guess", "approve": True}, headers={"x-toolcrib-key": "login"}
                )
                foreign = await http.post(path, json={"token": link_token, "approve": True})
            assert gateway.approvals.waiting()
            gateway.approvals.answer(call_id, approve=False, by="the test")
    assert statuses == dict.fromkeys(attacks, 403) | {"the message itself": 400, "of another call": 400}
    assert (guessed.status_code, foreign.status_code) == (404, 403)


async def test_a_link_shows_a_call_and_answers_it() -> None:
    ends: list[str] = []
    with receiver() as (url, got):
        async with console(**hook(url)) as (gateway, _), anyio.create_task_group() as tasks:
            tasks.start_soon(try_to_delete, gateway, ends)
            await until(lambda: got)
            link = json.loads(got[0][1])["link"]
            base, _, place = link.partition("/console/#/answer/")
            call_id, token = place.split("/")
            async with httpx.AsyncClient(base_url=base, headers={"x-toolcrib-key": "login"}) as http:
                shown = (await http.post(f"{ROOT}/approvals/{call_id}/link", json={"token": token})).json()
                assert not ends
                await http.post(f"{ROOT}/approvals/{call_id}/link", json={"token": token, "approve": True})
                await until(lambda: ends)
                over = await http.post(f"{ROOT}/approvals/{call_id}/link", json={"token": token})
    assert shown["toolId"] == "notes:delete_all"
    assert token not in json.dumps(shown)
    assert ends == ["ran"]
    assert over.status_code == 404


async def test_a_call_does_not_wait_where_the_webhook_fails() -> None:
    ends: list[str] = []
    with receiver(status=500) as (url, got):
        async with console(**hook(url)) as (gateway, _):
            await try_to_delete(gateway, ends)
    assert len(got) == 3
    assert "the webhook failed: it answered with status 500" in ends[0]


@pytest.mark.parametrize("way", ["slack", "teams", "mail"])
async def test_the_recipe_passes_calls_on(way: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[str] = []
    recipe = runpy.run_path(str(root / "examples" / "webhook_approvals.py"))
    with receiver() as (service, got), mail_server() as (mail_port, mails):
        for name, value in {
            "TOOLCRIB_SECRET": SECRET,
            "SLACK_URL": service,
            "TEAMS_URL": service,
            "MAIL_HOST": "127.0.0.1",
            "MAIL_PORT": str(mail_port),
            "MAIL_FROM": "crib@example.com",
            "MAIL_TO": "ann@example.com",
        }.items():
            monkeypatch.setenv(name, value)
        with serving_in_thread(recipe["serve"](recipe["WAYS"][way], 0)) as port:
            async with (
                console(**hook(f"http://127.0.0.1:{port}/")) as (gateway, _),
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(try_to_delete, gateway, ends)
                await until(lambda: got or mails)
                (call,) = gateway.approvals.waiting()
                sent = got[0][1].decode() if got else mails[0].replace("=\r\n", "").replace("=3D", "=")
                assert "ann wants to call notes:delete_all. It cannot be undone." in sent
                assert f"/console/#/answer/{call.id}/{call.link_token}" in sent
                with pytest.raises(HTTPError, match="403") as refused:
                    await to_thread.run_sync(recipe["post"], f"http://127.0.0.1:{port}/", b"{}", {})
                refused.value.close()
                message = {
                    "call": call.to_json(),
                    "answerUrl": f"{gateway._listens_at}{ROOT}/approvals/{call.id}/webhook",
                }
                await to_thread.run_sync(lambda: recipe["answer"](SECRET, message, approve=True, by="ann"))
                await until(lambda: ends)
    assert ends == ["ran"]


@contextmanager
def mail_server() -> Iterator[tuple[int, list[str]]]:
    """Serve SMTP; yield the port and the mails received."""
    mails: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            for line in self.rfile:
                verb = line[:4].upper()
                if verb == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    text = b""
                    while not (part := self.rfile.readline()).startswith(b".\r"):
                        text += part
                    mails.append(text.decode())
                self.wfile.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")
                if verb == b"QUIT":
                    return

    with serving_in_thread(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as port:
        yield port, mails


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "http://hooks.example.com/", "secret": SECRET}, "must be an https address"),
        ({"url": "https://exa mple.com/", "secret": SECRET}, "must be an address with a host"),
        ({"url": "https:///hook", "secret": SECRET}, "must be an address with a host"),
        ({"url": "https://hooks.example.com:port/", "secret": SECRET}, "must be an address with a host"),
        ({"url": "https://[::1/", "secret": SECRET}, "must be an address with a host"),
        ({"url": "https://hooks.example.com/", "secret": "short"}, "needs at least 24 bytes"),
        ({"url": "https://hooks.example.com/", "secret": "${NOT_SET_ANYWHERE}"}, "NOT_SET_ANYWHERE"),
        ({"url": "https://hooks.example.com/", "secret": "whsec_%%%"}, "needs at least 24 bytes"),
    ],
)
async def test_bad_settings_of_a_webhook_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        async with Gateway({"console": {"webhook": settings}}):
            pass


async def test_an_address_that_cannot_be_posted_to_is_a_reason() -> None:
    settings = Gateway(hook("https://ä..example/")).crib.settings
    reason = await ApprovalWebhook(lambda: settings, lambda: None).post({"id": "one"}, "token")
    assert reason is not None
    assert "InvalidURL" in reason


async def test_a_webhook_that_is_removed_meanwhile_is_a_reason() -> None:
    before = Gateway(hook("http://127.0.0.1:9/")).crib.settings
    after = before.replace(console=before.console.replace(webhook=None))
    versions = iter([before, after])
    removed = ApprovalWebhook(lambda: next(versions), lambda: None)
    assert "no longer set" in (await removed.post({"id": "one"}, "token") or "")
    assert await ApprovalWebhook(lambda: after, lambda: None).post({"id": "one"}, "token") is not None


def test_an_id_is_forgotten_after_its_time() -> None:
    now = [1_000_000.0]
    settings = Gateway(hook("http://127.0.0.1:9/")).crib.settings
    webhook = ApprovalWebhook(lambda: settings, lambda: None, clock=lambda: now[0])

    def verify() -> None:
        headers = sign(SECRET.encode(), "one", now[0], b"{}")
        webhook.verify([(name.encode(), value.encode()) for name, value in headers.items()], b"{}")

    verify()
    now[0] += TOLERANCE
    with pytest.raises(WebhookSignatureError, match="has already been received"):
        verify()
    now[0] += TOLERANCE + 1
    verify()

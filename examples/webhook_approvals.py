"""Passes calls that wait for a person on to Slack, Teams or e-mail, each with a link to answer by.

    python webhook_approvals.py slack 9000  # with SLACK_URL, the address of an incoming webhook
    python webhook_approvals.py teams 9000  # with TEAMS_URL, that of a workflow
    python webhook_approvals.py mail 9000   # with MAIL_HOST, MAIL_FROM and MAIL_TO

each with TOOLCRIB_SECRET, and with this in toolcrib.toml:

    [console.webhook]
    url = "http://127.0.0.1:9000/"
    secret = "${TOOLCRIB_SECRET}"
"""

import base64
import hashlib
import hmac
import json
import os
import smtplib
import sys
import time
import urllib.request
from collections.abc import Callable
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_BODY = 1_000_000
MAX_AGE = 300


def sign(secret: str, message_id: str, at: int, body: bytes) -> str:
    """Return the signature of a message, as Standard Webhooks describes it."""
    digest = hmac.new(secret.encode(), f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def is_signed(secret: str, headers: Any, body: bytes) -> bool:
    """Return whether a message was signed with the secret, a short while ago."""
    at = headers.get("webhook-timestamp", "")
    if not at.isdecimal() or abs(time.time() - int(at)) > MAX_AGE:
        return False
    expected = sign(secret, headers.get("webhook-id", ""), int(at), body)
    return hmac.compare_digest(expected, headers.get("webhook-signature", ""))


def answer(secret: str, message: dict[str, Any], *, approve: bool, by: str) -> None:
    """Answer a call from a program of yours, which has asked a person in a way of its own."""
    call_id = message["call"]["id"]
    body = json.dumps({"id": call_id, "approve": approve, "by": by}).encode()
    at, message_id = int(time.time()), f"{call_id}-{time.time_ns()}"
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": sign(secret, message_id, at, body),
    }
    post(message["answerUrl"], body, headers)


def post(url: str, body: bytes, headers: dict[str, str]) -> None:
    """Post a body; a status that is no success is an error."""
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - an address of yours
    with urllib.request.urlopen(request, timeout=10):  # noqa: S310
        pass


def describe(message: dict[str, Any]) -> str:
    """Return who wants to call what, without the arguments, which may be private: the link shows them."""
    call = message["call"]
    who = call["subject"] or call["client"] or "Somebody"
    return f"{who} wants to call {call['toolId']}. {call['reason']}"


def to_slack(message: dict[str, Any]) -> None:
    """Post to an incoming webhook of Slack."""
    text = {"type": "section", "text": {"type": "plain_text", "text": describe(message)}}
    button = {
        "type": "button",
        "text": {"type": "plain_text", "text": "Look and decide"},
        "url": message["link"],
    }
    content = {"text": describe(message), "blocks": [text, {"type": "actions", "elements": [button]}]}
    post(os.environ["SLACK_URL"], json.dumps(content).encode(), {"content-type": "application/json"})


def to_teams(message: dict[str, Any]) -> None:
    """Post to a workflow of Teams that takes a webhook."""
    card = {
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "TextBlock", "text": describe(message), "wrap": True}],
        "actions": [{"type": "Action.OpenUrl", "title": "Look and decide", "url": message["link"]}],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    content = {"type": "message", "attachments": [attachment]}
    post(os.environ["TEAMS_URL"], json.dumps(content).encode(), {"content-type": "application/json"})


def to_mail(message: dict[str, Any]) -> None:
    """Send a mail with the link, by a server that needs no login."""
    mail = EmailMessage()
    mail["Subject"] = f"A call of {message['call']['toolId']} waits"
    mail["From"], mail["To"] = os.environ["MAIL_FROM"], os.environ["MAIL_TO"]
    mail.set_content(f"{describe(message)}\n\nLook and decide:\n{message['link']}\n")
    with smtplib.SMTP(os.environ["MAIL_HOST"], int(os.environ.get("MAIL_PORT", "25")), timeout=10) as server:
        server.send_message(mail)


WAYS: dict[str, Callable[[dict[str, Any]], None]] = {"slack": to_slack, "teams": to_teams, "mail": to_mail}


def serve(way: Callable[[dict[str, Any]], None], port: int) -> ThreadingHTTPServer:
    """Return a server that passes on what is signed."""
    secret = os.environ["TOOLCRIB_SECRET"]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("content-length", 0))
            body = self.rfile.read(size) if size <= MAX_BODY else b""
            status = 403
            if body and is_signed(secret, self.headers, body):
                way(json.loads(body))
                status = 204
            self.send_response(status)
            self.end_headers()

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    serve(WAYS[sys.argv[1]], int(sys.argv[2])).serve_forever()

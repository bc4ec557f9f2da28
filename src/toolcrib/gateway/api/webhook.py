"""Calls waiting for approval, posted to a webhook, and its signed answers.

Messages in both directions are signed as Standard Webhooks describes: `webhook-signature` is the HMAC-SHA256
of `webhook-id`, `webhook-timestamp` and the body. An answer is accepted once, and only for a short time.
"""

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import anyio

from toolcrib.crib import Settings
from toolcrib.errors import ConfigError, Problem
from toolcrib.execution.variables import Expansion
from toolcrib.gateway.app.asgi import Headers
from toolcrib.redaction import hide_secrets

if TYPE_CHECKING:
    import httpx2

TOLERANCE = 300.0
"""Seconds by which the time of a message may differ from ours."""
_LOG = logging.getLogger("toolcrib.gateway")
_TRIES = 3
_PAUSE = 1.0
"""Seconds before the second try; twice as many before each further one."""
_TIMEOUT = 10.0
_MIN_SECRET = 24
_MOST_SEEN = 10_000
_PREFIX = "whsec_"
_MAX_DIGITS = 12
_MAX_SIGNATURES = 8


class WebhookSignatureError(Exception):
    """A message that was not signed with the secret, is too old, or was seen before."""


class ApprovalWebhook:
    """Posts calls that wait, and verifies answers."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        address: Callable[[], str | None],
        environ: Mapping[str, str] | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read the settings when they are needed; `address` returns that of this gateway for browsers."""
        self._settings, self._address = settings, address
        self._environ, self._clock = environ, clock
        self._seen: dict[str, float] = {}
        """The ids of answers, and when they are forgotten."""

    @property
    def is_set(self) -> bool:
        """Whether calls are posted anywhere."""
        return self._settings().console.webhook is not None

    def read_secret(self) -> bytes:
        """Return the key of the signatures.

        Raises:
            ConfigError: a variable in it is not set, it is too short, or the webhook is no longer set.
        """
        settings = self._settings()
        if settings.console.webhook is None:
            problem = Problem("/console/webhook", "missing", "it is no longer set")
            raise ConfigError(settings.origin, (problem,))
        fill = Expansion(os.environ if self._environ is None else self._environ)
        text = fill.text(settings.console.webhook.secret, path="/console/webhook/secret")
        problems = list(fill.problems)
        key = _decode_secret(text)
        if not problems and len(key) < _MIN_SECRET:
            reason = f"needs at least {_MIN_SECRET} bytes; make one with: openssl rand -hex 32"
            problems.append(Problem("/console/webhook/secret", "secret", reason))
        if problems:
            raise ConfigError(settings.origin, tuple(problems))
        return key

    async def post(self, call: Mapping[str, Any], link_token: str) -> str | None:
        """Post a call that waits; return why that failed, or None.

        Args:
            call: what a person has to know of it.
            link_token: lets the holder of a link see and answer this call.
        """
        import httpx2  # noqa: PLC0415 - heavy, and needed by few

        webhook = self._settings().console.webhook
        if webhook is None:  # the configuration was read again meanwhile
            return "the webhook is no longer set"
        address = self._address() or ""
        answer = f"{address}/api/v1/approvals/{call['id']}/webhook"
        link = f"{address}/console/#/answer/{quote(call['id'])}/{link_token}"
        body = json.dumps(
            {"type": "approval.waiting", "call": call, "answerUrl": answer, "link": link}
        ).encode()
        reason = ""
        try:
            async with httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False) as client:
                for attempt in range(_TRIES):
                    if attempt:
                        await anyio.sleep(_PAUSE * 2 ** (attempt - 1))
                    try:
                        reason = await self._send(client, webhook.url, call["id"], body)
                    except (httpx2.HTTPError, OSError) as error:
                        reason = hide_secrets(f"{type(error).__name__}: {error}")
                    if not reason:
                        return None
        except Exception as error:  # noqa: BLE001 - one that escaped would end all calls that wait
            reason = hide_secrets(f"{type(error).__name__}: {error}")
        _LOG.warning("the webhook for approvals did not accept call %s: %s", call["id"], reason)
        return reason

    async def _send(self, client: "httpx2.AsyncClient", url: str, message_id: str, body: bytes) -> str:
        headers = sign(self.read_secret(), message_id, self._clock(), body)
        answer = await client.post(url, content=body, headers=headers | {"content-type": "application/json"})
        return "" if answer.is_success else f"it answered with status {answer.status_code}"

    def verify(self, headers: Headers, body: bytes) -> None:
        """Check an answer, which is then used up.

        Raises:
            WebhookSignatureError: it is not signed with the secret, is too old, or was seen before.
        """
        if not self.is_set:
            raise WebhookSignatureError("no webhook is set")
        given = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        message_id, written = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
        now = self._clock()
        if not message_id or not written.isdecimal() or len(written) > _MAX_DIGITS:
            raise WebhookSignatureError("it needs the headers webhook-id and webhook-timestamp, in seconds")
        if abs(now - int(written)) > TOLERANCE:
            raise WebhookSignatureError(f"its time is more than {TOLERANCE:g} s from now")
        expected = sign(self.read_secret(), message_id, int(written), body)["webhook-signature"]
        signatures = given.get("webhook-signature", "").split()[:_MAX_SIGNATURES]
        if not any(hmac.compare_digest(each.encode(), expected.encode()) for each in signatures):
            raise WebhookSignatureError("its signature was not made with the secret")
        self._seen = {each: ends for each, ends in self._seen.items() if ends > now}
        if message_id in self._seen or len(self._seen) >= _MOST_SEEN:
            raise WebhookSignatureError("an answer with this webhook-id has already been received")
        self._seen[message_id] = now + 2 * TOLERANCE


def sign(key: bytes, message_id: str, at: float, body: bytes) -> dict[str, str]:
    """Return the headers that sign a message."""
    timestamp = str(int(at))
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": signature}


def make_link_token() -> str:
    """Return what lets the holder of a link see and answer one call."""
    return secrets.token_urlsafe(24)


def _decode_secret(text: str) -> bytes:
    """Return the key that a secret stands for: in base64 after `whsec_`, else its own characters."""
    if not text.startswith(_PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        return b""

"""Tokens of questions to users, each of which counts once."""

import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping

from toolcrib.concurrency.loop import in_thread
from toolcrib.errors import LimitExceededError, StoreError
from toolcrib.execution.entries import SharedEntries
from toolcrib.gateway.identity.principals import Account
from toolcrib.gateway.limits import share_of

_TTL = 600.0
"""Default lifetime of a token, in seconds."""
_SHARED = "answers"
"""The collection of used tokens in the store that gateways share."""
_MAX_USED = 100_000
"""Used tokens that are remembered; beyond that no answer counts, since one could count twice."""


class ConfirmationTokens:
    """Tokens that go with a question and come back with the answer, so that an answer counts once.

    A token says which questions were asked, by key, and which were answered in earlier turns. The endpoint
    encrypts it, and binds it to the request. It is valid once: the same request made again
    is asked about again.
    """

    def __init__(
        self,
        ttl: float = _TTL,
        *,
        clock: Callable[[], float] = time.monotonic,
        shared: Callable[[], SharedEntries | None] = lambda: None,
    ) -> None:
        """Remember used tokens for as long as they would be valid, also in the store that gateways share."""
        self._shared = shared
        self._ttl, self._clock = ttl, clock
        self._used: dict[str, tuple[float, Account | None]] = {}
        self._counts: Counter[Account | None] = Counter()

    def issue(self, asked: Mapping[str, str], given: Mapping[str, str], **more: str | None) -> str:
        """Return a token for questions that are asked, after others that were answered."""
        return json.dumps({"id": secrets.token_hex(16), "asked": dict(asked), "given": dict(given), **more})

    def redeem(
        self, token: str | None, account: Account | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the questions and the earlier answers of a token; nothing without a valid token.

        Raises:
            LimitExceededError: too many answers were used of late: of this account, or of all.
        """
        if token is None:
            return {}, {}
        payload = json.loads(token)  # made by the endpoint, which has verified it
        at = self._clock()
        self._forget(at)
        if payload["id"] in self._used:
            return {}, {}
        if len(self._used) >= _MAX_USED or self._counts[account] >= share_of(_MAX_USED, account):
            reason = f"too many questions were answered within {self._ttl:g} s; wait, and call again"
            raise LimitExceededError("answers", reason)
        self._used[payload["id"]] = at, account
        self._counts[account] += 1
        return payload["asked"], payload["given"]

    async def redeem_everywhere(
        self, token: str | None, account: Account | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Redeem a token that counts once at all gateways together; else as `redeem`.

        Raises:
            LimitExceededError: as there, or other gateways cannot be asked.
        """
        found, store = self.redeem(token, account), self._shared()
        if token is None or store is None or found == ({}, {}):
            return found
        try:
            is_first = await in_thread(store.put_entry, _SHARED, json.loads(token)["id"], b"", self._ttl)
        except StoreError as error:
            reason = f"whether the answer was used at another gateway is not known: {error.reason}"
            raise LimitExceededError("answers", reason) from error
        return found if is_first else ({}, {})

    def _forget(self, at: float) -> None:
        """Forget used tokens that have expired."""
        while self._used and self._used[first := next(iter(self._used))][0] < at - self._ttl:
            _, account = self._used.pop(first)
            self._counts[account] -= 1
            if not self._counts[account]:
                del self._counts[account]

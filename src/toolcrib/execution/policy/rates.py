"""Rate limits of the configuration: how many calls of which tools, by whom, in which time."""

import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from time import monotonic
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from toolcrib.concurrency.loop import in_thread
from toolcrib.errors import Problem, RateLimitError, StoreError, ToolcribError, ValidationError
from toolcrib.execution.call import Request
from toolcrib.execution.middleware.rate import Bucket
from toolcrib.execution.policy.rule import Rule
from toolcrib.execution.principal import Issuers, Principal
from toolcrib.model.record import Record
from toolcrib.model.token_buckets import Shortage, TokenBuckets, TokenRequest
from toolcrib.model.tool import Tool

_LOG = logging.getLogger("toolcrib")
_LIMIT = re.compile(r"([1-9][0-9]{0,8})\s*/\s*(second|minute|hour|day|s|min|h|d)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_UNITS = {"second": "s", "minute": "min", "hour": "h", "day": "d"}
Each = Literal["principal", "tool", "server"]
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class RateRule(Record):
    """A limit on the rate of calls. If several limits match a call, all of them apply.

    >>> rule = RateRule(name="search", tools=["web:*"], limit="60/minute")
    >>> rule.calls, rule.period, rule.each
    (60, 60.0, ('principal',))

    Raises:
        ValidationError: with every problem found.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=False, ignored_types=(cached_property,))

    name: _Text
    """Its name in errors."""
    limit: str
    """The number of calls in a period: `60/minute`; also `second`, `hour` or `day`."""
    burst: Annotated[int, Field(ge=1, le=10**9)] | None = None
    """The maximum number of calls at once after a pause; by default the number in `limit`."""
    who: tuple[_Text, ...] = ("*",)
    """The callers that it applies to, as in rules."""
    tools: tuple[_Text, ...] = ("*",)
    """The tools that it applies to, as in rules."""
    each: tuple[Each, ...] = ("principal",)
    """Count separately for each `principal`, each `tool`, each `server` (or API), or each combination of
    several; with `[]`, all calls share one limit. Clients that no issuer vouches for choose their own names,
    so they count as one principal."""

    @field_validator("limit", mode="after")
    @classmethod
    def _is_rate(cls, limit: str) -> str:
        if not _LIMIT.fullmatch(limit.strip()):
            message = "must be a number of calls in a period, such as '60/minute', '5/second' or '1000/day'"
            raise PydanticCustomError("rate", message)
        return limit.strip()

    @cached_property
    def _parts(self) -> tuple[int, float]:
        found = _LIMIT.fullmatch(self.limit)
        assert found is not None  # noqa: S101 - it was validated
        count, unit = found.groups()
        return int(count), _SECONDS[_UNITS.get(unit, unit)]

    @property
    def calls(self) -> int:
        """The number of calls in a period."""
        return self._parts[0]

    @property
    def period(self) -> float:
        """The period in seconds."""
        return self._parts[1]

    @cached_property
    def _scope(self) -> Rule:
        # Of rules, only those that restrict are about the tags that servers give their tools.
        return Rule(name=self.name, who=self.who, tools=self.tools, effect="deny")

    def covers(self, principal: Principal, tool: Tool, issuers: Issuers) -> bool:
        """Return whether it applies to a call."""
        return self._scope.is_about(principal, issuers) and self._scope.covers_tool(tool)

    def request_token(self, principal: Principal, tool: Tool) -> TokenRequest:
        """Return the request for the token that a call needs."""
        facets: dict[str, Any] = {
            "principal": [principal.issuer, principal.subject if principal.issuer else ""],
            "tool": [tool.namespace, tool.name],
            "server": tool.namespace,
        }
        named = {each: facets[each] for each in self.each}
        key = json.dumps([self.name, self.limit, self.burst, named], sort_keys=True)
        burst = self.calls if self.burst is None else self.burst
        return TokenRequest(sha256(key.encode()).hexdigest(), burst, self.period / self.calls)

    @classmethod
    def _refusal(cls, problems: tuple[Problem, ...], data: dict[str, Any]) -> ToolcribError:  # noqa: ARG003 - the base's signature
        return ValidationError(problems)


class RateLimiter:
    """Counts calls, and refuses those beyond a rate limit.

    What is counted is shared by all processes that have the same buckets. While these cannot be reached, this
    process counts by itself, so that calls go on and limits still hold for each process.
    """

    def __init__(
        self,
        rules: Sequence[RateRule],
        issuers: Issuers,
        own: "MemoryBuckets",
        find_shared: Callable[[], TokenBuckets | None] = lambda: None,
    ) -> None:
        """Create a limiter.

        Args:
            rules: the limits.
            issuers: the issuers of tokens, which resolve the names in the limits.
            own: the buckets of this process.
            find_shared: returns the buckets that processes share; None if there are none.
        """
        self._rules, self._issuers = tuple(rules), issuers
        self._own, self._find_shared = own, find_shared
        self._is_alone = False

    async def admit(self, request: Request) -> None:
        """Count a call.

        Raises:
            RateLimitError: it is beyond a limit; it counts for none.
        """
        who = request.principal or Principal()
        covering = [rule for rule in self._rules if rule.covers(who, request.tool, self._issuers)]
        if not covering:
            return
        wanted = {rule.request_token(who, request.tool): rule for rule in covering}
        shared = self._find_shared()
        if shared is None:
            shortage = self._own.take_tokens(tuple(wanted))
        else:
            shortage = await in_thread(self._take_shared, shared, tuple(wanted))
        if shortage is not None:
            rule = wanted[shortage.request]
            raise RateLimitError(
                tool_id=request.tool_id,
                limit=rule.name,
                reason=f"the limit {rule.name!r} of {rule.limit} is used up",
                retry_after=round(shortage.wait, 3),
            )

    def _take_shared(self, shared: TokenBuckets, wanted: Sequence[TokenRequest]) -> Shortage | None:
        try:
            shortage = shared.take_tokens(wanted)
        except StoreError as error:
            if not self._is_alone:
                _LOG.warning("rate limits are counted by this process alone: %s", error)
            self._is_alone = True
            return self._own.take_tokens(wanted)
        self._is_alone = False
        return shortage


class MemoryBuckets:
    """Token buckets of one process."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Have all buckets full."""
        self._clock, self._lock = clock, threading.Lock()
        self._buckets: OrderedDict[TokenRequest, Bucket] = OrderedDict()
        """The least recently used first; full ones are forgotten."""

    def __len__(self) -> int:
        """Return the number of buckets that are remembered."""
        return len(self._buckets)

    def take_tokens(self, wanted: Sequence[TokenRequest]) -> Shortage | None:
        """Take a token of each bucket, or, if one of them has none, of no bucket at all."""
        with self._lock:
            now = self._clock()
            found = {each: self._find_bucket(each, now) for each in wanted}
            for each, bucket in found.items():
                if (wait := bucket.wait(now)) > 0:
                    return Shortage(each, wait)
            for each, bucket in found.items():
                bucket.take(now)
                self._buckets[each] = bucket
                self._buckets.move_to_end(each)
            while self._buckets and (first := next(iter(self._buckets.items())))[1].is_full(now):
                del self._buckets[first[0]]
        return None

    def _find_bucket(self, request: TokenRequest, now: float) -> Bucket:
        known = self._buckets.get(request)
        return known or Bucket(burst=request.burst, interval=request.interval, now=now)

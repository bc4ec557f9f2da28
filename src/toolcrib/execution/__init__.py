"""Run tools, streams and chains on their backends, with one form of result and one exception hierarchy."""

from toolcrib.execution.call import Answer, Call, CallContext, Emit, Outcome, Request, StreamEvent, Update
from toolcrib.execution.chains import ChainLimits, ChainResult, ChainStep, Plan, StepResult
from toolcrib.execution.local import LocalHandlers
from toolcrib.execution.policy.rates import RateRule
from toolcrib.execution.policy.rule import Rule
from toolcrib.execution.principal import Principal
from toolcrib.execution.protocols import (
    Executor,
    Middleware,
    Next,
    Observer,
    Policy,
    ProviderExecutor,
    Selector,
)
from toolcrib.execution.runner import DEFAULT_TIMEOUT, Runner
from toolcrib.model.results import RunResult

__all__ = [
    "DEFAULT_TIMEOUT",
    "Answer",
    "Call",
    "CallContext",
    "ChainLimits",
    "ChainResult",
    "ChainStep",
    "Emit",
    "Executor",
    "LocalHandlers",
    "Middleware",
    "Next",
    "Observer",
    "Outcome",
    "Plan",
    "Policy",
    "Principal",
    "ProviderExecutor",
    "RateRule",
    "Request",
    "Rule",
    "RunResult",
    "Runner",
    "Selector",
    "StepResult",
    "StreamEvent",
    "Update",
]

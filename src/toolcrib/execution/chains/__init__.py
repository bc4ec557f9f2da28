"""Chains: steps that run one after another, each with access to the results of the earlier ones.

`check_chain` parses steps and reports every problem before any of them runs, `plan_chain` returns their plan,
and `run_chain` runs them.
"""

from toolcrib.execution.chains.check import check_chain
from toolcrib.execution.chains.parse import Chain, Steps
from toolcrib.execution.chains.plan import Plan, PlannedStep, plan_chain
from toolcrib.execution.chains.results import ChainResult, StepResult
from toolcrib.execution.chains.run import Around, ChainProgress, RunTool, run_chain
from toolcrib.execution.chains.steps import ChainLimits, ChainStep

__all__ = [
    "Around",
    "Chain",
    "ChainLimits",
    "ChainProgress",
    "ChainResult",
    "ChainStep",
    "Plan",
    "PlannedStep",
    "RunTool",
    "StepResult",
    "Steps",
    "check_chain",
    "plan_chain",
    "run_chain",
]

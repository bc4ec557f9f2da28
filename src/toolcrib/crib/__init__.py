"""One object that keeps tools, finds them and runs them, and the configuration it is made from."""

from toolcrib.crib.config.files import Config, load
from toolcrib.crib.config.gateway import GatewaySettings, ToolsetSettings
from toolcrib.crib.config.settings import (
    AuditSettings,
    CacheSettings,
    CodeSettings,
    ConsoleSettings,
    EngineSettings,
    LimitSettings,
    OpenApiSettings,
    PostgresSettings,
    RetrySettings,
    RunSettings,
    SearchSettings,
    Settings,
    TrustSettings,
)
from toolcrib.crib.crib import Crib
from toolcrib.crib.reload import Reload
from toolcrib.crib.session import SyncToolSession, ToolSession
from toolcrib.crib.sync import SyncCrib
from toolcrib.crib.trust import (
    Trust,
    TrustChange,
    TrustDrift,
    TrustEdit,
    TrustFinding,
    TrustReport,
    TrustRequirement,
    TrustWithheld,
)
from toolcrib.crib.view import View
from toolcrib.model.shape import ToolShape
from toolcrib.paths import find_config

__all__ = [
    "AuditSettings",
    "CacheSettings",
    "CodeSettings",
    "Config",
    "ConsoleSettings",
    "Crib",
    "EngineSettings",
    "GatewaySettings",
    "LimitSettings",
    "OpenApiSettings",
    "PostgresSettings",
    "Reload",
    "RetrySettings",
    "RunSettings",
    "SearchSettings",
    "Settings",
    "SyncCrib",
    "SyncToolSession",
    "ToolSession",
    "ToolShape",
    "ToolsetSettings",
    "Trust",
    "TrustChange",
    "TrustDrift",
    "TrustEdit",
    "TrustFinding",
    "TrustReport",
    "TrustRequirement",
    "TrustSettings",
    "TrustWithheld",
    "View",
    "find_config",
    "load",
]

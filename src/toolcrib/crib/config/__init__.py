"""The configuration: its settings, and how it is found and read."""

from toolcrib.crib.config.files import Config, load
from toolcrib.crib.config.gateway import GatewaySettings, ToolsetSettings
from toolcrib.crib.config.settings import Settings
from toolcrib.paths import find_config

__all__ = ["Config", "GatewaySettings", "Settings", "ToolsetSettings", "find_config", "load"]

"""The configuration: its settings, and how it is found and read."""

from toolcrib.crib.config.files import Config, load
from toolcrib.crib.config.gateway import GatewaySettings, ToolsetSettings
from toolcrib.crib.config.locating import find_config
from toolcrib.crib.config.settings import Settings

__all__ = ["Config", "GatewaySettings", "Settings", "ToolsetSettings", "find_config", "load"]

"""Where the user's files are; needs the standard library alone, so that a light command can ask."""

from toolcrib.places.folders import (
    HOME,
    anchored,
    catalogue_file,
    data_folder,
    home_folder,
    path_fault,
    platform_folder,
    runtime_folder,
)
from toolcrib.places.locating import config_folder, find_config, project_config, user_config

__all__ = [
    "HOME",
    "anchored",
    "catalogue_file",
    "config_folder",
    "data_folder",
    "find_config",
    "home_folder",
    "path_fault",
    "platform_folder",
    "project_config",
    "runtime_folder",
    "user_config",
]

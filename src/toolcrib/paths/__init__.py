"""Where the user's files are; needs the standard library alone, so that a light command can ask."""

from toolcrib.paths.folders import (
    HOME,
    absolute_path,
    audit_key,
    catalogue_file,
    data_folder,
    home_folder,
    path_fault,
    platform_folder,
    runs_file,
    runs_key,
    runtime_folder,
)
from toolcrib.paths.locating import config_folder, find_config, project_config, user_config
from toolcrib.paths.replacing import SCRATCH, file_rights, locked, read_file, replace_file

__all__ = [
    "HOME",
    "SCRATCH",
    "absolute_path",
    "audit_key",
    "catalogue_file",
    "config_folder",
    "data_folder",
    "file_rights",
    "find_config",
    "home_folder",
    "locked",
    "path_fault",
    "platform_folder",
    "project_config",
    "read_file",
    "replace_file",
    "runs_file",
    "runs_key",
    "runtime_folder",
    "user_config",
]

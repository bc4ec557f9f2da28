"""Paths of the user's files.

Imports only the standard library and `toolcrib.errors`, so that commands that need a path start fast.
"""

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
    seen_file,
)
from toolcrib.paths.locating import config_folder, find_config, project_config, user_config
from toolcrib.paths.replacing import TEMPORARY_PREFIX, file_rights, lock_path, read_file, replace_file

__all__ = [
    "HOME",
    "TEMPORARY_PREFIX",
    "absolute_path",
    "audit_key",
    "catalogue_file",
    "config_folder",
    "data_folder",
    "file_rights",
    "find_config",
    "home_folder",
    "lock_path",
    "path_fault",
    "platform_folder",
    "project_config",
    "read_file",
    "replace_file",
    "runs_file",
    "runs_key",
    "runtime_folder",
    "seen_file",
    "user_config",
]

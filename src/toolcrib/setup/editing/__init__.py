"""Change the servers of a configuration file, and nothing else in it."""

from toolcrib.setup.editing.edit import Edit, backups
from toolcrib.setup.editing.servers import ABSENT, add_server, edit_servers, remove_server

__all__ = ["ABSENT", "Edit", "add_server", "backups", "edit_servers", "remove_server"]

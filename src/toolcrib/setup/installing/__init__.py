"""Make the gateway a server of an MCP client, and import the servers that the client has."""

from toolcrib.setup.installing.clients import CLIENTS, Client
from toolcrib.setup.installing.imports import Found, Merge, merge, read_servers, servers_of
from toolcrib.setup.installing.install import Export, Installation, export, install, undo

__all__ = [
    "CLIENTS",
    "Client",
    "Export",
    "Found",
    "Installation",
    "Merge",
    "export",
    "install",
    "merge",
    "read_servers",
    "servers_of",
    "undo",
]

"""Make the gateway a server of an MCP client, and take over the servers that it has."""

from toolcrib.crib.installing.clients import CLIENTS, Client
from toolcrib.crib.installing.imports import Found, Merge, merge, read_servers, servers_of
from toolcrib.crib.installing.install import Export, Installation, export, install
from toolcrib.crib.installing.undoing import undo

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

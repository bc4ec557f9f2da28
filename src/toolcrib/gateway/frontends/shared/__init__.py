"""Shared by all frontends: their protocol, the public names of tools, and failures as clients get them."""

"""Finds the base URL of operations."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from toolcrib.execution.http.base import check_base_url, config_error

_VARIABLE = re.compile(r"\{([^{}]+)\}")


class Servers:
    """Finds the base URL of operations.

    A `base_url` replaces every address in the document. If it has no path, it gets that of a server without a
    host, such as `/api/v3`.
    """

    def __init__(self, provider_id: str, base_url: str | None, variables: Mapping[str, str]) -> None:
        self._provider_id = provider_id
        self._base = None if base_url is None else check_base_url(provider_id, base_url)
        self._variables = variables

    def find_base_url(self, *holders: Mapping[str, Any]) -> str:
        """Return the base URL of an operation, from the first of these objects that lists servers.

        Raises:
            ConfigError: there is no host, or the scheme is not http or https.
        """
        listed = next((found for holder in holders if (found := holder.get("servers"))), [{"url": "/"}])
        server = listed[0] if isinstance(listed, list) else None
        url = server.get("url") if isinstance(server, dict) else None
        if not isinstance(server, dict) or not isinstance(url, str):
            raise config_error(self._provider_id, "/servers", "a server of the document has no url")
        if self._base is not None and (urlsplit(self._base).path or "://" in url or url.startswith("//")):
            return self._base
        url = _VARIABLE.sub(lambda found: self._find_variable(found[1], server), url)
        if self._base is not None:
            return check_base_url(self._provider_id, urljoin(f"{self._base}/", url))
        if "://" not in url:
            reason = f"the document has the server {url!r:.200}, which has no host; set base_url"
            raise config_error(self._provider_id, "/servers", reason)
        return check_base_url(self._provider_id, url)

    def _find_variable(self, name: str, server: Mapping[str, Any]) -> str:
        """Return the value of a variable of a server."""
        listed = server.get("variables")
        variable = listed.get(name) if isinstance(listed, dict) else None
        known = variable if isinstance(variable, dict) else {}
        value = self._variables.get(name, known.get("default"))
        allowed = known.get("enum")
        if not isinstance(value, str | int) or (isinstance(allowed, list) and value not in allowed):
            choice = f" one of {allowed!r:.200}" if isinstance(allowed, list) else ""
            raise config_error(
                self._provider_id,
                "/servers",
                f"the server needs{choice} {{{name[:80]}}}; give it in variables",
            )
        return str(value)

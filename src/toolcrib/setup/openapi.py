"""Makes an HTTP API part of a configuration: reads or downloads its OpenAPI document, and writes it down.

Settings name a document that is a file. One that has a URL is downloaded once, beside the configuration; what
it says of its servers without a host counts from that URL.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from toolcrib.crib.config.files import load_text
from toolcrib.crib.config.reading import file_refusal, read_text
from toolcrib.crib.config.sections import servers_in
from toolcrib.errors import ConfigError, MissingExtraError, Problem, ServerUnavailableError
from toolcrib.execution.http import OpenApiProvider
from toolcrib.execution.http.openapi.document import MAX_DOCUMENT_BYTES, document_error, read_document
from toolcrib.execution.http.openapi.security import read_schemes
from toolcrib.execution.variables import has_variables
from toolcrib.paths import replace_file
from toolcrib.redaction import host_of
from toolcrib.setup.editing.edit import Edit
from toolcrib.setup.editing.servers import api_place, document_of, edit_servers, find_server

_SUFFIXES = (".json", ".yaml", ".yml")
_NAMES = frozenset({"openapi", "swagger", "api-docs"})
"""Last parts of the URLs at which frameworks serve their documents."""
_DOWNLOAD_TIME = 30.0
"""Seconds that a server may take to connect, and to send each part of a document."""
_ACCEPTED = "application/vnd.oai.openapi+json, application/json, application/yaml;q=0.9, */*;q=0.5"
_URL = re.compile(r"https?://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ApiDocument:
    """An OpenAPI document, and where it is from."""

    source: str
    """The file or the URL, as it was given."""
    parsed: dict[str, Any] = field(repr=False)
    """The document as plain JSON."""
    content: bytes | None = field(default=None, repr=False)
    """The text of one that was downloaded; None for a file."""
    url: str | None = None
    """The URL that answered, after redirects; None for a file."""

    @property
    def schemes(self) -> tuple[str, ...]:
        """The names of the security schemes that a secret can fill."""
        return tuple(read_schemes(self.parsed))

    @property
    def base(self) -> str | None:
        """The base URL by the document, or by the URL it was downloaded from; None if neither tells."""
        listed = self.parsed.get("servers")
        first = listed[0] if isinstance(listed, list) and listed else {"url": "/"}
        server = first.get("url") if isinstance(first, Mapping) else None
        if not isinstance(server, str):
            return None
        if _URL.match(server):
            return server
        if self.url is None:
            return None
        # With a path a base stands for every server; without one each keeps its own.
        return urljoin(self.url, "/" if server.startswith("/") else server).rstrip("/")

    @property
    def has_host(self) -> bool:
        """Whether the document itself says where the API is."""
        return self.base is not None and replace(self, url=None).base is not None


@dataclass(frozen=True, slots=True)
class ApiEntry:
    """The changes that add an API to a configuration; nothing is written yet."""

    edit: Edit
    """The change of the configuration."""
    settings: dict[str, Any]
    """The settings of the API, as they are written."""
    file: Path
    """The file of the document."""
    content: bytes | None = field(default=None, repr=False)
    """The content to write there; None if the file is the user's own."""
    notes: tuple[str, ...] = ()
    """Notes for the user."""

    def write_document(self) -> None:
        """Write the document that was downloaded.

        Raises:
            ConfigError: it cannot be written.
        """
        if self.content is None:
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.file, self.content, rights=0o644, like=self.file)
        except OSError as error:
            raise file_refusal(self.file, f"it cannot be written: {error.strerror or error}") from error


def is_url(source: str) -> bool:
    """Return whether a source is a URL, and no file."""
    return _URL.match(source) is not None


def names_document(source: str) -> bool:
    """Return whether a file or a URL is called as documents are, rather than programs and MCP servers.

    >>> [names_document(each) for each in ("api.yaml", "https://a.example/api-docs", "https://a.example/mcp")]
    [True, True, False]
    """
    return has_suffix(source) or (is_url(source) and _last_segment(source) in _NAMES)


def has_suffix(source: str) -> bool:
    """Return whether a file or a URL ends as files of JSON and YAML do."""
    return _last_segment(source).endswith(_SUFFIXES)


def _last_segment(source: str) -> str:
    path = urlsplit(source).path if is_url(source) else source
    return path.rstrip("/").rpartition("/")[2].lower()


def read_api(source: str) -> ApiDocument:
    """Return the OpenAPI document in a file or at a URL.

    Raises:
        InvalidToolError: it cannot be read, or is no OpenAPI document.
        ServerUnavailableError: it cannot be downloaded.
        MissingExtraError: what downloads or reads it is not installed.
    """
    if is_url(source):
        content, url = _download(source)
        found = ApiDocument(source, read_document(content), content, url)
    else:
        found = ApiDocument(source, read_document(Path(source).expanduser()))
    if not {"openapi", "swagger"}.intersection(found.parsed):
        keys = ", ".join(map(repr, list(found.parsed)[:5])) or "nothing"
        shown = host_of(source) if is_url(source) else source
        raise document_error("", f"{shown} is not an OpenAPI document: it has {keys}, and no 'openapi'")
    return found


def _download(url: str) -> tuple[bytes, str]:
    """Download a document; return it with its final URL."""
    try:
        import httpx  # noqa: PLC0415 - behind an extra
    except ImportError as error:
        raise MissingExtraError("downloading an OpenAPI document", "openapi") from error
    content = bytearray()
    try:
        options: Any = {"headers": {"Accept": _ACCEPTED}, "timeout": _DOWNLOAD_TIME, "follow_redirects": True}
        with httpx.stream("GET", url, **options) as response:
            if response.status_code != httpx.codes.OK:
                raise _download_error(url, f"it answers {response.status_code}")
            if "text/event-stream" in response.headers.get("content-type", ""):  # it never ends
                raise document_error("", f"{host_of(url)} is not an OpenAPI document but a stream of events")
            for part in response.iter_bytes():
                content += part
                if len(content) > MAX_DOCUMENT_BYTES:
                    raise document_error("", f"it is larger than {MAX_DOCUMENT_BYTES:,} bytes")
            return bytes(content), str(response.url)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        reason = str(error) or ("it takes too long" if isinstance(error, httpx.TimeoutException) else "")
        raise _download_error(url, reason or type(error).__name__) from error


def _download_error(url: str, reason: str) -> ServerUnavailableError:
    advice = "download the document yourself, and name the file with --openapi FILE"
    return ServerUnavailableError(host_of(url), f"{reason[:300]}; {advice}")


def add_api(  # noqa: PLR0913 - settings, by name
    path: Path,
    name: str,
    document: ApiDocument,
    *,
    base_url: str | None = None,
    secrets: Mapping[str, str] | None = None,
    allow_private: Sequence[str] = (),
    required: bool = False,
    force: bool = False,
) -> ApiEntry:
    """Return the change that adds an API to a configuration file of ours, which is created if necessary.

    Where a person has named a private host, by the URL of the document or as the base, requests may go there.

    Raises:
        ConfigError: the file is broken, has something else of that name, or would be broken by it; or the
            document does not say where the API is, or has no such security scheme.
        InvalidToolError: the document is not one of OpenAPI 3.
    """
    _check_name(path, name, force=force)
    target = _choose_file(path, name, document, force=force)
    base = base_url or (None if document.has_host else document.base)
    known = None if base is not None and has_variables(base) else base or document.base
    _check_document(name, document, known, secrets or {})
    if base is None and not document.has_host:
        reason = "the document does not say where the API is; name the address with --base-url"
        raise ConfigError(document.source, (Problem("/servers", "base_url", reason),))
    chosen = [each for each in (base_url, document.url and document.source) if each is not None]
    host = _host(known or "")
    allowed = list(allow_private)
    if _is_private(host) and host in map(_host, chosen) and host not in allowed:
        allowed.append(host)
    entry: dict[str, Any] = {"document": _config_path(path, target), "base_url": base}
    entry |= {"secrets": dict(secrets or {}), "allow_private": allowed, "required": required}
    entry = {key: value for key, value in entry.items() if value}
    edit = edit_servers(path, {name: entry}, place=api_place(path), check=load_text)
    notes = _notes(document, entry, host)
    return ApiEntry(edit, entry, target, document.content, notes)


def _check_name(path: Path, name: str, *, force: bool) -> None:
    parsed = document_of(path, read_text(path))
    if find_server(path, parsed, name) is not None:
        reason = f"there is a server {name!r} already, and an API cannot have the same name; choose another"
        raise file_refusal(path, reason, "name")
    if name in servers_in(parsed, api_place(path)) and not force:
        raise file_refusal(path, f"there is an API {name!r} already; --force replaces it", "name")


def _check_document(name: str, document: ApiDocument, base: str | None, secrets: Mapping[str, str]) -> None:
    """Refuse a document whose operations cannot be called; where the base is not known yet, any host does."""
    OpenApiProvider.from_document(
        document.parsed, id=name, base_url=base or "https://api.invalid", secrets=secrets
    )


def _choose_file(path: Path, name: str, document: ApiDocument, *, force: bool) -> Path:
    """Return the file that a document is in, or is to be written to: beside the configuration."""
    if document.content is None:
        return Path(document.source).expanduser().absolute()
    kind = "json" if document.content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else "yaml"
    target = path.parent / f"{name}.openapi.{kind}"
    if target.exists() and not force and target.read_bytes() != document.content:
        raise file_refusal(target, "there is another document already; --force replaces it", "file")
    return target


def _config_path(path: Path, target: Path) -> str:
    """Return the path of a file for a configuration: relative if it is in its folder."""
    base = path.parent.absolute()
    return target.relative_to(base).as_posix() if target.is_relative_to(base) else str(target)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_private(host: str) -> bool:
    """Return whether a host is this machine, or an address that is not public; names are not looked up."""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _notes(document: ApiDocument, entry: Mapping[str, Any], host: str) -> tuple[str, ...]:
    notes = []
    allowed = entry.get("allow_private", ())
    if _is_private(host) and not allowed:
        notes.append(f"{host} is a private address: calls are refused unless --allow-private {host} is given")
    missing = [scheme for scheme in document.schemes if scheme not in entry.get("secrets", {})]
    if missing and len(missing) == len(document.schemes):
        variable = re.sub(r"[^A-Za-z0-9]+", "_", missing[0]).strip("_").upper() or "SECRET"
        named = ", ".join(map(repr, missing))
        notes.append(
            f"it has the security schemes {named}: --secret {missing[0]}='${{{variable}}}' fills one"
        )
    return tuple(notes)

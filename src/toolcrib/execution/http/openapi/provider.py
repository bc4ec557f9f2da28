"""A provider whose tools are the operations of an OpenAPI 3.0 or 3.1 document."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Unpack

from toolcrib.errors import ConfigError, InvalidSchemaError, InvalidToolError
from toolcrib.execution.call import Call
from toolcrib.execution.http.base import WebProvider, check_id
from toolcrib.execution.http.client import HttpOptions
from toolcrib.execution.http.credentials import Credentials, Secret
from toolcrib.execution.http.openapi.document import document_error, read_document
from toolcrib.execution.http.openapi.operations import Operation, Operations
from toolcrib.execution.http.openapi.references import follow
from toolcrib.execution.http.openapi.schemas import Schemas
from toolcrib.execution.http.openapi.security import Vault, read_schemes
from toolcrib.execution.http.openapi.servers import Servers
from toolcrib.execution.http.plan import RequestPlan
from toolcrib.model.schema.validator import DefaultValidator
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import MAX_NAME_LENGTH

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_VERSION = re.compile(r"3\.(\d{1,3})(\.\d+.*)?")
_MAX_OPERATIONS = 20_000
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Skipped:
    """An operation that became no tool."""

    operation: str
    """Its method and path."""
    reason: str
    """Why it is none."""


class OpenApiProvider(WebProvider):
    """The operations of an OpenAPI document as tools, each one request.

    >>> provider = OpenApiProvider.from_document(
    ...     {
    ...         "openapi": "3.1.0",
    ...         "servers": [{"url": "https://pets.example/v1"}],
    ...         "paths": {
    ...             "/pets/{id}": {
    ...                 "get": {
    ...                     "operationId": "get_pet",
    ...                     "parameters": [{"name": "id", "in": "path", "schema": {"type": "integer"}}],
    ...                 }
    ...             }
    ...         },
    ...     },
    ...     id="pets",
    ... )
    >>> provider.tools()[0].input_schema["properties"]
    {'id': {'type': 'integer'}}
    """

    skipped: tuple[Skipped, ...]
    """The operations that became no tools, and why."""

    def __init__(
        self,
        provider_id: str,
        tools: Mapping[str, tuple[Tool, RequestPlan]],
        vault: Vault,
        skipped: tuple[Skipped, ...],
        options: HttpOptions,
    ) -> None:
        super().__init__(provider_id, tools, options)
        self._vault = vault
        self.skipped = skipped

    @classmethod
    def from_document(
        cls,
        document: dict[str, Any] | str | bytes | Path,
        *,
        id: str,  # noqa: A002 - what a user calls it
        base_url: str | None = None,
        secrets: Mapping[str, Secret] | None = None,
        variables: Mapping[str, str] | None = None,
        **options: Unpack[HttpOptions],
    ) -> Self:
        """Return the provider of a document, given as JSON, as JSON or YAML text, or as a file.

        Args:
            document: what describes the API; nothing that it refers to outside itself is fetched.
            id: the namespace of the tools, and what their backends call the provider.
            base_url: where the API is served, if elsewhere than the document says, or if it does not say.
            secrets: what fills the security schemes, by their names.
            variables: what stands for the variables in the address of the server.
            options: how the server is reached; see `HttpOptions`.

        Raises:
            InvalidToolError: it is no such document, or too large.
            ConfigError: something that was given cannot be used.
        """
        check_id(id)
        read = read_document(document)
        schemes = read_schemes(read)
        vault = Vault(id, schemes, secrets or {})
        operations = Operations(
            provider_id=id,
            document=read,
            schemas=Schemas(read, is_3_0=_minor(read) == 0),
            servers=Servers(id, base_url, variables or {}),
            schemes=schemes,
            validator=DefaultValidator(),
        )
        operations.servers.base_of(read)
        tools, skipped = _tools(operations)
        return cls(id, tools, vault, skipped, options)

    async def _credentials(self, call: Call, plan: RequestPlan) -> Credentials:
        return await self._vault.credentials(call, plan)


def _tools(operations: Operations) -> tuple[dict[str, tuple[Tool, RequestPlan]], tuple[Skipped, ...]]:
    names, skipped = OperationNames(), list[Skipped]()
    tools: dict[str, tuple[Tool, RequestPlan]] = {}
    for operation in _operations(operations.document, skipped):
        name = names.take(operation.raw.get("operationId"), operation.method, operation.path)
        try:
            tools[name] = operations.read(operation, name)
        except (InvalidSchemaError, InvalidToolError, ConfigError) as error:
            skipped.append(Skipped(str(operation)[:300], str(error)[:500]))
    return tools, tuple(skipped)


def _minor(document: dict[str, Any]) -> int:
    """Return the second number of the version of OpenAPI that a document is written in."""
    written = document.get("openapi", document.get("swagger"))
    found = _VERSION.fullmatch(str(written))
    if found is None:
        raise document_error("/openapi", f"only OpenAPI 3 is read, and this is {written!r:.40}")
    return int(found[1])


def _operations(document: dict[str, Any], skipped: list[Skipped]) -> Iterator[Operation]:
    """Yield every operation, in the order of the document."""
    paths = document.get("paths", {})
    if not isinstance(paths, dict):
        raise document_error("/paths", "it must be an object")
    count = 0
    for path, raw in paths.items():
        try:
            item = follow(document, raw)
        except InvalidSchemaError as error:
            skipped.append(Skipped(path[:300], str(error)[:500]))
            continue
        for method in _METHODS if isinstance(item, dict) and not path.startswith("x-") else ():
            operation = item.get(method)
            if isinstance(operation, dict):
                count += 1
                if count > _MAX_OPERATIONS:
                    raise document_error("/paths", f"it has more than {_MAX_OPERATIONS:,} operations")
                yield Operation(method, path, item, operation)


class OperationNames:
    """Gives each operation a name of its own: its id, else its method and path.

    >>> names = OperationNames()
    >>> names.take("list pets", "get", "/pets"), names.take(None, "get", "/pets/{id}")
    ('list_pets', 'get_pets_id')
    >>> names.take("list_pets", "get", "/dogs")
    'list_pets_2'
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def take(self, operation_id: object, method: str, path: str) -> str:
        """Return the name of an operation; the second that would be called the same gets a number."""
        wanted = operation_id if isinstance(operation_id, str) else ""
        base = _mend(wanted) or _mend(f"{method}{path.replace('{', '').replace('}', '')}") or "operation"
        name = base
        while name in self._taken:
            self._numbers[base] = self._numbers.get(base, 1) + 1
            suffix = f"_{self._numbers[base]}"
            name = f"{base[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"
        self._taken.add(name)
        return name


def _mend(text: str) -> str:
    return _FOREIGN.sub("_", text).strip("_")[:MAX_NAME_LENGTH]

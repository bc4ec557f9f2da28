"""A provider whose tools are the operations of an OpenAPI 3.0 or 3.1 document.

A document is read in these steps, all when the provider is made:

1. `document.py` reads JSON or YAML as plain JSON of limited size; nothing outside the document is fetched.
2. `servers.py`, `security.py`: the base URLs, and the security schemes that secrets can fill.
3. `operations.py` makes a tool and a `RequestPlan` from each operation. `parameters.py` and `contents.py`
read
   its arguments, `schemas.py` converts their schemas to JSON Schema 2020-12.

A call then only encodes its arguments by the plan. Documents in the wild are often partly wrong, so a mistake
in one operation skips that operation (`OpenApiProvider.skipped`) and not the document. Documents may come
from strangers: sizes, depths and references are limited everywhere, and the work of conversion counts against
one budget for the whole document (`Schemas.charge`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Unpack

from toolcrib.errors import ConfigError, InvalidSchemaError, InvalidToolError
from toolcrib.execution.call import Call
from toolcrib.execution.http.base import WebProvider, check_provider_id
from toolcrib.execution.http.client import HttpOptions
from toolcrib.execution.http.credentials import Credentials, Secret
from toolcrib.execution.http.openapi.document import document_error, read_document
from toolcrib.execution.http.openapi.operations import Operation, Operations
from toolcrib.execution.http.openapi.references import follow
from toolcrib.execution.http.openapi.schemas import Schemas
from toolcrib.execution.http.openapi.security import SchemeSecrets, read_schemes
from toolcrib.execution.http.openapi.servers import Servers
from toolcrib.execution.http.plan import RequestPlan
from toolcrib.model.schema.validator import DefaultValidator
from toolcrib.model.tool import Tool
from toolcrib.model.toolid import MAX_NAME_LENGTH

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_VERSION = re.compile(r"3\.(\d{1,3})(\.\d+.*)?")
_MAX_OPERATIONS = 20_000
_INVALID_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Skipped:
    """An operation for which there is no tool."""

    operation: str
    """Its method and path."""
    reason: str
    """The reason."""


class OpenApiProvider(WebProvider):
    """The operations of an OpenAPI document as tools, each of which makes one request.

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
    """The operations without a tool, with the reasons."""

    def __init__(
        self,
        provider_id: str,
        tools: Mapping[str, tuple[Tool, RequestPlan]],
        secrets: SchemeSecrets,
        skipped: tuple[Skipped, ...],
        options: HttpOptions,
    ) -> None:
        super().__init__(provider_id, tools, options)
        self._secrets = secrets
        self.skipped = skipped

    @classmethod
    def from_document(
        cls,
        document: dict[str, Any] | str | bytes | Path,
        *,
        id: str,  # noqa: A002 - a public name
        base_url: str | None = None,
        secrets: Mapping[str, Secret] | None = None,
        variables: Mapping[str, str] | None = None,
        **options: Unpack[HttpOptions],
    ) -> Self:
        """Return the provider for a document: JSON, JSON or YAML text, or a file.

        Args:
            document: the OpenAPI document; references to other documents are not followed.
            id: the id of the provider, and the namespace of its tools.
            base_url: the address of the API, if the document has none or a different one.
            secrets: the secrets of the security schemes, by the names of the schemes.
            variables: values of the variables in the address of the server.
            options: options of the connection; see `HttpOptions`.

        Raises:
            InvalidToolError: it is not an OpenAPI 3 document, or is too large.
            ConfigError: an argument is invalid.
        """
        check_provider_id(id)
        read = read_document(document)
        schemes = read_schemes(read)
        scheme_secrets = SchemeSecrets(id, schemes, secrets or {})
        operations = Operations(
            provider_id=id,
            document=read,
            schemas=Schemas(read, is_3_0=_minor_version(read) == 0),
            servers=Servers(id, base_url, variables or {}),
            schemes=schemes,
            validator=DefaultValidator(),
        )
        operations.servers.find_base_url(read)  # a wrong address fails here, and not in every operation
        tools, skipped = _make_tools(operations)
        return cls(id, tools, scheme_secrets, skipped, options)

    async def _credentials(self, call: Call, plan: RequestPlan) -> Credentials:
        return await self._secrets.make_credentials(call, plan)


def _make_tools(operations: Operations) -> tuple[dict[str, tuple[Tool, RequestPlan]], tuple[Skipped, ...]]:
    names, skipped = OperationNames(), list[Skipped]()
    tools: dict[str, tuple[Tool, RequestPlan]] = {}
    for operation in _list_operations(operations.document, skipped):
        name = names.choose(operation.raw.get("operationId"), operation.method, operation.path)
        try:
            tools[name] = operations.make_tool(operation, name)
        except (InvalidSchemaError, InvalidToolError, ConfigError) as error:
            skipped.append(Skipped(str(operation)[:300], str(error)[:500]))
    return tools, tuple(skipped)


def _minor_version(document: dict[str, Any]) -> int:
    """Return the minor version of OpenAPI of a document."""
    written = document.get("openapi", document.get("swagger"))
    found = _VERSION.fullmatch(str(written))
    if found is None:
        raise document_error("/openapi", f"only OpenAPI 3 is supported, and this is {written!r:.40}")
    return int(found[1])


def _list_operations(document: dict[str, Any], skipped: list[Skipped]) -> Iterator[Operation]:
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
    """Chooses a unique name for each operation: its id, else its method and path.

    >>> names = OperationNames()
    >>> names.choose("list pets", "get", "/pets"), names.choose(None, "get", "/pets/{id}")
    ('list_pets', 'get_pets_id')
    >>> names.choose("list_pets", "get", "/dogs")
    'list_pets_2'
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def choose(self, operation_id: object, method: str, path: str) -> str:
        """Return the name of an operation, with a number if it is taken."""
        wanted = operation_id if isinstance(operation_id, str) else ""
        base = (
            _to_name(wanted) or _to_name(f"{method}{path.replace('{', '').replace('}', '')}") or "operation"
        )
        name = base
        while name in self._taken:
            self._numbers[base] = self._numbers.get(base, 1) + 1
            suffix = f"_{self._numbers[base]}"
            name = f"{base[: MAX_NAME_LENGTH - len(suffix)]}{suffix}"
        self._taken.add(name)
        return name


def _to_name(text: str) -> str:
    return _INVALID_NAME_CHARACTERS.sub("_", text).strip("_")[:MAX_NAME_LENGTH]

"""The methods of a view for resources and prompts of servers."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping

from toolcrib.crib.content import ViewContent
from toolcrib.execution.mcp import (
    Completion,
    OnContent,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
)


class ContentVerbs(ABC):
    """The methods of a view for resources and prompts."""

    @property
    @abstractmethod
    def content(self) -> ViewContent:
        """The resources and prompts of the servers, for those who pass them on."""

    async def resources(self) -> tuple[Resource, ...]:
        """Return what the servers let be read; one of which nothing is known is left out, as `absent` says.

        What was kept of an earlier run is returned at once; a server of which nothing is known is waited for,
        and one that does not tell of changes is asked again.
        """
        return await self.content.resources()

    async def resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """Return the templates of resources whose addresses are to be filled in, as `resources` does."""
        return await self.content.templates()

    async def read(self, uri: str, *, server: str | None = None) -> tuple[ResourceContents, ...]:
        """Return the contents of a resource; `server` says whose, where several have the address.

        Raises:
            ResourceNotFoundError: no server lists it or has a template for it.
            RequestRefusedError: the server does not give it.
            ServerUnavailableError: the server that has it, or may have it, does not answer.
        """
        return await self.content.read(uri, server)

    async def prompts(self) -> tuple[Prompt, ...]:
        """Return the prompts of the servers, known and waited for as those of `resources` are."""
        return await self.content.prompts()

    async def prompt(self, name: str, args: Mapping[str, str] | None = None) -> PromptResult:
        """Return the messages of a prompt, filled in; the name is `server:name`, or unique.

        Raises:
            PromptNotFoundError: no server has it, or several do.
            RequestRefusedError: the server does not give it, such as for a missing argument.
            ServerUnavailableError: the server that has it, or may have it, does not answer.
        """
        return await self.content.prompt(name, args or {})

    async def complete(
        self, ref: str, argument: str, value: str = "", *, args: Mapping[str, str] | None = None
    ) -> Completion:
        """Return values for an argument that begins so: of a prompt by its name, or of a resource template.

        `args` are the arguments given already. Raises what `prompt` and `read` raise.
        """
        return await self.content.complete(ref, argument, value, args or {})

    async def watch(self, uri: str, *, server: str | None = None) -> Callable[[], Awaitable[None]]:
        """Have a server tell `on_content_change` of a resource; returns what stops that, once for each."""
        return await self.content.watch(uri, server)

    def on_content_change(self, callback: OnContent) -> Callable[[], None]:
        """Call back when the resources or prompts of a server have changed; returns what stops it."""
        return self.content.on_change(callback)

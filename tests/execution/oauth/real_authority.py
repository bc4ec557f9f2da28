"""npm's certified `oidc-provider`, and an MCP server that takes its tokens alone."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from execution.mcp.typed_server import app as mcp_app
from servers.launch import node_program
from starlette.responses import JSONResponse, Response

SECRET = "5ecret-of-the-nightly-client"  # noqa: S105 - as authority.mjs has it


@dataclass
class RealAuthority:
    """The authorization server, which is started and stopped, and an MCP server that takes its tokens alone."""

    port: int
    seen_secrets: Path
    url: str = ""
    """The MCP server's."""
    account: str = "ann"
    """Who is logged in with the browser."""
    seen: list[dict[str, Any]] = field(default_factory=list)
    """The claims of the tokens that it took."""

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def secrets(self) -> dict[str, set[str]]:
        """All secrets that the authorization server received or issued, by its name."""
        found: dict[str, set[str]] = {}
        for line in self.seen_secrets.read_text().splitlines():
            name, value = json.loads(line)
            found.setdefault(name, set()).add(value)
        return found

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the authorization server, which remembers nothing of earlier runs."""
        program = node_program("oidc-provider", "authority.mjs")
        command = [*program, str(self.port), self.url, str(self.seen_secrets), self.account]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"listening\n"
            yield
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def app(self) -> Any:
        """Return the MCP server."""
        app, keys = mcp_app("json"), jwt.PyJWKClient(f"{self.issuer}/jwks")

        def is_right(scope: Any) -> bool:
            token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
            try:
                key = keys.get_signing_key_from_jwt(token).key
                claims = jwt.decode(token, key, ["RS256"], audience=self.url, issuer=self.issuer)
            except jwt.InvalidTokenError:
                return False
            self.seen.append(claims)
            return True

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            chosen = app
            if scope["type"] == "http":
                if scope["path"].startswith("/.well-known/oauth-protected-resource"):
                    chosen = JSONResponse({"resource": self.url, "authorization_servers": [self.issuer]})
                elif not is_right(scope):
                    where = f"{self.url.removesuffix('/mcp')}/.well-known/oauth-protected-resource/mcp"
                    challenge = f'Bearer resource_metadata="{where}", scope="tools:read"'
                    chosen = Response(status_code=401, headers={"www-authenticate": challenge})
            await chosen(scope, receive, send)

        return guarded

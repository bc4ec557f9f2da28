"""Reference servers of npm and PyPI: their requirements behind a wall, and calls that show that they work
there.

`$DATA` is a folder with `note.txt`, `repo` (a git repository with one commit) and `page.pdf`.
"""

import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj
4 0 obj<</Length 43>>stream
BT /F1 12 Tf 20 100 Td (hello paper) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
trailer<</Root 1 0 R>>
"""


@dataclass(frozen=True)
class Reference:
    """A well-known server, and calls that show that it works."""

    name: str
    command: str
    """The command that starts it."""
    calls: Sequence[tuple[str, dict[str, Any], str]] = ()
    """Tools, their arguments, and words of their results."""
    read: Sequence[str] = ()
    write: Sequence[str] = ()
    network: Sequence[str] = ()
    env: dict[str, str] = field(default_factory=dict)
    note: str = ""
    """A remark for users."""

    def settings(self, kind: str, data: Path) -> dict[str, Any]:
        """Return its settings behind a wall of a kind."""

        def fill(text: str) -> str:
            return text.replace("$DATA", str(data))

        command, *args = self.command.split()
        network = [*self.network, *(each for host in self.network for each in private_addresses(host))]
        return {
            "command": command,
            "args": [fill(word).replace("'", "") for word in args],
            "env": {name: fill(value) for name, value in self.env.items()},
            "sandbox": kind,
            "read": list(map(fill, self.read)),
            "write": list(map(fill, self.write)),
            "network": network or "none",
            "start_timeout": 300,
        }


REFERENCES = (
    Reference(
        "everything",
        "npx -y @modelcontextprotocol/server-everything",
        [("echo", {"message": "hello"}, "hello"), ("get-sum", {"a": 2, "b": 3}, "5")],
    ),
    Reference(
        "filesystem",
        "npx -y @modelcontextprotocol/server-filesystem $DATA",
        [
            ("read_text_file", {"path": "$DATA/note.txt"}, "hello note"),
            ("write_file", {"path": "$DATA/new.txt", "content": "x"}, "Successfully wrote"),
            ("list_directory", {"path": "$DATA"}, "new.txt"),
        ],
        write=["$DATA"],
        note="the same folders as in its arguments; `read` if it should not write",
    ),
    Reference(
        "memory",
        "npx -y @modelcontextprotocol/server-memory",
        [
            (
                "create_entities",
                {"entities": [{"name": "Ann", "entityType": "person", "observations": ["likes tea"]}]},
                "Ann",
            ),
            ("search_nodes", {"query": "tea"}, "Ann"),
        ],
        write=["$DATA"],
        env={"MEMORY_FILE_PATH": "$DATA/memory.jsonl"},
        note="without the variable it keeps its memory in its package, which a new version replaces",
    ),
    Reference(
        "sequential-thinking",
        "npx -y @modelcontextprotocol/server-sequential-thinking",
        [
            (
                "sequentialthinking",
                {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
                "thoughtHistoryLength",
            )
        ],
    ),
    Reference(
        "github",
        "npx -y @modelcontextprotocol/server-github",
        [("search_repositories", {"query": "toolcrib"}, "total_count")],
        network=["api.github.com"],
        env={"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_none"},
        note="archived; its token is passed in a variable",
    ),
    Reference(
        "pdf",
        "npx -y @modelcontextprotocol/server-pdf --stdio $DATA/page.pdf",
        [("list_pdfs", {}, "page.pdf")],
        read=["$DATA/page.pdf"],
        note="the same files as in its arguments",
    ),
    Reference(
        "fetch",
        "uvx mcp-server-fetch",
        [("fetch", {"url": "https://example.com/"}, "Example Domain")],
        network=["example.com"],
        note="the hosts that it should fetch from, or `all`; if Node.js is on the PATH, it installs an npm "
        "package when it fetches the first page",
    ),
    Reference(
        "git",
        "uvx mcp-server-git --repository $DATA/repo",
        [
            ("git_log", {"repo_path": "$DATA/repo"}, "first"),
            ("git_create_branch", {"repo_path": "$DATA/repo", "branch_name": "new"}, "new"),
        ],
        write=["$DATA/repo"],
        note="`read` if it should not change anything",
    ),
    Reference(
        "time",
        "uvx mcp-server-time",
        [("get_current_time", {"timezone": "Asia/Tokyo"}, "Asia/Tokyo")],
    ),
    Reference(
        "sqlite",
        "uvx --with 'mcp<2' mcp-server-sqlite --db-path $DATA/shop.db",
        [
            ("create_table", {"query": "CREATE TABLE tea (name TEXT)"}, "created"),
            ("write_query", {"query": "INSERT INTO tea VALUES ('oolong')"}, "affected_rows"),
            ("read_query", {"query": "SELECT name FROM tea"}, "oolong"),
        ],
        write=["$DATA"],
        note="the folder of the database, since SQLite writes files beside it; archived, and on an older SDK",
    ),
)


def private_addresses(host: str) -> list[str]:
    """Return the addresses of a host where a mirror of this machine's network stands for it."""
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, 443)}
    except socket.gaierror:
        return []
    return sorted(each for each in found if not ip_address(each).is_global)


def is_reachable(reference: Reference) -> bool:
    """Return whether this machine can resolve the hosts that a server needs."""
    try:
        return all(socket.getaddrinfo(host, 443) for host in reference.network)
    except socket.gaierror:
        return False


def make_data(folder: Path) -> Path:
    """Make the files that the calls are about."""
    repository = folder / "repo"
    repository.mkdir(parents=True)
    (folder / "note.txt").write_text("hello note\n")
    (folder / "page.pdf").write_bytes(PDF)
    (repository / "a.txt").write_text("a\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        given = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com", *command]
        subprocess.run(given, cwd=repository, check=True)
    return folder

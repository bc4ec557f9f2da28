"""The same verbs in a terminal."""

__all__ = ["main"]


def main() -> None:
    """Run the `toolcrib` command."""
    raise SystemExit(2)

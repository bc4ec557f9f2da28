"""A gateway that stays running on this machine, and the commands that use it instead of starting servers."""

__all__: list[str] = []

"""Several processes that serve one address: their supervisor, and the channel between them."""

__all__: list[str] = []

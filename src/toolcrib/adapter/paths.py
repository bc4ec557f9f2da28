"""Places in a schema."""

__all__ = ["step"]


def step(path: str, key: str | int, inner: str | int | None = None) -> str:
    """Return a JSON Pointer lengthened by a key, or by a keyword and a key in it.

    >>> step("/a", "properties", "b/c")
    '/a/properties/b~1c'
    """
    if inner is not None:
        path, key = f"{path}/{key}", inner
    if type(key) is str and ("~" in key or "/" in key):
        key = key.replace("~", "~0").replace("/", "~1")
    return f"{path}/{key}"

"""Parts of messages: truncated texts, and the failure of a server."""


def truncate(text: str, limit: int, mark: str = "…") -> str:
    """Return the first `limit` characters of a text, followed by a mark if there are more.

    >>> truncate("Create an issue", 6), truncate("Create", 6)
    ('Create…', 'Create')
    """
    return text if len(text) <= limit else f"{text[:limit]}{mark}"


def fit(text: str, limit: int) -> str:
    """Return a text in at most `limit` characters; the last one is an ellipsis if it was cut.

    >>> fit("Create an issue", 7), fit("Create", 7)
    ('Create…', 'Create')
    """
    return text if len(text) <= limit else truncate(text, limit - 1)


def describe_failure(reason: str, stderr: str = "", advice: str = "") -> str:
    r"""Return why a server failed: the reason, its own words, and our guess after them.

    >>> describe_failure("it exited with status 1", "no TOKEN", "pass it TOKEN")
    'it exited with status 1; its stderr ends with: no TOKEN; pass it TOKEN'
    >>> describe_failure("it exited with status 1", "loading\nno TOKEN", "pass it TOKEN")
    'it exited with status 1; its stderr ends with:\nloading\nno TOKEN\npass it TOKEN'
    """
    if "\n" in stderr:
        return "\n".join(filter(None, (f"{reason}; its stderr ends with:", stderr, advice)))
    words = f"its stderr ends with: {stderr}" if stderr else ""
    return "; ".join(filter(None, (reason, words, advice)))

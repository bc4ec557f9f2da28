"""Truncation of texts for messages and lists."""


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

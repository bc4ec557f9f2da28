"""How it is told that the language of a sandbox lacks something, and where it is to be had."""

__all__ = ["ELSEWHERE", "lacks"]

ELSEWHERE = "; 'process' does: ask for it, or for `language_fallback`"


def lacks(what: str) -> str:
    """Return what is said of something that Monty does not have.

    >>> lacks("yield").removesuffix(ELSEWHERE)
    "the 'monty' sandbox does not support yield"
    """
    return f"the 'monty' sandbox does not support {what}{ELSEWHERE}"

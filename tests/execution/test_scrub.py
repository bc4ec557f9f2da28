"""What is shown of an error: no paths of this machine, but those that the caller named."""

import pytest

from toolcrib.execution.scrub import said_by, scrub


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot open /home/anna/notes.txt", "cannot open <path>"),
        ("'/etc/ssl/key.pem': denied", "'<path>': denied"),
        ("in ~/work/x.py.", "in <path>"),
        (r"at C:\Users\anna\x.txt now", "at <path> now"),
        (r"on \\server\share\x", "on <path>"),
        ("see https://example.org/a/b/c", "see https://example.org/a/b/c"),
        ("1/2 and a/b/c", "1/2 and a/b/c"),
        ("/metrics is not found", "/metrics is not found"),
        ("text/html; 3/4/2026", "text/html; 3/4/2026"),
        ('boom\n  File "/srv/app/x.py", line 3, in run', "boom"),
        ("nothing", "nothing"),
    ],
)
def test_paths_are_left_out_and_nothing_else(text: str, shown: str) -> None:
    assert scrub(text) == shown


def test_a_path_that_the_caller_named_stays() -> None:
    args = {"path": "/data/shop/x.csv", "deep": [{"root": "/srv/files"}]}
    assert scrub("no /data/shop/x.csv, nor /srv/files/a/b, but /home/anna/key", args) == (
        "no /data/shop/x.csv, nor /srv/files/a/b, but <path>"
    )


def test_what_is_long_is_cut() -> None:
    assert len(scrub("x" * 100_000)) == 2001


def test_an_exception_without_words_is_named() -> None:
    assert said_by(ValueError()) == "ValueError"

import pytest

from toolcrib.execution.mcp.transport.process import StderrTail
from toolcrib.redaction import KnownSecrets


def test_only_the_last_lines_are_kept() -> None:
    tail = StderrTail(max_lines=3)
    for number in range(10):
        tail.feed(f"line {number}\n\n".encode())
    assert tail.text() == "line 7\nline 8\nline 9"


def test_memory_is_bounded_and_a_line_that_was_cut_is_left_out() -> None:
    tail = StderrTail(max_bytes=20)
    for _ in range(1000):
        tail.feed(b"0123456789\n")
    assert tail.text() == "0123456789"
    tail.feed(b"x" * 100)
    assert tail.text() == "x" * 20


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (b"", ""),
        (b"\n \n", ""),
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]8;;http://x\x1b\\link", "link"),
        (b"bell\x07 back\x08 nul\x00", "bell back nul"),
        (b"10%\r20%\r\ndone", "10%\n20%\ndone"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        (b"csi \xc2\x9b31m", "csi 31m"),
        (b"tab\tkept", "tab\tkept"),
    ],
)
def test_text_is_safe_to_print(written: bytes, text: str) -> None:
    tail = StderrTail()
    tail.feed(written)
    assert tail.text() == text


def test_stray_lines_on_standard_output_are_counted_and_kept_in_part() -> None:
    tail = StderrTail()
    tail.feed(b"half a line")
    tail.stray(b"Welcome!\r")
    tail.stray(b"y" * 1000)
    assert tail.stray_lines == 2
    assert tail.text() == "half a line\n[stdout] Welcome!\n[stdout] " + "y" * 200


def test_a_secret_whose_beginning_was_cut_off_is_not_shown() -> None:
    secret = "zK7pq9W-tr-55-abcdef-12345"  # noqa: S105 - it is none
    for line in (b"", b"more\n"):
        tail = StderrTail(KnownSecrets([secret]), max_bytes=1_000)
        tail.feed(secret.encode() + b"y" * (990 - len(line)) + b"\n" * bool(line) + line)
        assert "-12345" not in tail.text()
        assert tail.text().endswith("more" if line else "yyy")

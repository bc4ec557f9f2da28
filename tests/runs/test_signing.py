"""Signatures of what is stored of a run."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from toolcrib.errors import ConfigError, SnapshotError
from toolcrib.runs.signing import Signer, load_key

KEY = b"0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("place", [0, 31, 32, 40])
def test_signature_detects_any_changed_byte(place: int) -> None:
    sealed = bytearray(Signer(KEY).seal("r1", "state", b"payload of the run"))
    sealed[place] ^= 1
    with pytest.raises(SnapshotError, match="changed"):
        Signer(KEY).open("r1", "state", bytes(sealed))


@pytest.mark.parametrize(("run_id", "part"), [("r2", "state"), ("r1", "head"), ("r1", "call:0")])
def test_signature_is_refused_for_another_run_or_part(run_id: str, part: str) -> None:
    with pytest.raises(SnapshotError):
        Signer(KEY).open(run_id, part, Signer(KEY).seal("r1", "state", b"payload"))


def test_signature_of_another_key_or_a_short_payload_is_refused() -> None:
    sealed = Signer(KEY).seal("r1", "state", b"payload")
    with pytest.raises(SnapshotError):
        Signer(KEY[::-1]).open("r1", "state", sealed)
    with pytest.raises(SnapshotError):
        Signer(KEY).open("r1", "state", sealed[:20])


def test_key_file_is_created_once_with_private_mode(tmp_path: Path) -> None:
    path = tmp_path / "home" / "runs.key"
    key = load_key(path)
    assert load_key(path) == key
    assert len(key) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["runs.key"]


def test_threads_that_make_the_key_at_once_get_the_same(tmp_path: Path) -> None:
    path, begin = tmp_path / "runs.key", Barrier(8)

    def load() -> bytes:
        begin.wait()
        return load_key(path)

    with ThreadPoolExecutor(8) as threads:
        keys = {each.result() for each in [threads.submit(load) for _ in range(8)]}
    assert len(keys) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["runs.key"]


def test_readable_or_short_key_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.key"
    path.write_bytes(KEY)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others can read it"):
        load_key(path)
    path.chmod(0o600)
    assert load_key(path) == KEY
    path.write_bytes(b"short")
    with pytest.raises(ConfigError, match="at least 32 characters"):
        load_key(path)

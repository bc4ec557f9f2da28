"""The vault: its contents, its readers, and damaged keys and files."""

import json
import logging
import os
import stat
import threading
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring

from toolcrib.errors import StoreError, VaultError
from toolcrib.execution.oauth.vault import LoginVault, StoredLogin

SECRETS = ("access-5ecret", "refresh-5ecret", "client-5ecret")
URL = "https://example.com/mcp"
OTHER = "another"
KEY = "a key of many characters"


@pytest.fixture(autouse=True)
def _without_keyring() -> object:
    before = keyring.get_keyring()
    keyring.set_keyring(NoKeyring())
    yield
    keyring.set_keyring(before)


def environ(tmp_path: Path, key: str | None = KEY) -> dict[str, str]:
    return {"TOOLCRIB_HOME": str(tmp_path)} | ({} if key is None else {"TOOLCRIB_VAULT_KEY": key})


def login(server: str = "one", **changes: object) -> StoredLogin:
    access, refresh, client = SECRETS
    fields = {"access_token": access, "refresh_token": refresh, "client_secret": client, **changes}
    return StoredLogin(server=server, url=URL, token_endpoint=f"{URL}/token", client_id="c", **fields)


def test_a_login_is_there_for_the_next_process_and_its_secrets_are_nowhere_in_the_file(
    tmp_path: Path,
) -> None:
    LoginVault(environ(tmp_path)).put(login())
    assert LoginVault(environ(tmp_path)).get("one", URL) == login()
    assert LoginVault(environ(tmp_path)).get("one", "https://elsewhere.example.com") is None
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not any(secret.encode() in file.read_bytes() for secret in SECRETS for file in files)
    assert not any(secret in repr(login()) for secret in SECRETS)
    assert stat.S_IMODE((tmp_path / "vault" / "logins.json").stat().st_mode) == 0o600


def test_a_vault_sees_what_another_process_has_kept(tmp_path: Path) -> None:
    first, second = LoginVault(environ(tmp_path)), LoginVault(environ(tmp_path))
    assert first.get("one", URL) is None
    second.put(login())
    assert first.get("one", URL) == login()
    second.put(login(access_token=OTHER))
    assert first.get("one", URL) == login(access_token=OTHER)
    assert second.remove("one", URL)
    assert not second.remove("one", URL)
    assert first.get("one", URL) is None


def test_many_that_keep_logins_at_once_lose_none(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=lambda each=each: LoginVault(environ(tmp_path)).put(login(f"s{each}")))
        for each in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    vault = LoginVault(environ(tmp_path))
    assert all(vault.get(f"s{each}", URL) is not None for each in range(8))


def test_another_key_is_told_as_such_and_nothing_is_lost(tmp_path: Path) -> None:
    LoginVault(environ(tmp_path)).put(login())
    wrong = LoginVault(environ(tmp_path, "some other long key"))
    with pytest.raises(
        VaultError, match="sealed with another key than that of the environment; set TOOLCRIB_VAULT_KEY"
    ):
        wrong.get("one", URL)
    with pytest.raises(VaultError, match="another key"):
        wrong.put(login("two"))
    assert wrong.get("two", URL) is None  # which has none, and needs no key
    assert LoginVault(environ(tmp_path)).get("one", URL) == login()
    assert issubclass(VaultError, StoreError)


def test_a_key_that_anybody_could_guess_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VaultError, match="too short"):
        LoginVault(environ(tmp_path, "short")).put(login())


@pytest.mark.parametrize("torn", [b"", b'{"version": 1, "entr', b"[]", b'{"entries": []}', b"\xff\xfe"])
def test_a_torn_file_is_moved_away_and_the_vault_goes_on(
    tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    vault = LoginVault(environ(tmp_path))
    vault.put(login())
    vault.path.write_bytes(torn)
    with caplog.at_level(logging.WARNING):
        assert LoginVault(environ(tmp_path)).get("one", URL) is None
    assert "was damaged, and was moved to" in caplog.text
    assert [file.read_bytes() for file in tmp_path.rglob("*.damaged-*")] == [torn]
    vault.put(login("two"))
    assert LoginVault(environ(tmp_path)).get("two", URL) == login("two")


def test_one_damaged_entry_leaves_the_others_alone(tmp_path: Path) -> None:
    vault = LoginVault(environ(tmp_path))
    vault.put(login("one"))
    document = json.loads(vault.path.read_text())
    bad = next(iter(document["entries"]))
    vault.put(login("two"))
    document = json.loads(vault.path.read_text())
    document["entries"][bad] = document["entries"][bad][:-8] + "AAAAAAA="
    vault.path.write_text(json.dumps(document))
    with pytest.raises(VaultError, match="one of its entries is damaged; `toolcrib logout NAME`"):
        vault.get("one", URL)
    assert vault.get("two", URL) == login("two")
    assert vault.remove("one", URL)


def test_an_entry_cannot_be_put_in_the_place_of_another(tmp_path: Path) -> None:
    vault = LoginVault(environ(tmp_path))
    vault.put(login("one"))
    vault.put(login("two"))
    document = json.loads(vault.path.read_text())
    first, second = document["entries"]
    document["entries"][first] = document["entries"][second]
    vault.path.write_text(json.dumps(document))
    with pytest.raises(VaultError, match="damaged"):
        vault.get("one", URL)


def test_without_a_variable_and_a_keyring_the_key_is_a_file_of_its_owner(tmp_path: Path) -> None:
    LoginVault(environ(tmp_path, None)).put(login())
    key = tmp_path / "vault" / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert LoginVault(environ(tmp_path, None)).get("one", URL) == login()
    content = key.read_bytes()
    key.unlink()
    with pytest.raises(VaultError, match="its key is missing; put the key file back"):
        LoginVault(environ(tmp_path, None)).get("one", URL)
    key.write_bytes(b"nonsense")
    with pytest.raises(VaultError, match="is not the key of a vault"):
        LoginVault(environ(tmp_path, None)).get("one", URL)
    key.write_bytes(content)
    assert LoginVault(environ(tmp_path, None)).get("one", URL) == login()


class Keys(KeyringBackend):
    """A keyring that works."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.known.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.known[service, username] = password


def test_the_keyring_of_the_system_has_the_key_where_it_works(tmp_path: Path) -> None:
    keys = Keys()
    keyring.set_keyring(keys)
    LoginVault(environ(tmp_path, None)).put(login())
    assert not (tmp_path / "vault" / "key").exists()
    assert len(keys.known) == 1
    assert LoginVault(environ(tmp_path, None)).get("one", URL) == login()
    keyring.set_keyring(NoKeyring())
    with pytest.raises(VaultError, match="its key is missing; unlock the keyring"):
        LoginVault(environ(tmp_path, None)).get("one", URL)


@pytest.mark.skipif(os.name != "posix", reason="rights are others elsewhere")
def test_a_vault_that_others_can_look_into_becomes_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    LoginVault(environ(tmp_path, None)).put(login())
    for name, mode in {"key": 0o644, "logins.json": 0o666, "": 0o777}.items():
        (folder / name).chmod(mode)
    assert LoginVault(environ(tmp_path, None)).get("one", URL) == login()
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (folder, *folder.iterdir())}
    assert modes == {"vault": 0o700, "key": 0o600, "logins.json": 0o600}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("name", ["", "key", "logins.json"])
def test_a_vault_with_something_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    """A user who plants a key can read sealed secrets, and one who plants a login receives the tokens."""
    LoginVault(environ(tmp_path, None)).put(login())
    os.chown(tmp_path / "vault" / name, 65534, 65534)
    with pytest.raises(VaultError, match="belongs to another user"):
        LoginVault(environ(tmp_path, None)).get("one", URL)
    with pytest.raises(VaultError, match="belongs to another user"):
        LoginVault(environ(tmp_path, None)).put(login("two"))


@pytest.mark.skipif(os.name != "posix", reason="there are no pipes of that kind elsewhere")
@pytest.mark.parametrize("name", ["key", "logins.json"])
def test_a_pipe_in_the_place_of_a_vault_is_not_waited_for(tmp_path: Path, name: str) -> None:
    LoginVault(environ(tmp_path, None)).put(login())
    (tmp_path / "vault" / name).unlink()
    os.mkfifo(tmp_path / "vault" / name)
    with pytest.raises(VaultError, match="is not a file"):
        LoginVault(environ(tmp_path, None)).get("one", URL)


def test_a_vault_nested_without_end_is_moved_away_as_one_that_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "logins.json").write_text('{"entries":' * 100_000)
    vault = LoginVault(environ(tmp_path))
    assert vault.get("one", URL) is None
    vault.put(login())
    assert vault.get("one", URL) == login()

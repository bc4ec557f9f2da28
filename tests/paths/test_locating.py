"""Where configurations lie."""

import os
from pathlib import Path

import pytest

from toolcrib.crib import find_config
from toolcrib.errors import ConfigError
from toolcrib.paths import config_folder, user_config


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    return path


def test_our_own_file_wins_over_the_shared_one_and_that_over_the_hidden_one(tmp_path: Path) -> None:
    hidden = put(tmp_path / ".mcp.json")
    assert find_config(tmp_path) == hidden
    shared = put(tmp_path / "mcp.json")
    assert find_config(tmp_path) == shared
    own = put(tmp_path / "toolcrib.toml")
    assert find_config(tmp_path) == own


def test_the_current_folder_is_looked_at_where_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = put(tmp_path / "toolcrib.toml")
    assert find_config() == own


def test_the_users_file_is_found_where_the_folder_has_none(tmp_path: Path, home: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    assert find_config(here) is None
    shared = put(home / "mcp.json")
    assert find_config(here) == shared == user_config()
    own = put(home / "toolcrib.toml")
    assert find_config(here) == own == user_config()


def test_a_hidden_file_in_the_users_folder_is_not_ours(tmp_path: Path, home: Path) -> None:
    put(home / ".mcp.json")
    assert find_config(tmp_path) is None
    assert user_config() == home / "toolcrib.toml"


def test_a_folder_of_that_name_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").mkdir()
    assert find_config(tmp_path) is None


def test_the_users_file_is_found_when_the_current_folder_is_gone(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    own = put(home / "toolcrib.toml")
    assert find_config() == own
    os.chdir(tmp_path)


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {"XDG_CONFIG_HOME": "/x"}, "/x/toolcrib"),
        ("linux", {"XDG_CONFIG_HOME": "relative"}, "/anna/.config/toolcrib"),
        ("linux", {}, "/anna/.config/toolcrib"),
        ("darwin", {}, "/anna/Library/Application Support/toolcrib"),
        ("win32", {"APPDATA": "/a"}, "/a/toolcrib"),
        ("win32", {}, "/anna/AppData/Roaming/toolcrib"),
        ("linux", {"TOOLCRIB_HOME": "/t"}, "/t"),
    ],
)
def test_every_platform_has_its_folder(platform: str, environ: dict[str, str], expected: str) -> None:
    assert config_folder(environ, platform, Path("/anna")) == Path(expected)


def test_a_process_without_a_home_has_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert find_config(tmp_path, {}) is None
    with pytest.raises(ConfigError, match="set TOOLCRIB_HOME"):
        user_config({})


def test_a_variable_that_names_no_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="NUL"):
        find_config(tmp_path, {"TOOLCRIB_HOME": "a\0b"})


@pytest.mark.skipif(os.name != "posix", reason="files have no such rights there")
@pytest.mark.parametrize(
    ("mode", "folder", "said"),
    [
        (0o646, 0o755, "others may write to it"),
        (0o644, 0o757, "everybody may write to the folder that it is in"),
    ],
)
def test_configuration_writable_by_others_is_not_used_by_default(
    tmp_path: Path, mode: int, folder: int, said: str
) -> None:
    here = tmp_path / "here"
    own = put(here / "toolcrib.toml")
    own.chmod(mode)
    here.chmod(folder)
    with pytest.raises(ConfigError, match=f"{said}; name it with --config if you trust it"):
        find_config(here)


@pytest.mark.skipif(os.name != "posix", reason="files have no such rights there")
def test_a_folder_where_nobody_removes_what_is_not_theirs_is_trusted(tmp_path: Path) -> None:
    here = tmp_path / "here"
    own = put(here / ".mcp.json")
    here.chmod(0o1777)
    assert find_config(here) == own


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may give files away")
def test_a_file_of_another_user_is_not_used_unasked(tmp_path: Path) -> None:
    own = put(tmp_path / "mcp.json")
    os.chown(own, 12345, 12345)
    with pytest.raises(ConfigError, match="it is not used automatically: it belongs to another user"):
        find_config(tmp_path)
    link = tmp_path / "toolcrib.toml"
    link.symlink_to(put(tmp_path / "sub" / "toolcrib.toml"))
    os.chown(link, 12345, 12345, follow_symlinks=False)
    with pytest.raises(ConfigError, match="it is not used automatically: it belongs to another user"):
        find_config(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may give files away")
def test_a_group_that_is_the_users_alone_may_write(tmp_path: Path) -> None:
    own = put(tmp_path / "mcp.json")
    own.chmod(0o664)
    os.chown(own, 0, 0)
    assert find_config(tmp_path) == own
    for group in (1, 54321):
        os.chown(own, 0, group)
        with pytest.raises(ConfigError, match="others may write to it"):
            find_config(tmp_path)

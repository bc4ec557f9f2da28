"""Where state is kept between runs."""

from pathlib import Path

import pytest

from toolcrib.errors import ConfigError, StoreError
from toolcrib.paths import catalogue_file, data_folder

HOME = Path("/anna")


@pytest.mark.parametrize("folder", ["~nosuchuser", "a\0b", "/srv/a\ud800b"])
def test_a_folder_that_cannot_be_is_refused(folder: str) -> None:
    with pytest.raises(ConfigError, match="TOOLCRIB_HOME: the path "):
        data_folder({"TOOLCRIB_HOME": folder})


def test_without_any_home_one_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: type[Path]) -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", classmethod(unknown))
    with pytest.raises(StoreError, match="set TOOLCRIB_HOME"):
        data_folder({}, "linux")


def test_the_file_of_a_configuration_that_links_to_itself_has_a_name(tmp_path: Path) -> None:
    link = tmp_path / "mcp.json"
    link.symlink_to(link)
    assert catalogue_file(link).suffix == ".db"


@pytest.mark.parametrize(
    ("environ", "platform", "folder"),
    [
        ({}, "linux", HOME / ".local/share/toolcrib"),
        ({"XDG_DATA_HOME": "/data"}, "linux", Path("/data/toolcrib")),
        ({"XDG_DATA_HOME": "relative"}, "linux", HOME / ".local/share/toolcrib"),
        ({"XDG_DATA_HOME": "/data"}, "darwin", HOME / "Library/Application Support/toolcrib"),
        ({"LOCALAPPDATA": "/C/Local"}, "win32", Path("/C/Local/toolcrib")),
        ({}, "win32", HOME / "AppData/Local/toolcrib"),
        ({"TOOLCRIB_HOME": "/srv/crib", "XDG_DATA_HOME": "/data"}, "linux", Path("/srv/crib")),
        ({"TOOLCRIB_HOME": "~/crib"}, "win32", Path.home() / "crib"),
        ({"TOOLCRIB_HOME": ""}, "linux", HOME / ".local/share/toolcrib"),
    ],
)
def test_the_folder_is_the_users_own(environ: dict[str, str], platform: str, folder: Path) -> None:
    assert data_folder(environ, platform, HOME) == folder


def test_the_folder_is_read_from_the_environment(home: Path) -> None:
    assert data_folder() == home


def test_each_configuration_has_its_own_file(home: Path, tmp_path: Path) -> None:
    one, other = catalogue_file(tmp_path / "one.json"), catalogue_file(tmp_path / "two.json")
    assert one != other
    assert one.parent == other.parent == home / "catalogues"
    assert catalogue_file(tmp_path / "sub" / ".." / "one.json") == one

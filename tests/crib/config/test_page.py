"""The page of the configuration, and the example on it."""

import subprocess
import tomllib
from pathlib import Path

from servers.launch import python

from toolcrib.crib import Settings, load


def test_the_page_says_what_the_records_say(root: Path) -> None:
    made = subprocess.run(
        python("scripts/config_page.py", "--check"),
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr


def test_the_example_is_a_configuration_that_names_every_section(root: Path, tmp_path: Path) -> None:
    page = (root / "docs" / "configuration.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "toolcrib.toml").write_text(example)
    settings = load(tmp_path / "toolcrib.toml")
    assert set(settings.servers) == {"time", "github"}
    assert settings.toolsets["reading"].annotations == {"readOnlyHint": True}
    assert tomllib.loads(example).keys() <= Settings.model_fields.keys()

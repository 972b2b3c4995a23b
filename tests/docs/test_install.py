"""The page on installing: its settings load, its unit starts a command that exists, its extras are."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from pathlib import Path

import msgspec

from labfleet.app.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = dict(FENCE.findall(PAGE))


def test_the_settings_are_settings() -> None:
    """Each line of server.toml is a setting of the server, with a value that it takes."""
    found = msgspec.convert(tomllib.loads(BLOCKS["toml"]), Settings)
    assert (found.data, found.log_format) == ("/var/lib/labfleet", "json")


def test_the_unit_starts_what_is_installed() -> None:
    """Its command has options that exist and the files of the page; a stop has time to be orderly."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    unit.read_string(BLOCKS["ini"])
    service = unit["Service"]
    program, command, *words = shlex.split(service["ExecStart"])
    assert (program, command) == ("/opt/labfleet/bin/labfleet", "server")
    listed = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    section = listed.split("\n## labfleet server\n")[1].split("\n## ")[0]
    options = [word for word in words if word.startswith("--")]
    assert len(options) == 2
    assert all(f"`{option}`" in section for option in options)
    assert int(service["TimeoutStopSec"]) > Settings().stop_seconds
    assert service["ReadWritePaths"] == tomllib.loads(BLOCKS["toml"])["data"]
    assert Path(Settings().secrets_folder) == Path("/etc/labfleet/secrets")


def test_the_extras_are_those_of_the_wheel() -> None:
    """The table names every extra, and no other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert told == set(project["optional-dependencies"])
    assert f"labfleet-{project['version']}-py3-none-any.whl" in PAGE

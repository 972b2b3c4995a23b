"""The file of sites: what it may say, who may write it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from labfleet.adapters.static import sites
from labfleet.kernel.errors import Invalid

GOOD = """
[lab-a.servers.cml-1]
address = "10.0.0.5"
power = "ipmi"

[lab-a.servers.cml-2]
address = "cml-2.example.org"

[lab-a.power.ipmi]
start = ["/usr/bin/power", "on", "{server}"]
stop = ["/usr/bin/power", "off", "{server}"]
status = ["/usr/bin/power", "status", "{server}"]
"""


def written(folder: Path, text: str, mode: int = 0o600) -> str:
    """Return the path of a file with this text and mode."""
    path = folder / "sites.toml"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_servers_stand_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Each has its address, and commands only if it names them."""
    found = sites.read(written(tmp_path, GOOD))["lab-a"]
    assert list(found) == ["cml-1", "cml-2"]
    assert found["cml-1"].power is not None
    assert found["cml-1"].power.start[0] == "/usr/bin/power"
    assert (found["cml-2"].address, found["cml-2"].power) == ("cml-2.example.org", None)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"/usr/bin/power", "on"', '"power", "on"', "full path"),
        ('"/usr/bin/power", "on"', '"/bin/{server}", "on"', "full path"),
        ('power = "ipmi"', 'power = "other"', "no power 'other'"),
        ('"cml-2.example.org"', '"10.0.0.5"', "one address"),
        ('"10.0.0.5"', '"10.0.0.5/24"', "address"),
        ('"10.0.0.5"', '"-oProxy"', "address"),
        ("servers.cml-2", "servers.CML_2", "regex"),
        ("[lab-a.power.ipmi]", "[lab-a.power.ipmi]\nshell = true", "unknown field"),
        ("[lab-a.power.ipmi]", "[lab-a.power.ipmi]\ntimeout = 60", "12"),
        ("[lab-a.servers.cml-1]", "[lab-a.servers.cml-1", "static_sites"),
    ],
)
def test_what_is_wrong_is_said(old: str, new: str, why: str) -> None:
    """One word changed, and the file is refused with the reason."""
    with pytest.raises(Invalid, match=why):
        sites.parsed(GOOD.replace(old, new))


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    """It names commands: whoever writes it runs them."""
    with pytest.raises(Invalid, match="writable by nobody else"):
        sites.read(written(tmp_path, GOOD, mode))


def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path) -> None:
    """The server says what it could not read."""
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(Invalid, match="static_sites"):
            sites.read(str(path))

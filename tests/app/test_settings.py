"""Settings: where each value comes from, and what a wrong one is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from labfleet.app.settings import ROLES, load
from labfleet.kernel import errors


def test_the_last_place_that_says_it_wins(tmp_path: Path) -> None:
    """Command line beats environment beats file beats default."""
    file = tmp_path / "s.toml"
    file.write_text('port = 1001\nhost = "127.0.0.2"\nlog_format = "json"\n')
    env = {"LABFLEET_PORT": "1002", "LABFLEET_HOST": "127.0.0.3"}
    found = load({"port": 1003, "host": None}, file=str(file), environment=env)
    assert (found.port, found.host, found.log_format) == (1003, "127.0.0.3", "json")
    assert found.roles == ROLES


def test_a_retired_key_still_loads(tmp_path: Path) -> None:
    """A file that named the HTTP client to CML starts the server; its word changes nothing."""
    file = tmp_path / "labfleet.toml"
    file.write_text('cml_http = "aiohttp"\nport = 8471\n')
    there = load({}, file=str(file), environment={"LABFLEET_CML_HTTP": "aiohttp"})
    assert there == load({"port": 8471}, environment={})


def test_an_unknown_key_is_refused_with_a_hint(tmp_path: Path) -> None:
    """A misspelt key in the file is an error that names the right one."""
    file = tmp_path / "s.toml"
    file.write_text("prot = 1\n")
    with pytest.raises(errors.Invalid, match="did you mean port"):
        load({}, file=str(file), environment={})


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"port": 70000}, "port"),
        ({"roles": ("api", "cook")}, "cook"),
        ({"tls_cert": "a.pem"}, "go together"),
        ({"clock_rate": 0}, "clock"),
        ({"clock_rate": 10}, "clock_epoch"),
        ({"lease_seconds": 14.9}, "lease"),
        ({"roles": ()}, "roles is empty"),
        ({"clock_rate": float("inf"), "clock_epoch": 1.0}, "clock_rate"),
        ({"clock_rate": float("nan"), "clock_epoch": 1.0}, "clock_rate"),
        ({"clock_rate": 1e12, "clock_epoch": 1.0}, "clock_rate"),
        ({"clock_rate": 2, "clock_epoch": float("nan")}, "clock_epoch"),
        ({"clock_rate": 2, "clock_epoch": 1e18}, "clock_epoch"),
        ({"clock_rate": 2, "clock_epoch": -1e18}, "clock_epoch"),
        ({"stop_seconds": float("inf")}, "stop_seconds"),
    ],
)
def test_a_wrong_value_is_named(given: dict[str, object], what: str) -> None:
    """Each wrong value gives one sentence that names the setting."""
    with pytest.raises(errors.Invalid, match=what):
        load(given, environment={})


def test_a_broken_or_missing_file_is_named(tmp_path: Path) -> None:
    """A settings file that cannot be read says which and why."""
    broken = tmp_path / "b.toml"
    broken.write_text("= 1")
    for path in (broken, tmp_path / "absent.toml"):
        with pytest.raises(errors.Invalid, match=path.name):
            load({}, file=str(path), environment={})


def test_roles_come_from_the_environment_as_words() -> None:
    """LABFLEET_ROLES takes several with commas."""
    found = load({}, environment={"LABFLEET_ROLES": "api,scheduler"})
    assert found.roles == ("api", "scheduler")

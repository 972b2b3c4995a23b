"""Contexts, token files and the order flag, environment, context, default."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def config(tmp_path):
    """Where the configuration of these tests lies."""
    return tmp_path / "home" / ".config" / "labfleet" / "config.json"


def test_contexts_are_kept_private(run, stub, config):
    """The file is readable by its owner only and holds a path to the token, not the token."""
    done = run("context", "set", "lab", "--url", stub.url, "--token-file", "tok")
    assert done.code == 0
    assert config.stat().st_mode & 0o777 == 0o600
    kept = json.loads(config.read_text())
    assert kept["current"] == "lab"
    assert kept["contexts"]["lab"]["tokenFile"].startswith("/")


def test_contexts_are_listed_used_and_forgotten(run, config):
    """One context is in use; an unknown one is 4."""
    run("context", "set", "a", "--url", "http://a:1")
    run("context", "set", "b", "--url", "http://b:1", "-n", "exams")
    assert run("context", "use", "b").code == 0
    rows = [line.split() for line in run("context", "list", "--no-headers").out.splitlines()]
    assert rows == [["a", "http://a:1", "default", "-"], ["*", "b", "http://b:1", "exams", "-"]]
    assert run("context", "use", "c").code == 4
    assert run("context", "delete", "b").code == 0
    assert run("context", "list", "-q").out == "a\n"


def test_a_token_in_the_file_is_never_listed(run, config):
    """A token that somebody wrote into the file is used and not shown."""
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"contexts": {"x": {"token": "hidden-token"}}}))
    done = run("context", "list", "-o", "json")
    assert "hidden-token" not in done.out
    assert done.json["items"][0]["has_token"] is True


def test_flag_beats_environment_beats_context(run, stub):
    """The nearest setting wins."""
    run("context", "set", "far", "--url", "http://127.0.0.1:9", "-n", "far")
    assert run("get", "workers").code == 0
    assert stub.seen[-1].query["namespace"] == "far"
    assert run("get", "workers", env={"LABFLEET_URL": ""}).code == 9
    assert run("get", "workers", "-n", "near", env={"LABFLEET_NAMESPACE": "mid"}).code == 0
    assert stub.seen[-1].query["namespace"] == "near"
    assert run("get", "workers", "--context", "none").code == 2


def test_the_token_file_beats_the_variable(run, stub, tmp_path):
    """A token file that was named is the one that is used."""
    file = tmp_path / "tok"
    file.write_text("lf_from_file\n")
    assert run("get", "workers", "--token-file", str(file)).code == 0
    assert stub.seen[-1].headers["authorization"] == "Bearer lf_from_file"


@pytest.mark.parametrize("text", ["", "two\nlines", "x" * 5000, "ü"])
def test_a_token_file_without_token_is_a_usage_error(run, stub, tmp_path, text):
    """A file that holds something else is refused before any call, unshown."""
    file = tmp_path / "tok"
    file.write_text(text)
    done = run("get", "workers", "--token-file", str(file))
    assert done.code == 2
    assert not stub.seen
    assert not text or text not in done.err


@pytest.mark.parametrize("text", ["{", "[]", '{"contexts": {"x": 1}}', '{"contexts": []}x'])
def test_a_broken_configuration_is_told(run, config, text):
    """A configuration that cannot be read is exit 2 and names the file."""
    config.parent.mkdir(parents=True)
    config.write_text(text)
    done = run("get", "workers")
    assert done.code == 2
    assert str(config) in done.err


def test_version_shows_both(run, stub):
    """Client and server versions stand together; no server is 9."""
    assert run("version").out.startswith("client: 0.")
    assert run("version", "-o", "json").json["server"] == "0.1.0"
    assert run("version", "--url", "http://127.0.0.1:9").code == 9
    assert run("version", "--client", "--url", "http://127.0.0.1:9").code == 0
    stub.answers["GET /api/v1/version"] = (200, {"version": "9.0.0"})
    assert "minor" in run("version").err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run, shell):
    """Each shell gets a script that asks labfleet."""
    done = run("completion", shell)
    assert (done.code, "_LABFLEET_COMPLETE" in done.out) == (0, True)

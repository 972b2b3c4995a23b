"""Contexts, token files and the order flag, environment, context, default."""

from __future__ import annotations

import json

import pytest
from api_stub import Stub, serving

from labfleet.cli.kit import settings


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


@pytest.fixture
def staging(run, stub, tmp_path):
    """A second server as a context with its own token; the environment leads to the first."""
    server = Stub()
    with serving(server):
        file = tmp_path / "staging.token"
        file.write_text("lf_of_staging\n")
        run("context", "set", "home", "--url", stub.url)
        run("context", "set", "staging", "--url", server.url, "--token-file", str(file), "-n", "st")
        run("context", "set", "bare", "--url", server.url)
        yield server


def sent(server):
    """The credential and the namespace that came last."""
    last = server.seen[-1]
    return last.headers.get("authorization"), last.query["namespace"]


def test_the_context_option_beats_every_variable(run, stub, staging):
    """--context leads to its server, with its token and namespace, whatever is exported."""
    done = run("--context", "staging", "get", "workers", env={"LABFLEET_NAMESPACE": "mine"})
    assert done.code == 0
    assert sent(staging) == ("Bearer lf_of_staging", "st")
    assert not stub.seen
    assert f"Server: {staging.url} (context staging)" in done.err


def test_the_variables_token_never_goes_to_a_contexts_address(run, stub, staging, tmp_path):
    """Neither with LABFLEET_URL nor without; a context without a token gets none."""
    other = tmp_path / "other.token"
    other.write_text("lf_of_another\n")
    for env in (
        {"LABFLEET_URL": "", "LABFLEET_TOKEN": "", "LABFLEET_TOKEN_FILE": str(other)},
        {"LABFLEET_TOKEN_FILE": str(other)},
        {"LABFLEET_URL": "", "LABFLEET_CONTEXT": "staging"},
        {},
    ):
        assert run("--context", "bare", "get", "workers", env=env).code == 0
        assert sent(staging)[0] is None
        assert run("--context", "staging", "get", "workers", env=env).code == 0
        assert sent(staging)[0] == "Bearer lf_of_staging"
    env = {"LABFLEET_URL": "", "LABFLEET_CONTEXT": "staging"}
    assert run("get", "workers", env=env).code == 0
    assert sent(staging)[0] == "Bearer lf_of_staging"


def test_a_token_that_was_not_sent_is_told_with_the_refusal(run, stub, staging):
    """A 401 says which credential was at hand, and whose it is."""
    staging.faults = [(401, json.dumps({"detail": "a bearer token is needed"}))]
    done = run("--context", "bare", "get", "workers")
    assert done.code == 6
    assert f"LABFLEET_TOKEN (that of {stub.url})" in done.err


def test_a_contexts_token_stays_with_its_address(run, stub, staging):
    """--url to another origin gets neither the context's nor the variable's token."""
    run("context", "use", "staging")
    env = {"LABFLEET_TOKEN": "", "LABFLEET_URL": ""}
    assert run("--url", stub.url, "get", "workers", env=env).code == 0
    assert sent(stub)[0] is None
    assert run("--url", staging.url + "/", "get", "workers", env=env).code == 0
    assert sent(staging)[0] == "Bearer lf_of_staging"
    assert run("--url", staging.url, "get", "workers", env={"LABFLEET_URL": stub.url}).code == 0
    assert sent(staging)[0] == "Bearer lf_of_staging"


def test_the_token_option_goes_where_it_is_told(run, stub, staging, tmp_path):
    """What is named on the command line is meant for this call."""
    file = tmp_path / "tok"
    file.write_text("lf_named\n")
    assert run("--context", "staging", "--token-file", str(file), "get", "workers").code == 0
    assert sent(staging)[0] == "Bearer lf_named"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a.example", "https://A.example:443/x", True),
        ("http://a:80", "http://a", True),
        ("http://a", "https://a", False),
        ("http://a:1", "http://a:2", False),
        ("http://a.example", "http://a.example.evil", False),
        ("http://a@b", "http://a", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(one, other, same):
    """Paths and spellings do not matter, everything else does."""
    assert (settings.origin(one) == settings.origin(other)) is same


def test_the_server_is_named_when_it_is_not_the_default(run, stub, staging):
    """What an option or a variable leads to instead of the context in use is told once."""
    assert "Server:" not in run("get", "workers").err
    asked = run("--context", "bare", "delete", "worker", "w-1", "--yes")
    assert asked.err.count(f"Server: {staging.url} (context bare)") == 1
    run("context", "use", "staging")
    done = run("get", "workers")
    assert done.err.count(f"Server: {stub.url} (LABFLEET_URL)") == 1
    assert "Server:" not in run("get", "workers", "-o", "json").err
    env = {"LABFLEET_URL": "", "LABFLEET_TOKEN": ""}
    assert "Server:" not in run("get", "workers", env=env).err
    assert f"Server: {stub.url} (context home)" in run("--context", "home", "get", "w", env=env).err


def test_an_exported_server_is_named_to_people(run, stub):
    """Without any context the variable is told on a terminal, and scripts hear nothing new."""
    assert "Server:" not in run("get", "workers").err
    assert f"Server: {stub.url} (LABFLEET_URL)" in run("get", "workers", out_tty=True).err


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

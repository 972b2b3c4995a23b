"""Adopting, leftovers, discovery and leaks: what is sent and what is shown."""

from __future__ import annotations

import pytest

SUSPECT = {
    "region": "us-east-1",
    "ageSeconds": 90,
    "suspect": {
        "kind": "instance", "id": "i-1", "name": "old", "since": "2026-11-27T11:58:30Z",
        "why": "no worker has it", "next": "ended after its grace", "due": "2026-11-27T12:03:30Z",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "path", "body"),
    [
        (["adopt", "worker/w-1"], "/api/v1/workers/w-1/adopt", {}),
        (["adopt", "w-1", "--template", "t"], "/api/v1/workers/w-1/adopt", {"template": "t"}),
        (
            ["adopt", "i-0000000a", "--region", "us-east-1", "--template", "t", "--name", "n"],
            "/api/v1/fleet/adopt",
            {"instanceId": "i-0000000a", "region": "us-east-1", "template": "t", "name": "n"},
        ),
        (
            ["adopt", "https://cml.example", "--username", "u", "--password-env", "V"],
            "/api/v1/fleet/adopt",
            {"url": "https://cml.example", "username": "u", "password": {"env": "V"}},
        ),
        (
            ["adopt", "https://cml.example", "--template", "t"],
            "/api/v1/fleet/adopt",
            {"url": "https://cml.example", "template": "t"},
        ),
        (
            ["adopt", "https://cml.example", "--template", "t", "--password-env", "V"],
            "/api/v1/fleet/adopt",
            {
                "url": "https://cml.example",
                "template": "t",
                "username": "admin",
                "password": {"env": "V"},
            },
        ),
    ],
)
def test_what_is_named_decides_what_is_sent(run, stub, argv, path, body):
    """A worker, an instance id or a URL; passwords only ever as a reference."""
    stub.put("Worker", "w-1")
    stub.answers[f"POST {path}"] = (
        201,
        stub.put("Worker", "n", spec={"origin": {"managed": True}}),
    )
    done = run(*argv)
    assert (done.code, done.out) == (0, "worker/n adopted\n")
    [sent] = stub.calls("POST")
    assert (sent.path, sent.body) == (path, body)


def test_a_worker_that_is_managed_already_is_not_adopted_again(run, stub):
    """The server leaves it as it is, and that is what is said."""
    stub.put("Worker", "w-1", spec={"origin": {"managed": True}})
    done = run("adopt", "worker/w-1")
    assert (done.code, done.out) == (0, "worker/w-1 is managed already; nothing was changed\n")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["adopt", "i-0000000a"], "--region and --template"),
        (["adopt", "https://cml.example"], "--password-env"),
        (["adopt", "https://x", "--password-env", "A", "--password-file", "/b"], "one of"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_sent(run, stub, argv, hint):
    """Exit 2 with the option to give."""
    done = run(*argv)
    assert (done.code, hint in done.err) == (2, True)
    assert stub.calls("POST") == []


def test_garbage_shows_suspects_age_and_what_comes(run, stub):
    """A row each; why nothing is ended goes to stderr, JSON is whole."""
    stub.answers["GET /api/v1/fleet/garbage"] = (
        200,
        {"enabled": True, "dryRun": True, "paused": None, "ended": 3, "leaks": 1,
         "waits": {"eu-west-1": "its list failed"}, "suspects": [SUSPECT], "deeds": []},
    )  # fmt: skip
    done = run("garbage")
    assert done.code == 0
    assert "i-1" in done.out
    assert "in 3m" in done.out
    for told in ("eu-west-1: its list failed", "Dry run", "1 licence leak"):
        assert told in done.err
    assert '"ageSeconds":90' in run("garbage", "-o", "json").out


def test_discovery_shows_regions_and_last_errors(run, stub):
    """One row a region; without a template it says that nothing is imported."""
    stub.answers["GET /api/v1/fleet/discovery"] = (
        200,
        {"enabled": True, "paused": None, "regions": ["us-east-1"], "template": None,
         "ami_name_pattern": "CML-*", "scan_interval_seconds": 300,
         "scans": [{"region": "us-east-1", "last_run_at": "2026-11-27T11:59:00Z", "discovered": 2,
                    "imported": 1, "foreign": 1, "ignored": [], "last_error": "AuthFailure"}]},
    )  # fmt: skip
    done = run("discovery")
    assert done.code == 0
    for told in ("Discovery is on", "nothing is imported", "AuthFailure", "1m ago"):
        assert told in done.out


def test_a_leak_is_resolved_with_its_note(run, stub):
    """The note goes to the server."""
    stub.put("Leak", "w-1-abc")
    stub.answers["POST /api/v1/leaks/w-1-abc/resolve"] = (200, stub.put("Leak", "w-1-abc"))
    done = run("resolve", "w-1-abc", "-m", "freed")
    assert (done.code, done.out) == (0, "leak/w-1-abc resolved\n")
    assert stub.calls("POST")[0].body == {"note": "freed"}


def test_deleting_an_observed_worker_says_that_its_machine_stays(run, stub):
    """What the server says of the machine is shown."""
    stub.put("Worker", "w-1", status={"message": "i-1 was only observed and is left alone"})
    done = run("delete", "worker/w-1", "--yes")
    assert done.code == 0
    assert "left alone" in done.err

"""`logs`: what a worker's console said when its boot failed."""

from __future__ import annotations


def test_logs_print_the_kept_text_and_say_where_it_is_from(run, stub):
    """The text on stdout without control characters, the boot on stderr."""
    answer = {"worker": "w-1", "boot": "i-1@x", "readAt": "2026-11-27T09:30:00Z",
              "text": "panic\x1b[2J\nhalted", "reason": ""}  # fmt: skip
    stub.answers["GET /api/v1/workers/w-1/logs"] = (200, answer)
    said = run("logs", "worker/w-1")
    assert said.out == "panic\ufffd[2J\nhalted\n"
    assert "i-1@x, read 2026-11-27T09:30:00Z" in said.err
    assert run("logs", "w-1", "-o", "json").json == answer


def test_logs_say_why_there_are_none(run, stub):
    """No text is no error: the reason is told."""
    stub.answers["GET /api/v1/workers/w-1/logs"] = (
        200, {"worker": "w-1", "boot": None, "text": "", "reason": "none is kept"},
    )  # fmt: skip
    said = run("logs", "w-1")
    assert (said.code, said.out) == (0, "")
    assert "none is kept" in said.err

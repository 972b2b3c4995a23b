"""`history`: the table, and CSV out and in, whole or with its wrong lines named."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec

from labfleet.resources.history import Run, RunKind, Source, Use

AT = datetime(2026, 11, 27, 11, 0, tzinfo=UTC)


def page(first, count, following=None, **more):
    """Return one page of runs as the server gives it."""
    runs = [
        Run(kind=RunKind.SIMULATION, uid=f"u{n}", family="waku", ended_at=AT, **more)
        for n in range(first, first + count)
    ]
    items = [{"place": n, "run": msgspec.to_builtins(run)} for n, run in enumerate(runs, first + 1)]
    return {"items": items, "next": following}


def test_the_table_tells_what_was_measured_and_a_dash_for_the_rest(run, stub):
    """Whole answers for programs, uids for scripts, the namespace that is asked for."""
    use = {"cpu_milli": Use(peak=1500.0)}
    known = {"use": use, "parameters": {"nodecount": 50.0}, "duration_seconds": 90.0}
    answer = page(0, 1, name="r-1", source=Source.REPORTED, **known)
    stub.answers["GET /api/v1/history"] = (200, answer)
    head, row = run("history", "--family", "waku").out.splitlines()
    assert head.split() == ["ENDED", "KIND", "FAMILY", "NAME", "NODES", "DURATION", "CPU",
                            "MEMORY(MiB)", "SOURCE", "CUT", "OFF"]  # fmt: skip
    told = ["Simulation", "waku", "r-1", "50", "1m", "1.50", "-", "reported", "-"]
    assert row.split()[-9:] == told
    asked = stub.calls("GET")[-1].query
    assert (asked["family"], asked["namespace"], asked["limit"]) == ("waku", "default", "50")
    assert run("history", "-q").out == "u0\n"
    assert run("history", "-A", "-o", "json").json == answer
    assert "namespace" not in stub.calls("GET")[-1].query


def test_an_export_is_every_page_and_comes_back_as_it_was(run, stub, tmp_path):
    """The oldest first, of every namespace; a file that is there is not overwritten."""
    pages = [page(0, 3, "3", owner="=SUM(A1)"), page(3, 2)]
    stub.on_get.clear()

    def paged(ask):
        return 200, pages[1 if ask.query.get("cursor") == "3" else 0]

    real = stub.answer
    stub.answer = lambda ask: paged(ask) if ask.path == "/api/v1/history" else real(ask)
    file = tmp_path / "runs.csv"
    done = run("history", "export", "--write", str(file))
    assert (done.code, done.out) == (0, "")
    assert "5 runs written" in done.err
    text = file.read_text()
    assert text.count("\n") == 6
    assert "'=SUM(A1)" in text
    assert {each.query["oldestFirst"] for each in stub.calls("GET")} == {"true"}
    assert run("history", "export").out == text
    again = run("history", "export", "--write", str(file))
    assert again.code == 2
    assert file.read_text() == text

    stub.answers["POST /api/v1/history/import"] = (200, {"added": 4, "known": 1})
    stub.answer = real
    said = run("history", "import", str(file))
    assert said.out == "4 runs added, 1 known already\n"
    [sent] = [each.body["runs"] for each in stub.calls("POST")]
    assert [each["uid"] for each in sent] == [f"u{n}" for n in range(5)]
    assert sent[0]["owner"] == "=SUM(A1)"
    assert json.dumps(sent[0]).count("null") == json.dumps(pages[0]["items"][0]).count("null")


def test_a_large_file_goes_in_lots(run, stub, tmp_path):
    """At most 256 runs a request, in the order of the file; the sums are told."""
    file = tmp_path / "many.csv"
    rows = [f"Session,u{n},bgp,2026-11-27T09:00:00Z\n" for n in range(600)]
    file.write_text("kind,uid,family,ended_at\n" + "".join(rows))
    stub.answers["POST /api/v1/history/import"] = (200, {"added": 10, "known": 0})
    assert run("history", "import", str(file), "-o", "json").json == {"added": 30, "known": 0}
    lots = [each.body["runs"] for each in stub.calls("POST")]
    assert [len(each) for each in lots] == [256, 256, 88]
    assert [each["uid"] for lot in lots for each in lot] == [f"u{n}" for n in range(600)]


def test_a_wrong_line_keeps_the_whole_file_out(run, stub, tmp_path):
    """Lines and columns are named, twenty at most, and nothing was sent."""
    file = tmp_path / "bad.csv"
    good, bad = "Session,u1,bgp,2026-11-27T09:00:00Z\n", "Lab,u2,bgp,2026-11-27T09:00:00Z\n"
    file.write_text("kind,uid,family,ended_at\n" + good + bad * 30)
    done = run("history", "import", str(file))
    assert done.code == 2
    assert f"{file}:3: kind 'Lab' is no kind of run: Simulation, Session, WorkerBoot" in done.err
    assert done.err.count("is no kind of run") == 20
    assert stub.calls("POST") == []
    missing = run("history", "import", str(tmp_path / "none.csv"))
    assert missing.code == 2

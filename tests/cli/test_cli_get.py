"""`get`: every format, the streams, and what errors exit with."""

from __future__ import annotations

import ast
import csv
import io
import json
from pathlib import Path

import pytest

import labfleet
from labfleet.cli.kit import exits

SOURCE = Path(labfleet.__file__).parent


@pytest.fixture
def fleet(stub):
    """Two workers and a session."""
    stub.put("Worker", "w-1", spec={"pool": "eu"}, status={
        "phase": "READY", "health": "Healthy", "licence": {"licensed": True},
        "machine": {"publicAddress": "127.1.2.3", "id": "i-1"}})  # fmt: skip
    stub.put("Worker", "w-2", status={"phase": "FAILED", "message": "no, \x1b[31mreally"})
    stub.put("Session", "s-1", spec={"owner": "ada"}, status={"phase": "RUNNING", "worker": "w-1"})
    return stub


def test_the_table_has_columns_of_the_kind(run, fleet):
    """A table shows the kind's columns, `-` for unknown, and the age."""
    done = run("get", "workers")
    head, first, second = done.out.splitlines()
    assert head.split() == [
        "NAME", "PHASE", "HEALTH", "POOL", "LICENSED", "ADDRESS", "AGE",
    ]  # fmt: skip
    assert first.split() == ["w-1", "READY", "Healthy", "eu", "yes", "127.1.2.3", "1h"]
    assert second.split() == ["w-2", "FAILED", "-", "-", "-", "-", "1h"]
    assert (done.code, done.err) == (0, "")


def test_a_worker_without_a_public_address_shows_what_it_has(run, stub):
    """Inside a network it is the private one, and of a server of others its URL."""
    stub.put(
        "Worker", "w-1", status={"machine": {"publicAddress": None, "privateAddress": "10.0.0.7"}}
    )
    stub.put("Worker", "w-2", spec={"origin": {"kind": "external", "url": "https://cml.example"}})
    _, first, second = run("get", "workers").out.splitlines()
    assert "10.0.0.7" in first.split()
    assert "https://cml.example" in second.split()


def test_wide_shows_more_and_nothing_dangerous(run, fleet):
    """Wide adds columns; control characters of a message do not reach the terminal."""
    done = run("get", "w", "-o", "wide", "--no-headers")
    assert "i-1" in done.out
    assert "NAME" not in done.out
    assert "\x1b" not in done.out


def test_an_owner_sees_where_the_lab_is(run, stub):
    """Wide and describe name the host and each port's URL, and only what the server showed."""
    ports = [
        {"name": "r1_serial", "node": "r1", "kind": "serial", "url": "telnet://127.1.2.3:2001"},
        {"name": "pc_vnc", "node": "pc", "kind": "vnc", "url": "vnc://127.1.2.3:2002"},
    ]
    access = {"host": "127.1.2.3", "labUrl": None, "ports": ports, "message": ""}
    stub.put("Session", "s-1", status={"phase": "RUNNING", "access": access})
    stub.put("Session", "s-2", status={"phase": "PENDING", "access": None})
    head, first, second = run("get", "sessions", "-o", "wide").out.splitlines()
    assert head.split()[-5:] == ["MESSAGE", "HOST", "PORTS", "LAB", "AGE"]
    urls = "telnet://127.1.2.3:2001,vnc://127.1.2.3:2002"
    assert first.split()[-4:] == ["127.1.2.3", urls, "-", "1h"]
    assert second.split()[-4:] == ["-", "-", "-", "1h"]
    told = run("describe", "session/s-1", "--no-events").out
    assert "Host: 127.1.2.3" in told
    assert "URL: telnet://127.1.2.3:2001" in told


def test_json_of_one_is_the_object_and_of_many_a_list(run, fleet):
    """One named object is printed as it is, a list as a List; both on the last line."""
    assert run("get", "worker/w-1", "-o", "json").json["metadata"]["name"] == "w-1"
    listed = run("get", "workers", "--json").json
    assert listed["kind"] == "List"
    assert [each["metadata"]["name"] for each in listed["items"]] == ["w-1", "w-2"]


def test_json_is_indented_for_people(run, fleet):
    """On a terminal JSON is written for eyes."""
    assert run("get", "worker/w-1", "-o", "json", out_tty=True).out.startswith("{\n  ")


def test_yaml_name_quiet_jsonpath_and_custom_columns(run, fleet):
    """The formats for scripts give just what was asked."""
    assert "  name: w-1\n" in run("get", "worker/w-1", "-o", "yaml").out
    assert run("get", "workers", "-o", "name").out == "worker/w-1\nworker/w-2\n"
    assert run("get", "workers", "-q").out == "w-1\nw-2\n"
    assert run("get", "workers", "-o", "jsonpath={.items[*].status.phase}").out == "READY FAILED\n"
    rows = run("get", "workers", "-o", "custom-columns=N:.metadata.name,P:.status.health").out
    assert [line.split() for line in rows.splitlines()] == [
        ["N", "P"], ["w-1", "Healthy"], ["w-2", "<none>"],
    ]  # fmt: skip


def test_csv_quotes_what_must_be_quoted(run, fleet):
    """A comma in a message stays one field."""
    rows = list(csv.DictReader(io.StringIO(run("get", "workers", "-o", "csv").out)))
    assert rows[1]["MESSAGE"].startswith("no, ")
    assert rows[0]["LICENSED"] == "true"


def test_colour_only_on_a_terminal(run, fleet):
    """Colour is for terminals, and NO_COLOR and --color decide over it."""
    assert "\x1b[32m" in run("get", "workers", out_tty=True).out
    assert "\x1b" not in run("get", "workers").out
    assert "\x1b" not in run("get", "workers", out_tty=True, env={"NO_COLOR": "1"}).out
    assert "\x1b[32m" in run("get", "workers", "--color", "always").out


def test_an_empty_list_says_so_on_stderr(run, stub):
    """Empty is not an error, and stdout holds no prose."""
    done = run("get", "workers", "-o", "json")
    assert (done.code, done.json["items"]) == (0, [])
    assert done.err == "No workers in namespace default.\n"


def test_all_pages_are_fetched(run, stub):
    """More than one page is followed to the end, and --limit stops it."""
    for number in range(1203):
        stub.put("Session", f"s-{number:04}")
    assert len(run("get", "sessions", "-q").out.splitlines()) == 1203
    assert len(stub.calls("GET")) == 3
    limited = run("get", "sessions", "--limit", "7", "-o", "name")
    assert len(limited.out.splitlines()) == 7
    assert "there are more" in limited.err


def test_the_server_sorts_and_selects(run, fleet):
    """Sorting and labels are the server's work; a column's title is turned into its path."""
    run("get", "sessions", "--sort-by", "-END", "-l", "a=b", "-n", "other")
    query = fleet.seen[-1].query
    assert (query["sort"], query["labelSelector"]) == ("-status.end", "a=b")
    assert query["namespace"] == "other"


def test_the_server_searches(run, fleet):
    """A text goes to the server; it chooses from a list, so names and --watch beside it are refused."""
    run("get", "sessions", "--search", "exam")
    assert fleet.calls("GET")[-1].query["q"] == "exam"
    for more in (("s1",), ("--watch",)):
        assert run("get", "sessions", "--search", "exam", *more).code == 2


def test_several_kinds_and_several_names(run, fleet):
    """Kinds may be listed together, and what is missing is said after what is there."""
    assert run("get", "workers,sessions", "-q").out == "w-1\nw-2\ns-1\n"
    done = run("get", "worker", "w-1", "w-9", "-o", "name")
    assert (done.code, done.out) == (4, "worker/w-1\n")
    assert "worker/w-9 does not exist" in done.err


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (400, "Invalid", 2), (401, "Unauthenticated", 6), (403, "Forbidden", 6),
        (404, "NotFound", 4), (409, "Conflict", 5), (412, "Conflict", 5), (422, "Invalid", 2),
        (429, "QuotaExceeded", 7), (429, "Throttled", 9), (500, "Error", 1), (503, "Booting", 9),
        (409, "NoCapacity", 7), (429, "TooManySessions", 7), (429, "TooManyWorkers", 7),
    ],
)  # fmt: skip
def test_exit_codes_by_answer(run, stub, status, reason, code):
    """Each kind of answer has its exit code."""
    problem = json.dumps({"title": "t", "detail": "what happened", "reason": reason})
    stub.faults = [(status, problem)] * 4
    done = run("get", "workers")
    assert (done.code, done.out) == (code, "")
    assert "what happened" in done.err
    assert "Request id: req-header" in done.err


def test_every_quota_of_the_service_is_a_refusal():
    """A program that meets a limit is told so, not that the server asks for fewer calls."""
    raised = {
        next(each.value.value for each in node.keywords if each.arg == "reason")
        for path in (SOURCE / "service").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "QuotaExceeded"
    }
    assert {"TooManySessions", "TooManyWorkers"} <= raised <= exits.REFUSALS


def test_errors_are_problem_json_with_o_json(run, stub):
    """With -o json errors are one JSON object on stderr and stdout stays empty."""
    done = run("get", "worker/none", "-o", "json")
    said = json.loads(done.err)
    assert (done.code, done.out) == (4, "")
    assert (said["status"], said["reason"], said["exitCode"]) == (404, "NotFound", 4)
    assert said["requestId"] == "req-7"


def test_problems_are_listed_with_their_places(run, stub):
    """A person sees every place that is wrong, not only the first."""
    problem = {"detail": "invalid", "problems": [{"where": "spec.slot.end", "what": "too early"}]}
    stub.faults = [(422, json.dumps(problem))]
    assert "  spec.slot.end: too early" in run("get", "workers").err


def test_no_server_is_9(run):
    """A server that cannot be reached exits with 9 and says where it was looked for."""
    done = run("get", "workers", "--url", "http://127.0.0.1:9")
    assert done.code == 9
    assert "http://127.0.0.1:9 (--url)" in done.err


@pytest.mark.parametrize("url", ["127.0.0.1:1", "ftp://x", "http://", "http://x:notaport"])
def test_a_bad_address_is_a_usage_error(run, url):
    """An address that is none exits with 2 instead of a trace."""
    assert run("get", "workers", "--url", url).code == 2


def test_what_is_no_labfleet_server_is_told(run, stub):
    """HTML with status 200 is an odd answer, not an empty list."""
    stub.faults = [(200, "<html>")]
    done = run("get", "workers")
    assert done.code == 1
    assert "answered oddly" in done.err


def test_an_unknown_kind_gets_a_hint(run):
    """A typing error of a kind names the nearest one and the list."""
    done = run("get", "wrkers")
    assert done.code == 2
    assert "Did you mean 'workers'?" in done.err


def test_a_name_without_its_kind_gets_a_hint(run):
    """A bare name, as `extend` takes it, is answered with the form that is meant."""
    done = run("explain", "mine")
    assert done.code == 2
    assert "for example session/mine" in done.err


@pytest.mark.parametrize(
    "argv",
    [["get"], ["get", "workers", "-o", "xml"], ["get", "workers", "-o", "jsonpath"],
     ["get", "workers", "-o", "jsonpath={.a"], ["get", "workers", "-o", "custom-columns=x"],
     ["get", "workers", "-o", "json=1"], ["get", "workers", "--limit", "0"], ["nope"], [],
     ["get", "workers", "--no-such"]],
)  # fmt: skip
def test_wrong_command_lines_exit_with_2(run, argv):
    """Usage errors are 2, with nothing on stdout."""
    done = run(*argv)
    assert (done.code, done.out) == (2, "")
    assert done.err


def test_options_stand_before_or_after_the_verb(run, fleet):
    """The shared options may stand on either side; the later wins."""
    assert run("-o", "name", "get", "workers").out.startswith("worker/")
    assert run("-o", "name", "get", "workers", "-o", "json").out.startswith("{")
    assert run("get", "workers", env={"LABFLEET_OUTPUT": "name"}).out.startswith("worker/")


def test_only_workers_are_chosen_by_tags(run, fleet):
    """Other kinds have none, and a name or a watch is no list: said before anything is asked."""
    for argv in (("sessions",), ("workers,sessions",), ("worker/w-1",), ("workers", "-w")):
        done = run("get", *argv, "--tag", "a=b")
        assert done.code == 2
        assert "--tag" in done.err


@pytest.mark.parametrize("reason", ["SeatOfGroup", "InUse", "PrivateAddress"])
def test_who_may_not_for_another_reason_than_a_role_is_not_sent_for_a_token(run, stub, reason):
    """What helps stands in the cause; of a role an admin's token does."""
    cause = (
        "session 'e-1' is seat '001' of group 'exam': teacher booked it, so it is theirs to extend"
    )
    stub.answers["GET /api/v1/sessions"] = (403, {"status": 403, "reason": reason, "detail": cause})
    done = run("get", "sessions")
    assert (done.code, done.err.splitlines()[0]) == (6, f"Error: {cause}")
    assert "token" not in done.err
    stub.answers["GET /api/v1/sessions"] = (
        403,
        {"status": 403, "reason": "Forbidden", "detail": "no"},
    )
    assert "Ask an admin for a token" in run("get", "sessions").err


def test_a_pool_says_its_lead_with_a_unit_and_whose_strategy_it_has(run, stub):
    """Empty is the fleet's strategy for people; for programs it stays empty."""
    stub.put("Pool", "p", status={"lead": {"seconds": 2100}})
    stub.put("Pool", "q", spec={"strategy": "PACKED"}, status={"lead": {"seconds": 90}})
    head, one, two = run("get", "pools", "-o", "wide").out.splitlines()
    assert one[head.index("LEAD") :].split()[0] == "35m"
    assert one[head.index("STRATEGY") :].startswith("the fleet's")
    assert two[head.index("STRATEGY") :].startswith("PACKED")
    rows = [*csv.DictReader(io.StringIO(run("get", "pools", "-o", "csv").out))]
    assert (rows[0]["LEAD(s)"], rows[0]["STRATEGY"]) == ("2100", "")


def test_sentences_are_cut_where_a_terminal_is_too_narrow(run, stub):
    """Names and times stay whole; a wide terminal, a pipe and csv have every word."""
    said = "8 of 8 seats are booked; " + "the rest found no room, " * 6
    name = "a-class-with-a-name-of-more-than-forty-characters"
    stub.put("Group", name, status={"message": said, "start": "2026-11-27T09:00:00Z"})
    narrow = run("get", "groups", "-o", "wide", out_tty=True, columns=80).out
    assert said.strip() not in narrow
    assert f"{said[:39]}…" in narrow
    assert name in narrow
    assert "2026-11-27 09:00:00Z" in narrow
    for given in ({}, {"out_tty": True}):
        assert said.strip() in run("get", "groups", "-o", "wide", **given).out
    assert said.strip() in run("get", "groups", "-o", "csv", out_tty=True, columns=80).out

"""`apply` and `diff`: where manifests come from, what is sent, what is said."""

from __future__ import annotations

import json

import pytest

SESSION = """\
apiVersion: labfleet.dev/v1
kind: Session
metadata: {name: s-1, labels: {team: a}}
spec:
  definition: lab
  priority: 5
"""
CLUSTER = """\
kind: Cluster
metadata: {name: c-1}
spec: {capacity: {cpu: 2, memory: 4Gi}}
"""
DEFINITION = """\
kind: Definition
metadata: {name: lab}
spec: {topologyFile: topo/lab.txt, title: Lab}
"""


@pytest.fixture
def folder(tmp_path):
    """A folder of manifests whose definition names a topology beside it."""
    place = tmp_path / "manifests"
    (place / "topo").mkdir(parents=True)
    (place / "topo" / "lab.txt").write_text("lab:\n  title: x\nnodes: []\n")
    (place / "a.yaml").write_text(SESSION)
    (place / "b.yml").write_text(DEFINITION + "---\n" + CLUSTER)
    (place / "notes.txt").write_text("not a manifest")
    return place


def test_apply_creates_in_the_order_of_need(run, stub, folder):
    """A folder is applied with definitions before sessions, one report for each object."""
    done = run("apply", "-f", str(folder))
    assert done.out == "cluster/c-1 created\ndefinition/lab created\nsession/s-1 created\n"
    assert done.code == 0


def test_the_topology_file_is_read_beside_its_manifest(run, stub, folder, monkeypatch, tmp_path):
    """topologyFile is relative to the manifest, wherever labfleet is run."""
    monkeypatch.chdir(tmp_path)
    run("apply", "-f", str(folder / "b.yml"))
    sent = next(each.body for each in stub.calls("POST") if each.body["kind"] == "Definition")
    assert sent["spec"] == {"topology": "lab:\n  title: x\nnodes: []\n", "title": "Lab"}


def test_friendly_amounts_are_sent_in_base_units(run, stub):
    """`cpu: 2` and `4Gi` reach the server as the API spells them, and nothing else does."""
    run("apply", "-f", "-", stdin=CLUSTER)
    assert stub.calls("POST")[0].body["spec"] == {"capacity": {"cpuMilli": 2000, "memoryMib": 4096}}


def test_apply_twice_changes_nothing(run, stub):
    """The second apply finds everything as it shall be."""
    assert run("apply", "-f", "-", stdin=CLUSTER + "---\n" + SESSION).code == 0
    again = run("apply", "-f", "-", stdin=CLUSTER + "---\n" + SESSION)
    assert again.out == "cluster/c-1 unchanged\nsession/s-1 unchanged\n"
    assert not stub.calls("PUT")


def test_what_the_manifest_leaves_out_stays(run, stub):
    """A merge keeps what the server or others have set, and carries the version it read."""
    made = stub.put("Session", "s-1", spec={"definition": "lab", "owner": "ada", "priority": 1},
                    labels={"by": "ops"})  # fmt: skip
    version = made["metadata"]["resourceVersion"]
    done = run("apply", "-f", "-", stdin=SESSION)
    sent = stub.calls("PUT")[0].body
    assert done.out == "session/s-1 configured\n"
    assert sent["spec"] == {"definition": "lab", "owner": "ada", "priority": 5}
    assert sent["metadata"]["labels"] == {"by": "ops", "team": "a"}
    assert sent["metadata"]["resourceVersion"] == version
    assert "status" not in sent


def test_the_same_instant_in_another_zone_is_no_change(run, stub):
    """Instants are compared as instants."""
    stub.put(
        "Session", "s-1", spec={"definition": "lab", "slot": {"start": "2026-11-27T09:00:00Z"}}
    )
    for written in ("10:00:00+01:00", "11:00:00+02:00", "14:45:00+05:45", "09:00:00.000Z"):
        slot = f"  slot: {{start: '2026-11-27T{written}'}}\n"
        text = f"kind: Session\nmetadata: {{name: s-1}}\nspec:\n  definition: lab\n{slot}"
        assert run("apply", "-f", "-", stdin=text).out == "session/s-1 unchanged\n"


def test_a_conflict_is_decided_once_more(run, stub):
    """Somebody else's write between read and replace is merged, not overwritten, once."""
    stub.put("Session", "s-1", spec={"definition": "lab", "priority": 1})

    def meddle(server):
        server.put("Session", "s-1", spec={"definition": "lab", "priority": 2, "track": "x"})

    stub.faults = [None, (409, json.dumps({"reason": "Conflict", "detail": "stale"}))]
    stub.on_get = [lambda _: None, meddle]
    done = run("apply", "-f", "-", stdin=SESSION)
    assert done.out == "session/s-1 configured\n"
    assert [each.method for each in stub.seen] == ["GET", "PUT", "GET", "PUT"]
    assert stub.seen[-1].body["spec"] == {"definition": "lab", "priority": 5, "track": "x"}


def test_a_lasting_conflict_is_5(run, stub):
    """A second conflict is told instead of being fought."""
    stub.put("Session", "s-1", spec={"definition": "lab"})
    stale = (409, json.dumps({"reason": "Conflict", "detail": "stale"}))
    stub.faults = [None, stale, None, stale]
    done = run("apply", "-f", "-", stdin=SESSION)
    assert done.code == 5
    assert "session/s-1: stale" in done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Sesion\nmetadata: {name: a}\n", "Session"),
        ("kind: Session\nmetadata: {name: a}\nspec: {definition: x, prio: 1}\n", "line 3"),
        ("kind: Session\nkind: Session\n", "duplicate key"),
        ("kind: Session\nmetadata: {name: A B}\nspec: {definition: x}\n", "metadata.name"),
        ("a: [", "line"),
        ("", "no object"),
        (SESSION + "---\n" + SESSION, "given before"),
        (CLUSTER + "---\nkind: Nope\nmetadata: {name: x}\n", "line 5"),
    ],
)
def test_nothing_is_sent_when_anything_is_wrong(run, stub, text, said):
    """All manifests are checked first; the mistake is named with its line, exit 2."""
    done = run("apply", "-f", "-", stdin=text)
    assert (done.code, stub.seen) == (2, [])
    assert said in done.err


def test_every_mistake_of_every_file_is_listed(run, stub, tmp_path):
    """A person corrects all files in one go."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(f"kind: {name}\nmetadata: {{name: x}}\n")
    done = run("apply", "-f", str(tmp_path / "a.yaml"), "-f", str(tmp_path / "b.yaml"))
    assert "a.yaml: line 1" in done.err
    assert "b.yaml: line 1" in done.err


@pytest.mark.parametrize("path", ["absent.yaml", "."])
def test_files_that_are_not_there_are_usage_errors(run, tmp_path, monkeypatch, path):
    """A missing file and an empty folder exit with 2."""
    monkeypatch.chdir(tmp_path)
    assert run("apply", "-f", path).code == 2


def test_a_missing_topology_file_is_named(run, tmp_path):
    """The manifest's line and the file's path are both told."""
    (tmp_path / "d.yaml").write_text(DEFINITION)
    done = run("apply", "-f", str(tmp_path / "d.yaml"))
    assert done.code == 2
    assert "line 3" in done.err
    assert "lab.txt" in done.err


def test_dry_runs_send_nothing(run, stub):
    """--dry-run=client asks nobody, --dry-run=server only reads."""
    assert run("apply", "-f", "-", "--dry-run=client", stdin=SESSION).out == (
        "session/s-1 valid (dry run)\n"
    )
    assert not stub.seen
    done = run("apply", "-f", "-", "--dry-run=server", stdin=SESSION)
    assert done.out == "session/s-1 created (dry run)\n"
    assert {each.method for each in stub.seen} == {"GET"}


def test_get_yaml_goes_back_into_apply(run, stub):
    """`labfleet get -o yaml | labfleet apply -f -` changes nothing, for one and for many."""
    stub.put("Session", "s-1", spec={"definition": "lab"}, status={"phase": "READY"})
    stub.put("Cluster", "c-1", spec={"capacity": {"cpuMilli": 2000}, "description": "a: b\n- c\n"})
    text = run("get", "sessions,clusters", "-o", "yaml").out
    done = run("apply", "-f", "-", stdin=text)
    assert done.out == "cluster/c-1 unchanged\nsession/s-1 unchanged\n"
    listed = run("get", "sessions", "-o", "json").out
    assert run("apply", "-f", "-", stdin=listed).out == "session/s-1 unchanged\n"


def test_a_long_dump_may_be_applied(run, stub):
    """The bound on values counts for each document, so a whole fleet's dump goes back in."""
    for number in range(700):
        stub.put("Session", f"s-{number}", spec={"definition": "lab"},
                 status={"ports": [{"name": str(each)} for each in range(8)]})  # fmt: skip
    text = run("get", "sessions", "-o", "yaml").out
    done = run("apply", "-f", "-", stdin=text, out_tty=False)
    assert (done.code, done.out.count("unchanged")) == (0, 700)


def test_one_failure_does_not_hide_the_others(run, stub):
    """The rest is applied, each failure is told, the exit code is the failure's."""
    stub.faults = [None, (422, json.dumps({"detail": "no such track"}))]
    done = run("apply", "-f", "-", stdin=CLUSTER + "---\n" + SESSION)
    assert (done.code, done.out) == (2, "session/s-1 created\n")
    assert "cluster/c-1: no such track" in done.err


def test_json_reports_the_objects(run, stub):
    """With -o json the applied object is the last line, with its result."""
    done = run("apply", "-f", "-", "-o", "json", stdin=CLUSTER)
    assert (done.json["result"], done.json["metadata"]["name"]) == ("created", "c-1")


def test_apply_waits_until_ready(run, stub):
    """--wait follows the session to READY and reports hopelessness as exit 3."""
    ready = {"phase": "READY"}
    stub.on_get = [lambda _: None, lambda server: server.put("Session", "s-1", status=ready)]
    assert run("apply", "-f", "-", "--wait", stdin=SESSION).code == 0
    stub.put("Session", "s-1", spec={"definition": "lab", "priority": 5}, labels={"team": "a"},
             status={"phase": "EXPIRED"})  # fmt: skip
    assert run("apply", "-f", "-", "--wait", stdin=SESSION).code == 3


def test_diff_tells_by_exit_code(run, stub):
    """Nothing to change is 0, something is 10, and the change is a unified diff."""
    absent = run("diff", "-f", "-", stdin=SESSION)
    assert absent.code == 10
    assert "+  definition: lab" in absent.out
    stub.put("Session", "s-1", spec={"definition": "lab", "priority": 1}, labels={"team": "a"})
    done = run("diff", "-f", "-", stdin=SESSION)
    assert done.code == 10
    assert "-  priority: 1\n+  priority: 5\n" in done.out
    assert done.out.startswith("--- server/session/s-1\n+++ stdin, line 1\n")
    stub.put("Session", "s-1", spec={"definition": "lab", "priority": 5}, labels={"team": "a"})
    same = run("diff", "-f", "-", stdin=SESSION)
    assert (same.code, same.out) == (0, "")
    assert run("diff", "-f", "-", "-o", "json", stdin=SESSION).json["items"][0]["diff"] == ""


def test_errors_of_diff_are_20_and_more(run, stub):
    """A failure of diff is never taken for `changes`, usage errors included."""
    assert run("diff").code == 22
    assert run("diff", "-f", "-", stdin="kind: x").code == 22
    assert run("diff", "-f", "-", "--url", "http://127.0.0.1:9", stdin=SESSION).code == 29
    stub.faults = [(500, "{}")]
    assert run("diff", "-f", "-", stdin=SESSION).code == 21
    assert not stub.calls("PUT")


def test_an_object_of_every_kind_can_be_applied(run, stub, tmp_path):
    """No kind is left out of the order in which manifests are sent; templates come first."""
    file = tmp_path / "all.yaml"
    file.write_text(
        "\n---\n".join(
            f"apiVersion: labfleet.dev/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}"
            for kind, name, spec in (
                ("Webhook", "w", "{url: 'https://hooks.example.com/x'}"),
                ("Settings", "fleet", "{discovery: {template: metal}}"),
                ("Template", "metal", "{machine: {cml: {adminPassword: {env: P}}}}"),
            )
        )
    )
    assert run("apply", "-f", str(file)).code == 0
    made = [each.body["kind"] for each in stub.calls("POST")]
    assert made == ["Template", "Settings", "Webhook"]

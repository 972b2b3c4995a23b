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
    sent = next(each for each in stub.sent() if each["kind"] == "Definition")
    assert sent["spec"] == {"topology": "lab:\n  title: x\nnodes: []\n", "title": "Lab"}


def test_friendly_amounts_are_sent_in_base_units(run, stub):
    """`cpu: 2` and `4Gi` reach the server as the API spells them, and nothing else does."""
    run("apply", "-f", "-", stdin=CLUSTER)
    assert stub.sent()[0]["spec"] == {"capacity": {"cpuMilli": 2000, "memoryMib": 4096}}


def test_apply_twice_changes_nothing(run, stub):
    """The second apply finds everything as it shall be."""
    assert run("apply", "-f", "-", stdin=CLUSTER + "---\n" + SESSION).code == 0
    again = run("apply", "-f", "-", stdin=CLUSTER + "---\n" + SESSION)
    assert again.out == "cluster/c-1 unchanged\nsession/s-1 unchanged\n"
    assert not stub.calls("PUT")


def test_just_what_is_written_is_sent(run, stub):
    """Merging and defaults are the server's: neither its state nor ours is in what is sent."""
    stub.put("Session", "s-1", spec={"definition": "lab", "owner": "ada"}, labels={"by": "ops"})
    assert run("apply", "-f", "-", stdin=SESSION).out == "session/s-1 configured\n"
    (sent,) = stub.sent()
    assert sent["spec"] == {"definition": "lab", "priority": 5}
    assert sent["metadata"] == {"name": "s-1", "labels": {"team": "a"}}
    assert [each.method for each in stub.seen] == ["POST"]


def test_many_objects_go_in_few_requests_with_progress(run, stub):
    """220 objects: the shape of all first, then three portions, and after each how far it is."""
    text = "---\n".join(SESSION.replace("s-1", f"s-{number}") for number in range(220))
    done = run("apply", "-f", "-", stdin=text)
    assert (done.code, done.out.count("created")) == (0, 220)
    asked = [(each.query["mode"], len(each.body["items"])) for each in stub.seen]
    assert asked == [("check", 220), ("apply", 100), ("apply", 100), ("apply", 20)]
    assert done.err == "100 of 220\n200 of 220\n220 of 220\n"


def test_an_object_is_refused_at_its_file_and_line(run, stub, tmp_path):
    """What the server finds wrong stands at the line of the field, or of what is nearest to it."""
    file = tmp_path / "all.yaml"
    file.write_text(CLUSTER + "---\n" + SESSION)
    stub.refusals = [
        {"status": 400, "reason": "Invalid", "detail": "x", "requestId": "req-9", "problems": [
            {"where": "spec.capacity.cpuMilli", "what": "too much"}]},
        {"status": 409, "reason": "SlotOver", "detail": "it is over"},
    ]  # fmt: skip
    done = run("apply", "-f", str(file))
    assert (done.code, done.out) == (5, "")
    assert f"{file}: line 3: spec.capacity.cpuMilli: too much" in done.err
    assert "session/s-1: it is over" in done.err
    assert f"{file}: line 5: this object was refused" in done.err
    assert "Request id: req-9" in done.err


def test_a_slot_without_room_says_why_and_what_fits(run, stub):
    """The pool's reason stands before the slots that fit, which alone would read as the reason."""
    why = "no room from 09:00Z to 10:00Z: pool exam, which may have 1 worker, is short 1 MiB"
    fits = {"where": "spec.slot", "what": "10:08Z to 11:08Z fits"}
    stub.refusals = [
        {"status": 409, "reason": "NoCapacity", "detail": why, "problems": [fits]},
    ]
    done = run("apply", "-f", "-", stdin=SESSION)
    assert done.code == 7
    cause, place = f"session/s-1: {why}", "spec.slot: 10:08Z to 11:08Z fits"
    assert -1 < done.err.find(cause) < done.err.find(place)


def test_a_wrong_shape_changes_nothing_and_is_told_with_lines(run, stub):
    """The refusal of a whole request names the places in the files, not in the request."""
    places = [{"where": "items[1].spec.definition", "what": "is missing"}]
    body = {"detail": "bad", "reason": "BadManifest", "status": 400, "problems": places}
    stub.faults = [(400, json.dumps(body))]
    done = run("apply", "-f", "-", stdin=CLUSTER + "---\n" + SESSION)
    assert (done.code, done.out) == (2, "")
    assert "nothing was changed" in done.err
    assert "stdin: line 9: spec.definition: is missing" in done.err


def test_what_lacks_only_the_servers_defaults_is_sent(run, stub):
    """A template without the password that the server's environment fills in is not refused here."""
    text = "kind: Template\nmetadata: {name: metal}\nspec: {machine: {cml: {}}}\n"
    assert run("apply", "-f", "-", stdin=text).out == "template/metal created\n"
    assert run("apply", "-f", "-", "--dry-run=client", stdin=text).code == 0


def test_what_only_the_server_sets_is_left_out_and_told(run, stub):
    """A printed object under a new name is applied without its status, and that is said."""
    text = SESSION + "status: {phase: READY}\n"
    done = run("apply", "-f", "-", stdin=text)
    assert done.out == "session/s-1 created\n"
    assert "only the server sets it: status" in done.err
    assert "status" not in stub.sent()[0]


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


def test_dry_runs_change_nothing(run, stub):
    """--dry-run=client asks nobody, --dry-run=server asks the server's admission."""
    assert run("apply", "-f", "-", "--dry-run=client", stdin=SESSION).out == (
        "session/s-1 valid (dry run)\n"
    )
    assert not stub.seen
    done = run("apply", "-f", "-", "--dry-run=server", stdin=SESSION)
    assert done.out == "session/s-1 created (dry run)\n"
    assert [each.query["mode"] for each in stub.seen] == ["dry-run"]
    for verb, code in ((["apply", "--dry-run=server"], 2), (["apply"], 2), (["diff"], 22)):
        stub.refusals = [{"status": 400, "detail": "no such policy", "reason": "Invalid"}]
        refused = run(*verb, "-f", "-", stdin=SESSION)
        assert (refused.code, "session/s-1: no such policy" in refused.err) == (code, True)


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
    stub.refusals = [{"status": 422, "detail": "no such track"}]
    done = run("apply", "-f", "-", stdin=CLUSTER + "---\n" + SESSION)
    assert (done.code, done.out) == (2, "session/s-1 created\n")
    assert "cluster/c-1: no such track" in done.err


TOPOLOGY_LINE = {
    "status": 400, "detail": "spec.topology, line 2: links[0].i1: no", "reason": "BadTopology",
    "problems": [{"where": "spec.topology, line 2", "what": "links[0].i1: no"}],
}  # fmt: skip
INLINE = """\
kind: Definition
metadata: {name: lab}
spec:
  topology: %s
"""


def test_a_mistake_in_a_topology_file_is_named_with_that_file(run, stub, folder, monkeypatch):
    """File and line are the topology's own, for apply, diff and a dry run on the server."""
    lab = folder / "topo" / "lab.txt"
    for verb, code in ((["apply"], 2), (["apply", "--dry-run=server"], 2), (["diff"], 22)):
        stub.refusals = [None, TOPOLOGY_LINE]  # its cluster goes first
        done = run(*verb, "-f", str(folder / "b.yml"))
        assert (done.code, f"  {lab}: line 2: links[0].i1: no\n" in done.err) == (code, True)
    stub.refusals = [TOPOLOGY_LINE]
    monkeypatch.chdir(folder)
    done = run("apply", "-f", "-", stdin=DEFINITION)
    assert "  topo/lab.txt: line 2: links[0].i1: no\n" in done.err


@pytest.mark.parametrize(
    ("block", "place"),
    [
        ("|\n    lab:\n      title: x", "stdin: line 7: links[0].i1: no"),
        ("|-  # a lab\n\n    lab: {}", "stdin: line 7: links[0].i1: no"),
        ('"lab:\\n  title: x"', "stdin: line 5: spec.topology, line 2: links[0].i1: no"),
        (">\n    lab: {}\n\n\n    nodes: []", "stdin: line 5: spec.topology, line 2: links[0].i1: no"),
        ("x", "stdin: line 5: spec.topology, line 2: links[0].i1: no"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_written_topology_is_named_with_the_manifests_line(run, stub, block, place):
    """A literal block shows its own line; text that is folded or quoted, its key and its line."""
    stub.refusals = [TOPOLOGY_LINE]
    assert f"  {place}\n" in run("apply", "-f", "-", stdin="---\n" + INLINE % block).err


def test_json_reports_the_objects(run, stub):
    """With -o json the applied object is the last line, with its result."""
    done = run("apply", "-f", "-", "-o", "json", stdin=CLUSTER)
    assert (done.json["result"], done.json["metadata"]["name"]) == ("created", "c-1")


def test_apply_waits_until_ready(run, stub):
    """--wait follows the session to READY and reports hopelessness as exit 3."""
    ready = {"phase": "READY"}
    stub.on_get = [lambda server: server.put("Session", "s-1", status=ready)]
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
    assert {each.query["mode"] for each in stub.seen} == {"dry-run"}


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
    made = [each["kind"] for each in stub.sent()]
    assert made == ["Template", "Settings", "Webhook"]


TOPOLOGY = "lab:\n  title: x\nnodes: []\n"


@pytest.mark.parametrize("dry", [[], ["--dry-run", "client"], ["--dry-run", "server"]])
@pytest.mark.parametrize("suffix", ["yaml", "yml", "json"])
def test_a_folder_may_hold_the_topology_of_its_definition(run, stub, tmp_path, dry, suffix):
    """The file that a definition names is no manifest, whichever of the two is read first."""
    for name in ("a", "z"):
        (tmp_path / f"{name}-lab.{suffix}").write_text(TOPOLOGY)
        text = DEFINITION.replace("topo/lab.txt", f"{name}-lab.{suffix}")
        (tmp_path / f"m-{name}.yaml").write_text(text.replace("name: lab", f"name: {name}"))
    done = run("apply", "-f", str(tmp_path), *dry)
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == ["definition/a", "definition/z"]


def test_any_other_topology_in_a_folder_stays_an_error(run, stub, tmp_path):
    """One that no definition names may have been forgotten; one that is given by name is meant."""
    (tmp_path / "named.yaml").write_text(TOPOLOGY)
    (tmp_path / "stray.yaml").write_text(TOPOLOGY)
    (tmp_path / "m.yaml").write_text(DEFINITION.replace("topo/lab.txt", "named.yaml"))
    done = run("apply", "-f", str(tmp_path))
    assert (done.code, stub.seen) == (2, [])
    assert "stray.yaml: line 1: this is a CML topology" in done.err
    assert "named.yaml: line" not in done.err
    both = run("apply", "-f", str(tmp_path / "m.yaml"), "-f", str(tmp_path / "named.yaml"))
    assert (both.code, "named.yaml: line 1: this is a CML topology" in both.err) == (2, True)


def test_definitions_are_deleted_by_the_folder_that_holds_their_topologies(run, stub, tmp_path):
    """`delete -f` reads folders by the same rule."""
    (tmp_path / "named.yaml").write_text(TOPOLOGY)
    (tmp_path / "m.yaml").write_text(DEFINITION.replace("topo/lab.txt", "named.yaml"))
    stub.put("Definition", "lab")
    assert run("delete", "-f", str(tmp_path), "--yes").out == "definition/lab deleted\n"


@pytest.mark.parametrize(
    ("phase", "how"),
    [("CANCELLED", "apply another name"), ("FAILED", "labfleet retry s-1, or apply another name"),
     ("RUNNING", "")],
)  # fmt: skip
def test_applying_what_is_over_says_that_nothing_starts(run, stub, phase, how):
    """Unchanged is true, and not what was hoped for."""
    spec = {"definition": "lab", "priority": 5}
    stub.put("Session", "s-1", labels={"team": "a"}, spec=spec, status={"phase": phase})
    done = run("apply", "-f", "-", stdin=SESSION)
    assert (done.code, done.out) == (0, "session/s-1 unchanged\n")
    assert done.err == (f"session/s-1 is over ({phase}); to run it again: {how}.\n" if how else "")


def test_a_session_may_be_told_to_wait_for_room(run, stub, tmp_path):
    """--when-full goes into new sessions that do not say it themselves, and into nothing else."""
    file = tmp_path / "exam.yaml"
    file.write_text(
        "kind: Session\nmetadata: {name: a}\nspec: {definition: d}\n---\n"
        "kind: Session\nmetadata: {name: b}\nspec: {definition: d, whenFull: refuse}\n---\n"
        "kind: Pool\nmetadata: {name: p}\nspec: {template: t}\n"
    )
    done = run("apply", "-f", str(file), "--when-full", "wait", "--dry-run", "client", "-o", "json")
    found = {each["metadata"]["name"]: each["spec"].get("whenFull") for each in done.json["items"]}
    assert found == {"a": "wait", "b": "refuse", "p": None}

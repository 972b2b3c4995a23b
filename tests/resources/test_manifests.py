"""Manifests as people write them."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from labfleet.kernel import errors
from labfleet.resources import kinds, manifests
from labfleet.resources.meta import API_VERSION

POOL = """\
apiVersion: labfleet.dev/v1
kind: Pool
metadata:
  name: exam
  labels: {team: a}
spec:
  template: metal
  scaling:
    minWorkers: 1
    maxWorkers: 4
"""
TEMPLATE = """\
kind: Template
metadata:
  name: metal
spec:
  machine:
    cml:
      adminPassword: {env: CML_PASSWORD}
    capacity:
      cpu: 47500m
      memory: 188Gi
      storage: 400Gi
      labs: 20
      ports: 6000
"""


def problems(text: str, **over) -> tuple[tuple[str, str], ...]:
    """What is wrong with a text, and where."""
    with pytest.raises(errors.Invalid) as caught:
        manifests.load(text, name="m.yaml", **over)
    return caught.value.problems


def test_several_documents():
    """One text may hold many objects; each knows its place."""
    found = manifests.load(f"{POOL}---\n{TEMPLATE}")
    assert [(each.kind, each.document, each.line) for each in found] == [
        ("Pool", 0, 1), ("Template", 1, 12),
    ]  # fmt: skip
    assert found[0].object.spec.scaling.max_workers == 4
    assert found[0].object.metadata.labels == {"team": "a"}


def test_quantities_of_supply_are_rounded_down():
    """Friendly quantities become base units where the kind says so."""
    capacity = manifests.load(TEMPLATE)[0].object.spec.machine.capacity
    assert (capacity.cpu_milli, capacity.memory_mib, capacity.storage_mib) == (
        47500, 188 * 1024, 400 * 1024,
    )  # fmt: skip


def test_default_costs_take_quantities_too_and_round_demand_up():
    """Each family's block is read as any other, also of `*` and of one with dots in its name."""
    text = """kind: Cluster
metadata: {name: c}
spec:
  capacity: {cpu: 64}
  defaults:
    "*": {cost: {cpu: 250m, memory: 1Gi}}
    mesh.v2: {per: nodes, each: {cpu: 0.0001, memory: 1Ki}}
"""
    defaults = manifests.load(text)[0].object.spec.defaults
    assert (defaults["*"].cost.cpu_milli, defaults["*"].cost.memory_mib) == (250, 1024)
    assert (defaults["mesh.v2"].each.cpu_milli, defaults["mesh.v2"].each.memory_mib) == (1, 1)
    [(where, why)] = problems(text.replace("250m", "lots"))
    assert where == "line 6"
    assert "spec.defaults.*.cost.cpu: " in why
    [(_, why)] = problems(text.replace("memory: 1Ki", "memry: 1Ki"))
    assert "unknown key 'memry' in spec.defaults.mesh.v2.each; did you mean memory?" in why


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("minWorkers: 1", "min_workers: 1", 9, "did you mean minWorkers?"),
        ("minWorkers: 1", "minWorker: 1", 9, "unknown key 'minWorker' in spec.scaling; did you"),
        ("template: metal", "temlate: metal", 7, "did you mean template?"),
        ("spec:\n", "specs:\n", 6, "did you mean spec?"),
        ("minWorkers: 1", "minWorkers: one", 9, "spec.scaling.minWorkers: Expected `int`"),
        ("minWorkers: 1", "minWorkers: 010", 9, "Expected `int`, got `str`"),
        ("minWorkers: 1", "minWorkers: 5000", 9, "<= 1000"),
        ("minWorkers: 1", "minWorkers: 9", 8, "minWorkers is greater than maxWorkers"),
        ("maxWorkers: 4", "minWorkers: 4", 10, "duplicate key 'minWorkers', first given on line 9"),
        ("kind: Pool", "kind: Pol", 2, "unknown kind 'Pol'; did you mean Pool?"),
        ("kind: Pool", "kind: pool", 2, "did you mean Pool?"),
        ("kind: Pool", "kind: Gadget", 2, "the kinds are Worker, Pool"),
        ("kind: Pool", "kind: Simulation", 2, "made by a request"),
        ("kind: Pool\n", "", 1, "kind: is missing"),
        ("labfleet.dev/v1", "labfleet.dev/v9", 1, "is not labfleet.dev/v1"),
        ("name: exam", "name: Prüfung", 4, "for example pr-fung-"),
        ("name: exam", f"name: {'x' * 64}", 4, "1-63 of a-z"),
        ("name: exam", "name: 7", 4, "metadata.name: Expected `str`, got `int`"),
        ("  name: exam\n", "", 3, "missing required field `name`"),
        ("  template: metal\n", "", 6, "missing required field `template`"),
        ("team: a", "team: 7", 5, "Expected `str`, got `int`"),
        ("name: exam", "name: exam\n  uid: x-1\n  generation: [", 8, ""),
        ("name: exam", "name: exam\n  finalizers: [a]", 5, "only the server sets this"),
    ],
)
def test_mistakes_have_line_and_hint(old, new, line, words):
    """Each mistake is told with its line and, where one is near, the right word."""
    assert old in POOL
    where, what = problems(POOL.replace(old, new, 1))[0]
    assert where == f"line {line}", what
    assert words in what


def test_all_mistakes_are_told_at_once():
    """Two documents with a mistake each give two problems, counted in the message."""
    bad = POOL.replace("minWorkers", "minimum").replace("template:", "templat:")
    with pytest.raises(errors.Invalid, match=r"m.yaml, line 7: .*and 2 more") as caught:
        manifests.load(f"{bad}---\nkind: Nope\n", name="m.yaml")
    assert [where for where, _ in caught.value.problems] == ["line 7", "line 9", "line 12"]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("cpu: 47500m", "cpu: lots", 9, "spec.machine.capacity.cpu: 'lots' is not a number"),
        ("memory: 188Gi", "memory: 188Q", 10, "is not memory"),
        ("memory: 188Gi", "memory: -1Gi", 10, "zero or more"),
        ("labs: 20", "labs: 20\n      memoryMib: 5", 8, "say the same thing; keep one"),
        ("labs: 20", "memoy: 20", 12, "did you mean memory?"),
        ("labs: 20", "labs: -1", 8, "an amount is zero or more"),
        ("{env: CML_PASSWORD}", "{env: A, file: B}", 7, "exactly one of env and file"),
        ("{env: CML_PASSWORD}", "hunter2", 7, "Expected `object`"),
    ],
)
def test_wrong_quantities_are_told(old, new, line, words):
    """A quantity that means nothing, or is said twice, is refused where it stands."""
    where, what = problems(TEMPLATE.replace(old, new, 1))[0]
    assert where == f"line {line}", what
    assert words in what
    assert "hunter2" not in what


def test_what_get_prints_can_be_applied():
    """An object printed by the server loses the server's fields and applies again."""
    served = yaml.safe_load(POOL)
    served["metadata"] |= {"uid": "u-1", "resourceVersion": "7", "generation": 2}
    served["status"] = {"phase": "READY"}
    (found,) = manifests.load(yaml.safe_dump(served))
    assert found.dropped == (
        "metadata.uid", "metadata.generation", "metadata.resourceVersion", "status",
    )  # fmt: skip
    assert found.object == manifests.load(POOL)[0].object


@pytest.mark.parametrize("gone", [(), ("uid",), ("uid", "resourceVersion", "generation")])
def test_a_printed_object_may_get_another_name(gone):
    """`get -o yaml` under a new name applies, whichever of the server's fields were taken out."""
    served = yaml.safe_load(POOL)
    served["metadata"] |= {
        "name": "copy", "uid": "u-1", "resourceVersion": "7", "generation": 2,
        "creationTimestamp": "2026-11-27T11:00:00Z",
    }  # fmt: skip
    served["metadata"] = {k: v for k, v in served["metadata"].items() if k not in gone}
    served["status"] = {"phase": "READY"}
    (found,) = manifests.written(yaml.safe_dump(served))
    assert found.name == "copy"
    assert "status" in found.dropped
    assert "status" not in found.raw
    assert set(found.raw["metadata"]) == {"name", "labels"}


def test_a_cancelled_session_is_printed_and_applied_as_a_new_one():
    """What a verb asked of one session is not asked of the next."""
    spec = {"definition": "lab", "cancel": {"by": "ada"}, "observeRequested": None}
    served = {"kind": "Session", "metadata": {"name": "b"}, "spec": spec, "status": {}}
    (found,) = manifests.written(yaml.safe_dump(served))
    assert found.raw["spec"] == {"definition": "lab"}
    assert found.dropped == ("spec.cancel", "status")
    del served["status"]
    (hand,) = manifests.written(yaml.safe_dump(served | {"spec": {**spec, "cancel": None}}))
    assert "cancel" in hand.raw["spec"]


def test_what_is_written_has_no_defaults_of_ours():
    """For a server's eyes only what was written counts; what is missing is its to judge."""
    (found,) = manifests.written(
        "kind: Template\nmetadata: {name: t}\nspec: {machine: {cml: {}}}\n"
    )
    assert found.raw["spec"] == {"machine": {"cml": {}}}
    assert found.line_of("spec.machine.cml.adminPassword") == 3
    (both,) = manifests.written(f"{DEFINITION}", topology_file=str)
    inline = DEFINITION.replace("topologyFile: pod.yaml", "title: x\n  topology: y")
    (other,) = manifests.written(inline)
    assert (both.line_of("spec.topology"), other.line_of("spec.topology")) == (4, 5)
    (supply,) = manifests.written(TEMPLATE)
    assert supply.line_of("spec.machine.capacity.memoryMib") == 10
    assert supply.line_of("spec.nope[3].x") == 4
    with pytest.raises(errors.Invalid, match="Expected `int`"):
        manifests.written(POOL.replace("maxWorkers: 4", "maxWorkers: four"))


def test_list_of_objects():
    """`kind: List`, as get prints several, is its items."""
    items = [yaml.safe_load(POOL), yaml.safe_load(TEMPLATE)]
    text = yaml.safe_dump({"apiVersion": API_VERSION, "kind": "List", "items": items})
    assert [each.kind for each in manifests.load(text)] == ["Pool", "Template"]


DEFINITION = "kind: Definition\nmetadata: {name: pod}\nspec:\n  topologyFile: pod.yaml\n"


def test_topology_file_is_fetched_by_the_caller():
    """The reader asks the caller for the file's text and never opens it."""
    (found,) = manifests.load(DEFINITION, topology_file=lambda path: f"text of {path}")
    assert found.object.spec.topology == "text of pod.yaml"


def test_topology_file_without_a_caller_is_refused():
    """The server reads no files for anybody."""
    assert problems(DEFINITION)[0] == (
        "line 4", "topologyFile: only the command line reads files; use topology",
    )  # fmt: skip
    both = f"{DEFINITION}  topology: x\n"
    assert "keep one" in problems(both, topology_file=str)[0][1]


def test_missing_topology_file_has_the_line():
    """What the caller says of a file it cannot read is told where the file is named."""

    def fetch(path: str) -> str:
        raise errors.Gone(f"no file {path}")

    assert problems(DEFINITION, topology_file=fetch)[0] == (
        "line 4", "topologyFile: no file pod.yaml",
    )  # fmt: skip


def test_a_bare_topology_gets_a_hint():
    """Somebody who applies a CML file is told how it is done."""
    assert "topologyFile" in problems("lab: {title: x}\nnodes: []\n")[0][1]


def test_real_topologies_fit_into_a_manifest(labs):
    """Every real lab, up to 957 kB, can stand inside a Definition."""
    for number, text in enumerate(labs.values()):
        raw = {
            "kind": "Definition",
            "metadata": {"name": f"lab-{number}"},
            "spec": {"topology": text},
        }
        (found,) = manifests.load(yaml.dump(raw, Dumper=yaml.CSafeDumper))
        assert found.object.spec.topology == text


def test_every_creatable_kind_round_trips():
    """Stored forms, printed as YAML, are read back by the reader."""
    found = manifests.load(f"{POOL}---\n{TEMPLATE}---\n{DEFINITION}", topology_file=str)
    for each in found:
        text = kinds.encode(each.object).decode()
        raw = yaml.safe_load(text)
        raw.pop("status")
        raw["metadata"] = {"name": raw["metadata"]["name"], "labels": raw["metadata"]["labels"]}
        (again,) = manifests.load(yaml.safe_dump(raw))
        assert again.object.spec == each.object.spec


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["Pool", "x", "2", "4Gi"]),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "metadata", "spec", "name", "scaling", "machine", "capacity",
                             "cpu", "resources", "topologyFile", "items", "status", "uid"]),
            inner, max_size=4,
        ),
        max_leaves=15,
    ),
    st.sampled_from(["Pool", "Template", "Definition", "Session", "List", "Cluster"]),
)  # fmt: skip
def test_any_structure_is_read_or_refused(value, kind):
    """No structure makes the reader fail in another way than by errors.Invalid."""
    raw = {**value, "kind": kind} if isinstance(value, dict) else value
    try:
        manifests.load(yaml.safe_dump(raw))
    except errors.Invalid as problem:
        assert problem.problems  # noqa: PT017 - both outcomes are right
